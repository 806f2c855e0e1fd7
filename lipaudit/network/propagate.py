"""Propagation of constants from the network's input to its outputs, in the log domain.

L(input) = 1 and, for a node with effect (c_1 ... c_k) on nodes u_1 ... u_k: L = sum_i c_i L(u_i), or sqrt(sum_i (c_i L(u_i))^2)
where the inputs land in disjoint entries (concatenation) or one entry picks one input (maximum). So a residual block x + F(x)
multiplies the constant by 1 + Lip F. Several network inputs are one vector: each projection has the constant 1. Constants are kept
for disjoint parts of the input, too, and the root of the sum of their squares counts where it is smaller
(:mod:`lipaudit.network.input_parts`).
Several outputs: one constant each, and the root of the sum of their squares for all together.

Operations whose constant depends on how large their operands are (products of data-dependent tensors) get it from the
magnitudes on the domain in force, which are propagated alongside (:mod:`lipaudit.network.magnitudes`). Behind an operation whose
constant is an estimate the magnitudes are estimates, and so is a constant that rests on them.

A value that depends on an operation without a rule is unsupported, on one without a finite constant unbounded; the first weighs
more, because then nothing is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lipaudit.errors import RegistryError
from lipaudit.graph.node import Graph, Node
from lipaudit.network.input_parts import disjoint_parts
from lipaudit.network.magnitudes import Extents
from lipaudit.network.part import Shortcut
from lipaudit.rules.effect import Effect, Settings, Status
from lipaudit.rules.norm import Norm
from lipaudit.rules.rule import apply_rule, apply_rule_in
from lipaudit.spectral.bracket import Bracket, Rigor


@dataclass(frozen=True)
class Value:
    """What is known of one tensor as a function of the network's input: status and log of an upper bound."""

    status: Status
    log_upper: float = math.inf
    rigor: Rigor = Rigor.CERTIFIED


@dataclass(frozen=True)
class Propagation:
    """Effects and constants of every node, and what they say about the network.

    ``elasticities`` maps a node to d log L / d log c in [0, 1]: by which fraction of its own decades the network's bound would fall if
    the node's constant fell; empty unless the network is finite. ``blocks`` maps every node whose constant does not count, because it
    lies in a part with a ``shortcut`` that is used, to that shortcut.
    """

    effects: Mapping[str, Effect]
    values: Mapping[str, Value]
    outputs: Mapping[str, Value]
    network: Value
    elasticities: Mapping[str, float]
    shortcuts: Mapping[str, Shortcut] = field(default_factory=dict)
    blocks: Mapping[str, Shortcut] = field(default_factory=dict)


def evaluate_rules(
    graph: Graph, settings: Settings, progress: Callable[[int, int, str], None] | None = None, norm: Norm = Norm.L2
) -> dict[str, Effect]:
    """The effect of every node that is not a network input, in topological order.

    ``settings`` say how the norms of weights are found in the l2 norm; in the others they are sums of moduli.
    """
    nodes = [n for n in graph if n.op != "input"]
    effects = {}
    for position, node in enumerate(nodes):
        if progress is not None:
            progress(position, len(nodes), node.module or node.name)
        effects[node.name] = apply_rule(node, settings) if norm is Norm.L2 else apply_rule_in(norm, node)
    if progress is not None:
        progress(len(nodes), len(nodes), "")
    return effects


def propagate(
    graph: Graph,
    effects: Mapping[str, Effect],
    extents: Extents | None = None,
    wider: Propagation | None = None,
    shortcuts: Mapping[str, Shortcut] | None = None,
    norm: Norm = Norm.L2,
) -> Propagation:
    """Constants of every node with respect to the network's input, on the domain of ``extents`` (default: all inputs).

    ``wider`` are those on a domain that contains this one: they hold here as well, and the smaller ones count. So do ``shortcuts``, the
    constants of parts of the network by the nodes in which they end (:mod:`lipaudit.network.shortcuts`). ``norm`` is that of the effects:
    the outputs join as it says, and parts of the input are looked at in the l2 norm only.
    """
    shortcuts = shortcuts or {}
    taken: dict[str, str] = {}  # nodes whose constant is that of a shortcut, and where it begins
    values: dict[str, Value] = {}
    disjoint = disjoint_parts(graph) if norm is Norm.L2 else []
    parts = [{name: Value(Status.FINITE, log) for name, log in part.items()} for part in disjoint]
    apart: set[str] = set()  # nodes whose constant is that of the parts together
    effects = dict(effects)
    estimated: set[str] = set()  # nodes behind an operation whose constant is an estimate
    for node in graph:
        if node.op == "input":
            values[node.name] = _input(node)
        else:
            behind = any(ref.name in estimated for ref in node.refs)
            effects[node.name] = _resolved(effects[node.name], node, extents, behind)
            if behind or effects[node.name].rigor is Rigor.ESTIMATE:
                estimated.add(node.name)
            value = combine(effects[node.name], node, values)
            together = _from_parts(effects[node.name], node, parts)
            if smaller(value, together) is not value:
                value = together
                apart.add(node.name)
            if node.name in shortcuts:
                value = _over(shortcuts[node.name], node, value, values, taken)
            values[node.name] = value if wider is None else smaller(value, wider.values[node.name])
        if extents is not None:
            extents.record(node, effects.get(node.name))
    outputs = {name: values[name] for name in graph.outputs}
    network = join_outputs(
        [values[name] for name in graph.outputs], norm
    )  # an output that is returned twice counts twice
    finite = network.status is Status.FINITE
    elasticities = _elasticities(graph, effects, values, parts, apart, taken, norm) if finite else {}
    blocks = _blocks(graph, taken, shortcuts, elasticities)
    return Propagation(effects, values, outputs, network, elasticities, shortcuts, blocks)


def _blocks(
    graph: Graph, taken: Mapping[str, str], shortcuts: Mapping[str, Shortcut], elasticities: Mapping[str, float]
) -> dict[str, Shortcut]:
    """The nodes in parts whose constant is that of a shortcut, the outermost one; none that count beside it."""
    before = {node.name: [ref.name for ref in node.refs] for node in graph}
    blocks: dict[str, Shortcut] = {}
    for node in reversed(graph.nodes):
        if node.name not in taken or node.name in blocks or not elasticities:
            continue
        waiting, seen = [node.name], {taken[node.name]}
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            waiting += before[name]
            if not elasticities[name]:
                blocks.setdefault(name, shortcuts[node.name])
    return blocks


def _over(shortcut: Shortcut, node: Node, value: Value, values: Mapping[str, Value], taken: dict[str, str]) -> Value:
    """The smaller of a node's constant and the one by a shortcut, noted in ``taken`` where that is used."""
    least = smaller(value, by_shortcut(shortcut, values))
    if least is not value:
        taken[node.name] = shortcut.source
    return least


def by_shortcut(shortcut: Shortcut, values: Mapping[str, Value]) -> Value:
    """The constant of the node in which a shortcut ends, from those of the nodes before it."""
    before = values[shortcut.source]
    if before.status is not Status.FINITE:
        return before
    total = shortcut.factor * Bracket(-math.inf, before.log_upper, before.rigor)
    return Value(Status.FINITE, total.log_upper, total.rigor)


def smaller(first: Value, second: Value) -> Value:
    """The smaller of two bounds of one constant."""
    return second if second.status is Status.FINITE and second.log_upper < first.log_upper else first


def _resolved(effect: Effect, node: Node, extents: Extents | None, behind: bool) -> Effect:
    """The effect given the magnitudes of the operands, as it is where they are not bounded.

    ``behind`` says that the magnitudes may rest on estimates.
    """
    if effect.given is None or extents is None:
        return effect
    operands = extents.operands(node)
    resolved = effect.given(operands)
    if resolved.status is Status.FINITE and len(resolved.factors) != len(node.refs):
        raise RegistryError(
            f"the rule of {node.op} gave {len(resolved.factors)} factors for {len(node.refs)} inputs of {node.name}"
        )
    if resolved.status is not Status.FINITE:
        return replace(effect, given=None)
    if behind:
        resolved = replace(resolved, factors=tuple(replace(f, rigor=Rigor.ESTIMATE) for f in resolved.factors))
    return resolved


def _input(node: Node) -> Value:
    if not node.output.dtype.is_floating_point:
        return Value(Status.UNSUPPORTED)
    return Value(Status.FINITE, 0.0)


def _worst(statuses: list[Status]) -> Status:
    for status in (Status.UNSUPPORTED, Status.UNBOUNDED):
        if status in statuses:
            return status
    return Status.FINITE


def combine(effect: Effect, node: Node, values: Mapping[str, Value]) -> Value:
    """The product rule at one node: what its effect makes of the constants of the nodes that it reads."""
    before = [values[ref.name] for ref in node.refs]
    if effect.status is Status.FINITE:
        # an input that the operation does not read (factor 0: shapes, types) cannot spoil it; an estimate of 0 reads it
        read = [
            v
            for v, c in zip(before, effect.factors, strict=True)
            if c.log_upper != -math.inf or c.rigor is Rigor.ESTIMATE
        ]
        status = _worst([v.status for v in read])
    else:
        status = _worst([effect.status, *(v.status for v in before)])
    if status is not Status.FINITE:
        return Value(status)
    terms = [
        c * Bracket(-math.inf, v.log_upper, v.rigor) if v.status is Status.FINITE else c
        for c, v in zip(effect.factors, before, strict=True)
    ]
    total = effect.combination.total(terms)
    return Value(Status.FINITE, total.log_upper, total.rigor)


def join_outputs(outputs: Sequence[Value], norm: Norm = Norm.L2) -> Value:
    """The constant of several outputs taken as one vector: L^2 = sum of L_j^2 in the l2 norm; of one output its own."""
    status = _worst([v.status for v in outputs])
    if status is not Status.FINITE:
        return Value(status)
    if len(outputs) == 1:
        return outputs[0]
    total = norm.of_parts([Bracket(-math.inf, v.log_upper, v.rigor) for v in outputs])
    return Value(Status.FINITE, total.log_upper, total.rigor)


def _from_parts(effect: Effect, node: Node, parts: list[dict[str, Value]]) -> Value:
    """The root of the sum of squares of the constants in disjoint parts of the input; known for what only selects entries."""
    for part in parts:
        if node.name not in part:
            part[node.name] = combine(effect, node, part)
    return join_outputs([part[node.name] for part in parts]) if parts else Value(Status.UNSUPPORTED)


def _elasticities(
    graph: Graph,
    effects: Mapping[str, Effect],
    values: Mapping[str, Value],
    parts: list[dict[str, Value]],
    apart: set[str],
    taken: Mapping[str, str],
    norm: Norm,
) -> dict[str, float]:
    """Reverse accumulation of d log L(network) / d log L(node); that of a node's constant is the same number.

    Where the constant of a node is that of disjoint ``parts`` of the input together, each of them goes on by itself. Where it is that of
    a shortcut, what lies between has no share, nor has the constant of the operation in which it ends.
    """
    routes: list[Mapping[str, Value]] = [values, *parts]
    weights = [dict.fromkeys((n.name for n in graph), 0.0) for _ in routes]
    logs = [values[name].log_upper for name in graph.outputs]
    for name, share in zip(graph.outputs, _shares(logs, norm.power), strict=True):
        weights[0][name] += share
    for node in reversed(graph.nodes):
        if node.op == "input":
            continue
        if node.name in taken:
            weights[0][taken[node.name]] += weights[0][node.name]
            for part, weight in zip(parts, weights[1:], strict=True):
                if weight[node.name]:
                    _pass_back(node, effects[node.name], part, weight)
            continue
        if node.name in apart:
            shares = _shares([part[node.name].log_upper for part in parts], 2)
            for weight, share in zip(weights[1:], shares, strict=True):
                weight[node.name] += weights[0][node.name] * share
            weights[0][node.name] = 0.0
        for route, weight in zip(routes, weights, strict=True):
            if weight[node.name]:
                _pass_back(node, effects[node.name], route, weight)
    return {node.name: sum(weight[node.name] for weight in weights[node.name in taken :]) for node in graph}


def _pass_back(node: Node, effect: Effect, values: Mapping[str, Value], weights: dict[str, float]) -> None:
    """Add to the weights of a node's operands their shares of its own."""
    terms = [
        -math.inf if c.log_upper == -math.inf else c.log_upper + values[ref.name].log_upper
        for c, ref in zip(effect.factors, node.refs, strict=True)
    ]
    for ref, share in zip(node.refs, _shares(terms, effect.combination.power), strict=True):
        weights[ref.name] += weights[node.name] * share


def _shares(logs: list[float], power: float) -> list[float]:
    """The share of each term in a sum of their powers; where only the largest counts, the first that is."""
    top = max(logs, default=-math.inf)
    if math.isinf(top):
        return [0.0] * len(logs)
    if math.isinf(power):
        return [float(i == logs.index(top)) for i in range(len(logs))]
    parts = [math.exp(power * (log - top)) for log in logs]
    return [p / sum(parts) for p in parts]
