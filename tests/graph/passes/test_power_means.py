"""Norms and means of powers written out become one operation with a proven constant."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

import lipaudit
from lipaudit.graph.capture.export import capture
from lipaudit.graph.evaluate import interpret
from lipaudit.graph.passes.power_means import POWER_MEAN
from lipaudit.graph.passes.radial import RADIAL
from lipaudit.graph.passes.table import recognise, simplify
from tests.graph.networks import OfOneInput

IMAGE = (1, 4, 6, 6)
FILTERS = torch.rand(5, 6, generator=torch.Generator().manual_seed(0))
P = torch.tensor(2.9137, dtype=torch.float64)
Function = Callable[[Tensor], Tensor]

# functions, shapes, and closed forms of the constant
FORMS: dict[str, tuple[Function, tuple[int, ...], float]] = {
    "sqrt(sum x^2)": (lambda x: torch.sqrt((x**2).sum(1)), IMAGE, 1.0),
    "(sum x x + eps)^0.5": (lambda x: ((x * x).sum((2, 3)) + 1e-6) ** 0.5, IMAGE, 1.0),
    "sqrt(mean x^2)": (lambda x: x.square().mean(-1).sqrt(), IMAGE, 6**-0.5),
    "sqrt(clamp(sum x^2))": (lambda x: x.square().sum(-1).clamp(min=1e-3).sqrt(), IMAGE, 1.0),
    "real and imaginary": (lambda x: torch.sqrt(x[:, 0] ** 2 + x[:, 1] ** 2 + 1e-8), IMAGE, 1.0),
    "selected again": (lambda x: torch.sqrt(x[:, 0] * x[:, 0] + x[:, 1] * x[:, 1]), IMAGE, 1.0),
    "along the last axis": (lambda x: torch.sqrt(x[..., 0].square() + x[..., 1].square()), IMAGE, 1.0),
    "hypot of selections": (lambda x: torch.hypot(x[:, :2], x[:, 2:]), IMAGE, 1.0),
    "halves": (lambda x: torch.sqrt(sum(h * h for h in x.chunk(2, 1))), IMAGE, 1.0),
    "the same twice": (lambda x: torch.sqrt((x * x).sum(1) + x.square().sum(1)), IMAGE, 2**0.5),
    "overlapping": (lambda x: torch.sqrt(x[:, :3] ** 2 + x[:, 1:] ** 2), IMAGE, 2**0.5),
    "l2 pooling": (lambda x: torch.sqrt(F.avg_pool2d(x.square(), 2) * 4), IMAGE, 1.0),
    "l2 pooling, windows that overlap": (lambda x: torch.sqrt(F.avg_pool2d(x.square(), 3, 1, 1) * 9), IMAGE, 3.0),
    "lp_pool2d": (lambda x: F.lp_pool2d(x, 2, 2), IMAGE, 1.0),
    "lp_pool2d of order 4": (lambda x: F.lp_pool2d(x, 4, 2), IMAGE, 1.0),
    "lp_pool1d": (lambda x: F.lp_pool1d(x, 2, 3), (1, 4, 9), 1.0),
    "gem": (lambda x: F.avg_pool2d(x.clamp(min=1e-6).pow(3.0), 6).pow(1 / 3), IMAGE, 36 ** (-1 / 3)),
    "gem with a learned power": (
        lambda x: F.adaptive_avg_pool2d(x.clamp(min=1e-6).pow(P), 1).pow(1 / P), IMAGE, 36 ** (-1 / 2.9137),
    ),
    "gem by a mean": (lambda x: x.clamp(min=1e-6).pow(3).mean((2, 3)).pow(1 / 3), IMAGE, 36 ** (-1 / 3)),
    "filter bank": (
        lambda x: torch.sqrt(F.linear(x**2, FILTERS.to(x.dtype)) + 1e-9), IMAGE, math.sqrt(float(FILTERS.double().sum(0).max())),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_constants(name: str) -> None:
    function, shape, constant = FORMS[name]
    network = lipaudit.audit(OfOneInput(function), input_shape={"x": shape}).network
    assert network.status == "finite"
    assert constant * (1 - 1e-12) <= (network.upper_bound or 0) <= constant * (1 + 1e-6)
    generator, found = torch.Generator().manual_seed(1), 0.0
    for scale in (1e-2, 1.0, 1e3):
        for sharp in (False, True):
            z = torch.randn(shape, generator=generator, dtype=torch.float64)
            z = 1e-3 + scale * (
                F.one_hot(z.abs().flatten().argmax(), z.numel()).reshape(shape).double() if sharp else z
            )
            jacobian = torch.autograd.functional.jacobian(function, z).reshape(-1, z.numel())
            if bool(torch.isfinite(jacobian).all()):
                found = max(found, float(torch.linalg.svdvals(jacobian)[0]))
    assert 0.3 * constant <= found <= constant * (1 + 1e-9)


@pytest.mark.parametrize("name", FORMS)
def test_recognised_and_equal_in_value(name: str) -> None:
    function, shape, _ = FORMS[name]
    graph = capture(OfOneInput(function), {"x": torch.zeros(shape)})
    found = recognise(graph)
    assert sum(n.op in (POWER_MEAN, RADIAL) for n in found) == 1
    x = {"x": torch.randn(shape, generator=torch.Generator().manual_seed(2))}
    for g in ({"dtype": None}, {"dtype": torch.float64}):
        (before,), (after,) = (list(interpret(h, x, **g).values()) for h in (graph, found))  # type: ignore[arg-type]
        torch.testing.assert_close(before, after)


OTHERS: dict[str, Function] = {
    "a difference": lambda x: torch.sqrt(torch.relu(x[:, 0] ** 2 - x[:, 1] ** 2)),
    "a negative weight": lambda x: torch.sqrt(F.linear(x**2, FILTERS - 0.5).abs()),
    "a cube of either sign": lambda x: (x**3).sum(1) ** (1 / 3),
    "another root": lambda x: (x**2).sum(1) ** 0.25,
    "a product": lambda x: torch.sqrt((x[:, :2] * x[:, 2:]).sum(1).abs()),
    "products of different selections": lambda x: torch.sqrt((x[:, 0] * x[:, 1] + x[:, 2] * x[:, 2]).abs()),
    "a negative shift": lambda x: torch.sqrt((x**2).sum(1) - 1),
    "squares minus a mean": lambda x: torch.sqrt((x**2).mean(1) - 0.5 * x.mean(1) ** 2),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_norm_stays(name: str) -> None:
    graph = simplify(capture(OfOneInput(OTHERS[name]), {"x": torch.zeros(IMAGE)}))
    assert POWER_MEAN not in {n.op for n in graph}


def test_exponents_that_are_reciprocal_up_to_rounding_count_over_the_range_of_the_floats() -> None:
    function = OfOneInput(lambda x: x.square().sum(1, keepdim=True).pow(0.5 + 4.9e-7))
    x = torch.tensor([[1e150, 0.0]], dtype=torch.float64)
    stretch = float((function(x) - function(x / 2)).norm() / (x / 2).norm())
    (node,) = (node for node in recognise(capture(function, {"x": x})) if node.op == POWER_MEAN)
    assert 1.0003 < stretch <= node.payload.factors[0].upper


def test_two_tensors_join_by_squares() -> None:
    function: Function = lambda x: torch.sqrt(torch.tanh(x) ** 2 + torch.sin(x) ** 2)  # noqa: E731
    network = lipaudit.audit(OfOneInput(function), input_shape={"x": IMAGE}).network
    assert network.upper_bound == pytest.approx(2**0.5)
