"""Operations that keep every entry in its order: views, copies, casts, dropout in eval mode; and tensors of constants."""

from __future__ import annotations

from lipaudit.graph.node import Node, TensorInfo
from lipaudit.graph.ops import DROPOUTS, aten
from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.induced_facets import same_in_every_norm
from lipaudit.rules.interval_facets import entries_of_input
from lipaudit.rules.operands import data, interval_of_number, is_float, stretch
from lipaudit.rules.region.axes import reshaped
from lipaudit.rules.region.magnitude import Magnitude
from lipaudit.rules.region.radii import Radii
from lipaudit.rules.rule import operations
from lipaudit.spectral.interval import Interval

RESHAPE = operations(*aten("reshape"))
CLONE = operations(*aten("clone"))
CAST = operations(*aten("_to_copy"))
DROPOUT = operations(*sorted(DROPOUTS))
ONE_OUTPUT = operations("getitem")
FILLED = operations(
    *aten("fill.Scalar", "zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty")
)  # fmt: skip


@RESHAPE.constant(
    formula="1; a second input is read for its shape only", source="the elements are the same", exact=True, trivial=True,
    complex_numbers=True,
)  # fmt: skip
def reshape(node: Node, _settings: Settings) -> Effect:
    """The same entries in the same order in another shape."""
    return stretch(node, {"self": 1.0, "other": 0.0})


@RESHAPE.radii
def reshaped_radii(node: Node, _effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Slices of one shape are slices, or parts of slices, of the other."""
    return (reshaped(operands[0].radii, node.output.shape),)


RESHAPE.interval(entries_of_input)
RESHAPE.induced_norm(same_in_every_norm)


@CLONE.constant(
    formula="1", source="the elements are the same", exact=True, trivial=True, entrywise=True, complex_numbers=True
)
def clone(node: Node, _settings: Settings) -> Effect:
    """The same tensor."""
    return stretch(node, {"self": 1.0})


CLONE.interval(entries_of_input)


@CAST.constant(
    formula="1 between floating or complex dtypes",
    source="the identity, or the real part of complex numbers; rounding is not counted",
    exact=True, trivial=True, entrywise=True, complex_numbers=True,
)  # fmt: skip
def cast(node: Node, _settings: Settings) -> Effect:
    """A change of dtype or device. A cast to integers or booleans jumps, one from complex to real takes the real part."""
    before, after = data(node, "self"), node.output
    if not _has_slope(after) and before.dtype is not after.dtype:
        return Effect.unbounded(f"a cast from {before.dtype} to {after.dtype} jumps at every integer")
    narrows = _has_slope(before) and after.dtype.to_real().itemsize < before.dtype.to_real().itemsize
    note = f"cast to {after.dtype}: its rounding is not counted" if narrows else ""
    return stretch(node, {"self": 1.0, "other": 0.0}, note=note)


def _has_slope(info: TensorInfo) -> bool:
    """Whether the tensor holds real or complex floating-point numbers."""
    return is_float(info) or info.dtype.is_complex


@CAST.interval
def cast_entries(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """The same numbers; nothing is claimed of what is rounded to an integer."""
    return entries_of_input(node, intervals) if is_float(node.output) else Interval()


@DROPOUT.constant(
    formula="1 in eval mode", source="the identity in eval mode", exact=True, trivial=True, entrywise=True
)
def dropout(node: Node, _settings: Settings) -> Effect:
    """The identity in eval mode; random, and not supported, in training mode."""
    if node["train"] is not False:
        return Effect.unsupported("dropout in training mode is random; audit the network in eval mode")
    return stretch(node, {"input": 1.0})


@DROPOUT.interval
def dropout_entries(node: Node, intervals: tuple[Interval, ...]) -> Interval | tuple[Interval, ...]:
    """The identity in eval mode; a mask is made of zeros and ones."""
    entries = entries_of_input(node, intervals) if node["train"] is False else Interval()
    return entries if len(node.outputs) == 1 else (entries, Interval(0.0, 1.0))


@ONE_OUTPUT.constant(formula="1", source="one of several outputs", exact=True, trivial=True, complex_numbers=True)
def getitem(node: Node, _settings: Settings) -> Effect:
    """One output of an operation with several; indices into the data jump."""
    if not _has_slope(node.output):
        return Effect.unbounded(f"output {node['index']} holds data-dependent {node.output.dtype}: it jumps")
    return stretch(node, {"self": 1.0})


@ONE_OUTPUT.radii
def getitem_radii(_node: Node, _effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """The magnitude that arrives is already that of one output."""
    return (operands[0].radii,)


ONE_OUTPUT.interval(entries_of_input)
ONE_OUTPUT.induced_norm(same_in_every_norm)
FILLED.induced_norm(same_in_every_norm)


@FILLED.constant(
    formula="0", source="only the shape of the input is read", exact=True, trivial=True, complex_numbers=True
)
def filled_like(node: Node, _settings: Settings) -> Effect:
    """A tensor of constants in the shape of another."""
    return stretch(node, {"self": 0.0})


@FILLED.interval
def filling(node: Node, _intervals: tuple[Interval, ...]) -> Interval:
    """The number that fills the tensor; an empty one may hold anything."""
    name = node.op.split(".")[1]
    value = node.get("value", node.get("fill_value"))
    if "zeros" in name or "ones" in name:
        value = float("ones" in name)
    return interval_of_number(value) if isinstance(value, int | float) else Interval()
