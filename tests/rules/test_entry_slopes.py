"""Lines in the place of functions of each entry: slopes and remainders against dense samples of the interval."""

import pytest
import torch
from torch import nn

import lipaudit.rules  # noqa: F401  registers the rules
from lipaudit.graph.capture.export import capture
from lipaudit.rules.entry_slopes import entry_slopes
from lipaudit.rules.movement import Neighbourhood

FUNCTIONS: dict[str, nn.Module] = {
    "relu": nn.ReLU(), "leaky": nn.LeakyReLU(0.2), "relu6": nn.ReLU6(), "hardswish": nn.Hardswish(), "gelu": nn.GELU(),
    "silu": nn.SiLU(), "tanh": nn.Tanh(), "elu": nn.ELU(), "softplus": nn.Softplus(), "mish": nn.Mish(),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("chords", [False, True])
def test_lines_hold_on_every_interval(name: str, chords: bool) -> None:
    generator = torch.Generator().manual_seed(3)
    centre = 3 * torch.randn(200, generator=generator, dtype=torch.float64)
    centre[:3] = 0.0
    below, above = (8 * torch.rand(200, generator=generator, dtype=torch.float64) ** 6 for _ in range(2))
    below[2:20], above[15:30] = 0.0, 0.0
    function = FUNCTIONS[name]
    (node,) = (node for node in capture(function, {"input": centre}) if node.op != "input")
    slopes = entry_slopes(node, Neighbourhood(centre, below, above, 1.0, centre), 1.5, chords)
    least, most = slopes.remainder
    for t in torch.linspace(0.0, 1.0, 401, dtype=torch.float64):
        x = (centre - below + t * (below + above)).requires_grad_()
        value = function(x)
        (slope,) = torch.autograd.grad(value.sum(), x)
        assert bool((slopes.low - 1e-12 <= slope).all())
        assert bool((slope <= slopes.high + 1e-12).all())
        excess = (value - function(centre) - slopes.line * (x - centre)).detach()
        assert bool((least - 1e-12 <= excess).all())
        assert bool((excess <= most + 1e-12).all())
    assert bool((least <= 0).all())
    assert bool((most >= 0).all())
    still = (below == 0) & (above == 0)
    assert bool((most[still] - least[still] <= 1e-12).all())


def test_the_chord_of_a_relu_leaves_the_least() -> None:
    """Within [l, u] a ReLU strays from a line of the slope u / (u - l) by u |l| / (u - l) (Weng et al., 2018), at 0."""
    centre = torch.tensor([-1.0, 1.0, 0.5, -3.0], dtype=torch.float64)
    below, above = torch.full_like(centre, 2.0), torch.full_like(centre, 4.0)
    (node,) = (node for node in capture(nn.ReLU(), {"input": centre}) if node.op != "input")
    slopes = entry_slopes(node, Neighbourhood(centre, below, above, 1.0, centre), 1.0, chords=True)
    low, high = centre - below, centre + above
    assert torch.allclose(slopes.line, high / (high - low))
    least, most = slopes.remainder
    assert torch.allclose(most - least, -low * high / (high - low))
    plain = entry_slopes(node, Neighbourhood(centre, below, above, 1.0, centre), 1.0)
    least, most = plain.remainder
    assert torch.allclose(most, torch.where(centre < 0, high, -low))
    assert torch.allclose(least, torch.zeros_like(centre))
