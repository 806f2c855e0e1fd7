"""Operations written as others on balls: equal in value, never below what is stretched, and the Jacobian as the radius falls to 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import lipaudit
from lipaudit.graph.arguments import bind, call, overload
from lipaudit.graph.passes.decomposition_rules import DEFINITIONS
from lipaudit.network.local.definitions import LOCAL_DEFINITIONS
from tests.network.local.networks import largest_stretch
from tests.nodes import Data
from tests.rules.ops.cases import all_cases

OWN = sorted(set(LOCAL_DEFINITIONS) - set(DEFINITIONS))


@pytest.mark.parametrize("op", OWN)
def test_definitions_compute_what_the_operations_compute(op: str) -> None:
    compared = 0
    for case in all_cases():
        if case.op != op:
            continue
        bound = bind(overload(op), case.args, dict(case.kwargs))
        generator = torch.Generator().manual_seed(0)

        def drawn(value: Any, generator: torch.Generator = generator) -> Any:
            if isinstance(value, Data):
                return value.random(generator)
            return [drawn(part) for part in value] if isinstance(value, list | tuple) else value

        if any(dtype.is_complex for dtype in _dtypes(list(bound.values()))):
            continue
        arguments = {key: drawn(value) for key, value in bound.items()}
        positional = [arguments[a.name] for a in overload(op)._schema.arguments if not a.kwarg_only]
        named = {a.name: arguments[a.name] for a in overload(op)._schema.arguments if a.kwarg_only}
        try:
            own = LOCAL_DEFINITIONS[op](*positional, **named)
        except NotImplementedError:
            continue
        expected = call(overload(op), arguments)
        pairs = zip(own, expected, strict=True) if isinstance(own, tuple) else [(own, expected)]
        for first, second in pairs:
            numbers = torch.isfinite(first)  # of queries that see no key nothing is claimed
            assert torch.allclose(first[numbers], second[numbers], rtol=1e-9, atol=1e-12), case.label
        compared += 1
    assert compared, f"no conformance case of {op} that its definition covers"


def _dtypes(value: Any) -> list[torch.dtype]:
    if isinstance(value, Data):
        return [value.dtype]
    return [dtype for part in value for dtype in _dtypes(part)] if isinstance(value, list | tuple) else []


class Between(nn.Module):
    """A linear layer, a function of 12 numbers, and a linear layer behind it."""

    def __init__(self, function: Callable[[Tensor], Tensor], layer: nn.Module | None = None) -> None:
        super().__init__()
        self.first, self.layer, self.function = nn.Linear(5, 12), layer, function
        self.last = nn.Linear(self._middle(torch.zeros(1, 5)).shape[1], 3)

    def _middle(self, x: Tensor) -> Tensor:
        y = self.first(x)
        y = self.function(y) if self.layer is None else self.function(self.layer(y.reshape(-1, 4, 3)[:, :2])[0])
        return y.flatten(1)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self._middle(x))
        return out


def _layer(name: str) -> nn.Module:
    return getattr(nn, name)(3, 3, batch_first=True)  # type: ignore[no-any-return]


def _filtered(h: Tensor) -> Tensor:
    matrices = FILTERS.to(torch.complex64 if h.dtype is torch.float32 else torch.complex128)
    spectrum = matrices @ torch.fft.rfft(h).permute(2, 1, 0)
    return torch.fft.irfft(spectrum.permute(2, 1, 0), 6)


def _added(h: Tensor) -> Tensor:
    h[:, :4] += h[:, 4:8].tanh()
    return h


ALPHA = torch.linspace(0.5, 2.0, 12)
FILTERS = torch.complex(*torch.randn(2, 4, 2, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))
MASK = torch.arange(12) % 3 == 0
NETWORKS: dict[str, tuple[Callable[[Tensor], Tensor], str | None]] = {
    "lstm": (lambda h: h[:, -1], "LSTM"),
    "gru": (lambda h: h[:, -1], "GRU"),
    "rnn": (lambda h: h, "RNN"),
    "l2 pooling": (lambda h: functional.lp_pool1d(h[:, None], 2, 3, 2)[:, 0], None),
    "roots of mean squares": (lambda h: (functional.avg_pool1d(h[:, None].square(), 3) + 1e-4).sqrt(), None),
    "generalised means": (lambda h: functional.avg_pool1d(h[:, None].clamp_min(0.02).pow(3), 3).pow(1 / 3), None),
    "products": (lambda h: h.reshape(-1, 4, 3).prod(-1), None),
    "running products": (lambda h: h.reshape(-1, 4, 3).cumprod(1), None),
    "local response": (lambda h: functional.local_response_norm(h[:, :, None], 3, 0.5), None),
    "squash": (lambda h: h / (1 + h.square().sum(-1, keepdim=True)), None),
    "a gain per channel": (lambda h: h * torch.sigmoid(ALPHA.to(h) * h), None),
    "masked": (lambda h: h.masked_fill(MASK, 2.0).cumsum(-1), None),
    "larger than a threshold": (lambda h: torch.maximum(h, 0.1 * ALPHA.to(h)), None),
    "distances": (lambda h: torch.cdist(h.reshape(-1, 4, 3), h.reshape(-1, 4, 3)[:, :2] + 2), None),
    "einsum": (lambda h: torch.einsum("bij,bkj->bik", h.reshape(-1, 4, 3), h.reshape(-1, 4, 3)), None),
    "orders of norms": (lambda h: torch.linalg.vector_norm(h.reshape(-1, 4, 3), 3, (-1,)), None),
    "filters by frequency": (lambda h: _filtered(h.reshape(-1, 2, 6)), None),
    "written over in part": (lambda h: _added(h.clone()), None),
    "grouped queries": (
        lambda h: functional.scaled_dot_product_attention(
            h.reshape(-1, 2, 2, 3), h.reshape(-1, 2, 2, 3)[:, :1], h.reshape(-1, 2, 2, 3)[:, :1], enable_gqa=True
        ),
        None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
def test_balls_tend_to_the_jacobian(name: str) -> None:
    _check(name, (1e-6, 0.3))


@pytest.mark.long
@pytest.mark.parametrize("name", NETWORKS)
def test_balls_of_many_radii_tend_to_the_jacobian(name: str) -> None:
    _check(name, (1e-6, 1e-4, 1e-2, 0.1, 0.3, 1.0))


def _check(name: str, radii: tuple[float, ...]) -> None:
    torch.manual_seed(len(name))
    function, layer = NETWORKS[name]
    net = Between(function, None if layer is None else _layer(layer)).double().eval()
    centre = torch.randn(1, 5, dtype=torch.float64)
    before = 0.0
    for radius in radii:
        network = lipaudit.audit(net, (1, 5), domain="ball", around=centre, radius=radius, effort="none").network
        stretch = largest_stretch(net, centre, radius, 0, rounds=3)
        assert network.upper_bound is not None
        assert stretch <= network.upper_bound * (1 + 1e-9), (radius, stretch, network.upper_bound)
        assert network.upper_bound >= before * (1 - 1e-9)
        if radius == 1e-6:
            assert network.upper_bound <= 1.001 * stretch
        before = network.upper_bound
    everywhere = lipaudit.audit(net, (1, 5), effort="none").network.upper_bound
    assert everywhere is None or before <= everywhere * (1 + 1e-9)
