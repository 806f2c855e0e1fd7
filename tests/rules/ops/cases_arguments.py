"""Conformance cases that move the arguments which other cases leave at their default, or always give the same value."""

from __future__ import annotations

import torch

from tests.nodes import data
from tests.rules.ops.cases import case, unbounded, unsupported

X = data(1, 4, 6)
LINE = data(1, 7)
IMAGE = data(1, 4, 4, 6)
F64 = torch.float64
CPU = torch.device("cpu")
G = torch.Generator().manual_seed(11)


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=G, dtype=F64)


# memory: where a tensor lies changes none of its values; pinning needs a GPU, so that the operation is replaced
for layout in (torch.channels_last, torch.contiguous_format):
    case("contiguous", IMAGE, memory_format=layout)
    case("clone", IMAGE, memory_format=layout)
for name, args in (
    ("aten.to.dtype", (F64,)),
    ("aten.to.device", (CPU, F64)),
    ("aten.to.device", (torch.device("cpu", 0), torch.complex128)),
    ("aten.to.other", (data(2),)),
):
    case(name, IMAGE, *args, True, True, torch.channels_last)
PLACE = {"dtype": F64, "layout": torch.strided, "device": CPU, "pin_memory": True}
case(
    "aten.to.dtype_layout",
    IMAGE,
    **PLACE,
    non_blocking=True,
    copy=True,
    memory_format=torch.channels_last,
    function=lambda x: x,
)
case("_to_copy", IMAGE, **PLACE, non_blocking=True, memory_format=torch.channels_last, function=lambda x: x)
for name, args, value in (
    ("zeros_like", (), 0),
    ("ones_like", (), 1),
    ("full_like", (-3.0,), -3),
    ("empty_like", (), 0),
):
    case(
        name, IMAGE, *args, **PLACE, memory_format=torch.channels_last,
        function=lambda x, value=value: torch.full_like(x, value),
    )  # fmt: skip
for name, args, value in (
    ("new_zeros", ([2, 2],), 0),
    ("new_ones", ([2, 2],), 1),
    ("new_full", ([2, 2], -3), -3),
    ("new_empty", ([2],), 0),
):
    case(name, X, *args, **PLACE, function=lambda x, value=value: x.new_full((2, 2), value))
case("aten.fill.Scalar", X, -1)
case("copy", torch.zeros(2, 3, dtype=F64), data(3), True, formula=lambda y: y.expand(2, 3))

# movement
case("_unsafe_view", X, [2, -1])
case("view_copy", X, [4, 6])
case("reshape", X, [-1, 3])
case("aten.flatten.using_ints", X, 0, 1)
case("aten.unflatten.int", X, 1, [2, -1])
case("aten.squeeze.dim", data(3, 1, 2), 1)
case("aten.squeeze.dims", data(1, 3, 1), [0, 2])
case("unsqueeze", X, -1)
case("permute", X, [0, -1, 1])
for name in ("aten.transpose.int", "swapaxes", "swapdims"):
    case(name, X, 0, -1)
for name in ("movedim", "moveaxis"):
    case(f"aten.{name}.intlist", X, [0, 2], [1, 0])
    case(f"aten.{name}.int", X, -1, 1)
case("flip", X, [0, -1])
for k in (-1, 2, 4):
    case("rot90", X, k, [0, 2])
case("roll", X, [5])
case("roll", X, [1, -2], [2, 1])
case("pixel_shuffle", data(2, 9, 1, 2), 3)
case("pixel_unshuffle", data(1, 1, 3, 6), 3)
case("channel_shuffle", IMAGE, 4)
case("native_channel_shuffle", IMAGE, 4, formula=lambda x: torch.channel_shuffle(x, 4))
for name in ("aten.split.Tensor", "aten.unsafe_split.Tensor"):
    case(name, X, 4, -1)
for name in ("aten.split.sizes", "split_with_sizes", "unsafe_split_with_sizes"):
    case(name, X, [1, 3], 1)
for name in ("chunk", "unsafe_chunk"):
    case(name, X, 4, 2)
case("aten.tensor_split.sections", X, 4, 2)
case("aten.tensor_split.indices", X, [2], 1)
case("aten.select.int", X, -1, 0)
case("narrow", X, 1, 2, 2)
case("diagonal", X, 1, -2, -1)
case("diagonal", X, -2, 1, 2)
case("diag_embed", data(2, 3), 1, 0, 2)
case("diag_embed", data(2, 3), -2)
case("tril", X, -1)
case("fft_fftshift", X, [1])
for name in ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout", "native_dropout"):
    case(name, X, 0.1, False)
case("nan_to_num", LINE, 1.0, 2.0, -2.0)

# repetition
case("expand", data(1, 1, 3), [2, -1, 3], implicit=True)
case("broadcast_to", data(3), [2, 3])
case("repeat", data(1, 3), [2, 1, 2])
case("tile", data(1, 2, 3), [3])
case("aten.repeat_interleave.self_int", data(1, 2, 3), 2, -1, output_size=6)
case("aten.repeat_interleave.self_Tensor", data(1, 2, 3), torch.tensor([1, 0, 2]), 2, output_size=3)
case("aten.repeat_interleave.self_Tensor", data(1, 3), torch.tensor([1, 0, 2]))
for kind in ("reflection", "replication"):
    case(f"{kind}_pad1d", data(2, 4), [0, 3])
    case(f"{kind}_pad2d", data(2, 4, 3), [0, 2, 1, 1])
    case(f"{kind}_pad3d", data(1, 1, 2, 3, 2), [1, 1, 0, 2, 1, 0])
case("col2im", data(1, 4, 6), [3, 4], [2, 2], [1, 1], [0, 0], [1, 1])
case("index_select", X, 1, torch.tensor([3, 0, 3, 3, 1]))
PICKED = torch.tensor([[[0, 1], [0, 1], [2, 1]]])
case("gather", X, 1, PICKED, sparse_grad=True, formula=lambda x: x.gather(1, PICKED))

# joining
case("concat", [data(1, 3), data(2, 3)], -2)
case("concat", [data(1, 3), data(1, 2)], 1)
case("concatenate", [data(1, 3), data(1, 2)], 1)
case("slice_scatter", X, data(1, 4, 2), 2, 1, 5, 2)
case("select_scatter", X, data(1, 4), 2, -1)
case("diagonal_scatter", X, data(1, 4), 1, 1, 2)
case("aten.scatter.src", X, 1, torch.tensor([[[3, 1, 0, 0, 2, 2]]]), data(1, 1, 6))
case("aten.scatter.value", X, 1, torch.tensor([[[3, 1, 0]]]), -1.0)
MASK = torch.tensor([[True, False, True], [False, False, True]])
case("aten.where.ScalarOther", MASK, data(2, 3), -1)
case("aten.where.ScalarSelf", MASK, 0.0, data(2, 1))
case("aten.masked_fill.Scalar", data(2, 3), MASK, -1e9, scales=(1.0,))

# element-wise functions
case("clamp_min", LINE, -1, at=(0.1, 1.0))
case("clamp_max", LINE, -1, at=(0.1, -2.0))
case("threshold", LINE, -1.0, -1.0, at=(1.0, -2.0))
unbounded("threshold", LINE, -1.0, 0.0, witness=(-1.0, -1.0 + 1e-9))
case("rrelu", LINE, 0.1, 0.3, False, torch.Generator(), at=(1.0, -1.0))
for name in ("sub", "rsub"):
    case(f"aten.{name}.Scalar", data(2, 3), -1, 0.5)
unbounded("aten.div.Scalar_mode", data(2, 3), -0.5, rounding_mode="floor")
unbounded("aten.pow.Scalar", 0.5, LINE, witness=(-20.0, -21.0))
for name in ("eq", "ne", "not_equal", "lt", "less", "le", "less_equal", "gt", "greater", "ge", "greater_equal"):
    outside = -1e-9 if name in ("lt", "less", "ge", "greater_equal") else 1e-9
    unbounded(f"aten.{name}.Scalar", LINE, 2.0, witness=(2.0, 2.0 + outside))
for name in ("remainder", "fmod"):
    unbounded(f"aten.{name}.Scalar", LINE, -3.0, witness=(3 - 1e-9, 3 + 1e-9))
unbounded("aten.floor_divide.Scalar", LINE, -3.0, witness=(3 - 1e-9, 3 + 1e-9))
unbounded("aten.round.decimals", LINE, decimals=-1, witness=(5 - 1e-9, 5 + 1e-9))

# reductions
case("mean", data(1, 2, 5), dtype=F64)
case("aten.mean.dim", data(1, 2, 5), [1], dtype=F64)
case("aten.sum.dim_IntList", data(1, 2, 5), [1], dtype=F64)
unbounded("aten.sum.dim_IntList", data(1, 2, 5), [1], dtype=torch.int64)
for name in ("amax", "amin"):
    case(name, data(1, 2, 5), [1, 2], True)
case("aminmax", data(1, 2, 5), dim=2, keepdim=True)
for name in ("aten.max.dim", "aten.min.dim", "aten.median.dim"):
    case(name, data(1, 3, 4), -1, True)
for largest in (True, False):
    case("topk", data(1, 5, 2), 2, 1, largest)
    case("topk", data(1, 5), 1, 1, largest, False)
    unbounded("topk", data(1, 5, 2), 2, 1, largest, False)
case("sort", data(1, 3, 4), 1, True)
for stable in (False, None):
    case("aten.sort.stable", data(1, 3, 4), stable=stable, dim=1, descending=True)
case("kthvalue", data(1, 5), 5, 1, True)
for order in (1, 2.5):
    case("linalg_vector_norm", data(1, 2, 5), order, [1, 2], True, dtype=F64)
    case("aten.norm.ScalarOpt_dim", data(1, 2, 5), order, [1], True)
case("aten.std.dim", data(1, 2, 5), [1, 2], True, True)
case("aten.std.correction", data(1, 2, 5), [1], correction=-1, keepdim=True)
for name in ("var", "var_mean"):
    unbounded(name, LINE, False)
    unbounded(f"aten.{name}.dim", data(2, 3, 4), [1, 2], False, True)
unbounded("aten.var_mean.correction", data(2, 3, 4), [1], correction=-1, keepdim=True)
for name in ("argmax", "argmin"):
    unbounded(name, data(1, 2, 3), 2, True)
unbounded("argsort", LINE, 0, True)
unbounded("aten.argsort.stable", LINE, stable=False, dim=1, descending=True)
unbounded("prod", LINE, dtype=F64, witness=(20.0, 21.0))
unbounded("aten.prod.dim_int", data(1, 5, 1), 1, True, dtype=F64, witness=(20.0, 21.0))
unbounded("aten.prod.dim_int", data(1, 5), -1, True)
unbounded("cumprod", data(1, 5, 1), 1, dtype=F64, witness=(20.0, 21.0))
unbounded("cumprod", data(1, 5), -1)
case("aten.log_softmax.int", data(1, 4), 1, F64)
# half_to_float, from float16 to float32, is for GPUs
case("_softmax", data(1, 4), 1, True, function=lambda x: x.softmax(1))
case("_log_softmax", data(1, 4), 1, True, function=lambda x: x.log_softmax(1))
case("_fft_c2c", data(2, 3, 4, dtype=torch.complex128), [0], 1, True)
case("_fft_c2r", data(2, 3, 4, dtype=torch.complex128), [2], 1, 6)
case("fft_ifft2", X, [3, 5], [2, 1])

# normalisation
WEIGHT, BIAS, MEAN, VAR = random(4), random(4), random(4), random(4).abs() + 0.1
STATISTICS = (WEIGHT, BIAS, MEAN, VAR)
for training, momentum, epsilon in ((False, 0.5, 0.2), (True, 0.1, 1e-3)):
    register = unsupported if training else case
    register("batch_norm", X, *STATISTICS, training, momentum, epsilon, True)
    register("native_batch_norm", X, *STATISTICS, training, momentum, epsilon)
    register("_native_batch_norm_legit", X, *STATISTICS, training, momentum, epsilon)
    register(
        "cudnn_batch_norm",
        X,
        *STATISTICS,
        training,
        momentum,
        epsilon,
        function=lambda x: torch.nn.functional.batch_norm(x, MEAN, VAR, WEIGHT, BIAS, eps=0.2),
    )
case("_native_batch_norm_legit_no_training", X, *STATISTICS, 0.5, 0.2)
case("_batch_norm_no_update", X, *STATISTICS, 0.5, 0.2)
case("layer_norm", data(1, 3, 4), [4], None, None, 0.3, False, exact=True)
case("native_layer_norm", data(2, 2, 3), [2, 3], random(2, 3), None, 0.3)
case("group_norm", X, 4, None, None, 0.3, False, exact=True)
case("native_group_norm", data(2, 6, 2), random(6), None, 2, 6, 2, 3, 0.3)
case("instance_norm", X, None, None, None, None, True, 0.5, 0.3, True, exact=True)


def _fused(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    size = (x.square().mean((-2, -1), keepdim=True) + 0.3).rsqrt()
    return x * size, size


case("_fused_rms_norm", data(1, 2, 3), [2, 3], None, 0.3, formula=_fused)

# pooling and resizing
for suffix in ("", "_with_indices"):
    case(f"max_pool3d{suffix}", data(1, 1, 5, 3, 3), [2, 2, 2], [1, 1, 1], [1, 0, 0], [2, 1, 2])
case("adaptive_max_pool3d", data(1, 1, 2, 3, 3), [1, 3, 2])
case("avg_pool3d", data(1, 1, 3, 2, 2), [2, 2, 1], [1, 1, 1], [0, 1, 0], False, True, -5)
for name in ("adaptive_avg_pool3d", "_adaptive_avg_pool3d"):
    case(name, data(1, 1, 2, 3, 3), [1, 2, 2])
for name in ("upsample_nearest", "_upsample_nearest_exact", "upsample_bilinear", "upsample_bicubic"):
    corners = () if "nearest" in name else (False,)
    case(f"{name}2d", data(1, 1, 5, 4), [9, 7], *corners, 1.8, 1.9)
for name in ("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"):
    case(name, data(1, 1, 5, 4), [9, 3], False, 1.8, 0.8)
for name in ("upsample_nearest3d", "_upsample_nearest_exact3d", "upsample_trilinear3d"):
    corners = () if "nearest" in name else (False,)
    case(name, data(1, 1, 2, 3, 2), [3, 4, 3], *corners, 1.7, 1.5, 1.9)
    case(f"aten.{name}.vec", data(1, 1, 2, 3, 2), None, *corners, [1.7, 1.5, 1.9])

# linear maps
case("conv1d", data(1, 4, 7), random(2, 2, 3), random(2), [1], [1], [2], 2)
case("conv3d", data(1, 4, 3, 3, 3), random(2, 2, 2, 2, 1), random(2), [1, 1, 1], [0, 1, 0], [1, 2, 1], 2)
for d in (1, 2, 3):
    x, kernel = data(1, 2, *(4, 3, 3)[:d]), random(2, 1, *(3, 3, 1)[:d])
    case(f"aten.conv{d}d.padding", x, kernel, random(2), [2] * d, "valid", [1] * d, 2)
    case(f"aten.conv{d}d.padding", x, kernel, random(2), [1] * d, "same", [2] * d, 2)
case("conv_transpose1d", data(1, 2, 3), random(2, 2, 3), random(4), [2], [1], [1], 2, [2])
case("aten.conv_transpose2d.input", data(1, 2, 2, 2), random(2, 1, 2, 3), random(2), [1, 2], [1, 1], [0, 1], 2, [2, 1])
case(
    "aten.conv_transpose3d.input",
    data(1, 2, 2, 2, 1),
    random(2, 1, 2, 2, 2),
    random(2),
    [2, 1, 1],
    [1, 0, 0],
    [1, 0, 0],
    2,
    [1, 2, 1],
)
case("convolution", data(1, 2, 6), random(2, 1, 2), None, [1], [0], [2], False, [0], 2)
unbounded("baddbmm", data(2, 2, 4), data(2, 2, 3), data(2, 3, 4), beta=-0.5, alpha=3.0)
case("einsum", "bij,jk->bik", [data(1, 2, 3), random(3, 4)], path=[0, 1])
