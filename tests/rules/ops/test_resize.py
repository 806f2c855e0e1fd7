"""Nearest-neighbour resizing in every dtype and layout: the executed network stays below its bound."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

import lipaudit


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize(("size", "outputs"), [((2,), 82), ((2, 2), 164), ((4, 4), 164), ((2, 2, 2), 82), ((3, 3), 10)])
def test_no_layout_beats_the_bound(mode: str, dtype: torch.dtype, size: tuple[int, ...], outputs: int) -> None:
    d = len(size)
    report = lipaudit.audit(nn.Upsample(size=(outputs,) * d, mode=mode).to(dtype), input_shape={"input": (1, 4, *size)})
    formats = [
        torch.contiguous_format,
        *([torch.channels_last] if d == 2 else [torch.channels_last_3d] if d == 3 else []),
    ]
    x = torch.arange(math.prod(size), dtype=dtype).reshape(1, 1, *size).expand(1, 4, *size)
    for layout in formats:
        y = functional.interpolate(x.contiguous(memory_format=layout), size=(outputs,) * d, mode=mode)
        copies = int(torch.bincount(y[0, 0].flatten().long()).max())
        assert math.sqrt(copies) <= report.network.upper_bound
