"""What stands at the end of a network on a ball: scales and shifts that are folded away elsewhere, constants, and lists of one tensor."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import lipaudit

SCALE = torch.linspace(0.5, 3.0, 12)
STATISTICS = (SCALE, torch.ones(12), torch.zeros(12), SCALE.flip(0))
BATCH_NORMS: dict[str, Callable[[Tensor], tuple[Tensor, ...]]] = {
    "native": lambda h: torch.ops.aten.native_batch_norm(h, *(s.to(h) for s in STATISTICS), False, 0.1, 1e-5),
    "legit": lambda h: torch.ops.aten._native_batch_norm_legit_no_training(
        h, *(s.to(h) for s in STATISTICS), 0.1, 1e-5
    ),
    "no update": lambda h: torch.ops.aten._batch_norm_no_update(h, *(s.to(h) for s in STATISTICS), 0.1, 1e-5),
}
ENDS: dict[str, Callable[[Tensor], Tensor]] = {
    "a scale": lambda h: 5 * h,
    "a scale per entry": lambda h: SCALE.to(h) * h,
    "a small scale": lambda h: 0.2 * h,
    "a batch norm": lambda h: BATCH_NORMS["legit"](h)[0],
    "a scaled view": lambda h: 5 * h.view(1, 3, 4),
    "a scaled and shifted function": lambda h: 5 * h.tanh() + 1,
    "shifted products": lambda h: h.view(1, 3, 4).prod(-1) + 1,
    "scaled products": lambda h: 5 * h.view(1, 3, 4).prod(-1),
    "a list of one tensor": lambda h: h.reshape(1, 1, 12).unbind(1)[0].view(1, 3, 4).prod(-1),
    "what has no entries": lambda h: torch.cat([h[:, 12:].relu(), 2 * h], 1),
    **{
        f"every output of batch norm, {name}": lambda h, norm=norm: torch.cat([part.flatten() for part in norm(h)[:3]])
        for name, norm in BATCH_NORMS.items()
    },
}


class End(nn.Module):
    """Two dense layers and a function of 12 entries."""

    def __init__(self, function: Callable[[Tensor], Tensor | tuple[Tensor, ...]]) -> None:
        super().__init__()
        self.first, self.last, self.function = nn.Linear(4, 6), nn.Linear(6, 12), function

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, ...]:
        return self.function(self.last(self.first(x).tanh()))


def _audited(function: Callable[[Tensor], Tensor | tuple[Tensor, ...]], effort: str) -> tuple[float | None, float]:
    """The bound on a small ball, and the norm of the Jacobian at its centre."""
    torch.manual_seed(4)
    net = End(function).double().eval()
    centre = torch.randn(1, 4, dtype=torch.float64)
    network = lipaudit.audit(net, (1, 4), domain="ball", around=centre, radius=1e-6, effort=effort).network
    jacobians = torch.autograd.functional.jacobian(net, centre)
    parts = jacobians if isinstance(jacobians, tuple) else (jacobians,)
    together = torch.cat([part.reshape(-1, 4) for part in parts])
    return network.upper_bound, float(torch.linalg.matrix_norm(together, 2))


@pytest.mark.parametrize(
    ("name", "effort"),
    [
        *((name, "none") for name in ENDS),
        ("a scale", "quick"),
        ("a batch norm", "quick"),
        ("shifted products", "quick"),
    ],
)
def test_small_balls_have_the_norm_of_the_jacobian(name: str, effort: str) -> None:
    bound, at_centre = _audited(ENDS[name], effort)
    assert bound is not None
    assert at_centre * (1 - 1e-9) <= bound <= 1.001 * at_centre


def test_several_outputs_are_each_what_they_are_behind_their_scales() -> None:
    bound, at_centre = _audited(lambda h: (5 * h[:, :3], h[:, 3:].sigmoid() * 2 - 1), "none")
    assert bound is not None
    assert at_centre * (1 - 1e-9) <= bound <= 1.001 * at_centre


@pytest.mark.parametrize("name", BATCH_NORMS)
def test_the_statistics_of_a_batch_norm_in_evaluation_mode_are_constants(name: str) -> None:
    torch.manual_seed(4)
    net = End(lambda h: BATCH_NORMS[name](h)[1]).eval()
    for options in ({}, {"domain": "ball", "around": torch.ones(1, 4), "radius": 0.1}):
        assert lipaudit.audit(net, (1, 4), effort="quick", **options).network.upper_bound == 0


def test_a_window_that_reads_padding_only_is_unsupported_on_a_ball() -> None:
    net = End(lambda h: torch.max_pool1d(h.reshape(1, 12, 1), 2, 1, 1, 2)).eval()
    report = lipaudit.audit(net, (1, 4), domain="ball", around=torch.ones(1, 4), radius=0.1, effort="none")
    assert report.network.status == "unsupported"
    assert "reads padding only" in report.network.reasons[0]
