"""From measurements of several methods to the rows and the methods of a comparison."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lipaudit.auditing.row_names import details, input_size, short_name, titles, weight_shape
from lipaudit.graph.node import Graph
from lipaudit.network.method_comparison import (
    Layer,
    Measurement,
    MethodResult,
    Outcome,
    gaps,
    is_violation,
    weighted_elsewhere,
)
from lipaudit.records.comparison import REFERENCE, FigureRecord, LayerComparison, MethodComparison
from lipaudit.rules.effect import Status
from lipaudit.spectral.bracket import Bracket, Rigor, round_down, round_up
from lipaudit.text.numbers import names_text

_LOG10 = math.log(10)


def layer_comparisons(layers: Sequence[Layer], graph: Graph, names: Mapping[str, str]) -> tuple[LayerComparison, ...]:
    """The rows, named as in an audit; ``names`` maps module paths to the names that a model file uses."""
    nodes = [replace(layer.node, payload=layer.linear) for layer in layers]
    named = titles(nodes, names)
    return tuple(
        LayerComparison(
            name=named[node.name],
            op=short_name(node),
            weight_shape=weight_shape(node),
            input_size=input_size(node, graph.input_sizes),
            details=details(node),
            seconds=layer.truth.seconds,
            figures=tuple(_figure(name, found, layer.truth) for name, found in layer.figures.items()),
            **_bounds(layer.truth.bracket),
        )
        for node, layer in zip(nodes, layers, strict=True)
    )


def weights_without_rows(graph: Graph) -> list[str]:
    """The remark that weights of recurrent layers and of other operations stand in no row; none where there are none."""
    named = [f"{node.module or node.name} ({short_name(node)})" for node in weighted_elsewhere(graph)]
    if not named:
        return []
    return [
        f"Weights of recurrent layers and of products other than dense layers have no rows: {names_text(named)}. They count in the "
        "figures of the network and in its seconds."
    ]


def _bounds(truth: Bracket | None) -> dict[str, float | None]:
    if truth is None:
        return dict.fromkeys(("lower_bound", "upper_bound", "log10_lower_bound", "log10_upper_bound"))
    return {
        "lower_bound": _finite(truth.lower),
        "upper_bound": _finite(truth.upper),
        "log10_lower_bound": round_down(truth.log_lower / _LOG10) if truth.log_lower > -math.inf else None,
        "log10_upper_bound": round_up(truth.log_upper / _LOG10) if truth.log_upper > -math.inf else None,
    }


def _figure(method: str, found: Measurement, truth: Measurement) -> FigureRecord:
    if found.bracket is None:
        return FigureRecord(method, found.outcome.value, seconds=found.seconds, reason=found.reason)
    below = is_violation(found, truth)
    log_lower = truth.bracket.log_lower if truth.bracket is not None else -math.inf
    return FigureRecord(
        method,
        found.outcome.value,
        *_plain(found.bracket.log_upper, found.bracket.rigor),
        rigor=found.bracket.rigor.value,
        below_lower_bound=below,
        shortfall=-math.expm1(found.bracket.log_upper - log_lower) if below else None,
        seconds=found.seconds,
    )


def _plain(log: float, rigor: Rigor) -> tuple[float | None, float | None]:
    """A figure in plain units and its decimal logarithm; what a theorem makes a bound is rounded up."""
    if log == -math.inf:
        return 0.0, None
    if rigor is not Rigor.ESTIMATE:
        return _finite(Bracket(-math.inf, log).upper), round_up(log / _LOG10)
    return _finite(math.exp(log)) if log < 709 else None, log / _LOG10


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def method_comparisons(
    results: Sequence[MethodResult],
    layers: Sequence[LayerComparison],
    graph: Graph,
    iterations: Mapping[str, int | None],
) -> tuple[MethodComparison, ...]:
    """One record per method; ``iterations`` are those that were taken."""
    networks = {result.method.name: result.propagation.network for result in results}
    reference = networks.get(REFERENCE)
    records = []
    for result in results:
        method, network = result.method, networks[result.method.name]
        figures = [figure for layer in layers for figure in layer.figures if figure.method == method.name]
        outcomes = [figure.outcome for figure in figures]
        missed = [figure.shortfall for figure in figures if figure.shortfall is not None]
        finite = network.status is Status.FINITE
        plain, log10 = _plain(network.log_upper, network.rigor) if finite else (None, None)
        ratio = None
        if finite and reference is not None and reference.status is Status.FINITE and reference.log_upper > -math.inf:
            gap = network.log_upper - reference.log_upper
            ratio = math.exp(gap) if gap < 709 else None
        reasons = gaps(result, graph)
        records.append(
            MethodComparison(
                name=method.name,
                title=method.title,
                reference=method.reference,
                claim=method.claim,
                iterations=iterations[method.name],
                seconds=result.seconds,
                measured=outcomes.count(Outcome.MEASURED.value),
                undefined=outcomes.count(Outcome.UNDEFINED.value),
                skipped=outcomes.count(Outcome.SKIPPED.value),
                violations=sum(figure.below_lower_bound for figure in figures),
                violations_in_last_digits=sum(figure.in_last_digits for figure in figures),
                worst_shortfall=max(missed, default=None),
                network_status="skipped" if result.skipped else network.status.value,
                network_rigor=network.rigor.value if finite else None,
                network_figure=plain,
                log10_network_figure=log10,
                ratio_to_ryu2019=ratio,
                reason=reasons[0] + (f" and {len(reasons) - 1} more" if len(reasons) > 1 else "") if reasons else "",
            )
        )
    return tuple(records)
