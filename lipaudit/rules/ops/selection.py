"""A part of the entries, each at most once, possibly among constants: ||f(x) - f(y)|| <= ||x - y||."""

from __future__ import annotations

from lipaudit.graph.node import Node
from lipaudit.graph.ops import aten
from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.induced_facets import picked
from lipaudit.rules.interval_facets import entries_and_zeros, entries_of_input
from lipaudit.rules.operands import interval_of_number, number, stretch
from lipaudit.rules.ops.permutations import same_axes
from lipaudit.rules.radii_facets import entries_and_whole
from lipaudit.rules.region.axes import without_axis
from lipaudit.rules.region.magnitude import Magnitude
from lipaudit.rules.region.radii import Radii
from lipaudit.rules.rule import operations
from lipaudit.spectral.interval import Interval

SLICE = operations(*aten("slice.Tensor"))
SELECT = operations(*aten("select.int"))
DIAGONAL = operations(*aten("diagonal"))
TRIANGLES = operations(*aten("tril", "triu"))
DIAGONAL_MATRIX = operations(*aten("diag_embed"))
CONSTANT_PADDING = operations(*aten("constant_pad_nd"))
PARTS = (SLICE, SELECT, DIAGONAL, TRIANGLES, DIAGONAL_MATRIX, CONSTANT_PADDING)


@operations(*(name for group in PARTS for name in group.names)).constant(
    formula="1",
    source="every element occurs at most once in the output",
    exact=True,
    trivial=True,
    complex_numbers=True,
)
def subset(node: Node, _settings: Settings) -> Effect:
    """A part of the elements, possibly among constants."""
    return stretch(node, {"self": 1.0})


for _group in (SLICE, TRIANGLES, CONSTANT_PADDING):
    _group.radii(same_axes)
for _group in PARTS:
    _group.induced_norm(picked)
DIAGONAL.radii(entries_and_whole)
DIAGONAL_MATRIX.radii(entries_and_whole)


@SELECT.radii
def one_entry_of_an_axis(node: Node, _effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """The axis goes."""
    return (without_axis(operands[0].radii, int(number(node, "dim")), node.output.shape),)


for _group in (SLICE, SELECT, DIAGONAL):
    _group.interval(entries_of_input)
for _group in (TRIANGLES, DIAGONAL_MATRIX):
    _group.interval(entries_and_zeros)


@CONSTANT_PADDING.interval
def padded(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """Entries of the input, and the number around them."""
    fill = node.get("value", 0.0)
    return intervals[0].union(interval_of_number(fill)) if isinstance(fill, int | float) else Interval()
