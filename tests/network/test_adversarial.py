"""Attention, normalisation and gating at points that gradient ascent makes as bad as it can.

From starting points that are known to be bad (tokens next to each other, rows of tiny variance, a saturated softmax, images
of one colour) the input x and the direction v climb the stretch ||J(x) v||; no point on the way may exceed the bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn

from lipaudit.network.domain import GLOBAL, Domain, ball, pixel_box
from lipaudit.rules.effect import Status
from tests.network.sampling import F64, audited
from tests.network.zoo import enliven

TOKENS, WIDTH = 6, 8
# torch's own forward-mode differentiation loads decompositions through torch.jit
pytestmark = pytest.mark.filterwarnings(r"ignore:`torch\.jit\.\w+` is deprecated:FutureWarning")


class SelfAttention(nn.Module):
    """Two heads over normalised tokens, written out as a product, a softmax and a product."""

    def __init__(self, normalise: bool = True) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH, eps=1e-3) if normalise else nn.Identity()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(b, n, 3, 2, d // 2).permute(2, 0, 3, 1, 4).unbind(0)
        weights = torch.softmax(q @ k.transpose(-2, -1) * (d // 2) ** -0.5, dim=-1)
        return self.out((weights @ v).transpose(1, 2).reshape(b, n, d))


class SqueezeExcite(nn.Module):
    """A convolution whose channels are gated by what they hold on average."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, padding=1)
        self.squeeze = nn.Conv2d(6, 2, 1)
        self.excite = nn.Conv2d(2, 6, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.conv(x))
        return y * torch.sigmoid(self.excite(torch.relu(self.squeeze(y.mean((2, 3), keepdim=True)))))


class Norms(nn.Module):
    """A layer norm, a group norm, an RMS norm or an l2 normalisation by itself."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.layer = nn.LayerNorm(WIDTH, eps=1e-4)
        self.group = nn.GroupNorm(2, TOKENS, eps=1e-4)
        self.rms = nn.RMSNorm(WIDTH, eps=1e-4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.kind == "l2":
            return nn.functional.normalize(x, dim=-1, eps=1e-2)
        layer: nn.Module = getattr(self, self.kind)
        return layer(x)  # type: ignore[no-any-return]


def starts(shape: tuple[int, ...], generator: torch.Generator) -> list[torch.Tensor]:
    x = torch.randn(shape, generator=generator, dtype=F64)
    alike = x[:, :1].expand(shape) + 1e-3 * x
    flat = x.mean(-1, keepdim=True).expand(shape) + 1e-5 * x
    return [x, alike, flat, 30 * x, 1e-4 * x, 1e3 * alike]


def climb(
    function: Callable[[torch.Tensor], torch.Tensor], domain: Domain, x: torch.Tensor, generator: torch.Generator
) -> float:
    """The largest ||J(x) v|| / ||v|| met by gradient ascent in x and power iteration in v."""
    best = 0.0
    x = domain.nearest({"x": x})["x"]
    v = torch.randn(x.shape, generator=generator, dtype=F64)
    length = 0.05 * float(x.norm()) + 1e-6
    for _ in range(25):
        for _ in range(2):
            v = v / v.norm().clamp_min(1e-300)
            image, pull = torch.func.jvp(function, (x,), (v,))[1], torch.func.vjp(function, x)[1]
            best = max(best, float(image.norm()))
            v = pull(image)[0]
        v = v / v.norm().clamp_min(1e-300)
        slope = torch.func.grad(lambda p, v=v: torch.func.jvp(function, (p,), (v,))[1].norm().log())(x)
        if not bool(torch.isfinite(slope).all()) or float(slope.norm()) == 0:
            break
        moved = domain.nearest({"x": x + length * slope / slope.norm()})["x"]
        length = length if float(torch.func.jvp(function, (moved,), (v,))[1].norm()) > best else length / 2
        x = moved
    return best


def largest_stretch(module: nn.Module, shape: tuple[int, ...], domain: Domain, reach: float) -> float:
    """The largest stretch found, as a part of the bound; none may exceed it."""
    audit = audited(module, {"x": shape}, domain)[0]
    assert audit.found.network.status is Status.FINITE
    bound = math.exp(audit.found.network.log_upper)
    generator = torch.Generator().manual_seed(2)
    found = max(climb(module, domain, x, generator) for x in starts(shape, generator))
    assert found <= bound * (1 + 1e-9)
    assert found >= reach * bound, f"only {found / bound:.3g} of the bound was found"
    return found


def prepared(module: nn.Module, gain: float, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    module = module.double().eval()
    enliven(module)
    for parameter in module.parameters():
        parameter.requires_grad_(False).mul_(gain)
    return module


@pytest.mark.parametrize("kind", ["layer", "group", "rms", "l2"])
def test_norms(kind: str) -> None:
    largest_stretch(prepared(Norms(kind), 1.0), (1, TOKENS, WIDTH), GLOBAL, 0.95 if kind in ("layer", "l2") else 0.8)


@pytest.mark.parametrize("gain", [0.5, 1.0, 4.0])
def test_attention_over_normalised_tokens(gain: float) -> None:
    largest_stretch(prepared(SelfAttention(), gain), (1, TOKENS, WIDTH), GLOBAL, 1e-5)


@pytest.mark.parametrize("gain", [1.0, 4.0, 20.0])
@pytest.mark.parametrize("radius", [0.1, 3.0])
def test_attention_in_a_ball(gain: float, radius: float) -> None:
    centre = torch.randn((1, TOKENS, WIDTH), generator=torch.Generator().manual_seed(3), dtype=F64)
    module = prepared(SelfAttention(normalise=False), gain)
    largest_stretch(module, (1, TOKENS, WIDTH), ball({"x": centre}, radius), 1e-3)


@pytest.mark.parametrize("gain", [1.0, 4.0])
def test_squeeze_excite_on_pixels(gain: float) -> None:
    box = pixel_box({"x": (1, 3, 4, 4)}, (0.5,) * 3, (0.25,) * 3)
    largest_stretch(prepared(SqueezeExcite(), gain), (1, 3, 4, 4), box, 0.005)
