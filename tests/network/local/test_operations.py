"""Operations whose derivatives move: no input of a ball has a larger Jacobian, and small balls have the norm at the centre."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

import lipaudit

X = torch.Tensor


class Around(nn.Module):
    """A dense layer, a function of its 12 entries, and a dense layer behind."""

    def __init__(self, function: Callable[[X], X]) -> None:
        super().__init__()
        self.function = function
        self.first = nn.Linear(5, 12)
        width = function(torch.rand(1, 12)).shape[-1]
        self.last = nn.Linear(width, 3)

    def forward(self, x: X) -> X:
        out: X = self.last(self.function(self.first(x)))
        return out


OPERATIONS: dict[str, Callable[[X], X]] = {
    "full sort": lambda h: h.sort(-1).values,
    "group sort": lambda h: h.view(1, 3, 4).sort(-1, descending=True).values.flatten(1),
    "largest": lambda h: h.view(1, 3, 4).max(-1).values,
    "largest over axes": lambda h: h.view(1, 3, 2, 2).amax((2, 3)),
    "topk": lambda h: h.topk(3).values,
    "median": lambda h: h.view(1, 3, 4).median(-1).values,
    "adaptive max pooling": lambda h: functional.adaptive_max_pool1d(h, 5),
    "maxout": lambda h: torch.maximum(h[:, :6], h[:, 6:]),
    "smaller of two": lambda h: torch.minimum(h[:, :6], h[:, 6:]),
    "limit from the data": lambda h: torch.clamp(h, max=h.flip(-1)),
    "norm": lambda h: h.view(1, 3, 4).norm(dim=-1),
    "logsumexp": lambda h: h.view(1, 3, 4).logsumexp(-1),
    "log softmax": lambda h: h.log_softmax(-1),
    "variance": lambda h: h.view(1, 3, 4).var(-1),
    "standard deviation": lambda h: h.view(1, 3, 4).std(-1),
    "l2 pooling, of which no movement is known": lambda h: functional.lp_pool1d(h, 2, 2),
    "quotient": lambda h: h[:, :6] / (1 + h[:, 6:].exp()),
}


def steepest(net: nn.Module, centre: X, radius: float) -> float:
    """The largest norm of the Jacobian at random inputs of a ball, improved by steps at random."""
    generator = torch.Generator().manual_seed(1)
    best, where = 0.0, centre
    for k in range(60):
        away = torch.randn(centre.shape, generator=generator, dtype=torch.float64)
        x = where + 0.2 * radius * away / away.norm() if k % 2 else centre + radius * away / away.norm()
        x = centre + (x - centre) * min(1.0, radius / float((x - centre).norm().clamp_min(1e-300)))
        jacobian = torch.autograd.functional.jacobian(net, x).reshape(3, -1)
        size = float(torch.linalg.matrix_norm(jacobian, 2))
        if size > best:
            best, where = size, x
    return best


@pytest.mark.parametrize("name", OPERATIONS)
def test_balls_hold_every_jacobian_and_tend_to_that_at_the_centre(name: str) -> None:
    torch.manual_seed(3)
    net = Around(OPERATIONS[name]).double().eval()
    centre = torch.randn(1, 5, dtype=torch.float64)
    before = 0.0
    for radius in (1e-6, 0.03, 0.5, 4.0):
        options = {"domain": "ball", "around": centre, "radius": radius}
        bound = lipaudit.audit(net, (1, 5), effort="quick" if radius == 0.03 else "none", **options).network.upper_bound
        reached = steepest(net, centre, radius)
        assert bound is not None
        assert reached <= bound * (1 + 1e-9)
        if radius != 0.03:
            assert before <= bound * (1 + 1e-9)
            before = bound
        if radius == 1e-6 and "no movement" not in name:
            assert bound <= 1.001 * reached
