"""The slopes of activations that arrive written out: an interval that holds every derivative, and where it is known no more than needed."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from lipaudit.graph.capture.export import capture
from lipaudit.graph.passes.activations import ACTIVATION
from lipaudit.graph.passes.table import recognise
from lipaudit.network.entrywise import slopes
from tests.graph.networks import OfOneInput

X = torch.Tensor
A, B = 1 / 6 - 1.6e-6, 3 + 4.9e-5  # of another function, which prints as hardswish to five digits
# the function, and whether its least slope is 1 less its largest
FUNCTIONS: dict[str, tuple[Callable[[X], X], bool]] = {
    "silu": (lambda x: x * torch.sigmoid(x), True),
    "gelu": (lambda x: 0.5 * x * (1 + torch.erf(x / math.sqrt(2))), True),
    "gelu by tanh": (lambda x: 0.5 * x * (1 + torch.tanh(0.79788 * (x + 0.044715 * x**3))), True),
    "hardswish": (lambda x: x * (x + 3).clamp(0, 6) / 6, True),
    "half of silu": (lambda x: 0.5 * (x * torch.sigmoid(x)), False),
    "almost hardswish": (lambda x: A * (x * (x + B).clamp(0, 6)), False),
    "almost gelu": (lambda x: x * (0.499996 + 0.5 * torch.erf(x / math.sqrt(2))), False),
    "shifted silu": (lambda x: x * torch.sigmoid(x + 1), False),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_derivative_lies_within_the_slopes(name: str) -> None:
    function, reflected = FUNCTIONS[name]
    (node,) = (
        n for n in recognise(capture(OfOneInput(function), {"x": torch.rand(1, 4).double()})) if n.op == ACTIVATION
    )
    constant = node.payload.constant.upper
    interval = slopes(node, constant)
    assert interval is not None
    x = torch.cat([torch.linspace(-9, 9, 20001), torch.tensor([-B, B, 6 - B, -3.0, 3.0]).repeat(3)]).double()
    x[-10:-5] += 1e-9
    x[-5:] -= 1e-9
    x.requires_grad_()
    (derivative,) = torch.autograd.grad(function(x).sum(), x)
    assert interval[0] <= float(derivative.min())
    assert float(derivative.max()) <= interval[1]
    if reflected:
        assert interval[0] == pytest.approx(1 - constant, abs=1e-6)
