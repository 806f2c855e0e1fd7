"""Matrix-free iteration on the true operator of a convolution: lower bounds of its norm.

x -> K x is the convolution with its own padding, stride and size, y -> K* y its adjoint, the pullback of automatic
differentiation, so that output padding and copied borders need no formulas of their own. Any x gives the lower bound
||K x|| / ||x||; the Lanczos process on K* K only makes it a good one. A good start is a plane wave at the maximising frequency of the
symbol, windowed to the input.

On inputs larger than a patch the iteration runs on the patch: for zero padding the patch's operator is a compression of
the full one, so that its norm is a lower bound of the full one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch.nn import functional

from lipaudit.device import without_cudnn
from lipaudit.spectral.bracket import log_down
from lipaudit.spectral.convolution.geometry import Convolution, padding_copies
from lipaudit.spectral.convolution.search import Supremum
from lipaudit.spectral.matrix.lanczos import lanczos
from lipaudit.spectral.rounding import gamma

PATCH = 32
# Multiply-adds of one application that a patch should not exceed.
PATCH_BUDGET = 1e8
# Steps from the wave that the symbol stretches most, which is nearly all that is needed; and from noise, or on few pixels, where the border
# matters, while the input has few numbers.
STEPS, MORE_STEPS, FEW_PIXELS, FEW_NUMBERS = 3, 12, 100, 2**11

_CONV = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}


def pad(x: torch.Tensor, padding: tuple[tuple[int, int], ...], mode: str) -> torch.Tensor:
    """``torch.nn.functional.pad`` with (left, right) pairs in the order of the axes."""
    widths = [side for pair in reversed(padding) for side in pair]
    if not any(widths):
        return x
    return functional.pad(x, widths, mode="constant" if mode == "zeros" else mode)


def apply(convolution: Convolution, x: torch.Tensor) -> torch.Tensor:
    """y = K x for a batch x (batch, c_in, *input_size) of an ordinary (not transposed) convolution."""
    padded = pad(x, convolution.padding, convolution.padding_mode)
    conv = _CONV[x.dim() - 2]
    kernel = convolution.kernel.to(x.dtype)
    return conv(padded, kernel, None, convolution.stride, 0, convolution.dilation, convolution.groups)


@dataclass(frozen=True, eq=False)
class Waves:
    """Where the symbol of each of several layers stretches most: the output wave ``left[l] exp(-i <angles[l], j>)`` of group ``groups[l]``.

    ``groups`` (layers,), ``angles`` (layers, d) in radians per step of the output, ``left`` (layers, c_out / groups).
    """

    groups: torch.Tensor
    angles: torch.Tensor
    left: torch.Tensor

    @classmethod
    def of(cls, supremum: Supremum) -> Waves:
        """The wave of one layer."""
        return cls(
            torch.tensor([supremum.group]), torch.tensor([supremum.angle], dtype=torch.float64), supremum.left[None]
        )


def adjoint(convolution: Convolution, y: torch.Tensor) -> torch.Tensor:
    """x = K* y for a batch y (batch, c_out, *output_size): the pullback of :func:`apply`."""
    c_in, size = convolution.channels[0], convolution.input_size
    if convolution.padding_mode == "zeros" and all(p == q and p >= 0 for p, q in convolution.padding):
        x = y.new_empty((len(y), c_in, *size))
        padding = [p for p, _ in convolution.padding]
        stride, dilation, kernel = convolution.stride, convolution.dilation, convolution.kernel.to(y.dtype)
        zeros = [0] * len(size)
        pulled: torch.Tensor = torch.ops.aten.convolution_backward(
            y, x, kernel, None, stride, padding, dilation, False, zeros, convolution.groups, [True, False, False]
        )[0]
        return pulled
    with torch.enable_grad():
        x = y.new_zeros((len(y), c_in, *size)).requires_grad_(True)
        return torch.autograd.grad(apply(convolution, x), x, y)[0]


def lower_bound(convolution: Convolution, start: Supremum | None, steps: int | None = None) -> float:
    """log of a lower bound of the operator norm, rounded down, by the Lanczos process on a patch of the true operator.

    The kernel's entries must be at most 1 in size (see ``scale_to_unit``).
    """
    ratio = float(lower_bounds(convolution, 1, None if start is None else Waves.of(start), steps)[0])
    return log_down(ratio) if ratio > 0 else -math.inf


def lower_bounds(convolution: Convolution, layers: int, start: Waves | None, steps: int | None = None) -> torch.Tensor:
    """Lower bounds of the operator norms of several layers of equal geometry, rounded down, in plain units: (layers,).

    The layers are one convolution with ``layers`` times as many groups. Iterations run in float32, only the final
    quotients ||K x|| / ||x|| are evaluated in float64 and with a margin. Nothing is read back from the device.
    """
    patch = _patch(convolution, layers)
    fast = patch.with_kernel(patch.kernel.to(torch.float32))
    first = _start(fast, layers, start)
    numbers = first.numel() // layers
    small = math.prod(patch.input_size) <= FEW_PIXELS and numbers <= FEW_NUMBERS
    steps = steps or (MORE_STEPS if start is None or small else STEPS)

    def product(v: torch.Tensor) -> torch.Tensor:
        return adjoint(fast, apply(fast, v.reshape(first.shape))).reshape(v.shape)

    x = lanczos(product, first.reshape(layers, -1), min(steps, numbers)).to(torch.float64)
    with without_cudnn():
        y = apply(patch, x.reshape(first.shape)).reshape(layers, -1)
    length = torch.linalg.vector_norm(x, dim=1) * (1 + gamma(2 * x.shape[1] + 8))
    # |fl(K x) - K x| <= gamma |K| |x| entrywise, and the operator |K| with entries <= 1 has at most this norm
    c_in, c_out = patch.channels
    terms = math.prod(patch.kernel_size) * c_in // patch.groups
    axes = zip(patch.input_size, patch.padding, strict=True)
    copies = math.prod(padding_copies(h, p, patch.padding_mode) for h, p in axes)
    per_input = math.prod(patch.kernel_size) * c_out // patch.groups
    slack = gamma(2 * terms + 8) * math.sqrt(terms * per_input) * copies
    ratio = torch.linalg.vector_norm(y, dim=1) * (1 - gamma(2 * y.shape[1] + 8)) / length * (1 - 2**-50) - slack
    return torch.where((length > 0) & torch.isfinite(length), ratio, 0.0).clamp_min(0.0)


def _patch(convolution: Convolution, layers: int) -> Convolution:
    """The operator on a corner of the input; for copied borders its unpadded interior. A compression either way."""
    d = len(convolution.input_size)
    per_pixel = convolution.kernel.numel() / layers / math.prod(convolution.stride)
    side = int((PATCH_BUDGET / per_pixel) ** (1 / d))
    axes = zip(convolution.input_size, convolution.extent, convolution.stride, convolution.padding, strict=True)
    # negative padding takes pixels away at the border
    sides = [min(h, max(k + 2 * s, min(PATCH, side)) - min(0, p[0]) - min(0, p[1])) for h, k, s, p in axes]
    if convolution.padding_mode == "zeros":
        return replace(convolution, input_size=tuple(sides))
    room = all(p + s <= h for p, h, s in zip(sides, convolution.input_size, convolution.stride, strict=True))
    if not room or math.prod(sides) * 4 > math.prod(convolution.input_size):
        return convolution
    return replace(convolution, input_size=tuple(sides), padding=((0, 0),) * d, padding_mode="zeros")


def _start(convolution: Convolution, layers: int, start: Waves | None) -> torch.Tensor:
    """K* of the output wave that the symbol stretches most, windowed; random where no symbol was computed."""
    device, dtype = convolution.weight.device, convolution.weight.dtype
    c_in, c_out = (c // layers for c in convolution.channels)
    generator = torch.Generator(device).manual_seed(0)
    d = len(convolution.output_size)
    noise = torch.randn((1, c_in, *convolution.input_size), generator=generator, device=device, dtype=dtype)
    noise = noise.repeat(1, layers, *[1] * d)
    if start is None:
        return noise
    phase = torch.zeros((layers, *[1] * d), device=device, dtype=dtype)
    window = torch.ones((), device=device, dtype=dtype)
    for axis, n in enumerate(convolution.output_size):
        steps = torch.arange(n, dtype=dtype, device=device)
        shape = [-1 if a == axis else 1 for a in range(d)]
        phase = phase + start.angles[:, axis].to(dtype).reshape(-1, *[1] * d) * steps.reshape(shape)
        if convolution.padding_mode != "circular":
            window = window * torch.sin(math.pi * (steps + 0.5) / n).reshape(shape)
    left = start.left.to(torch.complex64).reshape(layers, -1, *[1] * d)
    wave = torch.zeros(
        layers, c_out // left.shape[1], left.shape[1], *convolution.output_size, device=device, dtype=dtype
    )
    waves = (left * torch.polar(window.expand_as(phase), -phase)[:, None]).real
    wave[torch.arange(layers, device=device), start.groups.to(device)] = waves
    x = adjoint(convolution, wave.reshape(1, -1, *convolution.output_size))
    hit = x.reshape(layers, -1).abs().amax(1) > 0  # a wave may miss every window
    return torch.where(hit.repeat_interleave(c_in).reshape(1, -1, *[1] * d), x, noise)
