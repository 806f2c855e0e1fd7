"""Conformance cases of functions whose gradient is bounded: of two tensors, of distances, of running and singular values."""

import torch

from tests.nodes import data
from tests.rules.ops.cases import case, unbounded, unsupported

F64 = torch.float64
ROW = torch.tensor([0.5, -1.0, 2.0], dtype=F64)
GENERATOR = torch.Generator().manual_seed(0)
POINTS = torch.randn(4, 3, dtype=F64, generator=GENERATOR)

for name in ("hypot", "logaddexp", "logaddexp2"):
    case(name, data(2, 3), data(2, 3))
    case(name, data(2, 3), data(3))
    case(name, data(3), ROW)
    case(name, ROW, data(2, 3))
unbounded("atan2", data(2, 3), data(2, 3))
unbounded("atan2", data(3), ROW, witness=None)

# rows far behind each other, seen from the others
FAR = torch.tensor([[1e3, 0.0, 0.0], [2e3, 0.0, 0.0], [3e3, 0.0, 0.0], [5e3, 0.0, 0.0]], dtype=F64)


def distances(x: torch.Tensor, y: torch.Tensor, order: float) -> torch.Tensor:
    """Written out: at ties torch's own derivative of the distance of infinite order is none."""
    return torch.linalg.vector_norm(x.unsqueeze(-2) - y.unsqueeze(-3), order, -1)


def pairs(x: torch.Tensor, order: float) -> torch.Tensor:
    return distances(x, x, order)[*torch.triu_indices(len(x), len(x), 1)]


for order in (2.0, 3.0, torch.inf):
    for rule_name in ("cdist", "_cdist_forward"):
        case(rule_name, data(2, 3), FAR, order, None, formula=lambda x, p=order: distances(x, FAR, p))
        case(
            rule_name, data(1, 5, 3), data(1, 4, 3), order, 2, exact=False,
            formula=lambda x, y, p=order: distances(x, y, p),
        )  # fmt: skip
    for rule_name in ("pdist", "_pdist_forward"):
        case(rule_name, data(4, 3), order, formula=lambda x, p=order: pairs(x, p))
case("cdist", data(2, 3), FAR * 0 + FAR[:, :1], 1.0)
case("cdist", data(2, 1, 5, 3), data(3, 4, 3), 1.5, exact=False)
case("cdist", data(5, 3), data(4, 3), exact=False, compute_mode=1)
case("pdist", data(4, 3), 1.0)
case("pdist", data(1, 3))
unsupported("cdist", data(2, 3), FAR, 0.5)
unsupported("pdist", data(4, 3), 0.0)
unsupported("_pdist_forward", data(4, 3), 0.0)

for name in ("cummax", "cummin", "logcumsumexp"):
    case(name, data(2, 4), -1)
    case(name, data(4, 2), 0)
case("logcumsumexp", data(1, 1, 1), 1)

for shape in ((3, 2), (2, 2, 4), (1, 1)):
    case("linalg_svdvals", data(*shape), scales=(1.0, 1e3))
    case("nuclear_norm", data(*shape[-2:]), keepdim=True, scales=(1.0, 1e3), exact=False)
    case("aten.linalg_matrix_norm.default", data(*shape), 2, scales=(1.0, 1e3))
# the driver is for GPUs
case("linalg_svdvals", data(3, 2), driver="gesvd", function=torch.linalg.svdvals)
case("aten.nuclear_norm.dim", data(2, 3, 4), [1, 2], scales=(1.0, 1e3), exact=False)
case("aten.nuclear_norm.dim", data(2, 3, 4), [0, 2], True, scales=(1.0, 1e3), exact=False)
case("aten.linalg_matrix_norm.str_ord", data(2, 3, 4), "nuc", [0, 2], True, dtype=F64, scales=(1.0, 1e3), exact=False)
case("aten.linalg_matrix_norm.str_ord", data(2, 3, 4))
for order in (-2, 1, -1, torch.inf, -torch.inf):
    case("aten.linalg_matrix_norm.default", data(3, 2, 4), order, [0, 2], True, dtype=F64, scales=(1.0, 1e3))
for upper_or_lower in "LU":
    case("linalg_eigvalsh", data(3, 3), upper_or_lower, scales=(1.0, 1e3))
case("linalg_eigvalsh", data(2, 1, 1))
