"""Recurrent layers and cells (LSTM, GRU, RNN): finite over all inputs, because gates and hidden states are bounded.

One step is bounded in :mod:`lipaudit.rules.ops.recurrent_cell`, the sequence of steps in :mod:`lipaudit.rules.ops.recurrent_jacobian`.
Layers multiply; the two directions of a layer have outputs of their own (root of the sum of squares). Every figure is the largest over
the outputs (sequence, last hidden states, last cell states). A cell is a layer of one step. An RNN needs no bound of its state; an LSTM
needs one of its initial cell state, a GRU of its initial hidden state.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

import lipaudit.torch_operations  # noqa: F401  (defines the operations lipaudit::lstm, gru and rnn)
from lipaudit.graph.node import Constant, Node, Ref
from lipaudit.graph.recurrent import (
    GRU,
    LSTM,
    RNN,
    RNN_RELU,
    Direction,
    directions,
    initial_states,
    is_cell,
    is_projected,
    kind_of,
    layer_of_each_direction,
    parameters,
)
from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.operands import count_refs, data, is_finite, largest
from lipaudit.rules.ops.recurrent_cell import gru_steps, lstm_steps, rnn_steps
from lipaudit.rules.ops.recurrent_jacobian import Blocks, Steps, blocks, stacked
from lipaudit.rules.region.magnitude import Magnitude
from lipaudit.rules.rule import operations
from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.interval import Interval

FORMULA = "sigma_1 of the matrix of bounds of the blocks d h_t / d x_s, a product over the layers"
SOURCE = "bounded gates and states; a block matrix is at most sigma_1 of the matrix of its blocks' norms"
UNBOUNDED_STATE = "the bound of a recurrent layer needs a bounded initial state, and this one depends on the input"
LSTMS, GRUS, RNNS = operations(*LSTM), operations(*GRU), operations(*RNN)


@LSTMS.constant(formula=FORMULA, source=SOURCE, where_bounded=True)
def lstm(node: Node, settings: Settings) -> Effect:
    """An LSTM, also with projections or peepholes; a data-dependent initial cell state must be bounded."""
    return _where_state_bounded(node, settings, 1)


@GRUS.constant(formula=FORMULA, source=SOURCE, where_bounded=True)
def gru(node: Node, settings: Settings) -> Effect:
    """A GRU; a data-dependent initial state must be bounded."""
    return _where_state_bounded(node, settings, 0)


@RNNS.constant(formula=FORMULA, source=SOURCE.removeprefix("bounded gates and states; "))
def rnn(node: Node, settings: Settings) -> Effect:
    """A plain recurrent layer with tanh or relu, whatever its initial state is."""
    reason = _refused(node, settings)
    return Effect.unsupported(reason) if reason else _effect(node, settings, [0.0] * len(layer_of_each_direction(node)))


def _where_state_bounded(node: Node, settings: Settings, state: int) -> Effect:
    """``state`` is the position of the initial state whose size matters."""
    reason = _refused(node, settings)
    if reason:
        return Effect.unsupported(reason)
    start, count = initial_states(node)[state], len(layer_of_each_direction(node))
    if isinstance(start, Constant):
        value = start.value.detach().to("cpu", torch.float64)
        parts = [value] if is_cell(node) else list(value)
        return _effect(node, settings, [largest(part) for part in parts])

    def given(operands: tuple[Magnitude, ...]) -> Effect:
        bound = operands[node.refs.index(start)].largest
        if bound.log_upper > 700:
            return Effect.unbounded(UNBOUNDED_STATE)
        return _effect(node, settings, [bound.upper] * count, bound.rigor)

    return Effect.where_bounded(UNBOUNDED_STATE, given)


def _length(node: Node) -> int:
    """The number of steps."""
    return 1 if is_cell(node) else data(node, "input").shape[1 if node.get("batch_first") else 0]


def _refused(node: Node, settings: Settings) -> str:
    """Why nothing is claimed of this layer, empty where something is."""
    params, peepholes = parameters(node), node.get("peepholes", ())
    if count_refs((params, peepholes)) or not isinstance(params, tuple) or not isinstance(peepholes, tuple):
        return f"{kind_of(node)} with data-dependent weights"
    if node.get("train", False) is not False and node["dropout"] != 0:
        return f"{kind_of(node)} in training mode is random; audit the network in eval mode"
    if directions(node) is None:
        return f"{kind_of(node)} with {len(params)} tensors of weights, which is not the number that torch has"
    fixed = [p for p in (*params, *peepholes, *initial_states(node)) if isinstance(p, Constant)]
    if settings.norms.weights_known and not all(is_finite(c.value) for c in fixed):
        return f"the weights or the initial state of {kind_of(node)} hold NaN or infinity"
    return ""


def _steps(node: Node, direction: Direction, start: float, settings: Settings) -> Steps:
    """The steps of one direction; ``start`` bounds the entries of the initial state that matters."""
    if kind_of(node) == "lstm":
        peepholes: tuple[Constant, ...] = node.get("peepholes", ())  # type: ignore[assignment]
        return lstm_steps(direction, start, settings, [p.value.detach() for p in peepholes])
    if kind_of(node) == "gru":
        return gru_steps(direction, start, settings, bool(node.get("reset_first", False)))
    return rnn_steps(direction, settings)


def _effect(node: Node, settings: Settings, bounds: Sequence[float], rigor: Rigor = Rigor.CERTIFIED) -> Effect:
    """The constants given a bound of the entries of the initial state, one per direction of each layer."""
    layers: dict[int, list[Blocks]] = {}
    for direction, bound in zip(directions(node) or (), bounds, strict=True):
        steps = _steps(node, direction, bound, settings)
        layers.setdefault(direction.layer, []).append(blocks(_length(node), steps))
    constants = stacked(list(layers.values()), 3 if kind_of(node) == "lstm" else 2)
    sources = [("x", node["input"]), *zip("hc", initial_states(node), strict=False)]
    trust = Bracket.exact(1.0, rigor)
    return Effect.stretch(*(constants[key] * trust for key, argument in sources if isinstance(argument, Ref)))


@LSTMS.interval
def lstm_range(node: Node, intervals: tuple[Interval, ...]) -> Interval | tuple[Interval, ...]:
    """|h_t| <= 1, of a projected state the largest sum of moduli of a row of the projection, and |c_t| <= |c_0| + t."""
    reach = 1.0
    if is_projected(node):
        each = directions(node)
        reach = max((_largest_row(d.projection) for d in each), default=math.inf) if each else math.inf
    hidden, cell = Interval(-reach, reach), _state_bound(node, 1, intervals) + _length(node)
    last = (hidden, Interval(-cell, cell))
    return last if is_cell(node) else (hidden, *last)


def _largest_row(projection: Constant | None) -> float:
    """max over the rows of the sum of moduli, infinite where the matrix is unknown."""
    if projection is None or projection.value.is_meta or not is_finite(projection.value):
        return math.inf
    rows = projection.value.detach().to("cpu", torch.float64).abs().sum(1)
    return float(rows.max()) * (1 + 2.0**-40)


@GRUS.interval
def gru_range(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """|h_t| <= max(1, |h_0|)."""
    bound = max(1.0, _state_bound(node, 0, intervals))
    return Interval(-bound, bound)


@RNNS.interval
def rnn_range(node: Node, _intervals: tuple[Interval, ...]) -> Interval:
    """[-1, 1] for tanh, [0, infinity) for relu."""
    return Interval(0.0) if node.op in RNN_RELU or node.get("relu") else Interval(-1.0, 1.0)


def _state_bound(node: Node, state: int, intervals: tuple[Interval, ...]) -> float:
    """max |entry| of an initial state, infinite where nothing is known."""
    start = initial_states(node)[state]
    if isinstance(start, Ref):
        return intervals[node.refs.index(start)].largest
    if start.value.is_meta or not is_finite(start.value):
        return math.inf
    return largest(start.value.detach().to("cpu", torch.float64)) * (1 + 2.0**-40)
