"""Recurrent layers and cells step by step, in torch's conventions (:mod:`lipaudit.graph.recurrent`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor


def _layers(kind: str, arguments: Mapping[str, Any], activation: str = "tanh") -> tuple[Tensor, ...]:
    """All layers of a recurrent operation, both directions, step by step."""
    x, params, biases = arguments["input"], list(arguments["params"]), bool(arguments["has_biases"])
    if arguments["train"] and arguments["dropout"]:
        raise NotImplementedError
    if arguments["batch_first"]:
        x = x.transpose(0, 1)
    states = list(arguments["hx"]) if kind == "lstm" else [arguments["hx"]]
    each = 2 if arguments["bidirectional"] else 1
    projected = kind == "lstm" and states[0].shape[-1] != states[1].shape[-1]
    size = 2 + 2 * biases + projected
    last: list[list[Tensor]] = [[] for _ in states]
    for layer in range(arguments["num_layers"]):
        outputs = []
        for direction in range(each):
            k = layer * each + direction
            weights = params[k * size : (k + 1) * size]
            sequence, *ends = _direction(
                kind, x.flip(0) if direction else x, [s[k] for s in states], weights, biases, activation
            )
            outputs.append(sequence.flip(0) if direction else sequence)
            for ended, end in zip(last, ends, strict=True):
                ended.append(end)
        x = torch.cat(outputs, -1) if each > 1 else outputs[0]
    return (x.transpose(0, 1) if arguments["batch_first"] else x), *(torch.stack(ended) for ended in last)


def _direction(
    kind: str, x: Tensor, states: list[Tensor], weights: list[Tensor], biases: bool, activation: str
) -> tuple[Tensor, ...]:
    """One direction of one layer: the sequence and the last states."""
    sequence = []
    inputs = torch.nn.functional.linear(x, weights[0], weights[2] if biases else None)
    states = [_as_data(state, x[0]) for state in states]
    for t in range(len(x)):
        states = list(_step(kind, inputs[t], states, weights, biases, activation))
        sequence.append(states[0])
    return torch.stack(sequence), *states


def _as_data(state: Tensor, x: Tensor) -> Tensor:
    """A state that may be constant plus 0 x: how well what is computed from it is known is then bounded like that of all data."""
    return state + 0 * x.sum(-1, keepdim=True)


def _step(
    kind: str, inputs: Tensor, states: list[Tensor], weights: list[Tensor], biases: bool, activation: str
) -> tuple[Tensor, ...]:
    """One step: the states after it, from W x + b and the states before."""
    h = states[0]
    read = torch.nn.functional.linear(h, weights[1], weights[3] if biases else None)
    if kind == "lstm":
        i, f, g, o = (inputs + read).chunk(4, -1)
        c = torch.sigmoid(f) * states[1] + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        projection = weights[2 + 2 * biases :]
        return (torch.nn.functional.linear(h, projection[0]) if projection else h), c
    if kind == "gru":
        (r, z, n), (hr, hz, hn) = inputs.chunk(3, -1), read.chunk(3, -1)
        z = torch.sigmoid(z + hz)
        n = torch.tanh(n + torch.sigmoid(r + hr) * hn)
        return (n + z * (h - n),)
    total = inputs + read
    return (torch.relu(total) if activation == "relu" else torch.tanh(total),)


def _recurrent(kind: str, activation: str = "tanh") -> Callable[..., tuple[Tensor, ...]]:
    def layers(
        input: Tensor, hx: Any, params: Any, has_biases: bool, num_layers: int, dropout: float, train: bool,  # noqa: A002
        bidirectional: bool, batch_first: bool,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        return _layers(kind, dict(locals()), activation)

    return layers


def _cell(kind: str, activation: str = "tanh") -> Callable[..., Any]:
    def cell(
        input: Tensor,  # noqa: A002
        hx: Any,
        w_ih: Tensor,
        w_hh: Tensor,
        b_ih: Tensor | None = None,
        b_hh: Tensor | None = None,
    ) -> Any:
        states = list(hx) if kind == "lstm" else [hx]
        biases = b_ih is not None
        weights = [w_ih, w_hh, *((b_ih, b_hh) if b_ih is not None and b_hh is not None else ())]
        inputs = torch.nn.functional.linear(input, w_ih, b_ih)
        after = _step(kind, inputs, [_as_data(state, input) for state in states], weights, biases, activation)
        return after if kind == "lstm" else after[0]

    return cell


RECURRENT_DEFINITIONS: Mapping[str, Callable[..., Any]] = {
    "aten.lstm.input": _recurrent("lstm"),
    "aten.gru.input": _recurrent("gru"),
    "aten.rnn_tanh.input": _recurrent("rnn"),
    "aten.rnn_relu.input": _recurrent("rnn", "relu"),
    "aten.lstm_cell.default": _cell("lstm"),
    "aten.gru_cell.default": _cell("gru"),
    "aten.rnn_tanh_cell.default": _cell("rnn"),
    "aten.rnn_relu_cell.default": _cell("rnn", "relu"),
}
