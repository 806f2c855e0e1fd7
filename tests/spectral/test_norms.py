"""Ways to find norms agree, and norms found beforehand belong to the objects they were found for."""

from __future__ import annotations

import pytest
import torch

from lipaudit.spectral import norms as module
from lipaudit.spectral.geometry import Convolution
from lipaudit.spectral.norms import BatchedNorms, CertifiedNorms


def _convolution(seed: int) -> Convolution:
    kernel = torch.randn(3, 2, 3, 3, generator=torch.Generator().manual_seed(seed))
    return Convolution.like_torch(kernel, 6, padding="same", padding_mode="circular")


def test_batched_norms_are_those_of_the_same_objects() -> None:
    convolutions = [_convolution(seed) for seed in range(3)]
    matrices = [torch.eye(2) * 5, torch.ones(3, 4)]
    batched = BatchedNorms(convolutions, matrices, 1e-3, torch.device("cpu"))
    alone = CertifiedNorms(1e-3)
    for convolution in (*convolutions, _convolution(7)):  # the last one is not known
        one, other = batched.convolution(convolution).bracket, alone.convolution(convolution).bracket
        assert one.log_lower <= other.log_upper
        assert other.log_lower <= one.log_upper
        assert one.tightness <= 1.001
    assert batched.matrices(matrices).lower <= 5 <= batched.matrices(matrices).upper
    assert batched.matrices([matrices[0], torch.eye(3) * 9]).upper >= 9


def test_known_objects_are_not_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    convolution, matrix = _convolution(0), torch.ones(2, 2)
    batched = BatchedNorms([convolution], [matrix], 1e-3, torch.device("cpu"))

    def refuse(*_arguments: object) -> None:
        raise AssertionError("measured again")

    monkeypatch.setattr(module, "convolution_norm", refuse)
    monkeypatch.setattr(module, "spectral_norm", refuse)
    assert batched.convolution(convolution).bracket.upper > 0
    assert 2 <= batched.matrices([matrix]).upper <= 2.01
