"""Which operations are linear or affine in their data-dependent operands together."""

from __future__ import annotations

import math

import torch

from lipaudit.graph.aliases import canonical
from lipaudit.graph.linear import BATCH_NORMS, CONVOLUTION, CONVOLUTIONS, DENSE, SCALE
from lipaudit.graph.node import Constant, Node, Ref, parts
from lipaudit.graph.ops import aten
from lipaudit.network.entrywise import returns_its_operand

_PRODUCTS = {"aten.mul.Tensor", "aten.mul.Scalar", "aten.div.Tensor", "aten.div.Scalar"}
MATRIX_PRODUCTS = {
    "aten.matmul.default",
    "aten.mm.default",
    "aten.bmm.default",
    "aten.addmm.default",
    "aten.linear.default",
}
"""Products of a matrix and another one, or a vector."""
RESIZES = {
    f"aten.{name}{kind}"
    for name in (
        *(f"{exact}nearest{exactly}{d}d" for exact, exactly in (("upsample_", ""), ("_upsample_", "_exact")) for d in (1, 2, 3)),
        "upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d",
        "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa",
    )
    for kind in (".default", ".vec")
}  # fmt: skip
"""Interpolations to another resolution."""
SAMPLERS = set(aten("grid_sampler", "grid_sampler_2d", "grid_sampler_3d"))
"""Interpolations at the places of a grid."""
# linear in all data-dependent operands together
_LINEAR = {CONVOLUTION, DENSE, SCALE, "getitem"} | {
    f"aten.{name}" for name in (
        "add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar", "rsub.Scalar", "rsub.Tensor", "neg.default",
        "view.default", "_unsafe_view.default", "reshape.default", "flatten.using_ints", "unflatten.int", "unsqueeze.default",
        "squeeze.default", "squeeze.dim", "squeeze.dims", "view_as.default", "reshape_as.default",
        "permute.default", "transpose.int", "t.default", "movedim.int", "movedim.intlist", "swapaxes.default", "swapdims.default",
        "cat.default", "stack.default", "slice.Tensor", "select.int", "narrow.default", "index_select.default",
        "split.Tensor", "split_with_sizes.default", "chunk.default", "unbind.int", "tensor_split.sections",
        "mean.default", "mean.dim", "sum.default", "sum.dim_IntList", "cumsum.default",
        "avg_pool1d.default", "avg_pool2d.default", "avg_pool3d.default",
        "adaptive_avg_pool1d.default", "adaptive_avg_pool2d.default", "adaptive_avg_pool3d.default",
        "pixel_shuffle.default", "pixel_unshuffle.default", "channel_shuffle.default", "roll.default", "flip.default",
        "constant_pad_nd.default", "pad.default", "reflection_pad1d.default", "reflection_pad2d.default", "reflection_pad3d.default",
        "replication_pad1d.default", "replication_pad2d.default", "replication_pad3d.default",
        "expand.default", "repeat.default", "tile.default", "repeat_interleave.self_int", "repeat_interleave.self_Tensor",
        "unfold.default", "im2col.default", "col2im.default", "index.Tensor", "gather.default", "take_along_dim.default",
        "diagonal.default", "diag_embed.default", "tril.default", "triu.default",
        "rot90.default", "fft_fftshift.default", "fft_ifftshift.default",
        "hstack.default", "vstack.default", "slice_scatter.default", "select_scatter.default", "diagonal_scatter.default",
        "scatter.src", "scatter.value", "scatter_add.default", "index_add.default", "masked_scatter.default", "index_put.default",
        "lerp.Scalar",
    )
} | RESIZES  # fmt: skip
# linear in the operands that are named, where the others are constant
_LINEAR_IN = {
    "aten.where.self": {"self", "other"},
    "aten.masked_fill.Tensor": {"self", "value"},
    "aten.addcdiv.default": {"self", "tensor1"},
}


def is_linear(node: Node) -> bool:
    """Whether the differences of a node's outputs are a linear map of those of its data-dependent operands.

    Biases and other constants among the operands shift values, not differences.
    """
    node, refs = canonical(node), node.refs
    if not refs or not all(o.dtype.is_floating_point for o in node.outputs):
        return False
    if not all(ref.info.dtype.is_floating_point for ref in refs):
        return False
    if node.op in _LINEAR or returns_its_operand(node):
        return not node.get("sparse_grad")
    if node.op == "aten.addcmul.default":
        return _reads_only(node, {"self", "tensor1"}) or _reads_only(node, {"self", "tensor2"})
    if node.op in _LINEAR_IN:
        return _reads_only(node, _LINEAR_IN[node.op])
    if node.op in _PRODUCTS:
        other = node["other"] if isinstance(node["self"], Ref) else node["self"]
        divides_by_data = node.op.startswith("aten.div") and isinstance(node["other"], Ref)
        return len(refs) == 1 and not divides_by_data and node.get("rounding_mode") is None and _is_finite(other)
    return node.op in MATRIX_PRODUCTS and len(refs) == 1


def _reads_only(node: Node, keys: set[str]) -> bool:
    """Whether all data-dependent operands are among these arguments, and all constants are finite."""
    rest = tuple(argument for key, argument in node.arguments.items() if key not in keys)
    numbers = [argument for argument in node.arguments.values() if isinstance(argument, float)]
    constants = parts(tuple(node.arguments.values()), Constant)
    return not list(parts(rest, Ref)) and all(map(_is_finite, (*numbers, *constants)))


def _is_finite(value: object) -> bool:
    if isinstance(value, Constant):
        return not value.value.is_complex() and bool(torch.isfinite(value.value).all())
    return isinstance(value, int | float) and math.isfinite(value)


def is_affine(node: Node) -> bool:
    """Whether the output is an affine function of the data-dependent operands together, as the network computes it."""
    if len(node.refs) == 1 and isinstance(node.get("input"), Ref):
        if node.op in CONVOLUTIONS:
            return all(ref.info.dtype.is_floating_point for ref in node.refs)
        if node.op in BATCH_NORMS:
            return not node.get("training") and len(node.outputs) == 1
    if node.op in SAMPLERS:
        return _reads_only(node, {"input"}) and node.output.dtype.is_floating_point
    if node.op == "aten.einsum.default":
        return len(node.refs) == 1 and node.output.dtype.is_floating_point
    return is_linear(node)
