"""Small statistics of repeated measurements, and the tables of lines over an axis that plots are drawn from."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from lipaudit.experiments.harness.result import Series


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean."""
    return sum(values) / len(values)


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two middle ones."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def deviation(values: Sequence[float]) -> float | None:
    """The sample standard deviation; None for a single value."""
    if len(values) < 2:
        return None
    centre = mean(values)
    return math.sqrt(sum((v - centre) ** 2 for v in values) / (len(values) - 1))


def with_band(label: str, x: Sequence[float], values: torch.Tensor, floor: float) -> Series:
    """The mean over runs with a band of one standard deviation: values is (points, runs), nothing is drawn below ``floor``."""
    centre = values.mean(1)
    spread = values.std(1) if values.shape[1] > 1 else torch.zeros_like(centre)
    low, high = (centre - spread).clamp_min(floor), (centre + spread).clamp_min(floor)
    return Series(label, tuple(x), _floats(centre.clamp_min(floor)), _floats(low), _floats(high))


def _floats(values: torch.Tensor) -> tuple[float, ...]:
    return tuple(values.tolist())
