"""Conformance cases of data movement: reordering, repeating, joining."""

import torch

from lipaudit.graph.node import Node, Ref, TensorInfo
from lipaudit.graph.passes.max_min_pairs import ORDERED_PAIRS, OrderedPairs
from lipaudit.graph.passes.sector_pairs import SECTOR_PAIRS, SectorPairs
from tests.nodes import data
from tests.rules.ops.cases import case, unbounded, unsupported

X = data(1, 4, 6)
IMAGE = data(1, 4, 4, 6)
F64 = torch.float64


def long(*values: int) -> torch.Tensor:
    return torch.tensor(values)


case("view", X, [1, 24])
case("_unsafe_view", X, [24])
case("view_copy", X, [1, 24])
case("reshape", X, [2, 12])
case("aten.flatten.using_ints", X, 1)
case("aten.unflatten.int", X, 2, [2, 3])
case("ravel", X)
for name in ("contiguous", "clone", "alias", "detach", "lift_fresh", "lift_fresh_copy", "squeeze"):
    case(name, X, **({"exact": False, "scales": ()} if name == "detach" else {}))
case("detach_", X, function=lambda x: x)
case("_reshape_alias", X, [1, 24], [24, 1])
case("_reshape_alias", X, [2, 12], [12, 1])
case("aten.squeeze.dim", X, 0)
case("aten.squeeze.dims", X, [0])
case("unsqueeze", X, 1)
case("permute", X, [2, 0, 1])
case("aten.transpose.int", X, 1, 2)
for name in ("t", "numpy_T", "mT"):
    case(name, data(3, 4))
for name in ("movedim", "moveaxis"):
    case(f"aten.{name}.intlist", X, [0], [2])
    case(f"aten.{name}.int", X, 0, 2)
case("swapaxes", X, 1, 2)
case("swapdims", X, 1, 2)
case("flip", X, [1])
case("fliplr", X)
case("flipud", X)
case("rot90", X, 1, [1, 2])
case("roll", X, [2], [1])
case("pixel_shuffle", IMAGE, 2)
case("pixel_unshuffle", IMAGE, 2)
case("channel_shuffle", IMAGE, 2)
case("native_channel_shuffle", IMAGE, 2, formula=lambda x: torch.channel_shuffle(x, 2))
case("atleast_1d", X)
case("aten.unbind.int", X, 1)
case("aten.split.Tensor", X, 2, 2)
case("aten.split.sizes", X, [2, 4], 2)
case("split_with_sizes", X, [2, 4], 2)
case("aten.unsafe_split.Tensor", X, 2, 2)
case("unsafe_split_with_sizes", X, [2, 4], 2)
case("chunk", X, 3, 2)
case("unsafe_chunk", X, 3, 2)
case("aten.tensor_split.sections", X, 3, 2)
case("aten.tensor_split.indices", X, [1, 4], 2)

case("aten.slice.Tensor", X, 2, 1, 9223372036854775807, 2)
case("aten.select.int", X, 1, 2)
case("narrow", X, 2, 1, 3)
case("diagonal", X, 0, 1, 2)
case("diag_embed", data(1, 4))
case("tril", X)
case("triu", X, 1)
case("constant_pad_nd", X, [1, 2, -1, 0], 3.0)
case("view_as", X, data(1, 24))
case("view_as", X, torch.zeros(1, 24, dtype=F64))
case("reshape_as", X, data(2, 12))

for name in ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout", "native_dropout"):
    case(name, X, 0.5, False)
    unsupported(name, X, 0.5, True)
case("aten.to.dtype", X, torch.float64)
case("aten.to.dtype_layout", X, dtype=torch.float64)
case("aten.to.device", X, torch.device("cpu"), torch.float64)
case("aten.to.other", X, data(3))
case("aten.to.other", X, torch.zeros(2, dtype=F64))
case("_to_copy", X, dtype=torch.float64)
case("type_as", X, data(3))
case("aten.to.dtype", X, torch.float32, scales=(), exact=False)
unbounded("aten.to.dtype", X, torch.int32, witness=(1 - 1e-9, 1.0))
unbounded("_to_copy", X, dtype=torch.bool, witness=(0.0, 1e-9))
unbounded("type_as", X, torch.zeros(2, dtype=torch.int64))
case("getitem", self=X, index=0, function=lambda x: x)
unbounded("getitem", self=X, index=1, function=lambda x: x.argsort(1))
for name in ("zeros_like", "ones_like"):
    case(name, X)
case("empty_like", X, function=torch.zeros_like)
case("full_like", X, 2.0)
case("aten.fill.Scalar", X, 2.0)
case("new_zeros", X, [3])
case("new_ones", X, [3])
case("new_full", X, [3], 2.0)
case("new_empty", X, [3], function=lambda x: x.new_zeros(3))

case("expand", data(1, 1, 3), [2, 4, 3])
case("expand", data(1, 3), [5, 1, 3])
case("broadcast_to", data(1, 1, 3), [1, 4, 3])
case("expand_as", data(1, 1, 3), data(1, 4, 3))
case("repeat", data(1, 2, 3), [2, 1, 3])
case("tile", data(1, 2, 3), [2, 2])
case("aten.repeat_interleave.self_int", data(1, 2, 3), 3, 1)
case("aten.repeat_interleave.self_int", data(1, 2, 3), 2)
case("aten.repeat_interleave.self_Tensor", data(1, 2, 3), long(1, 4), 1)
case("aten.repeat_interleave.self_Tensor", data(1, 2, 3), long(3), 1)
unsupported("aten.repeat_interleave.self_Tensor", data(1, 2), data(2, dtype=torch.int64), 1)

for kind in ("reflection", "replication"):
    case(f"{kind}_pad1d", data(1, 2, 4), [3, 2])
    case(f"{kind}_pad2d", data(1, 1, 4, 3), [2, 1, 3, 0])
    case(f"{kind}_pad3d", data(1, 1, 3, 3, 2), [1, 0, 2, 1, 1, 2])
for mode in ("constant", "reflect", "replicate", "circular"):
    case("pad", data(1, 1, 4, 3), [2, 1, 3, 0], mode)
    case("pad", data(1, 2, 4), [3, 2], mode)
case("pad", data(1, 4), [2, 1], "constant", 1.0)
case("unfold", data(1, 7, 2), 1, 3, 1)
case("unfold", data(1, 7), -1, 3, 2)
case("unfold", data(1, 8, 2), 1, 2, 2)
for k, d, p, s in ((3, 1, 1, 2), (2, 1, 0, 2), (2, 2, 1, 1), (3, 1, 0, 1)):
    case("im2col", data(1, 2, 5, 4), [k, 2], [d, 1], [p, 0], [s, 1])
    columns = ((5 + 2 * p - d * (k - 1) - 1) // s + 1) * 3
    case("col2im", data(1, 2 * k * 2, columns), [5, 4], [k, 2], [d, 1], [p, 0], [s, 1])

case("aten.index.Tensor", X, [None, long(0, 2, 2, 2), None])
case("aten.index.Tensor", X, [None, long(0, 2, 2), long(1, 1, 1)])
case("aten.index.Tensor", X, [None, long(0, 1)[:, None], long(1, 1, 5)])
case("aten.index.Tensor", X, [None, torch.tensor([True, False, True, True])])
case("aten.index.Tensor", X, [None, torch.ones(4, 6, dtype=torch.bool).tril()])
unsupported("aten.index.Tensor", X, [None, data(2, dtype=torch.int64)])
case("index_select", X, 2, long(1, 1, 5))
unsupported("index_select", X, 2, data(2, dtype=torch.int64))
case("gather", X, 2, torch.tensor([0, 0, 1, 3]).expand(1, 4, 4).contiguous())
case("take_along_dim", X, torch.tensor([0, 0, 0, 3]).expand(1, 4, 4).contiguous(), 2)

for name in ("cat", "concat", "concatenate", "hstack", "vstack"):
    case(name, [data(1, 3), data(1, 3)])
case("cat", [data(1, 3), torch.ones(1, 2, dtype=F64), data(1, 1)], 1)
case("stack", [data(1, 3), data(1, 3), data(1, 3)], 1)
case("aten.slice_scatter.default", X, data(1, 2, 6), 1, 1, 3)
case("aten.slice_scatter.default", X, data(1, 4, 6), 1)
case("aten.slice_scatter.default", torch.ones(1, 4, 6, dtype=F64), data(1, 2, 6), 1, 1, 3)
case("select_scatter", X, data(1, 6), 1, 2)
case("diagonal_scatter", X, data(1, 4), 0, 1, 2)
case("copy", X, data(4, 1), formula=lambda x, y: 0 * x + y)
case("copy", torch.zeros(1, 4, 6, dtype=F64), data(6), formula=lambda y: y.expand(1, 4, 6))
unbounded("copy", torch.zeros(1, 3, dtype=torch.int64), data(1, 3), witness=(1 - 1e-9, 1.0))
case("index_put", X, [None, long(0, 2)], data(1, 2, 6))
case("index_put", X, [None, long(0, 2)], data(1, 1, 6))
case("aten.scatter.src", X, 2, torch.zeros(1, 4, 1, dtype=torch.int64), data(1, 4, 1))
case("aten.scatter.value", X, 2, torch.zeros(1, 4, 1, dtype=torch.int64), 3.0)
unsupported("aten.scatter.value", X, 2, data(1, 4, 1, dtype=torch.int64), 3.0)
case("masked_scatter", data(1, 4), torch.tensor([[True, False, True, False]]), data(2))

CONDITION = torch.tensor([[True, False, True], [False, False, True]])
case("aten.where.self", CONDITION, data(1, 3), data(2, 1))
case("aten.where.self", CONDITION, data(2, 3), torch.zeros(3, dtype=F64))
case("aten.where.self", torch.ones(1, 3, dtype=torch.bool), data(1, 3), data(1, 3))
unbounded("aten.where.self", data(2, 3, dtype=torch.bool), data(2, 3), data(2, 3))
case("aten.where.ScalarOther", CONDITION, data(1, 3), 2.0)
case("aten.where.ScalarSelf", CONDITION, 2.0, data(1, 3))
case("aten.masked_fill.Scalar", data(1, 3), CONDITION, 2.0)
case("aten.masked_fill.Scalar", data(1, 3), torch.ones(3, dtype=torch.bool), 2.0)
case("aten.masked_fill.Tensor", data(2, 3), CONDITION, data())
unbounded("aten.masked_fill.Scalar", data(2, 3), data(2, 3, dtype=torch.bool), 2.0)
for name in ("aten.maximum.default", "aten.minimum.default", "aten.max.other", "aten.min.other", "fmax", "fmin"):
    case(name, data(2, 3), data(2, 3))
    case(name, data(1, 3), torch.zeros(2, 3, dtype=F64) - 9, scales=(1.0,))
    case(name, data(1, 3), data(2, 1))
LIMIT = torch.zeros(2, 3, dtype=F64)
case("aten.clamp.Tensor", data(2, 3), LIMIT - 1, LIMIT + 1)
case("aten.clamp.Tensor", data(2, 3), data(3), data(2, 1))
case("aten.clamp_min.Tensor", data(2, 3), LIMIT - 1)
case("aten.clamp_max.Tensor", data(2, 3), data())
for shape, axis, sizes, pairs in (
    ((1, 4, 6), 1, (2, 2), ((0, 1),)), ((1, 4, 6), 2, (1, 2, 1, 2), ((3, 1), (0, 2))), ((2, 3), 0, (1, 1), ((1, 0),)),
):  # fmt: skip
    ordered = OrderedPairs(axis, sizes, pairs)
    case(ORDERED_PAIRS, self=data(*shape), payload=ordered, function=ordered.evaluate)
HALF = TensorInfo((1, 2, 6), F64)
SIDES = tuple(
    Node(name, f"aten.{name}.default", {"self": Ref(read, HALF)}, (HALF,))
    for name, read in (("relu", "x"), ("abs", "y"))
)
sides = SectorPairs(1, False, ("x", "y"), ("relu", "abs"), SIDES, 1.0, (1.0, 1.0), 0.0)
case(SECTOR_PAIRS, self=X, payload=sides, function=sides.evaluate)
