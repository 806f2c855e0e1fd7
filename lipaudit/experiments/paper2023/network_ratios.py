"""Figures of whole networks by different methods: [P] Table 2.

The graph of the network as it stands (batch norms not folded into convolutions) is propagated with each method's figures for its
convolutions, and with the certified norms of its dense layers for all methods; B_method / B_Ryu is the ratio of the results. The
rules are those of this package, not the paper's: a residual block multiplies by 1 + Lip F (the paper's Appendix E adds Lip F, which is no
bound), and max pooling counts the square root of how often a pixel is read. They are the same for all methods and cancel in a
network without branches.

Ryu's method is run with the true strides and with stride 1, which is what the other published methods see and what the paper's
reference seems to be (:mod:`lipaudit.experiments.paper2023.resnet18_layers`). A figure that is no upper bound (Ryu, Singla, circular norms)
makes B an estimate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import torch

import lipaudit.rules  # noqa: F401  registers every rule
from lipaudit.device import describe
from lipaudit.errors import CaptureError
from lipaudit.experiments.harness.cells import LEGEND, figure_cell
from lipaudit.experiments.harness.methods import OURS, REFERENCE, REFERENCE_STRIDE_1, short, timed_norms, warm_up
from lipaudit.experiments.harness.models import check_weights, describe_weights, load_network
from lipaudit.experiments.harness.registry import PAPER_NAME, Experiment, Request, register
from lipaudit.experiments.harness.result import Cell, Claim, Plot, Result, Series, Table
from lipaudit.experiments.harness.statistics import deviation, mean
from lipaudit.graph.capture.export import capture
from lipaudit.graph.node import Graph
from lipaudit.graph.passes.table import recognise
from lipaudit.network.propagate import evaluate_rules, propagate
from lipaudit.rules.effect import Settings, Status
from lipaudit.spectral.bracket import Bracket, Rigor, round_up

METHODS: dict[str, int | None] = {
    REFERENCE: 100, REFERENCE_STRIDE_1: 100, "singla2021": 50, "araujo2021": 20, "sedghi2019": None, "delattre2023": 7, OURS: None,
}  # fmt: skip
NETWORKS = ("vgg16", "vgg19", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152")
# ratio and seconds: ours, Singla, Araujo, Sedghi; seconds of Ryu
PAPER: dict[str, dict[str, tuple[float | None, float]]] = {
    name: dict(zip(("delattre2023", "singla2021", "araujo2021", "sedghi2019", REFERENCE), row, strict=True))
    for name, row in {
        "vgg16": ((1.14, 0.100), (23.90, 0.47), (4.88e9, 0.027), (1.14, 525.0), (None, 0.64)),
        "vgg19": ((1.16, 0.110), (30.63, 0.53), (9.70e9, 0.030), (1.16, 639.0), (None, 0.71)),
        "resnet18": ((1.47, 0.039), (87.93, 0.50), (3.03e10, 0.039), (1.47, 185.0), (None, 0.71)),
        "resnet34": ((1.82, 0.060), (4982.0, 0.88), (7.86e21, 0.050), (2.15, 237.0), (None, 1.16)),
        "resnet50": ((1.68, 0.100), (3338.0, 1.05), (6.66e31, 0.050), (1.67, 377.0), (None, 1.49)),
        "resnet101": ((1.74, 0.173), (4026.0, 1.50), (6.55e64, 0.100), (1.74, 551.0), (None, 2.20)),
        "resnet152": ((1.92, 0.260), (8.39e4, 2.05), (2.85e96, 0.120), (1.92, 725.0), (None, 3.01)),
    }.items()
}
AGREEMENT = 0.02
DenseNorms: TypeAlias = dict[tuple[int, ...], Bracket]
_RANDOM = (REFERENCE, REFERENCE_STRIDE_1, "singla2021")  # the methods with a random start


@dataclass
class Figures:
    """log of the network's figure and seconds, per method and run, and what the figures of a method are worth."""

    logs: dict[str, list[float]] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    rigors: dict[str, Rigor] = field(default_factory=dict)

    def log_ratios(self, method: str, reference: str = REFERENCE) -> list[float]:
        """log(B_method / B_reference) for every run of the reference."""
        own = self.logs[method]
        return [own[i % len(own)] - log for i, log in enumerate(self.logs[reference])]

    def ratio(self, method: str, reference: str = REFERENCE) -> float:
        """The mean ratio; infinity where it does not fit a float."""
        return mean([math.exp(r) if r < 709 else math.inf for r in self.log_ratios(method, reference)])


def network_figure(
    graph: Graph, method: str, iterations: int | None, device: torch.device, seed: int, dense: DenseNorms | None = None
) -> tuple[float, Rigor, float]:
    """log of what the rules give with a method's figures for convolutions, its rigor, and the seconds that those took.

    ``dense`` keeps the norms of dense layers, which are the same for all methods, between calls on one graph.
    """
    norms = timed_norms(method, iterations, device, seed)
    norms = norms if dense is None else replace(norms, dense=dense)
    warm_up(norms)
    value = propagate(graph, evaluate_rules(graph, Settings(norms))).network
    if value.status is not Status.FINITE:
        raise CaptureError(f"the network has no finite figure by {method}: it is {value.status.value}")
    return value.log_upper, value.rigor, sum(norms.seconds)


def run(request: Request, names: tuple[str, ...], size: int, methods: dict[str, int | None], runs: int) -> Result:
    """The experiment on those networks; methods with a random start run ``runs`` times."""
    check_weights(request.weights, names)
    networks: dict[str, Figures] = {}
    weights = ""
    total = len(names) * len(methods)
    for position, name in enumerate(names):
        loaded = load_network(name, size, request.weights)
        weights = describe_weights(loaded)
        graph = recognise(capture(loaded.module, {"x": torch.zeros(1, 3, size, size)}))
        networks[name] = Figures()
        dense: DenseNorms = {}
        for step, (method, iterations) in enumerate(methods.items()):
            request.report(position * len(methods) + step, total, f"{name} {short(method)}")
            results = [
                network_figure(graph, method, iterations, request.device, request.seed + i, dense)
                for i in range(runs if method in _RANDOM else 1)
            ]
            networks[name].logs[method] = [log for log, _, _ in results]
            networks[name].rigors[method] = Rigor.weakest(rigor for _, rigor, _ in results)
            networks[name].seconds[method] = [seconds for _, _, seconds in results]
    request.report(total, total)
    counts = ", ".join(f"{name} {count}" for name, count in methods.items() if count is not None)
    setting = (
        f"{weights}, input 3 x {size} x {size} (the paper: 224), methods with a random start "
        f"averaged over {runs} (the paper: 100); "
        f"iterations, samples or products: {counts}; methods in float32, lipaudit and dense layers in float64; "
        f"{describe(request.device)}, seed {request.seed}"
    )
    notes = [
        "Residual blocks multiply by 1 + Lip F, which is a bound; the paper's rule adds Lip F and is none. Ratios of networks with "
        "residual blocks are therefore not those of the paper."
    ]
    if "sedghi2019" not in methods:
        notes.append("sedghi2019 takes minutes per network and runs with --full only.")
    return Result(
        "network-ratios",
        f"figure of the network over its figure with Ryu's norms ({PAPER_NAME}, Table 2)",
        setting,
        (ratio_table(networks), paper_table(tuple(networks))),
        claims(networks),
        (_plot(networks),),
        tuple(notes),
    )


def ratio_table(networks: dict[str, Figures]) -> Table:
    """One row per network and method."""
    rows: list[tuple[Cell, ...]] = []
    for name, bounds in networks.items():
        for method in bounds.logs:
            logs = bounds.log_ratios(method, REFERENCE_STRIDE_1)
            spread = deviation([math.exp(r) for r in logs]) if max(logs) < 709 else None
            rigor = bounds.rigors[method]
            log10 = figure_cell(round_up(mean(bounds.logs[method]) / math.log(10)), rigor)
            ratios = [
                1.0 if method == base else figure_cell(bounds.ratio(method, base), Rigor.ESTIMATE)
                for base in (REFERENCE, REFERENCE_STRIDE_1)
            ]
            rows.append((name, short(method), rigor.value, log10, *ratios, spread, mean(bounds.seconds[method])))
    columns = ("network", "method", "rigor", "log10 B", "B / B_Ryu", "stride 1", "std. deviation", "seconds")
    title = (
        f"figures B of the networks ({LEGEND}), and their ratios to Ryu's estimate with the true strides and with "
        "stride 1; standard deviation of the ratio at stride 1 over random starts"
    )
    return Table(title, columns, tuple(rows))


def paper_table(names: tuple[str, ...]) -> Table:
    """The paper's ratios and seconds for the same networks."""
    rows = tuple((name, method, *pair) for name in names for method, pair in PAPER.get(name, {}).items())
    return Table("the same in the paper", ("network", "method", "B / B_Ryu", "seconds"), rows, "paper")


def claims(networks: dict[str, Figures]) -> tuple[Claim, ...]:
    """Order of the ratios, agreement with Sedghi, and time."""
    compared = ("delattre2023", "singla2021", "araujo2021")
    ratios = {name: [bounds.ratio(m, REFERENCE_STRIDE_1) for m in compared] for name, bounds in networks.items()}
    text = "; ".join(f"{name}: {', '.join(f'{value:.4g}' for value in row)}" for name, row in ratios.items())
    result = [
        Claim(
            "the network's figure is lower by the paper's method than by Singla's, and by Singla's than by Araujo's",
            "1.47, 87.93 and 3.03e10 for ResNet18",
            text,
            all(row == sorted(row) for row in ratios.values()),
        )
    ]
    apart = {
        n: abs(math.expm1(b.logs["delattre2023"][0] - b.logs["sedghi2019"][0]))
        for n, b in networks.items()
        if "sedghi2019" in b.logs
    }
    if apart:
        result.append(
            Claim(
                "the paper's method gives the ratio of Sedghi's",
                "equal, but 1.82 against 2.15 for ResNet34",
                "relative difference " + ", ".join(f"{value:.2g} for {name}" for name, value in apart.items()),
                max(apart.values()) <= AGREEMENT,
            )
        )
    slower = {n: mean(b.seconds["delattre2023"]) > mean(b.seconds[REFERENCE_STRIDE_1]) for n, b in networks.items()}
    times = "; ".join(
        f"{n}: {mean(b.seconds['delattre2023']):.3g} s against {mean(b.seconds[REFERENCE_STRIDE_1]):.3g} s"
        for n, b in networks.items()
    )
    result.append(
        Claim(
            "the paper's method is faster than Ryu's",
            "0.039 s against 0.71 s for ResNet18",
            times,
            not any(slower.values()),
        )
    )
    ours = {n: b.ratio(OURS) for n, b in networks.items()}
    result.append(
        Claim(
            "the certified bounds of the layers themselves give a figure of the network, a certified bound, that is at most that of the "
            "paper's method, an estimate (lipaudit; not in the paper)",
            "none",
            "; ".join(f"{n}: {value:.4g} against {networks[n].ratio('delattre2023'):.4g}" for n, value in ours.items()),
            all(value <= networks[n].ratio("delattre2023") for n, value in ours.items()),
        )
    )
    return tuple(result)


def _plot(networks: dict[str, Figures]) -> Plot:
    methods = [m for m in next(iter(networks.values())).logs if m != REFERENCE_STRIDE_1]
    index = tuple(float(i) for i in range(len(networks)))
    series = tuple(
        Series(
            short(m), index, tuple(mean(b.log_ratios(m, REFERENCE_STRIDE_1)) / math.log(10) for b in networks.values())
        )
        for m in methods
    )
    label = "log10 (B / B_Ryu, stride 1)"
    return Plot("figures of the networks over Ryu's", "network", label, series, categories=tuple(networks))


def _run(request: Request) -> Result:
    if request.full:
        return run(request, NETWORKS, 224, METHODS, 3)
    reduced = {name: count for name, count in METHODS.items() if name != "sedghi2019"}
    return run(request, ("resnet18",), 112, reduced, 2)


NETWORK_RATIOS = register(
    Experiment(
        "network-ratios",
        "Table 2: figures of networks by method, as ratios to Ryu's, and their times",
        "ResNet18, input 3 x 112 x 112, without Sedghi's method",
        "VGG16, VGG19, ResNet18 to ResNet152, input 3 x 224 x 224, with Sedghi's method (long)",
        _run,
        ("resnet18",),
        NETWORKS,
    )
)
