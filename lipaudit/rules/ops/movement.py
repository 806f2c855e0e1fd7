"""Data movement that uses every element at most once (views, permutations, slices, splits, constant padding): 1.

Such an operation drops or reorders entries, so that ||f(x) - f(y)|| <= ||x - y||. What repeats elements is in
``repetition``.
"""

from __future__ import annotations

from lipaudit.graph.node import Node, TensorInfo
from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.operands import data, is_float, stretch
from lipaudit.rules.rule import rule

AT_MOST_ONCE = "every element occurs at most once in the output"


@rule(
    "aten.view.default", "aten._unsafe_view.default", "aten.view_copy.default", "aten.reshape.default",
    "aten.flatten.using_ints", "aten.unflatten.int", "aten.ravel.default", "aten.contiguous.default",
    "aten.clone.default", "aten.alias.default", "aten.detach.default", "aten.lift_fresh.default",
    "aten.lift_fresh_copy.default", "aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims",
    "aten.unsqueeze.default", "aten.permute.default", "aten.transpose.int", "aten.t.default", "aten.numpy_T.default",
    "aten.mT.default", "aten.movedim.intlist", "aten.moveaxis.intlist", "aten.movedim.int", "aten.moveaxis.int",
    "aten.swapaxes.default", "aten.swapdims.default", "aten.flip.default", "aten.fliplr.default", "aten.flipud.default",
    "aten.rot90.default", "aten.roll.default", "aten.pixel_shuffle.default", "aten.pixel_unshuffle.default",
    "aten.channel_shuffle.default", "aten.native_channel_shuffle.default", "aten.atleast_1d.default",
    "aten.unbind.int", "aten.split.Tensor", "aten.split.sizes", "aten.split_with_sizes.default",
    "aten.unsafe_split.Tensor", "aten.unsafe_split_with_sizes.default", "aten.chunk.default",
    "aten.unsafe_chunk.default", "aten.tensor_split.sections", "aten.tensor_split.indices",
    "aten.fft_fftshift.default", "aten.fft_ifftshift.default",
    formula="1", source="the elements are reordered", exact=True, trivial=True, complex_numbers=True,
)  # fmt: skip
def reorder(node: Node, _settings: Settings) -> Effect:
    """A bijection of the elements, given in one piece or in several."""
    return stretch(node, {"self": 1.0})


@rule(
    "aten.slice.Tensor", "aten.select.int", "aten.narrow.default", "aten.diagonal.default",
    "aten.diag_embed.default", "aten.tril.default", "aten.triu.default", "aten.constant_pad_nd.default",
    formula="1", source=AT_MOST_ONCE, exact=True, trivial=True, complex_numbers=True,
)  # fmt: skip
def subset(node: Node, _settings: Settings) -> Effect:
    """A part of the elements, possibly among constants."""
    return stretch(node, {"self": 1.0})


@rule(
    "aten.view_as.default", "aten.reshape_as.default",
    formula="1; the second input is read for its shape only", source="the elements are reordered",
    exact=True, trivial=True, complex_numbers=True,
)  # fmt: skip
def reorder_like(node: Node, _settings: Settings) -> Effect:
    """A view with the shape of another tensor."""
    return stretch(node, {"self": 1.0, "other": 0.0})


@rule(
    "aten.dropout.default", "aten.feature_dropout.default", "aten.alpha_dropout.default",
    "aten.feature_alpha_dropout.default", "aten.native_dropout.default",
    formula="1 in eval mode", source="the identity in eval mode", exact=True, trivial=True, entrywise=True,
)  # fmt: skip
def dropout(node: Node, _settings: Settings) -> Effect:
    """The identity in eval mode; random, and not supported, in training mode."""
    if node["train"] is not False:
        return Effect.unsupported("dropout in training mode is random; audit the network in eval mode")
    return stretch(node, {"input": 1.0})


@rule(
    "aten.to.dtype", "aten.to.dtype_layout", "aten.to.device", "aten.to.other", "aten._to_copy.default",
    "aten.type_as.default",
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


@rule("getitem", formula="1", source="one of several outputs", exact=True, trivial=True, complex_numbers=True)
def getitem(node: Node, _settings: Settings) -> Effect:
    """One output of an operation with several; indices into the data jump."""
    if not _has_slope(node.output):
        return Effect.unbounded(f"output {node['index']} holds data-dependent {node.output.dtype}: it jumps")
    return stretch(node, {"self": 1.0})


@rule(
    "aten.fill.Scalar",
    *(f"aten.{name}.default" for name in (
        "zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty",
    )),
    formula="0", source="only the shape of the input is read", exact=True, trivial=True, complex_numbers=True,
)  # fmt: skip
def filled_like(node: Node, _settings: Settings) -> Effect:
    """A tensor of constants in the shape of another."""
    return stretch(node, {"self": 0.0})
