"""From a simplified graph to the steps of :mod:`lipaudit.network.forms.steps`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import torch

from lipaudit.graph.constant_errors import LARGEST
from lipaudit.graph.linear import CONVOLUTION, DENSE, SCALE
from lipaudit.graph.node import Constant, Graph, Node, Ref, TensorInfo, parts
from lipaudit.graph.passes.max_min_pairs import ORDERED_PAIRS
from lipaudit.network.affine import is_linear
from lipaudit.network.entrywise import slopes, slopes_of_entries
from lipaudit.network.forms.steps import Bounded, Groups, Linear, Program, Slopes, Step, Tensor, Windows
from lipaudit.network.part import Shortcut
from lipaudit.network.propagate import Propagation
from lipaudit.rules.effect import Combination, Effect, Status
from lipaudit.rules.inexact_constants import without_margin
from lipaudit.spectral.bracket import Bracket, Rigor


class NoProgramError(Exception):
    """A graph has no steps; the message says which operation stands in the way."""


def program_of(graph: Graph, propagation: Propagation) -> Program:
    """The steps of a network all of whose operations have finite constants.

    A part of the network that is known to stretch by hardly more than 1 (:mod:`lipaudit.network.shortcuts`) is one step.

    Args:
        graph: the simplified graph.
        propagation: the product rule on the domain in force: constants per operation, and how constants of several operands are weighed.

    Raises:
        NoProgramError: if the outputs depend on an operation without a finite constant, or on complex numbers.
    """
    whole = {name: s for name, s in propagation.shortcuts.items() if s.whole and s.factor.log_upper <= _HARDLY_MORE}
    effects, still = _without_still(graph, propagation.effects, whole)
    needed = _needed(graph, effects, whole) - still
    tensors: dict[str, Tensor] = {}
    inputs, steps = [], list[Step]()
    producers = {node.name: node for node in graph}
    numerical = False
    for node in graph:
        if node.name not in needed:
            continue
        tensors[node.name] = Tensor(node.name, _shape(node.outputs))
        if node.op in _SPLITS and len(node.refs) == 1:
            tensors[node.name] = Tensor(node.name, tensors[node.refs[0].name].shape)
        if node.op == "input":
            inputs.append(tensors[node.name])
            continue
        if node.name in whole:
            shortcut = whole[node.name]
            square = _exp(shortcut.factor.log_upper) ** 2 * (1 + 2.0**-48)
            steps.append(Bounded(tensors[node.name], (tensors[shortcut.source],), (square,), node))
            numerical |= shortcut.factor.rigor is Rigor.NUMERICAL
            continue
        effect = effects[node.name]
        if effect.status is not Status.FINITE:
            raise NoProgramError(f"{node.name} ({node.op}) has no finite constant")
        step = _step(node, effect, tensors, propagation)
        if isinstance(step, Linear):
            step = replace(step, part=_part(node, producers, tensors))
            numerical |= _rests_on_unknown_errors(node)
        else:
            numerical |= any(f.rigor is Rigor.NUMERICAL for f in effect.factors)
            if any(f.rigor is Rigor.ESTIMATE for f in effect.factors):
                raise NoProgramError(f"the constant of {node.name} ({node.op}) is an estimate")
        steps.append(step)
    if not inputs:
        raise NoProgramError("the outputs do not depend on the input")
    outputs = tuple(tensors[name] for name in graph.outputs if name not in still)
    return Program(tuple(inputs), outputs, tuple(steps), numerical)


def _without_still(
    graph: Graph, effects: Mapping[str, Effect], whole: Mapping[str, Shortcut]
) -> tuple[dict[str, Effect], set[str]]:
    """Effects in which an operand that never differs has the constant 0, and the nodes that never differ (their weights are 0)."""
    found, still = dict[str, Effect](), set[str]()
    for node in graph:
        if node.op == "input":
            continue
        effect = effects[node.name]
        if effect.status is Status.FINITE and any(ref.name in still for ref in node.refs):
            pairs = zip(node.refs, effect.factors, strict=True)
            effect = replace(effect, factors=tuple(_ZERO if ref.name in still else f for ref, f in pairs))
        found[node.name] = effect
        sources = [whole[node.name].source] if node.name in whole else [ref.name for ref in _read(node, effect)]
        if all(name in still for name in sources):
            still.add(node.name)
    return found, still


def _needed(graph: Graph, effects: Mapping[str, Effect], whole: Mapping[str, Shortcut]) -> set[str]:
    """The nodes whose differences reach an output: an operand whose constant is 0 is not read, nor what is inside of a whole part."""
    needed = set(graph.outputs)
    for node in reversed(graph.nodes):
        if node.name in needed and node.name in whole:
            needed.add(whole[node.name].source)
        elif node.name in needed and node.op != "input":
            needed.update(ref.name for ref in _read(node, effects[node.name]))
    return needed


def _read(node: Node, effect: Effect) -> list[Ref]:
    refs = list(node.refs)
    if effect.status is not Status.FINITE:
        return refs
    return [ref for ref, factor in zip(refs, effect.factors, strict=True) if factor.log_upper != -math.inf]


def _part(node: Node, producers: Mapping[str, Node], tensors: Mapping[str, Tensor]) -> tuple[int, int, int] | None:
    """What an operation that splits a tensor keeps of it (everything), and what the choice of one of several outputs takes."""
    if node.op in _SPLITS:
        axis = _axis(node, tensors[node.name])
        return axis, 0, tensors[node.name].shape[axis]
    if node.op != "getitem":
        return None
    (ref,), index = node.refs, node["index"]
    assert isinstance(index, int)
    parent = producers[ref.name]
    index %= len(parent.outputs)
    if parent.op not in _SPLITS:  # its outputs stand one behind the other
        sizes = [math.prod(o.shape) if o.dtype.is_floating_point else 0 for o in parent.outputs]
        if len(parent.outputs) == 1 and len(parent.outputs[0].shape) != 1:
            raise NoProgramError(f"{node.name} takes the only output of {parent.name}")
        return 0, sum(sizes[:index]), sizes[index]
    axis = _axis(parent, tensors[parent.name])
    sizes = [1 if parent.op == "aten.unbind.int" else o.shape[axis] for o in parent.outputs]
    if sum(sizes) != tensors[parent.name].shape[axis]:
        raise NoProgramError(f"the parts of {parent.name} do not make up what it splits")
    return axis, sum(sizes[:index]), sizes[index]


def _axis(node: Node, tensor: Tensor) -> int:
    axis = node.get("dim", 0)
    assert isinstance(axis, int)
    return axis % len(tensor.shape)


def _shape(outputs: tuple[TensorInfo, ...]) -> tuple[int, ...]:
    if any(o.dtype.is_complex for o in outputs):
        raise NoProgramError("complex numbers have no forms")
    if any(0 in o.shape for o in outputs):
        raise NoProgramError("a tensor has no entries")
    if len(outputs) == 1:
        return outputs[0].shape
    return (sum(math.prod(o.shape) for o in outputs if o.dtype.is_floating_point),)


def _step(node: Node, effect: Effect, tensors: Mapping[str, Tensor], propagation: Propagation) -> Step:
    output = tensors[node.name]
    if is_linear(node):
        sources = tuple(dict.fromkeys(ref.name for ref in _read(node, effect)))
        return Linear(output, tuple(tensors[name] for name in sources), node)
    read = _read(node, effect)
    if len(read) == 1:
        (source,) = (tensors[ref.name] for ref in read)
        (factor,) = (f for f in effect.factors if f.log_upper != -math.inf)
        constant = _exp(factor.log_upper)
        if source.shape == output.shape and (interval := slopes(node, constant)) is not None:
            each = slopes_of_entries(node)
            low, high = _apart(*interval) if each is None else _each_apart(*each)
            return Slopes(output, (source,), low, high, node)
        if node.op in _MAX_POOLS and constant >= 1 and len(node.outputs) == 1:
            return Windows(output, (source,), node)
        if node.op == ORDERED_PAIRS:
            return Groups(output, (source,), node.payload.axis, _ordered(node.payload), node)
    operands, weights = _weights(effect, read, tensors, propagation)
    return Bounded(output, operands, tuple(len(node.outputs) * weight for weight in weights), node)


def _each_apart(low: torch.Tensor, high: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Intervals that hold these and are not narrower than a millionth of their ends: forms divide by what they are wide."""
    least = torch.maximum(low.abs(), high.abs()) * _LEAST_RANGE
    positive = high > 0
    wide_low, wide_high = torch.minimum(low, high - least), torch.maximum(high, low + least)
    return torch.where(positive, wide_low, low), torch.where(positive, high, wide_high)


def _apart(low: float, high: float) -> tuple[float, float]:
    wider = _each_apart(torch.tensor(low, dtype=torch.float64), torch.tensor(high, dtype=torch.float64))
    return float(wider[0]), float(wider[1])


def _exp(log: float) -> float:
    """exp, rounded up."""
    if log > _LARGEST_LOG:
        raise NoProgramError("a constant is too large for its square to be a float64")
    return math.exp(log) * (1 + 2**-50)


def _weights(
    effect: Effect, read: list[Ref], tensors: Mapping[str, Tensor], propagation: Propagation
) -> tuple[tuple[Tensor, ...], tuple[float, ...]]:
    """w with |z|^2 <= sum_i w_i |v_i|^2 for every output z of a node.

    A sum of constants is split in proportion to what the product rule gives the operands.
    """
    factors = [f.log_upper for f in effect.factors if f.log_upper != -math.inf]
    logs = [factor + propagation.values[ref.name].log_upper for factor, ref in zip(factors, read, strict=True)]
    weights: dict[str, float] = {}
    for factor, log, ref in zip(factors, logs, read, strict=True):
        share = 1.0
        if effect.combination is Combination.SUM and len(read) > 1:
            share = math.fsum(math.exp(min(other - log, 600.0)) for other in logs) * (1 + 2**-40)
        weights[ref.name] = (weights.get(ref.name, 0.0) + _exp(factor) ** 2 * share) * (1 + 2**-48)
    if not all(math.isfinite(w) for w in weights.values()):
        raise NoProgramError("a constant is too large for float64")
    return tuple(tensors[name] for name in weights), tuple(weights.values())


_ZERO = Bracket.exact(0.0)
_LARGEST_LOG = 300.0
_LEAST_RANGE = 2.0**-20
_HARDLY_MORE = math.log(1.1)
_MAX_POOLS = {"aten.max_pool1d.default", "aten.max_pool2d.default", "aten.max_pool3d.default"}


def _ordered(pairs: object) -> tuple[tuple[int, ...], ...]:
    """The positions along the axis that are put in order with one another; those that are alone are kept in groups of one."""
    starts = [0]
    for size in pairs.sizes:  # type: ignore[attr-defined]
        starts.append(starts[-1] + size)
    members: list[tuple[int, ...]] = []
    paired: set[int] = set()
    for larger, smaller in pairs.pairs:  # type: ignore[attr-defined]
        for k in range(pairs.sizes[larger]):  # type: ignore[attr-defined]
            members.append((starts[larger] + k, starts[smaller] + k))
            paired.update(members[-1])
    members.extend((k,) for k in range(starts[-1]) if k not in paired)
    return tuple(members)


_SPLITS = {
    "aten.split.Tensor", "aten.split_with_sizes.default", "aten.chunk.default", "aten.unbind.int", "aten.tensor_split.sections",
}  # fmt: skip


def _rests_on_unknown_errors(node: Node) -> bool:
    """Whether numbers of a linear operation were computed by the network in a way of which no error bound is known."""
    if node.op in (CONVOLUTION, DENSE, SCALE):
        return bool(node.payload.error > LARGEST)
    return without_margin(node) and any(constant.error > LARGEST for constant in constants_of(node))


def constants_of(node: Node) -> list[Constant]:
    """The constant tensors among a node's arguments."""
    return list(parts(tuple(node.arguments.values()), Constant))
