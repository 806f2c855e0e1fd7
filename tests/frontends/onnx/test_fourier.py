"""Fourier transforms of ONNX files: their bounds against the matrices that they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import torch

import lipaudit
from lipaudit.frontends.load import load
from tests.frontends.onnx.cases import CASES, Case

TRANSFORMS = [case for case in CASES if case.op in ("DFT", "STFT")]


def save(case: Case, tmp_path: Any) -> str:
    path = str(tmp_path / "m.onnx")
    onnx.save(case.model(), path)
    return path


@pytest.mark.parametrize("case", TRANSFORMS, ids=str)
def test_the_bound_is_the_norm_of_the_matrix(case: Case, tmp_path: Any) -> None:
    """Of a DFT to a thousandth; frames that overlap and a window are bounded one after the other."""
    path = save(case, tmp_path)
    network = lipaudit.audit(path).network
    x = torch.randn(case.shape)
    matrix = torch.autograd.functional.jacobian(load(path).module, x).reshape(-1, x.numel()).double()
    truth = float(torch.linalg.matrix_norm(matrix, 2))
    assert network.status == "finite"
    assert network.rigor == "certified"
    assert truth <= network.upper_bound * (1 + 1e-6)
    padded = case.op == "DFT" and case.constants[:1] not in ((), (None,))
    assert network.upper_bound <= truth * (2.5 if case.op == "STFT" or padded else 1.001)


def test_a_signal_without_a_window_or_a_frame_length_is_one_frame(tmp_path: Any) -> None:
    """Onnxruntime wants one of them, ONNX does not."""
    module = load(save(Case("STFT", (1, 12, 1), (np.int64(3),)), tmp_path)).module
    x = torch.randn(1, 12, 1)
    assert torch.allclose(module(x), torch.view_as_real(torch.fft.rfft(x[..., 0]))[:, None])
