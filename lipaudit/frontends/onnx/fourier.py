"""ONNX Fourier transforms: DFT and STFT. Complex numbers are pairs along a last axis of 2, real ones have a last axis of 1."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lipaudit.frontends.onnx.operators import Apply, NodeView, converter

_REAL, _COMPLEX = 1, 2


def _scalar(node: NodeView, index: int, name: str) -> int | None:
    """A constant input of one integer, None where it is not given."""
    if not node.has(index):
        return None
    if not node.is_constant(index) or node.constant(index).size != 1:
        node.fail(f"its input {name} must be one constant number")
    return int(node.constant(index).reshape(()))


def _pairs(x: Tensor) -> Tensor:
    """Complex numbers from pairs, real ones from a last axis of 1."""
    return x.squeeze(-1) if x.shape[-1] == _REAL else torch.view_as_complex(x.contiguous())


def _real(z: Tensor) -> Tensor:
    """Pairs from complex numbers."""
    return torch.view_as_real(z.resolve_conj())


@converter("DFT")
def dft(node: NodeView) -> nn.Module:
    """The discrete Fourier transform over one axis, or its inverse; of real signals (one-sided) the half that determines the rest.

    The axis is an attribute below opset 20 (default 1) and an input from there on (default -2).
    """
    shape = node.shape()
    if shape[-1] not in (_REAL, _COMPLEX):
        node.fail(f"its input has a last axis of {shape[-1]}, not 1 (real) or 2 (complex)")
    axis = node.attr("axis", 1) if node.opset < 20 else _scalar(node, 2, "axis")
    axis = (-2 if axis is None else int(axis)) % len(shape)
    if axis == len(shape) - 1:
        node.fail("its axis is the last one, which holds real and imaginary parts")
    length, inverse, half = (
        _scalar(node, 1, "dft_length"),
        bool(node.attr("inverse", 0)),
        bool(node.attr("onesided", 0)),
    )
    if half and shape[-1] != (_COMPLEX if inverse else _REAL):
        kind = "inverse of real" if inverse else "transform of complex"
        node.fail(f"the one-sided {kind} numbers is not defined")
    if half and inverse:
        return Apply(lambda x: torch.fft.irfft(_pairs(x), n=length, dim=axis).unsqueeze(-1), [None])
    transform = torch.fft.rfft if half else torch.fft.ifft if inverse else torch.fft.fft
    return Apply(lambda x: _real(transform(_pairs(x), n=length, dim=axis)), [None])


@converter("STFT")
def stft(node: NodeView) -> nn.Module:
    """Frames of the signal, times a window, each transformed by itself: (batch, frames, bins, 2)."""
    shape = node.shape()
    if len(shape) != 3 or shape[-1] not in (_REAL, _COMPLEX):
        node.fail(f"its signal has the shape {list(shape)}, not (batch, length, 1) or (batch, length, 2)")
    step, given = _scalar(node, 1, "frame_step"), _scalar(node, 3, "frame_length")
    window = node.tensor(2) if node.has(2) else None
    length = given if given is not None else shape[1] if window is None else len(window)
    if step is None or step < 1 or not 1 <= length <= shape[1] or (window is not None and len(window) != length):
        node.fail(f"a step of {step} and frames of {length} entries do not fit a signal of {shape[1]} and its window")
    half = bool(node.attr("onesided", 1))
    if half and shape[-1] == _COMPLEX:
        node.fail("the one-sided transform of complex numbers is not defined")
    transform = torch.fft.rfft if half else torch.fft.fft

    def run(x: Tensor, window: Tensor | None) -> Tensor:
        frames = x.unfold(1, length, step).transpose(2, 3)
        return _real(transform(_pairs(frames if window is None else frames * window[:, None]), dim=2))

    return Apply(lambda x, window=None: run(x, window), [None] if window is None else [None, window])
