"""From a propagated graph to the rows and the network record of a report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lipaudit.auditing.row_names import details, input_size, short_name, titles, weight_prefix, weight_shape
from lipaudit.graph.linear import CONVOLUTION, DENSE, SCALE
from lipaudit.graph.node import Graph, Node
from lipaudit.graph.passes.elementwise import ELEMENTWISE
from lipaudit.network.network_bound import NetworkBound
from lipaudit.network.propagate import Propagation, Value
from lipaudit.records.report import DomainRecord, LayerRecord, NetworkRecord, OutputRecord
from lipaudit.rules.effect import Effect, Status
from lipaudit.rules.operands import rounded
from lipaudit.rules.rule import find_rule
from lipaudit.spectral.bracket import Bracket, Rigor, round_down, round_up

_LOG10 = math.log(10)
# Constants this close to 1 neither stretch nor shrink: rounding alone moves them that far.
_ONE = 1e-9


def layer_records(
    graph: Graph, found: Propagation, names: Mapping[str, str], paths: Mapping[str, str]
) -> tuple[LayerRecord, ...]:
    """One record per operation that changes the size of a perturbation or has no finite constant, in topological order.

    ``names`` maps module paths to the names that a model file uses, ``paths`` to the modules of the network that was exported.
    """
    rows = [n for n in graph if n.op != "input" and _has_row(n, found.effects[n.name])]
    named = titles(rows, names)
    readable = {name: name for name in graph.inputs} | named
    sources: dict[str, tuple[str, ...]] = {}
    for node in graph:
        before = dict.fromkeys(name for ref in node.refs for name in sources[ref.name])
        sources[node.name] = (readable[node.name],) if node.name in readable else tuple(before)
    inputs = {n.name: tuple(dict.fromkeys(s for ref in n.refs for s in sources[ref.name])) for n in rows}
    parts = _contributions(rows, found)
    stretching = math.fsum(part for part in parts.values() if part > 0)
    shares = {name: part / stretching for name, part in parts.items()} if stretching > 0 else {}
    return tuple(
        replace(
            _layer(n, named[n.name], inputs[n.name], found, names, paths, graph.input_sizes), share=shares.get(n.name)
        )
        for n in rows
    )


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
    found: Propagation,
    names: Mapping[str, str],
    paths: Mapping[str, str],
    sizes: Mapping[str, tuple[tuple[int, ...], ...]],
) -> LayerRecord:
    effect = found.effects[node.name]
    rule = find_rule(node.op)
    figures: dict[str, float | None] = {}
    if effect.status is Status.FINITE:
        two_sided = rule is not None and rule.two_sided and len(effect.factors) == 1
        figures = _figures(effect.constant, two_sided)
    shape = weight_shape(node)
    return LayerRecord(
        name=title,
        op=short_name(node),
        rule=rule.name if rule is not None else "",
        inputs=inputs,
        status=effect.status.value,
        module=paths.get(module := weight_prefix(node), module),
        input_size=input_size(node, sizes),
        weight_shape=shape,
        details=details(node),
        rigor=effect.rigor.value if effect.status is Status.FINITE else None,
        reason=effect.reason,
        note=effect.note,
        folded=tuple(names.get(source, source) for source in node.sources),
        **figures,
    )


def _figures(bracket: Bracket, two_sided: bool) -> dict[str, float | None]:
    zero = bracket.log_upper == -math.inf
    known = two_sided and bracket.log_lower > -math.inf
    figures = {
        "lower_bound": 0.0 if zero else _finite(bracket.lower) if known else None,
        "log10_lower_bound": round_down(bracket.log_lower / _LOG10) if known and not zero else None,
    }
    plain = 0.0 if zero else _finite(bracket.upper)
    log10 = None if zero else round_up(bracket.log_upper / _LOG10)
    if bracket.rigor is Rigor.ESTIMATE:
        # no upper end, and so no lower one either where the figure is 0
        return {"estimate": plain, "log10_estimate": log10} | (figures if not zero else {})
    tightness = 1.0 if zero else bracket.tightness if known else math.inf
    return figures | {"upper_bound": plain, "log10_upper_bound": log10, "tightness": _finite(tightness)}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _contributions(rows: list[Node], found: Propagation) -> dict[str, float]:
    """Elasticity times log constant of every row: what it adds to the network's log bound, negative where it shrinks.

    A row of constant 0 in a network that is not constant contributes nothing.
    """
    if found.network.status is not Status.FINITE or found.network.log_upper == -math.inf:
        return {}
    logs = {n.name: found.effects[n.name].constant.log_upper for n in rows}
    return {name: 0.0 if log == -math.inf else found.elasticities[name] * log for name, log in logs.items()}


def network_record(
    graph: Graph,
    bound: NetworkBound,
    rows: tuple[LayerRecord, ...],
    lower: float | None,
    std: tuple[float, ...] | None,
    output_names: tuple[str, ...] = (),
    domain: str = "global",
) -> NetworkRecord:
    """The network's own figures, those of the least ``bound``.

    ``std`` is the normalisation that makes pixels into the network's input, ``output_names`` are the names that a model
    file gives to the outputs.
    """
    # a file's network returns its outputs as one tuple, or the only one by itself
    titles = [output_names[int(n or 0)] if output_names else n or "output" for n in graph.output_names]
    outputs = tuple(_output(title, bound.outputs[name]) for title, name in zip(titles, graph.outputs, strict=True))
    value = bound.network
    figures: dict[str, Any] = _plain(value) | _pixels(value, std)
    upper = figures.get("upper_bound")
    return NetworkRecord(
        status=value.status.value,
        rigor=value.rigor.value if value.status is Status.FINITE else None,
        domain=domain,
        lower_bound=lower if lower is None or upper is None else min(lower, upper),
        reasons=_reasons(rows),
        outputs=outputs,
        **figures,
    )


def domain_record(
    domain: str, bound: NetworkBound, rows: tuple[LayerRecord, ...], std: tuple[float, ...] | None
) -> DomainRecord:
    """The network's figures over another domain, ``rows`` being the layers' records there."""
    value = bound.network
    rigor = value.rigor.value if value.status is Status.FINITE else None
    figures: dict[str, Any] = _plain(value) | _pixels(value, std)
    return DomainRecord(domain, value.status.value, rigor, reasons=_reasons(rows), **figures)


def _reasons(rows: tuple[LayerRecord, ...]) -> tuple[str, ...]:
    return tuple(f"{row.name} ({row.op}): {row.reason}" for row in rows if row.status != "finite")


def _pixels(value: Value, std: tuple[float, ...] | None) -> dict[str, float | None]:
    """The figures with respect to pixels in [0, 1] that are divided by ``std``."""
    if std is None or value.status is not Status.FINITE:
        return {}
    pixels = Bracket(-math.inf, value.log_upper) * rounded(max(1 / abs(s) for s in std))
    figures = _plain(replace(value, log_upper=pixels.log_upper))
    return {f"pixel_{key}": figure for key, figure in figures.items()}


def _output(name: str, value: Value) -> OutputRecord:
    return OutputRecord(name, value.status.value, **{"upper_bound": None, "log10_upper_bound": None, **_plain(value)})


def _plain(value: Value) -> dict[str, float | None]:
    """The figure and its decimal logarithm, named by what they are: an upper bound or an estimate."""
    if value.status is not Status.FINITE:
        return {}
    plain = _finite(Bracket(-math.inf, value.log_upper).upper)  # 0 and 1 are known to the last bit
    log10 = None if value.log_upper == -math.inf else round_up(value.log_upper / _LOG10) if value.log_upper else 0.0
    name = "estimate" if value.rigor is Rigor.ESTIMATE else "upper_bound"
    return {name: plain, f"log10_{name}": log10}
