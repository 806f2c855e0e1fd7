"""Matrix-free power iteration on the true operator of a convolution: lower bounds of its norm.

x -> K x is the convolution with its own padding, stride and size, x -> K* x its adjoint, taken by automatic
differentiation so that output padding and copied borders need no formulas of their own. Any x gives the lower bound
||K x|| / ||x||; the iteration only makes it a good one. A good start is a plane wave at the maximising frequency of the
symbol, windowed to the input.

On inputs larger than a patch the iteration runs on the patch: for zero padding the patch's operator is a compression of
the full one, so that its norm is a lower bound of the full one.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch.nn import functional

from lipaudit.spectral.bracket import log_down
from lipaudit.spectral.geometry import Convolution, padding_copies
from lipaudit.spectral.rounding import gamma
from lipaudit.spectral.torus import Supremum

PATCH = 32
# Multiply-adds of one application that a patch should not exceed, and the number of iterations.
PATCH_BUDGET = 1e8
ITERATIONS = 6

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


def lower_bound(convolution: Convolution, start: Supremum | None, iterations: int = ITERATIONS) -> float:
    """log of a lower bound of the operator norm, rounded down, by power iteration on a patch of the true operator.

    The kernel's entries must be at most 1 in size (see ``scale_to_unit``). Iterations run in float32, only the final
    quotient ||K x|| / ||x|| is evaluated in float64 and with a margin.
    """
    patch = _patch(convolution)
    x = _start(patch, start)
    with torch.enable_grad():
        for _ in range(iterations):
            x = (x / torch.linalg.vector_norm(x).clamp_min(1e-30)).requires_grad_(True)
            y = apply(patch, x)
            (x,) = torch.autograd.grad(0.5 * (y * y).sum(), x)
    x = x.to(torch.float64)
    y = apply(patch, x)
    length = float(torch.linalg.vector_norm(x)) * (1 + gamma(2 * x.numel() + 8))
    if not 0 < length < math.inf:
        return -math.inf
    # |fl(K x) - K x| <= gamma |K| |x| entrywise, and the operator |K| with entries <= 1 has at most this norm
    c_in, c_out = patch.channels
    terms = math.prod(patch.kernel_size) * c_in // patch.groups
    axes = zip(patch.input_size, patch.padding, strict=True)
    copies = math.prod(padding_copies(h, p, patch.padding_mode) for h, p in axes)
    per_input = math.prod(patch.kernel_size) * c_out / patch.groups
    slack = gamma(2 * terms + 8) * math.sqrt(terms * per_input) * copies
    ratio = float(torch.linalg.vector_norm(y)) * (1 - gamma(2 * y.numel() + 8)) / length * (1 - 2**-50) - slack
    return log_down(ratio) if ratio > 0 else -math.inf


def _patch(convolution: Convolution) -> Convolution:
    """The operator on a corner of the input; for copied borders its unpadded interior. A compression either way."""
    d = len(convolution.input_size)
    per_pixel = convolution.kernel.numel() / math.prod(convolution.stride)
    side = int((PATCH_BUDGET / per_pixel) ** (1 / d))
    sides = [
        min(h, max(k + 2 * s, min(PATCH, side)))
        for h, k, s in zip(convolution.input_size, convolution.extent, convolution.stride, strict=True)
    ]
    if convolution.padding_mode == "zeros":
        return replace(convolution, input_size=tuple(sides))
    room = all(p + s <= h for p, h, s in zip(sides, convolution.input_size, convolution.stride, strict=True))
    if not room or math.prod(sides) * 4 > math.prod(convolution.input_size):
        return convolution
    return replace(convolution, input_size=tuple(sides), padding=((0, 0),) * d, padding_mode="zeros")


def _start(convolution: Convolution, start: Supremum | None) -> torch.Tensor:
    """K* of the output wave that the symbol stretches most, windowed; random where no symbol was computed."""
    shape = (1, convolution.channels[0], *convolution.input_size)
    device = convolution.kernel.device
    if start is None:
        generator = torch.Generator().manual_seed(0)
        return torch.randn(shape, generator=generator).to(device)
    wave = torch.zeros(1, convolution.channels[1], *convolution.output_size)
    phase = torch.zeros(())
    window = torch.ones(())
    for axis, (n, angle) in enumerate(zip(convolution.output_size, start.angle, strict=True)):
        steps = torch.arange(n, dtype=torch.float32)
        shape_1d = [-1 if a == axis else 1 for a in range(len(convolution.output_size))]
        phase = phase + (angle * steps).reshape(shape_1d)
        if convolution.padding_mode != "circular":
            window = window * torch.sin(math.pi * (steps + 0.5) / n).reshape(shape_1d)
    left = start.left.to(torch.complex64).reshape(-1, *[1] * len(convolution.output_size))
    first = start.group * left.shape[0]
    wave[0, first : first + left.shape[0]] = (left * torch.polar(window, -phase)).real
    wave = wave.to(device)
    with torch.enable_grad():
        x = torch.zeros(shape, device=device, requires_grad=True)
        (x,) = torch.autograd.grad((apply(convolution, x) * wave).sum(), x)
    if not bool(x.any()):
        return _start(convolution, None)
    return x
