"""Random convolutions: [P] Figure 3, error and time when channels, input size or kernel size vary.

Square kernels with "same" zero padding and stride 1, entries Gaussian or uniform in [0, 1). The error is sigma_method - sigma_Ryu, with
the power iteration of Ryu et al. after 100 iterations as the reference, in float32 as in the paper. Ryu's figure and ``lipaudit``'s are
about the zero-padded operator, those of Sedghi et al. and of the paper (``delattre2023``) about the circular one: their distance to Ryu is
mostly the distance between the two operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from lipaudit.experiments.device import describe
from lipaudit.experiments.methods import OURS, REFERENCE, figure, short, timed_norms
from lipaudit.experiments.registry import Experiment, Request, register
from lipaudit.experiments.result import Claim, Plot, Result, Series, Table
from lipaudit.experiments.statistics import mean
from lipaudit.spectral.geometry import Convolution

# iterations, samples or products that the paper names for this experiment
METHODS: dict[str, int | None] = {
    REFERENCE: 100, "singla2021": 50, "araujo2021": 50, "sedghi2019": None, "delattre2023": 5, OURS: None,
}  # fmt: skip
SWEEPS = ("channels", "input size", "kernel size")
AGREEMENT = 0.01  # two digits


@dataclass(frozen=True)
class Shape:
    """One setting of the sweep: channels in and out, input size n, kernel size k."""

    channels: int
    n: int
    k: int


@dataclass(frozen=True)
class Measurement:
    """One method on one random kernel; ``reference`` is Ryu's figure for the same kernel."""

    sweep: str
    at: int
    distribution: str
    method: str
    value: float
    reference: float
    seconds: float

    @property
    def error(self) -> float:
        """sigma_method - sigma_Ryu."""
        return self.value - self.reference


def random_kernel(shape: Shape, distribution: str, generator: torch.Generator) -> torch.Tensor:
    """A kernel (channels, channels, k, k) with Gaussian entries, or uniform ones in [0, 1)."""
    draw = torch.randn if distribution == "gaussian" else torch.rand
    return draw(shape.channels, shape.channels, shape.k, shape.k, generator=generator)


def convolution_of(shape: Shape, kernel: torch.Tensor) -> Convolution:
    """The zero-padded "same" convolution."""
    left = (shape.k - 1) // 2
    pad = (left, shape.k - 1 - left)
    return Convolution(kernel, (shape.n, shape.n), (1, 1), (pad, pad), (1, 1))


def run(request: Request, sweeps: dict[str, Sequence[Shape]], repeats: int) -> Result:
    """The experiment over the given shapes; ``sweeps`` maps the names of :data:`SWEEPS` to shapes."""
    generator = request.generator()
    total = sum(len(shapes) for shapes in sweeps.values())
    done = 0
    found: list[Measurement] = []
    for sweep, shapes in sweeps.items():
        for shape in shapes:
            request.report(done, total, f"{sweep} {_axis(sweep, shape)}")
            found += _measure(request, sweep, shape, repeats, generator)
            done += 1
    request.report(total, total)
    parts = "; ".join(f"{sweep} {', '.join(str(_axis(sweep, s)) for s in shapes)}" for sweep, shapes in sweeps.items())
    setting = (
        f"{parts}; {repeats} Gaussian and {repeats} uniform kernels each (the paper: 50), float32, lipaudit in float64 on the CPU; "
        f"{describe(request.device)}, seed {request.seed}"
    )
    return Result(
        "simulated-convolutions",
        "error and time on random convolutions ([P] Figure 3)",
        setting,
        (*(table for sweep in sweeps for table in sweep_tables(sweep, found)), below_table(found)),
        claims(found),
        tuple(_plot(sweep, found, quantity) for quantity in ("error", "time") for sweep in sweeps),
        (
            "lipaudit's figure is certified within 1e-3 of the supremum over all frequencies, or of the written-out operator.",
        ),
    )


def _axis(sweep: str, shape: Shape) -> int:
    return {"channels": shape.channels, "input size": shape.n, "kernel size": shape.k}[sweep]


def _measure(request: Request, sweep: str, shape: Shape, repeats: int, generator: torch.Generator) -> list[Measurement]:
    found = []
    norms = {name: timed_norms(name, count, request.device, request.seed) for name, count in METHODS.items()}
    for distribution in ("gaussian", "uniform"):
        for repeat in range(repeats):
            convolution = convolution_of(shape, random_kernel(shape, distribution, generator))
            if repeat == 0 and distribution == "gaussian":
                for method in norms.values():
                    figure(method, convolution)  # warm up
            values = {name: figure(method, convolution) for name, method in norms.items()}
            reference = values[REFERENCE][0]
            found += [
                Measurement(sweep, _axis(sweep, shape), distribution, name, value, reference, seconds)
                for name, (value, seconds) in values.items()
            ]
    return found


def _select(found: Sequence[Measurement], sweep: str, method: str) -> dict[int, list[Measurement]]:
    chosen: dict[int, list[Measurement]] = {}
    for entry in found:
        if entry.sweep == sweep and entry.method == method:
            chosen.setdefault(entry.at, []).append(entry)
    return chosen


def _profile(
    found: Sequence[Measurement], sweep: str, method: str, quantity: Callable[[Measurement], float]
) -> dict[int, float]:
    """The mean of a quantity at every point of a sweep."""
    return {at: mean([quantity(m) for m in entries]) for at, entries in _select(found, sweep, method).items()}


def sweep_tables(sweep: str, found: Sequence[Measurement]) -> tuple[Table, Table]:
    """Mean errors and mean times at every point of a sweep, for both distributions."""
    methods = list(dict.fromkeys(m.method for m in found))
    errors: list[tuple[str | int | float, ...]] = []
    times: list[tuple[str | int | float, ...]] = []
    for at in dict.fromkeys(m.at for m in found if m.sweep == sweep):
        for distribution in ("gaussian", "uniform"):
            here = [m for m in found if (m.sweep, m.at, m.distribution) == (sweep, at, distribution)]
            cells = [[m for m in here if m.method == method] for method in methods]
            reference = mean([m.reference for m in here])
            errors.append((at, distribution, reference, *(mean([m.error for m in c]) for c in cells[1:])))
            times.append((at, distribution, *(mean([m.seconds for m in c]) for c in cells)))
    names = [short(method) for method in methods]
    part = sweep.replace(" ", "-")
    return (
        Table(
            f"sigma_Ryu, and sigma - sigma_Ryu of the others, by {sweep} (means)",
            (sweep, "entries", *names),
            tuple(errors),
            part,
        ),
        Table(f"seconds by {sweep} (means)", (sweep, "entries", *names), tuple(times), f"{part}-times"),
    )


def below_table(found: Sequence[Measurement]) -> Table:
    """How often each figure lies below Ryu's, which is itself below the norm of the layer."""
    rows = []
    for method in dict.fromkeys(m.method for m in found):
        if method != REFERENCE:
            entries = [m for m in found if m.method == method]
            rows.append((short(method), sum(m.error < 0 for m in entries), len(entries), min(m.error for m in entries)))
    columns = ("method", "below Ryu", "kernels", "smallest error")
    return Table(
        "figures below the reference, so below the norm of the zero-padded layer", columns, tuple(rows), "below"
    )


def claims(found: Sequence[Measurement]) -> tuple[Claim, ...]:
    """What the paper says of Figure 3."""
    sedghi = {(m.sweep, m.at, m.distribution, m.reference): m.value for m in found if m.method == "sedghi2019"}
    gaps = [
        abs(m.value / sedghi[m.sweep, m.at, m.distribution, m.reference] - 1)
        for m in found
        if m.method == "delattre2023"
    ]
    return (
        Claim(
            "the paper's method (5 products) gives the values of Sedghi et al.",
            "matches; up to two digits",
            f"largest relative difference {max(gaps):.2g}",
            max(gaps) <= AGREEMENT,
        ),
        _trend(
            found, "kernel size", "the distance of the circular norm (Sedghi) to Ryu grows with the kernel size", True
        ),
        _trend(
            found, "input size", "the distance of the circular norm (Sedghi) to Ryu falls with the input size", False
        ),
        _slower(found, "input size"),
        _slower(found, "kernel size"),
        _fastest(found),
    )


def _ends(profile: dict[int, float]) -> tuple[str, float, float]:
    first, last = min(profile), max(profile)
    return f"{profile[first]:.3g} at {first}, {profile[last]:.3g} at {last}", profile[first], profile[last]


def _trend(found: Sequence[Measurement], sweep: str, statement: str, grows: bool) -> Claim:
    text, first, last = _ends(_profile(found, sweep, "sedghi2019", lambda m: abs(m.error)))
    return Claim(
        statement, "Figure 3 and Appendix C.2", f"mean distance {text}", last > first if grows else last < first
    )


def _slower(found: Sequence[Measurement], sweep: str) -> Claim:
    text, first, last = _ends(_profile(found, sweep, REFERENCE, lambda m: m.seconds))
    return Claim(f"the time of Ryu's method grows with the {sweep}", "Figure 3", f"mean seconds {text}", last > first)


def _fastest(found: Sequence[Measurement]) -> Claim:
    seconds = {
        method: mean([m.seconds for m in found if m.method == method])
        for method in dict.fromkeys(m.method for m in found)
    }
    others = {method: s for method, s in seconds.items() if method not in ("delattre2023", OURS)}
    text = ", ".join(f"{short(method)} {s:.3g}" for method, s in sorted(seconds.items(), key=lambda item: item[1]))
    return Claim(
        "the paper's method is the fastest of those compared",
        "Figure 3",
        f"mean seconds over all kernels: {text}",
        seconds["delattre2023"] <= min(others.values()),
    )


def _plot(sweep: str, found: Sequence[Measurement], quantity: str) -> Plot:
    series = []
    for method in dict.fromkeys(m.method for m in found):
        if quantity == "error" and method == REFERENCE:
            continue
        profile = _profile(
            found, sweep, method, (lambda m: m.seconds) if quantity == "time" else (lambda m: abs(m.error))
        )
        series.append(Series(short(method), tuple(map(float, profile)), tuple(profile.values())))
    label = "seconds" if quantity == "time" else "|sigma - sigma_Ryu|"
    return Plot(f"{quantity} by {sweep}", sweep, label, tuple(series), log_y=True)


def _run(request: Request) -> Result:
    if request.full:
        return run(
            request,
            {
                "channels": [Shape(c, 32, 3) for c in (4, 8, 16, 32, 64)],
                "input size": [Shape(16, n, 3) for n in (16, 32, 64, 128, 256)],
                "kernel size": [Shape(16, 252, k) for k in (3, 5, 7, 9, 11)],
            },
            3,
        )
    return run(
        request,
        {
            "channels": [Shape(c, 16, 3) for c in (4, 8, 16, 32)],
            "input size": [Shape(8, n, 3) for n in (8, 16, 32, 64)],
            "kernel size": [Shape(8, 32, k) for k in (3, 5, 7, 9)],
        },
        3,
    )


SIMULATED_CONVOLUTIONS = register(
    Experiment(
        "simulated-convolutions",
        "Figure 3: channels, input size and kernel size vary",
        "up to 32 channels, inputs up to 64 x 64, kernels up to 9 x 9, 3 kernels of each distribution",
        "up to 64 channels, inputs up to 256 x 256, kernels up to 11 x 11 on 252 x 252, 3 kernels of each distribution",
        _run,
    )
)
