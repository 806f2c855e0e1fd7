"""Every entry moves to another place: axes in another order, mirrors, shifts, shuffles, splits into several tensors.

A bijection of the entries keeps the norm: 1, attained by every input.
"""

from __future__ import annotations

from lipaudit.graph.node import Node
from lipaudit.graph.ops import aten
from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.induced_facets import same_in_every_norm
from lipaudit.rules.interval_facets import entries_of_input
from lipaudit.rules.operands import number, stretch
from lipaudit.rules.radii_facets import entries_and_whole
from lipaudit.rules.region.axes import followed, without_axis
from lipaudit.rules.region.magnitude import Magnitude
from lipaudit.rules.region.radii import Radii
from lipaudit.rules.rule import operations

PERMUTE = operations(*aten("permute"))
# The entries of every axis in another order, or in several pieces.
WITHIN_AXES = operations(
    *aten("flip", "split_with_sizes", "channel_shuffle", "native_channel_shuffle", "fft_fftshift", "fft_ifftshift")
)
ROLL = operations(*aten("roll"))
ROTATE = operations(*aten("rot90"))
UNBIND = operations(*aten("unbind.int"))
PIXEL_SHUFFLE = operations(*aten("pixel_shuffle", "pixel_unshuffle"))
ALL = operations(
    *(name for group in (PERMUTE, WITHIN_AXES, ROLL, ROTATE, UNBIND, PIXEL_SHUFFLE) for name in group.names)
)


@ALL.constant(formula="1", source="the elements are reordered", exact=True, trivial=True, complex_numbers=True)
def reorder(node: Node, _settings: Settings) -> Effect:
    """A bijection of the elements, given in one piece or in several."""
    return stretch(node, {"self": 1.0})


ALL.interval(entries_of_input)
ALL.induced_norm(same_in_every_norm)


@PERMUTE.radii
def permuted_axes(node: Node, _effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Axis i of the output is axis dims[i] of the input."""
    rank = len(operands[0].shape)
    order = [int(d) % rank for d in node["dims"]]  # type: ignore[union-attr, arg-type]
    return (followed(operands[0].radii, node.output.shape, order.index),)


@WITHIN_AXES.radii
def same_axes(node: Node, _effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """A slice of the output is a slice of the input, reordered, or a part of one."""
    return tuple(Radii(o.shape, dict(operands[0].radii.logs)) for o in node.outputs)


@ROLL.radii
def rolled(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Axes are shifted one by one; without axes the flattened tensor is, and slices become parts of others."""
    return (same_axes if node["dims"] else entries_and_whole)(node, effect, operands)


@ROTATE.radii
def rotated(node: Node, _effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """A rotation by 90 degrees is a mirror and a transposition of its two axes, one by 180 degrees two mirrors."""
    rank = len(operands[0].shape)
    first, second = (int(d) % rank for d in node["dims"])  # type: ignore[union-attr, arg-type]
    swap = {first: second, second: first} if number(node, "k") % 2 else {}
    return (followed(operands[0].radii, node.output.shape, lambda a: swap.get(a, a)),)


@UNBIND.radii
def unbound(node: Node, _effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Every entry of an axis."""
    return tuple(without_axis(operands[0].radii, int(number(node, "dim")), o.shape) for o in node.outputs)


PIXEL_SHUFFLE.radii(entries_and_whole)
