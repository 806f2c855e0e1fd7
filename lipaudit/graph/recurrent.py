"""The weights of recurrent layers and cells (LSTM, GRU, RNN), by layer and direction, and the blocks of their gates.

The stacked matrices of torch are W (gates x hidden, inputs), which multiplies the input, and W' (gates x hidden, hidden), which
multiplies the hidden state before. A layer has them in one list of parameters, a cell in four arguments.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from lipaudit.graph.node import Argument, Constant, Node, Ref

LSTM = ("aten.lstm.input", "lipaudit.lstm.default", "aten.lstm_cell.default")
GRU = ("aten.gru.input", "lipaudit.gru.default", "aten.gru_cell.default")
RNN_TANH, RNN_RELU = (
    tuple(f"aten.rnn_{name}{kind}" for kind in (".input", "_cell.default")) for name in ("tanh", "relu")
)
RNN = (*RNN_TANH, *RNN_RELU, "lipaudit.rnn.default")
RECURRENT = frozenset((*LSTM, *GRU, *RNN))


@dataclass(frozen=True, eq=False)
class Direction:
    """One layer in one direction: ``input`` is W, ``recurrent`` W', ``biases`` both of torch's or none."""

    layer: int
    input: Constant
    recurrent: Constant
    biases: tuple[Constant, ...] = ()
    projection: Constant | None = None


def is_cell(node: Node) -> bool:
    """Whether a recurrent node is a single step."""
    return "_cell." in node.op


def kind_of(node: Node) -> str:
    """``lstm``, ``gru`` or ``rnn``."""
    return node.op.split(".")[1].split("_")[0]


def initial_states(node: Node) -> tuple[Ref | Constant, ...]:
    """h_0, for an LSTM c_0 as well."""
    states = node["hx"]
    return states if isinstance(states, tuple) else (states,)  # type: ignore[return-value]


def parameters(node: Node) -> Argument:
    """The parameters of all directions, in torch's order."""
    if is_cell(node):
        return tuple(p for key in ("w_ih", "w_hh", "b_ih", "b_hh") if (p := node[key]) is not None)
    return node["params"]


def is_projected(node: Node) -> bool:
    """Whether the hidden state of an LSTM is a projection: then it is shorter than the cell state."""
    return len({_width(state) for state in initial_states(node)}) > 1


def _width(state: Ref | Constant) -> int:
    return state.info.shape[-1] if isinstance(state, Ref) else state.value.shape[-1]


def layer_of_each_direction(node: Node) -> list[int]:
    """The layer of each direction, in the order of the parameters and of the initial states."""
    each = 2 if node.get("bidirectional") else 1
    return [layer for layer in range(int(node.get("num_layers", 1))) for _ in range(each)]  # type: ignore[arg-type]


def directions(node: Node) -> tuple[Direction, ...] | None:
    """The weights of a recurrent node; None where one depends on the data or their number is not that of torch."""
    tensors, layers = parameters(node), layer_of_each_direction(node)
    has_biases = node["b_ih"] is not None if is_cell(node) else bool(node["has_biases"])
    biases, projected = (2 if has_biases else 0), is_projected(node)
    each = 2 + biases + projected
    if not isinstance(tensors, tuple) or len(tensors) != each * len(layers):
        return None
    constants = [tensor for tensor in tensors if isinstance(tensor, Constant)]
    if len(constants) != len(tensors):
        return None
    own = [constants[start : start + each] for start in range(0, len(constants), each)]
    return tuple(
        Direction(layer, c[0], c[1], tuple(c[2 : 2 + biases]), c[-1] if projected else None)
        for layer, c in zip(layers, own, strict=True)
    )


def gates(kind: str, matrix: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The rows of a stacked matrix (W or W') gate by gate: i, f, g, o of an LSTM; r, z, n of a GRU; all of an RNN.

    >>> [gate.tolist() for gate in gates("gru", torch.arange(3.0)[:, None])]
    [[[0.0]], [[1.0]], [[2.0]]]
    """
    return matrix.chunk({"lstm": 4, "gru": 3, "rnn": 1}[kind])


def cell_gates(matrix: torch.Tensor) -> torch.Tensor:
    """The rows of an LSTM's stacked matrix that the cell state reads: i, f and g together."""
    return matrix[: 3 * len(matrix) // 4]
