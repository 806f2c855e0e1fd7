"""Data movement that may use an element several times: sqrt(largest number of copies), counted by the index probe."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from lipaudit.graph.arguments import call, overload
from lipaudit.graph.node import Argument, Constant, Node, Ref
from lipaudit.graph.ops import aten
from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.index_probe import PROBE_LIMIT, largest_count, reduced
from lipaudit.rules.induced_facets import adjoint_of_picked, picked
from lipaudit.rules.interval_facets import ZERO, entries_and_zeros, entries_of_input
from lipaudit.rules.operands import (
    constant,
    count_refs,
    data,
    integers,
    interval_of_number,
    number,
    repeats,
    root,
    stretch,
)
from lipaudit.rules.radii_facets import entries_and_whole
from lipaudit.rules.region.magnitude import Magnitude
from lipaudit.rules.region.radii import Radii, broadcast
from lipaudit.rules.rule import operations
from lipaudit.spectral.interval import Interval

COPIES = "A^T A is diagonal and counts the copies of each element"

EXPAND = operations(*aten("expand"))
REPEAT = operations(*aten("repeat", "repeat_interleave.self_int"))
REPEAT_EACH = operations(*aten("repeat_interleave.self_Tensor"))
PAD = operations(*aten("pad"))
COPYING_PAD = operations(*aten(*(f"{kind}_pad{d}d" for kind in ("reflection", "replication") for d in (1, 2, 3))))
UNFOLD = operations(*aten("unfold"))
IM2COL = operations(*aten("im2col"))
COL2IM = operations(*aten("col2im"))
INDEX_SELECT = operations(*aten("index_select"))
PICK = operations(*aten("index.Tensor", "gather", "take_along_dim"))


@operations(*EXPAND.names, *REPEAT.names).constant(formula="sqrt(copies)", source=COPIES, exact=True)
def repeat(node: Node, _settings: Settings) -> Effect:
    """Every element is copied equally often: elements of the output over elements of the input."""
    return stretch(node, {"self": root(repeats(node["self"], node.output)), "other": 0.0})


@EXPAND.radii
def expanded(node: Node, _effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Broadcasting to a shape."""
    return (broadcast(operands[0].radii, node.output.shape),)


EXPAND.interval(entries_of_input)
for _group in (REPEAT, REPEAT_EACH):
    _group.radii(entries_and_whole)
    _group.interval(entries_of_input)


@REPEAT_EACH.constant(formula="sqrt(largest repeat)", source=COPIES, exact=True)
def repeat_interleave(node: Node, _settings: Settings) -> Effect:
    """Every entry of an axis is repeated a given number of times; a single number counts for all."""
    counts = constant(node, "repeats")
    if counts is None:
        return Effect.unsupported("repeat_interleave with a data-dependent number of repeats")
    return stretch(node, {"self": root(int(counts.max()) if counts.numel() else 0)})


@operations(*PAD.names, *COPYING_PAD.names).constant(
    formula="sqrt(largest number of copies), 1 for constant padding", source=COPIES, exact=True
)
def pad(node: Node, _settings: Settings) -> Effect:
    """Padding by reflection, replication, wrapping around or a constant; leading axes are treated alike."""
    if node.get("mode") == "constant":
        return stretch(node, {"self": 1.0})
    amounts = node["pad"] if "pad" in node.arguments else node["padding"]
    axes = len(data(node, "self").shape)
    padded = len(amounts) // 2 if isinstance(amounts, tuple) else 0
    return _probe(node, {"self": set(range(axes - padded, axes))})


@PAD.radii
def padded_radii(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Constants around an image do not stray; reflected and repeated borders repeat entries of the padded axes."""
    if node.get("mode") == "constant":
        return (Radii(node.output.shape, dict(operands[0].radii.logs)),)
    return entries_and_whole(node, effect, operands)


@PAD.interval
def padded_entries(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """Entries of the input, and the number around them where there is one."""
    if node.get("mode") != "constant":
        return intervals[0]
    fill = node.get("value")
    around = ZERO if fill is None else interval_of_number(fill) if isinstance(fill, int | float) else Interval()
    return intervals[0].union(around)


COPYING_PAD.radii(entries_and_whole)
COPYING_PAD.interval(entries_of_input)


@UNFOLD.constant(formula="sqrt(largest number of windows over one entry)", source=COPIES, exact=True)
def unfold(node: Node, _settings: Settings) -> Effect:
    """Sliding windows along one axis."""
    (axis,) = integers(node, "dimension", 1)
    return _probe(node, {"self": {axis % max(1, len(data(node, "self").shape))}})


UNFOLD.radii(entries_and_whole)
UNFOLD.interval(entries_of_input)


@IM2COL.constant(formula="sqrt(largest number of windows over one pixel)", source=COPIES, exact=True)
def im2col(node: Node, _settings: Settings) -> Effect:
    """Sliding windows over an image, each a column (torch.nn.Unfold)."""
    axes = len(data(node, "self").shape)
    return _probe(node, {"self": {axes - 2, axes - 1}})


IM2COL.radii(entries_and_whole)
IM2COL.interval(entries_and_zeros)


@COL2IM.constant(
    formula="sqrt(largest number of columns added into one pixel)",
    source="the adjoint of sliding windows: A A^T is diagonal and counts the addends of each pixel",
    exact=True,
)
def col2im(node: Node, _settings: Settings) -> Effect:
    """Sums overlapping windows into an image (torch.nn.Fold): the operation applied to ones counts the addends."""
    kernel = math.prod(integers(node, "kernel_size", 2))
    columns = data(node, "self").shape[-1]
    if kernel * columns > PROBE_LIMIT:
        return _too_large(node)
    ones = torch.ones(1, kernel, columns, dtype=torch.float64)
    arguments = {k: list(v) if isinstance(v, tuple) else v for k, v in node.arguments.items()}
    image = call(overload(node.op), arguments | {"self": ones})
    return stretch(node, {"self": root(int(image.max()))})


@operations(*INDEX_SELECT.names, *PICK.names).constant(
    formula="sqrt(largest number of times one element is picked)", source=COPIES, exact=True
)
def pick(node: Node, _settings: Settings) -> Effect:
    """Picks elements by constant indices or masks."""
    for key, argument in node.arguments.items():
        if key != "self" and count_refs(argument):
            return Effect.unsupported(
                f"{node.op.split('.')[1]} with data-dependent indices picks other elements at a jump"
            )
    axes = range(len(data(node, "self").shape))
    indices = node.get("indices")
    if node.op == "aten.index_select.default":
        kept = {integers(node, "dim", 1)[0] % max(1, len(axes))}
    elif isinstance(indices, tuple):
        kept = _indexed_axes(indices)
    else:
        kept = set(axes)
    return _probe(node, {"self": kept})


@INDEX_SELECT.radii
def selected_entries(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """A slice across the axis may hold copies; another one is a slice of the input."""
    source = operands[0].radii
    axis = int(number(node, "dim")) % max(1, len(source.shape))
    copies = effect.factors[0]
    logs = {axes: (copies * source.over(axes)).log_upper if axis in axes else log for axes, log in source.logs.items()}
    return (Radii(node.output.shape, logs),)


PICK.radii(entries_and_whole)
for _group in (INDEX_SELECT, PICK):
    _group.interval(entries_of_input)


def _indexed_axes(indices: tuple[Argument, ...]) -> set[int]:
    """The axes that advanced indexing reads; a boolean mask of k axes reads k of them."""
    kept: set[int] = set()
    axis = 0
    for index in indices:
        masks = isinstance(index, Constant) and index.value.dtype in (torch.bool, torch.uint8)
        width = index.value.dim() if masks and isinstance(index, Constant) else 1
        if index is not None:
            kept.update(range(axis, axis + width))
        axis += width
    return kept


def _probe(node: Node, keep: dict[str, set[int]]) -> Effect:
    """The effect of an operation with one data-dependent input, of which only the axes in ``keep`` matter."""
    arguments = dict(node.arguments)
    elements = 0
    growth = 1.0
    for name, axes in keep.items():
        argument = arguments[name]
        if isinstance(argument, Ref):
            growth = max(1, math.prod(node.output.shape)) / max(1, math.prod(argument.info.shape))
            small = reduced(argument, axes)
            arguments[name] = small
            elements += math.prod(small.info.shape)
    if elements * (1 + growth) > PROBE_LIMIT:
        return _too_large(node)
    count = largest_count(node.op, arguments)
    return stretch(replace(node, arguments=arguments), dict.fromkeys(keep, root(count)))


def _too_large(node: Node) -> Effect:
    return Effect.unsupported(
        f"counting the copies that {node.op.split('.')[1]} makes takes more than {PROBE_LIMIT} elements; "
        "audit a smaller input"
    )


for _group in (EXPAND, REPEAT, REPEAT_EACH, PAD, COPYING_PAD, UNFOLD, IM2COL, INDEX_SELECT, PICK):
    _group.induced_norm(picked)
COL2IM.induced_norm(adjoint_of_picked)
