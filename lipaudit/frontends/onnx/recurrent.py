"""ONNX recurrent layers (LSTM, GRU, RNN): torch's operations with the gates in torch's order, or those of
:mod:`lipaudit.torch_operations` where torch has none (peepholes, clip, a GRU whose reset gate acts first).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor, nn

import lipaudit.torch_operations  # noqa: F401  (defines the operations lipaudit::lstm, gru and rnn)
from lipaudit.frontends.onnx.operators import NodeView, converter, frozen

_X, _W, _R, _B, _LENGTHS, _H, _C, _P = range(8)
# Torch's gates by their position in ONNX: i, f, g, o of i, o, f, c; r, z, n of z, r, h.
_GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
_PEEPHOLES = (0, 2, 1)  # i, f, o of i, o, f
_ACTIVATIONS = {
    "LSTM": [["sigmoid", "tanh", "tanh"]],
    "GRU": [["sigmoid", "tanh"]],
    "RNN": [["tanh"], ["relu"]],
}
_REVERSED = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}

Run: TypeAlias = Callable[..., tuple[Tensor, ...]]
"""A layer in one direction: a sequence (length, batch, width) and its initial states to the sequence and the last states."""


class _Direction(nn.Module):
    """One direction: weights, and what to run them with."""

    weight_hh: Tensor

    def __init__(self, weights: list[Tensor], peepholes: list[Tensor], run: Run, backwards: bool) -> None:
        super().__init__()
        for name, weight in zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), weights, strict=False):
            self.register_parameter(name, frozen(weight))
        for name, weight in zip(("peephole_i", "peephole_f", "peephole_o"), peepholes, strict=False):
            self.register_parameter(name, frozen(weight))
        self._count = len(weights)
        self._run, self._backwards = run, backwards

    def forward(self, x: Tensor, states: list[Tensor]) -> tuple[Tensor, ...]:
        """The sequence and the last states."""
        parameters = list(self.parameters())
        sequence, *last = self._run(
            x.flip(0) if self._backwards else x, states, parameters[: self._count], parameters[self._count :]
        )
        return sequence.flip(0) if self._backwards else sequence, *last


class _Recurrent(nn.Module):
    """All directions on sequences that may end early; behind its end a sequence gives zeros.

    ``lengths`` holds the length of each sample, None where all are as long as the input.
    """

    def __init__(
        self,
        directions: list[_Direction],
        given: list[Tensor | None],
        states: int,
        batch_first: bool,
        lengths: list[int] | None,
    ) -> None:
        super().__init__()
        self.directions = nn.ModuleList(directions)
        self._width = int(directions[0].weight_hh.shape[1])
        self._states, self._batch_first, self._lengths = states, batch_first, lengths
        self._dependent = [tensor is None for tensor in given]
        for index, tensor in enumerate(given):
            self.register_buffer(f"given_{index}", tensor)

    def forward(self, *operands: Tensor) -> tuple[Tensor, ...]:
        """Evaluate; ``operands`` are those of the input and the initial states that depend on the network's input."""
        rest = iter(operands)
        x, *states = (next(rest) if d else getattr(self, f"given_{i}") for i, d in enumerate(self._dependent))
        if self._batch_first:
            x, states = x.transpose(0, 1), [state.transpose(0, 1) for state in states]
        if not states:
            shape = (len(self.directions), x.shape[1], self._width)
            states = [x.new_zeros(shape) for _ in range(self._states)]
        if self._lengths is None or len(set(self._lengths)) == 1:
            outputs = self._all(x, states, None if self._lengths is None else self._lengths[0])
        else:
            cut = [slice(b, b + 1) for b in range(x.shape[1])]
            parts = [
                self._all(x[:, s], [state[:, s] for state in states], length)
                for s, length in zip(cut, self._lengths, strict=True)
            ]
            outputs = tuple(torch.cat(column, -2) for column in zip(*parts, strict=True))
        if self._batch_first:
            sequence, *last = outputs
            return sequence.permute(2, 0, 1, 3), *(state.transpose(0, 1) for state in last)
        return outputs

    def _all(self, x: Tensor, states: list[Tensor], length: int | None) -> tuple[Tensor, ...]:
        """The sequence (length, directions, batch, width) and the last states (directions, batch, width)."""
        parts = [
            direction(x if length is None else x[:length], [state[d : d + 1].contiguous() for state in states])
            for d, direction in enumerate(self.directions)
        ]
        sequences, *last = zip(*parts, strict=True)
        sequence = torch.stack(sequences, 1)
        if length is not None and length < x.shape[0]:
            sequence = nn.functional.pad(sequence, (0, 0, 0, 0, 0, 0, 0, x.shape[0] - length))
        return sequence, *(torch.cat(state) for state in last)


@converter("LSTM", "GRU", "RNN")
def recurrent(node: NodeView) -> nn.Module:
    """A recurrent layer with all attributes but input_forget and activations of one's own, which are refused."""
    for index, name in ((_W, "W"), (_R, "R"), (_B, "B"), (_LENGTHS, "sequence_lens"), (_P, "P")):
        if node.has(index) and not node.is_constant(index):
            node.fail(f"its input {name} depends on the network's input; only a constant is supported there")
    if node.attr("input_forget", 0):
        node.fail("coupled gates (input_forget = 1) are not supported")
    gates, recurrent_shape = len(_GATES[node.op]), node.shape(_R)
    if recurrent_shape[1] != gates * recurrent_shape[2]:
        node.fail(f"R has the shape {list(recurrent_shape)}, which no layer without projection has")
    direction = node.attr("direction", "forward")
    if direction not in _REVERSED:
        node.fail(f"its direction {direction!r} is none of {', '.join(_REVERSED)}")
    backwards = _REVERSED[direction]
    activations = _activations(node, len(backwards))
    directions = [
        _Direction(_weights(node, d), _peepholes(node, d), _run(node, activations[d]), backwards[d])
        for d in range(len(backwards))
    ]
    batch_first = bool(node.attr("layout", 0))
    lengths = _lengths(node, batch_first)
    given = [node.tensor(_X) if node.is_constant(_X) else None]
    if node.has(_H) or node.has(_C):
        given += [
            _state(node, index, len(backwards), batch_first) for index in ((_H, _C) if node.op == "LSTM" else (_H,))
        ]
    return _Recurrent(directions, given, 2 if node.op == "LSTM" else 1, batch_first, lengths)


def _activations(node: NodeView, directions: int) -> list[list[str]]:
    """The names of the activations of each direction."""
    names = [n.decode() if isinstance(n, bytes) else str(n) for n in node.attr("activations", [])]
    known = _ACTIVATIONS[node.op]
    each = len(known[0])
    parts = (
        [[n.lower() for n in names[d * each : (d + 1) * each]] for d in range(directions)]
        if names
        else [known[0]] * directions
    )
    if len(names) not in (0, directions * each) or any(part not in known for part in parts):
        usual = " or ".join(", ".join(name.capitalize() for name in names) for names in known)
        node.fail(
            f"the activations {', '.join(names)} are not supported: lipaudit bounds it with {usual} in each direction"
        )
    return parts


def _weights(node: NodeView, direction: int) -> list[Tensor]:
    """W, R and, where they are given, both biases of a direction, with the gates in torch's order."""

    def ordered(tensor: Tensor) -> Tensor:
        parts = tensor.chunk(len(_GATES[node.op]))
        return torch.cat([parts[k] for k in _GATES[node.op]])

    weights = [ordered(node.tensor(index)[direction]) for index in (_W, _R)]
    return weights + [ordered(part) for part in node.tensor(_B)[direction].chunk(2)] if node.has(_B) else weights


def _peepholes(node: NodeView, direction: int) -> list[Tensor]:
    """The peepholes of a direction as (1, 1, width), none where there are none."""
    if node.op != "LSTM" or not node.has(_P):
        return []
    parts = node.tensor(_P)[direction].chunk(3)
    return [parts[k].reshape(1, 1, -1).contiguous() for k in _PEEPHOLES]


def _run(node: NodeView, activations: list[str]) -> Run:
    """What computes one direction: torch's operation, or ours where it has a clip, peepholes or another order."""
    clip = node.attr("clip")
    if clip is not None and not clip > 0:
        node.fail(f"its clip is {clip:g}; it must be positive")
    clip = None if clip is None else float(clip)
    biased = node.has(_B)
    if node.op == "LSTM" and (clip is not None or node.has(_P)):
        return lambda x, states, weights, peep: torch.ops.lipaudit.lstm(x, states, weights, biased, peep, clip)
    if node.op == "GRU" and not (clip is None and node.attr("linear_before_reset", 0)):
        first = not node.attr("linear_before_reset", 0)
        return lambda x, states, weights, _peep: torch.ops.lipaudit.gru(x, states, weights, biased, first, clip)
    if clip is not None:
        relu = activations == ["relu"]
        return lambda x, states, weights, _peep: torch.ops.lipaudit.rnn(x, states, weights, biased, relu, clip)
    options = (biased, 1, 0.0, False, False, False)
    if node.op == "LSTM":
        return lambda x, states, weights, _peep: torch.ops.aten.lstm.input(x, states, weights, *options)
    operation = {"sigmoid": torch.ops.aten.gru, "tanh": torch.ops.aten.rnn_tanh, "relu": torch.ops.aten.rnn_relu}
    run = operation[activations[0]].input
    return lambda x, states, weights, _peep: run(x, states[0], weights, *options)


def _lengths(node: NodeView, batch_first: bool) -> list[int] | None:
    """The lengths of the samples, None where all are as long as the input."""
    if not node.has(_LENGTHS):
        return None
    longest = node.shape()[1 if batch_first else 0]
    lengths = [int(n) for n in node.constant(_LENGTHS).reshape(-1)]
    if any(not 1 <= n <= longest for n in lengths):
        node.fail(
            f"sequence_lens holds {min(lengths)} to {max(lengths)}, but the sequences have 1 to {longest} entries"
        )
    return None if set(lengths) == {longest} else lengths


def _state(node: NodeView, index: int, directions: int, batch_first: bool) -> Tensor | None:
    """An initial state, zeros where it is not given, None where it depends on the network's input."""
    if node.has(index):
        return node.tensor(index) if node.is_constant(index) else None
    batch, width = node.shape()[0 if batch_first else 1], node.shape(_R)[2]
    shape = (batch, directions, width) if batch_first else (directions, batch, width)
    return torch.zeros(shape, dtype=node.tensor(_R).dtype)
