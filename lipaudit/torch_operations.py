"""Recurrent layers that torch has no operation for, as operations of their own: one layer in one direction.

They are composed of torch's operations (their derivative is torch's), but stay whole in a captured graph, because their
bound rests on what the steps have in common. Sequences are (length, batch, width); the weights are those of torch's layers,
gates in torch's order, biases of both kinds or none; ``clip`` cuts what the gates read to [-clip, clip].

- ``lipaudit::lstm``: peepholes (p_i, p_f, p_o), each (1, 1, width), add p c_{t-1} to what the gates i and f read and p c_t to what
  o reads.
- ``lipaudit::gru``: ``reset_first`` multiplies the hidden state by the reset gate before the recurrent product
  (W'(r h) + b'), not behind it (r (W' h + b')).
- ``lipaudit::rnn``: h_t = tanh (or relu) of W x_t + b + W' h_{t-1} + b'.

Source: the definitions of LSTM, GRU and RNN in the ONNX standard, with its attributes P, clip and linear_before_reset.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_LIBRARY: Any = torch.library.Library("lipaudit", "FRAGMENT")  # type: ignore[no-untyped-call]
_ARGUMENTS = "Tensor input, Tensor[] hx, Tensor[] params, bool has_biases"
_LIBRARY.define(f"lstm({_ARGUMENTS}, Tensor[] peepholes, float? clip) -> (Tensor, Tensor, Tensor)")
_LIBRARY.define(f"gru({_ARGUMENTS}, bool reset_first, float? clip) -> (Tensor, Tensor)")
_LIBRARY.define(f"rnn({_ARGUMENTS}, bool relu, float? clip) -> (Tensor, Tensor)")


def _cut(z: Tensor, clip: float | None) -> Tensor:
    return z if clip is None else torch.clamp(z, -clip, clip)


def _affine(x: Tensor, params: list[Tensor], has_biases: bool, recurrent: int) -> Tensor:
    """W x + b, or W' h + b' where ``recurrent`` is 1."""
    return torch.nn.functional.linear(x, params[recurrent], params[2 + recurrent] if has_biases else None)


def _lstm(
    x: Tensor, hx: list[Tensor], params: list[Tensor], has_biases: bool, peepholes: list[Tensor], clip: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    h, c = hx
    sequence = []
    for inputs in _affine(x, params, has_biases, 0).unbind(0):
        i, f, g, o = (inputs + _affine(h, params, has_biases, 1)).chunk(4, -1)
        if peepholes:
            i, f = i + peepholes[0] * c, f + peepholes[1] * c
        c = torch.sigmoid(_cut(f, clip)) * c + torch.sigmoid(_cut(i, clip)) * torch.tanh(_cut(g, clip))
        if peepholes:
            o = o + peepholes[2] * c
        h = torch.sigmoid(_cut(o, clip)) * torch.tanh(c)
        sequence.append(h)
    return torch.cat(sequence), h.clone(), c


def _gru(
    x: Tensor, hx: list[Tensor], params: list[Tensor], has_biases: bool, reset_first: bool, clip: float | None
) -> tuple[Tensor, Tensor]:
    (h,) = hx
    gates = 2 * params[1].shape[1]
    bias = params[3][gates:] if has_biases else None
    sequence = []
    for inputs in _affine(x, params, has_biases, 0).unbind(0):
        read = _affine(h, params, has_biases, 1)
        r, z = torch.sigmoid(_cut(inputs[..., :gates] + read[..., :gates], clip)).chunk(2, -1)
        hidden = torch.nn.functional.linear(r * h, params[1][gates:], bias) if reset_first else r * read[..., gates:]
        n = torch.tanh(_cut(inputs[..., gates:] + hidden, clip))
        h = (1 - z) * n + z * h
        sequence.append(h)
    return torch.cat(sequence), h.clone()


def _rnn(
    x: Tensor, hx: list[Tensor], params: list[Tensor], has_biases: bool, relu: bool, clip: float | None
) -> tuple[Tensor, Tensor]:
    (h,) = hx
    sequence = []
    for inputs in _affine(x, params, has_biases, 0).unbind(0):
        z = _cut(inputs + _affine(h, params, has_biases, 1), clip)
        h = torch.relu(z) if relu else torch.tanh(z)
        sequence.append(h)
    return torch.cat(sequence), h.clone()


for _name, _function in (("lstm", _lstm), ("gru", _gru), ("rnn", _rnn)):
    _LIBRARY.impl(_name, _function, "CompositeImplicitAutograd")
