"""From a propagated graph to the rows and the network record of a report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lipaudit.auditing.row_names import details, input_size, short_name, titles, weight_prefix, weight_shape
from lipaudit.graph.linear import CONVOLUTION, DENSE, SCALE
from lipaudit.graph.node import Graph, Node
from lipaudit.graph.passes.elementwise import ELEMENTWISE
from lipaudit.network.bound import NetworkBound, NotApplicable, Result, SegmentFactor
from lipaudit.network.bounds import least
from lipaudit.network.part import Shortcut
from lipaudit.network.propagate import Propagation, Value
from lipaudit.records.contradictions import NOT_APPLICABLE
from lipaudit.records.figure import EMPIRICAL, Figure, log10_of, value_of
from lipaudit.records.report import (
    BallRecord,
    BoundRecord,
    DomainRecord,
    LayerRecord,
    NetworkRecord,
    OutputRecord,
    SegmentRecord,
)
from lipaudit.rules.effect import Effect, Status
from lipaudit.rules.norm import Norm
from lipaudit.rules.operands import rounded
from lipaudit.rules.rule import find_rule
from lipaudit.spectral.bracket import Bracket, Rigor, round_up
from lipaudit.text.numbers import upper_text

# Constants this close to 1 neither stretch nor shrink: rounding alone moves them that far.
_ONE = 1e-9


def layer_records(
    graph: Graph, propagation: Propagation, names: Mapping[str, str], paths: Mapping[str, str]
) -> tuple[LayerRecord, ...]:
    """One record per operation that changes the size of a perturbation or has no finite constant, in topological order.

    ``names`` maps module paths to the names that a model file uses, ``paths`` to the modules of the network that was exported.
    """
    rows = _nodes_with_rows(graph, propagation)
    named = titles(rows, names)
    readable = {name: name for name in graph.inputs} | named
    sources: dict[str, tuple[str, ...]] = {}
    for node in graph:
        before = dict.fromkeys(name for ref in node.refs for name in sources[ref.name])
        sources[node.name] = (readable[node.name],) if node.name in readable else tuple(before)
    inputs = {n.name: tuple(dict.fromkeys(s for ref in n.refs for s in sources[ref.name])) for n in rows}
    parts = _contributions(rows, propagation)
    stretching = math.fsum(part for part in parts.values() if part > 0)
    shares = {name: part / stretching for name, part in parts.items()} if stretching > _ONE else {}
    return tuple(
        replace(
            _layer(n, named[n.name], inputs[n.name], propagation, names, paths, graph.input_sizes),
            share=shares.get(n.name),
        )
        for n in rows
    )


def node_places(graph: Graph, propagation: Propagation, names: Mapping[str, str]) -> dict[str, str]:
    """What every node is called in a report: the name of its row, else of the module that ran it."""
    places = {
        node.name: (names.get(node.module, node.module) if node.op != "input" else "") or node.name for node in graph
    }
    return places | titles(_nodes_with_rows(graph, propagation), names)


def _nodes_with_rows(graph: Graph, propagation: Propagation) -> list[Node]:
    return [node for node in graph if node.op != "input" and _has_row(node, propagation.effects[node.name])]


def _has_row(node: Node, effect: Effect) -> bool:
    if effect.status is not Status.FINITE or node.op in (CONVOLUTION, DENSE, SCALE):
        return True
    if node.op == ELEMENTWISE and (effect.constant.log_upper == -math.inf or node.payload.slopes().steps):
        return True  # several operations that add up to a constant, or a step that rounding hides
    rule = find_rule(node.op)
    if rule is not None and rule.trivial:
        return False
    return any(abs(c.log_upper) > _ONE for c in effect.factors if c.log_upper != -math.inf)


def _layer(
    node: Node,
    title: str,
    inputs: tuple[str, ...],
    propagation: Propagation,
    names: Mapping[str, str],
    paths: Mapping[str, str],
    sizes: Mapping[str, tuple[tuple[int, ...], ...]],
) -> LayerRecord:
    effect = propagation.effects[node.name]
    rule = find_rule(node.op)
    figures: dict[str, Any] = {}
    if effect.status is Status.FINITE:
        two_sided = rule is not None and rule.two_sided and len(effect.factors) == 1
        figures = _figures(effect.constant, two_sided)
    return LayerRecord(
        name=title,
        op=short_name(node),
        rule=rule.name if rule is not None else "",
        inputs=inputs,
        status=effect.status.value,
        module=paths.get(module := weight_prefix(node), module),
        input_size=input_size(node, sizes),
        weight_shape=weight_shape(node),
        details=details(node),
        reason=effect.reason,
        note=effect.note,
        block=_block(propagation.blocks.get(node.name)),
        folded=tuple(names.get(source, source) for source in node.sources),
        **figures,
    )


def _block(shortcut: Shortcut | None) -> str:
    """The constant of the part of the network that a row lies in, where that counts in its place.

    >>> _block(Shortcut("x", Bracket.exact(1.0), "gradient step"))
    'gradient step ≤ 1'
    """
    return "" if shortcut is None else f"{shortcut.kind} ≤ {upper_text(shortcut.factor.upper)}"


def _figures(bracket: Bracket, two_sided: bool) -> dict[str, Any]:
    """The figure, the lower bound and the tightness of a row; an estimate of 0 has no lower bound, because it has no upper one."""
    zero = bracket.log_upper == -math.inf
    estimated = bracket.rigor is Rigor.ESTIMATE
    lower = Figure.lower(bracket) if (zero and not estimated) or two_sided else None
    tightness = 1.0 if zero else bracket.tightness if lower is not None else math.inf
    return {
        "figure": Figure.upper(bracket),
        "lower": None if zero and estimated else lower,
        "tightness": None if estimated or math.isinf(tightness) else tightness,
    }


def _contributions(rows: list[Node], propagation: Propagation) -> dict[str, float]:
    """Elasticity times log constant of every row: what it adds to the network's log bound, negative where it shrinks.

    A row of constant 0 in a network that is not constant contributes nothing.
    """
    if propagation.network.status is not Status.FINITE or propagation.network.log_upper == -math.inf:
        return {}
    logs = {n.name: propagation.effects[n.name].constant.log_upper for n in rows}
    return {name: 0.0 if log == -math.inf else propagation.elasticities[name] * log for name, log in logs.items()}


def network_record(
    graph: Graph,
    results: Sequence[Result],
    rows: tuple[LayerRecord, ...],
    lower: float | None,
    std: tuple[float, ...] | None,
    output_names: tuple[str, ...] = (),
    domain: str = "global",
    places: Mapping[str, str] | None = None,
    norm: Norm = Norm.L2,
) -> NetworkRecord:
    """The network's own figures, the least of what the methods for bounds of networks found.

    ``lower`` is the largest quotient that was measured, ``std`` the normalisation that makes pixels into the network's input,
    ``output_names`` are the names that a model file gives to the outputs, ``places`` those of all nodes (:func:`node_places`), ``norm`` is
    that of the bounds.
    """
    bound = least(results, graph.outputs, norm)
    # a file's network returns its outputs as one tuple, or the only one by itself
    titles = [output_names[int(n or 0)] if output_names else n or "output" for n in graph.output_names]
    outputs = tuple(
        OutputRecord(title, bound.outputs[name].status.value, _figure(bound.outputs[name]))
        for title, name in zip(titles, graph.outputs, strict=True)
    )
    upper = None if bound.network.rigor is Rigor.ESTIMATE else value_of(_figure(bound.network))
    measured = lower if lower is None or upper is None else min(lower, upper)
    lowest = None if measured is None else Figure.of(measured, EMPIRICAL, upwards=False)
    return NetworkRecord(
        status=bound.network.status.value,
        domain=domain,
        figure=_figure(bound.network),
        lower=lowest,
        log10_ratio=_log10_ratio(_figure(bound.network), lowest),
        pixel_figure=_pixel_figure(bound.network, std),
        reasons=_reasons(rows),
        bounds=_bounds(results, bound, places or {}),
        outputs=outputs,
    )


def _log10_ratio(figure: Figure | None, lower: Figure | None) -> float | None:
    """The decimal logarithm of a bound over a lower bound, rounded up; None where either is none, or is 0."""
    if figure is None or not figure.is_bound or lower is None or -math.inf in (figure.log10, lower.log10):
        return None
    return max(0.0, round_up(figure.log10 - lower.log10))


def ball_records(
    names: Sequence[str], values: Sequence[Value], norms: Sequence[float | None]
) -> tuple[BallRecord, ...]:
    """The bound over each of several balls beside the norm of the Jacobian at its centre, which is never above it."""
    records = []
    for name, value, norm in zip(names, values, norms, strict=True):
        figure = _figure(value)
        upper = value_of(figure) if figure is not None and figure.is_bound else None
        measured = norm if norm is None or upper is None else min(norm, upper)
        lower = None if measured is None else Figure.of(measured, EMPIRICAL, upwards=False)
        records.append(BallRecord(name, value.status.value, figure, measured, _log10_ratio(figure, lower)))
    return tuple(records)


def domain_record(
    domain: str,
    graph: Graph,
    results: Sequence[Result],
    rows: tuple[LayerRecord, ...],
    std: tuple[float, ...] | None,
    places: Mapping[str, str] | None = None,
) -> DomainRecord:
    """The network's figures over another domain, ``rows`` being the layers' records there."""
    bound = least(results, graph.outputs)
    return DomainRecord(
        domain,
        bound.network.status.value,
        figure=_figure(bound.network),
        pixel_figure=_pixel_figure(bound.network, std),
        reasons=_reasons(rows),
        bounds=_bounds(results, bound, places or {}),
    )


def _reasons(rows: tuple[LayerRecord, ...]) -> tuple[str, ...]:
    return tuple(f"{row.name} ({row.op}): {row.reason}" for row in rows if row.status != "finite")


def _bounds(results: Sequence[Result], printed: NetworkBound, places: Mapping[str, str]) -> tuple[BoundRecord, ...]:
    """What every method found, and behind them the printed bound where it is put together of several."""
    records = []
    for result in results:
        if isinstance(result, NotApplicable):
            records.append(BoundRecord(result.name, NOT_APPLICABLE, reason=result.reason))
        else:
            records.append(_bound(result, places))
    if printed.name not in {result.name for result in results}:
        records.append(_bound(printed, places))
    return tuple(records)


def _bound(bound: NetworkBound, places: Mapping[str, str]) -> BoundRecord:
    value = bound.network
    segments = tuple(_segment(segment, places) for segment in bound.segments)
    return BoundRecord(
        bound.name,
        value.status.value,
        _figure(value),
        note=bound.note,
        certificate=bound.certificate,
        segments=segments,
        interrupted=bound.interrupted,
    )


def _segment(segment: SegmentFactor, places: Mapping[str, str]) -> SegmentRecord:
    factor, product = (
        Figure.upper(Bracket(-math.inf, log, Rigor.CERTIFIED)) for log in (segment.log_factor, segment.log_product)
    )
    return SegmentRecord(
        inputs=tuple(places.get(name, name) for name in segment.inputs),
        output=places.get(segment.output, segment.output),
        operations=segment.operations,
        form=segment.form,
        log10_factor=factor.log10,
        log10_product=log10_of(product),
    )


def _pixel_figure(value: Value, std: tuple[float, ...] | None) -> Figure | None:
    """The figure with respect to pixels in [0, 1] that are divided by ``std``."""
    if std is None or value.status is not Status.FINITE:
        return None
    pixels = Bracket(-math.inf, value.log_upper) * rounded(max(1 / abs(s) for s in std))
    return _figure(replace(value, log_upper=pixels.log_upper))


def _figure(value: Value) -> Figure | None:
    """A finite upper bound or estimate; 0 and 1 are known to the last bit."""
    if value.status is not Status.FINITE:
        return None
    return Figure.upper(Bracket(-math.inf, value.log_upper, value.rigor))
