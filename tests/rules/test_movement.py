"""What operations differ by from their linearisation at the centre of a box: never outside of the remainder, and up to its ends."""

import itertools

import pytest
import torch
from torch import nn

import lipaudit.rules  # noqa: F401  registers the rules
from lipaudit.graph.capture.export import capture
from lipaudit.graph.evaluate import evaluate
from lipaudit.graph.passes.table import recognise
from lipaudit.rules.movement import Neighbourhood
from lipaudit.rules.rule import movement_of


class MaxMin(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, 1)
        return torch.cat((torch.maximum(a, b), torch.minimum(a, b)), 1)


OPERATIONS: dict[str, tuple[nn.Module, str, tuple[int, ...]]] = {
    "max pooling": (nn.MaxPool1d(2), "aten.max_pool1d.default", (1, 1, 6)),
    "pairs": (MaxMin(), "lipaudit.ordered_pairs", (1, 6)),
    "prelu": (nn.PReLU(6, 0.3).double(), "aten.prelu.default", (1, 6)),
    "steep prelu": (nn.PReLU(1, -1.5).double(), "aten.prelu.default", (1, 6)),
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("seed", range(6))
def test_remainders_hold_at_every_corner_and_are_reached(name: str, seed: int) -> None:
    module, op, shape = OPERATIONS[name]
    torch.manual_seed(seed)
    centre = torch.randn(shape, dtype=torch.float64)
    if seed == 0:
        centre = torch.zeros_like(centre)  # nothing is decided
    below, above = torch.rand_like(centre), torch.rand_like(centre)
    (node,) = (node for node in recognise(capture(module, {"input": centre})) if node.op == op)
    read = node.refs[0].name
    centre, below, above = (t.reshape(node.refs[0].info.shape) for t in (centre, below, above))
    radius = float(torch.maximum(below, above).norm())
    movement = movement_of(node, (Neighbourhood(centre, below, above, radius, torch.ones_like(centre)),))
    assert movement is not None
    assert movement.remainder is not None

    def value(x: torch.Tensor) -> torch.Tensor:
        result = evaluate(node, {read: x}, torch.float64)
        assert isinstance(result, torch.Tensor)
        return result

    jacobian = torch.autograd.functional.jacobian(value, centre).flatten(centre.dim() * -1)
    start, (least, most) = value(centre), movement.remainder
    lowest, highest = torch.zeros_like(start), torch.zeros_like(start)
    for corner in itertools.product((0.0, 1.0), repeat=centre.numel()):
        t = torch.tensor(corner, dtype=torch.float64).reshape(centre.shape)
        away = t * above - (1 - t) * below
        excess = value(centre + away) - start - (jacobian @ away.flatten())
        assert bool((least - 1e-12 <= excess).all())
        assert bool((excess <= most + 1e-12).all())
        lowest, highest = lowest.minimum(excess), highest.maximum(excess)
    if seed:
        assert torch.allclose(lowest, least, atol=1e-9)
        assert torch.allclose(highest, most, atol=1e-9)
