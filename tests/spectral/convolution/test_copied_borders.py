"""Reflect and replicate padding as zero padding and borders: against written-out operators."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from lipaudit.spectral.bracket import Bracket
from lipaudit.spectral.convolution.copied_borders import border_bound
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.convolution.norm import conv_norm, convolution_norm

GENERATOR = torch.Generator().manual_seed(0)


def norm(convolution: Convolution, tol: float) -> Bracket:
    return convolution_norm(convolution, tol).bracket


def dense_norm(c: Convolution) -> float:
    """sigma_1 of the operator, one column per pixel."""
    channels = c.kernel.shape[1] * c.groups
    pixels = torch.eye(channels * torch.Size(c.input_size).numel(), dtype=torch.float64)
    images = pixels.reshape(-1, channels, *c.input_size)
    sides = [p for pair in reversed(c.padding) for p in pair]
    padded = functional.pad(images, sides, mode=c.padding_mode)
    convolve = (functional.conv1d, functional.conv2d, functional.conv3d)[len(c.input_size) - 1]
    out = convolve(padded, c.kernel, stride=c.stride, dilation=c.dilation, groups=c.groups)
    return float(torch.linalg.matrix_norm(out.flatten(1), 2))


CASES = [
    # kernel, size, stride, padding, dilation, groups
    ((2, 2, 3), (7,), (1,), ((1, 1),), (1,), 1),
    ((2, 3, 5), (9,), (2,), ((2, 1),), (1,), 1),
    ((2, 1, 3), (4,), (1,), ((2, 2),), (2,), 2),
    ((2, 2, 3, 3), (5, 6), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    ((4, 1, 3, 5), (4, 5), (1, 2), ((1, 0), (2, 3)), (1, 1), 2),
    ((1, 1, 5, 5), (3, 6), (1, 1), ((2, 2), (2, 2)), (1, 1), 1),
    ((1, 1, 3, 3, 3), (3, 3, 4), (1, 1, 1), ((1, 1), (1, 1), (1, 1)), (1, 1, 1), 1),
]


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_sum_over_borders_is_a_bound(case: tuple, mode: str) -> None:
    shape, size, stride, padding, dilation, groups = case
    for decay in (0.0, 1.0):
        kernel = torch.randn(shape, dtype=torch.float64, generator=GENERATOR)
        places = torch.meshgrid(*(torch.arange(k) - k // 2 for k in shape[2:]), indexing="ij")
        kernel = kernel * torch.exp(-decay * sum(p.double() ** 2 for p in places))
        convolution = Convolution(kernel, size, stride, padding, dilation, groups, mode)
        found = border_bound(convolution, 1e-3, norm)
        assert found is not None
        assert dense_norm(convolution) <= found.upper * (1 + 1e-12)


def test_a_kernel_that_is_small_at_its_ends_gains() -> None:
    """A blur of seven taps: 2.65 times the norm by copies, little more than it by what the borders add."""
    taps = torch.exp(-(torch.arange(-3.0, 4.0).double() ** 2))
    kernel = (taps[:, None] * taps / taps.sum() ** 2)[None, None]
    exact = conv_norm(kernel, 128, padding=3, padding_mode="zeros").upper
    found = conv_norm(kernel, 128, padding=3, padding_mode="replicate")
    assert found.upper < 2.1 * exact
    assert found.upper < 0.55 * exact * 4
    assert found.lower <= found.upper


def test_borders_that_meet_count_together() -> None:
    kernel = torch.ones(1, 1, 3, dtype=torch.float64)
    convolution = Convolution(kernel, (2,), (1,), ((1, 1),), (1,), 1, "reflect")
    found = border_bound(convolution, 1e-3, norm)
    assert found is not None
    assert dense_norm(convolution) <= found.upper


def test_no_bound_grows() -> None:
    for mode, size in itertools.product(("reflect", "replicate"), (6, 40)):
        kernel = torch.randn(4, 3, 3, 3, dtype=torch.float64, generator=GENERATOR)
        convolution = Convolution.like_torch(kernel, size, 1, 1, 1, 1, mode)
        unpadded = replace(convolution, input_size=(size + 2,) * 2, padding=((0, 0),) * 2, padding_mode="zeros")
        assert norm(convolution, 1e-3).upper <= 2 * norm(unpadded, 1e-3).upper * 1.002
