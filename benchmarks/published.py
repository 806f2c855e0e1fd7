"""Published methods as the paper runs them: iterations, float32, and seconds that are known from elsewhere."""

from __future__ import annotations

import torch

import lipaudit.spectral.published  # noqa: F401  registers the methods
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.published.registry import Options, find_method, measure

PAPER = "delattre2023"
# [P] section 5
ITERATIONS = {PAPER: 7, "singla2021": 50, "araujo2021": 20, "ryu2019": 100}
# seconds of the authors' own implementation (lip4conv) and of those that come with it: an H100, 224 pixels, random weights
REFERENCE = {
    PAPER: {"resnet18": 0.055, "resnet50": 0.58, "resnet152": 1.04, "vgg16": 0.36},
    "singla2021": {"resnet18": 0.42, "resnet50": 1.23, "resnet152": 4.27, "vgg16": 0.28},
    "ryu2019": {"resnet18": 0.64, "resnet50": 1.70, "resnet152": 2.91, "vgg16": 0.30},
}


def figure(method: str, convolution: Convolution) -> float:
    """The logarithm of a method's figure, in float32 as published."""
    options = Options(iterations=ITERATIONS[method], dtype=torch.float32)
    return measure(find_method(method), convolution, options).log_upper
