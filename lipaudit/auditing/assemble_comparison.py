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
from lipaudit.records.figure import Figure
from lipaudit.rules.effect import Status
from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.text.numbers import names_text


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
            figures=tuple(_measurement(name, measurement, layer.truth) for name, measurement in layer.figures.items()),
            lower=_lower(layer.truth.bracket),
            upper=None if layer.truth.bracket is None else Figure.upper(layer.truth.bracket),
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


def _lower(truth: Bracket | None) -> Figure | None:
    """The certified lower bound of a layer; 0 where no larger one is known."""
    return None if truth is None else Figure.lower(truth) or Figure.of(0.0)


def _measurement(method: str, measurement: Measurement, truth: Measurement) -> FigureRecord:
    """What a method found for a layer, beside the certified bracket of the layer's norm."""
    outcome, bracket = measurement.outcome.value, measurement.bracket
    if bracket is None:
        return FigureRecord(method, outcome, seconds=measurement.seconds, reason=measurement.reason)
    below = is_violation(measurement, truth)
    log_lower = truth.bracket.log_lower if truth.bracket is not None else -math.inf
    return FigureRecord(
        method,
        outcome,
        _figure(bracket.log_upper, bracket.rigor),
        below_lower_bound=below,
        shortfall=-math.expm1(bracket.log_upper - log_lower) if below else None,
        seconds=measurement.seconds,
    )


def _figure(log: float, rigor: Rigor) -> Figure:
    """The figure of a method from its natural logarithm; what a theorem makes a bound is rounded up."""
    return Figure.estimate(log) if rigor is Rigor.ESTIMATE else Figure.upper(Bracket(-math.inf, log, rigor))


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
                network=_figure(network.log_upper, network.rigor) if finite else None,
                ratio_to_ryu2019=ratio,
                reason=reasons[0] + (f" and {len(reasons) - 1} more" if len(reasons) > 1 else "") if reasons else "",
            )
        )
    return tuple(records)
