"""Conformance cases of adding, averaging and picking at constant places."""

import torch

from tests.nodes import data
from tests.rules.ops.cases import case, unbounded, unsupported

F64, LONG = torch.float64, torch.int64
TARGET = torch.zeros(3, 4, dtype=F64)
ROWS = torch.tensor([0, 1, 1, 0, 1])
PLACES = torch.tensor([[0, 1, 1, 2], [0, 1, 0, 2], [0, 1, 1, 0]])
MASK = torch.tensor([[True, False, True], [False, False, True]])

case("scatter_add", TARGET, 0, PLACES, data(3, 4))
case("scatter_add", data(3, 4), -2, PLACES, data(3, 4))
# a part of the source, of which torch has no derivative
case(
    "scatter_add", data(3, 4), 1, PLACES[:2, :3], data(3, 4),
    formula=lambda target, source: target.scatter_add(1, PLACES[:2, :3], source[:2, :3]),
)  # fmt: skip
case(
    "scatter_add",
    data(3),
    0,
    torch.zeros(0, dtype=LONG),
    data(4),
    formula=lambda target, source: target + 0 * source[0],
)
unsupported("scatter_add", data(3, 4), 0, data(3, 4, dtype=LONG), torch.ones(3, 4, dtype=F64))
unbounded("scatter_add", torch.zeros(3, dtype=LONG), 0, torch.zeros(2, dtype=LONG), data(2, dtype=LONG))
for alpha in (1, -2.5, 0):
    case("index_add", TARGET, 0, ROWS, data(5, 4), alpha=alpha)
case("index_add", data(4, 3), -1, ROWS, data(4, 5), alpha=0.5)
case("aten.index_put.default", TARGET, [ROWS, ROWS.flip(0)], data(5), accumulate=True)
case("aten.index_put.default", TARGET, [ROWS], data(5, 4), accumulate=True)
case("aten.index_put.default", data(3, 4), [None, ROWS], data(3, 5), True)
case("aten.index_put.default", data(3, 4), [ROWS], data(4), True, exact=False)  # one row at five places
case("aten.index_put.default", TARGET, [ROWS], data(1), True, exact=False)
case("aten.index_put.default", data(2, 3), [MASK], data(3), True)
for include_self in (True, False):
    for places, source in ((PLACES, (3, 4)), (torch.tensor([[0, 1, 2, 1, 1]]).expand(4, 5).T, (5, 4))):
        for kind in ("sum", "mean", "amax", "amin"):
            for target in (data(3, 4), TARGET):
                case(
                    "aten.scatter_reduce.two", target, 0, places, data(*source), kind, include_self=include_self,
                    scales=(1.0, 1e3),
                )  # fmt: skip
    for kind in ("mean", "amax", "amin"):
        case("index_reduce", data(3, 4), 0, ROWS, data(5, 4), kind, include_self=include_self)
        case("index_reduce", data(4, 2), 1, ROWS, data(4, 5), kind, include_self=include_self)
    unbounded("aten.scatter_reduce.two", TARGET, 0, PLACES, data(3, 4), "prod", include_self=include_self)
case("aten.scatter_reduce.two", data(3, 4), -1, PLACES, data(3, 4), "mean")
unbounded("index_reduce", TARGET, 0, ROWS, data(5, 4), "prod")
unsupported("aten.scatter_reduce.two", TARGET, 0, data(3, 4, dtype=LONG), data(3, 4), "amax")
