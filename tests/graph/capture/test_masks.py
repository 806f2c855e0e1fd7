"""Masks and places that a network computes from its buffers are constants of the captured graph."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from lipaudit.errors import CaptureError
from lipaudit.graph.capture.export import capture
from tests.graph.interpreter import run


class Masked(nn.Module):
    """Buffers with values that shapes depend on."""

    def __init__(self, forward: Callable[[Masked, Tensor], Tensor]) -> None:
        super().__init__()
        self._function = forward
        self.register_buffer("mask", torch.tensor([True, False, True, True]))
        self.register_buffer("square", torch.tensor([[True, False, True, True], [False, True, False, False]]))
        self.weight = nn.Parameter(torch.tensor([0.1, 0.9, 0.7, 0.2]))

    def forward(self, x: Tensor) -> Tensor:
        return self._function(self, x)


KNOWN: dict[str, Callable[[Masked, Tensor], Tensor]] = {
    "a mask": lambda m, x: x[..., m.mask],
    "a mask of two axes": lambda m, x: x[:, m.square],
    "a mask between slices": lambda m, x: x[:, :, None, m.mask],
    "a mask beside an index": lambda m, x: x[0, m.mask[:2], m.mask.nonzero()[0, 0]],
    "the opposite": lambda m, x: x[..., ~m.mask],
    "a comparison with a parameter": lambda m, x: x[..., (m.weight > 0.5) & m.mask],
    "rows of another mask": lambda m, x: x[:, :, m.square[1]],
    "a mask made from numbers": lambda m, x: x[..., torch.arange(4) < 3],
    "masked_select": lambda m, x: torch.masked_select(x, m.mask),
    "masked_select by keyword": lambda m, x: x.masked_select(mask=m.square),
    "nonzero": lambda m, x: x[..., m.mask.nonzero(as_tuple=True)[0]],
    "where": lambda m, x: x[..., torch.where(m.mask)[0]],
    "repeats": lambda m, x: x.repeat_interleave(m.mask.long() + 1, dim=2),
    "bincount": lambda m, x: x[..., :3] * torch.bincount(torch.tensor([0, 2, 2, 1, 0]) * m.mask.sum() // 3),
    "after an activation in place": lambda m, x: torch.relu_(x * 2)[..., m.mask],
}


@pytest.mark.parametrize("name", KNOWN)
def test_what_follows_from_buffers_is_a_constant(name: str) -> None:
    module = Masked(KNOWN[name]).double().eval()
    x = {"x": torch.randn(1, 2, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))}
    graph = capture(module, x)
    torch.testing.assert_close(run(graph, x)[0], module(x["x"]).detach())


UNKNOWN: dict[str, Callable[[Masked, Tensor], Tensor]] = {
    "of the input": lambda m, x: x[x > 0],
    "of the input and a buffer": lambda m, x: x[..., (x[0, 0] > 0) & m.mask],
    "changed in place": lambda m, x: x[..., m.mask.clone().logical_not_()],
    "changed through a view": lambda m, x: _changed(m.mask.clone(), x),
    "changed as an operator does": lambda m, x: _flipped(m.mask.clone(), x),
    "changed entry by entry": lambda m, x: _written(m.mask.clone(), x),
    "drawn": lambda m, x: x[..., torch.rand(4) > 0.5],
}


def _changed(mask: Tensor, x: Tensor) -> Tensor:
    mask.T.copy_(x[0, 0] > 0)
    return x[..., mask]


def _flipped(mask: Tensor, x: Tensor) -> Tensor:
    mask ^= x[0, 0] > 0
    return x[..., mask]


def _written(mask: Tensor, x: Tensor) -> Tensor:
    mask[0] = x[0, 0, 0] > 0
    return x[..., mask]


@pytest.mark.parametrize("name", UNKNOWN)
@pytest.mark.filterwarnings("ignore:The use of `x.T` on tensors")
def test_what_depends_on_the_input_or_changes_is_refused(name: str) -> None:
    with pytest.raises(CaptureError):
        capture(Masked(UNKNOWN[name]).double().eval(), {"x": torch.ones(1, 2, 4, dtype=torch.float64)})
