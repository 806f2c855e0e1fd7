"""Recurrent layers (LSTM, GRU): finite over all inputs, because gates and hidden states are bounded.

Notation of torch: s is the logistic function, gates act entry by entry, W are the slices of the weights; each step is
bounded block by block, ``||d h_t / d x_s|| <= m_ts``, and the matrix of blocks by ``||J|| <= ||m||_F`` (a block matrix is
no larger than the matrix of its blocks' norms). The blocks follow from one step to the next by the triangle inequality.

LSTM. i, f, o = s(.), g = tanh(.), c_t = f c_{t-1} + i g, h_t = o tanh(c_t), so that |h_t| <= 1 and |c_t| <= |c_0| + t =: C_t.

    d c_t = f d c_{t-1} + g i(1-i) d z_i + c_{t-1} f(1-f) d z_f + i(1-g^2) d z_g
    d h_t = o (1 - tanh(c_t)^2) d c_t + tanh(c_t) o(1-o) d z_o
    ||d c_t|| <= ||d c_{t-1}|| + a ||d x_t|| + a' ||d h_{t-1}||
    ||d h_t|| <= ||d c_t|| + tanh(C_t)/4 (||W_o|| ||d x_t|| + ||W'_o|| ||d h_{t-1}||)

where a is the smaller of ||W_i||/4 + C_{t-1} ||W_f||/4 + ||W_g|| and sqrt(1 + C_{t-1}^2/16) ||(W_i; W_f; W_g)||. The
latter: the three coefficients of an entry have the squares (i(1-g^2))^2 + (g i(1-i))^2 <= 1 and at most C_{t-1}^2/16.

GRU. r, z = s(.), n = tanh(W_n x + b + r (W'_n h + b')), h_t = (1-z) n + z h_{t-1}, so that |h_t| <= max(1, |h_0|) =: H.

    d h_t = z d h_{t-1} + (h_{t-1} - n) z(1-z) d z_z
            + (1-z)(1-n^2)(W_n d x_t + r W'_n d h_{t-1} + (W'_n h_{t-1} + b') r(1-r) d z_r)
    ||d h_t|| <= (||W_n|| + (1+H) ||W_z||/4 + q ||W_r||/4) ||d x_t||
                 + (sqrt(1 + ||W'_n||^2) + (1+H) ||W'_z||/4 + q ||W'_r||/4) ||d h_{t-1}||

because (z u + (1-z) v)^2 <= z u^2 + (1-z) v^2 <= u^2 + v^2 in every entry; here q = max_j (sum_k |W'_n,jk|) H + |b'_j| bounds the
entries of W'_n h_{t-1} + b'.

Layers multiply; the two directions of a layer have outputs of their own (root of the sum of squares). Every figure is
the largest over the outputs (sequence, last hidden states, last cell states).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from lipaudit.graph.node import Constant, Node, Ref
from lipaudit.rules.magnitudes import Magnitude, ranged
from lipaudit.rules.operands import count_refs, data, is_finite, largest, number, rounded, shape_of
from lipaudit.rules.products import matrix_norm
from lipaudit.rules.registry import Effect, Settings, rule
from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.interval import Interval

SOURCE = "bounded gates and states; a block matrix is at most the Frobenius norm of its blocks' norms"
UNBOUNDED_STATE = "the bound of a recurrent layer needs a bounded initial state, and this one depends on the input"
_ONE, _QUARTER = Bracket.exact(1.0), Bracket.exact(0.25)


Blocks = tuple[dict[str, Bracket], ...]  # by output (sequence, last h, last c): bounds by source ("x", "h", "c")
Step = Callable[[int], tuple[Bracket, ...]]


@rule(
    "aten.lstm.input",
    formula="the Frobenius norm of the bounds of the blocks d h_t / d x_s, a product over the layers",
    source=SOURCE, where_bounded=True,
)  # fmt: skip
def lstm(node: Node, settings: Settings) -> Effect:
    """An LSTM; a data-dependent initial cell state must be bounded."""
    return _recurrent(node, settings, gates=4, state=1)


@rule(
    "aten.gru.input",
    formula="the Frobenius norm of the bounds of the blocks d h_t / d x_s, a product over the layers",
    source=SOURCE, where_bounded=True,
)  # fmt: skip
def gru(node: Node, settings: Settings) -> Effect:
    """A GRU; a data-dependent initial state must be bounded."""
    return _recurrent(node, settings, gates=3, state=0)


def _recurrent(node: Node, settings: Settings, gates: int, state: int) -> Effect:
    """``state`` is the position of the initial state whose size matters."""
    reason = _refused(node, settings)
    if reason:
        return Effect.unsupported(reason)
    start = _states(node)[state]
    if isinstance(start, Constant):
        bounds = [largest(part) for part in start.value.detach().to("cpu", torch.float64)]
        return _effect(node, settings, gates, bounds)

    def given(operands: tuple[Magnitude, ...]) -> Effect:
        bound = operands[node.refs.index(start)].largest
        if bound.log_upper > 700:
            return Effect.unbounded(UNBOUNDED_STATE)
        return _effect(node, settings, gates, [bound.upper] * start.info.shape[0], bound.rigor)

    return Effect.where_bounded(UNBOUNDED_STATE, given)


def _states(node: Node) -> tuple[Ref | Constant, ...]:
    """The initial states: h_0, for an LSTM c_0 as well."""
    states = node["hx"]
    return states if isinstance(states, tuple) else (states,)  # type: ignore[return-value]


def _refused(node: Node, settings: Settings) -> str:
    """Why nothing is claimed of this layer, empty where something is."""
    kind = node.op.split(".")[1]
    params = node["params"]
    if count_refs(params) or not isinstance(params, tuple):
        return f"{kind} with data-dependent weights"
    if node["train"] is not False and node["dropout"] != 0:
        return f"{kind} in training mode is random; audit the network in eval mode"
    expected = len(_directions(node)) * (4 if node["has_biases"] else 2)
    sizes = {shape_of(s)[-1] for s in _states(node)}
    if len(params) != expected or len(sizes) != 1:
        return f"{kind} with projections of its hidden state; lipaudit bounds it without"
    fixed = [p for p in (*params, *_states(node)) if isinstance(p, Constant)]
    if settings.norms.weights_known and not all(is_finite(c.value) for c in fixed):
        return f"the weights or the initial state of {kind} hold NaN or infinity"
    return ""


def _directions(node: Node) -> list[int]:
    """The layer of each direction, in the order of the weights and the states."""
    each = 2 if node["bidirectional"] else 1
    return [layer for layer in range(int(number(node, "num_layers"))) for _ in range(each)]


def _effect(
    node: Node, settings: Settings, gates: int, bounds: Sequence[float], rigor: Rigor = Rigor.CERTIFIED
) -> Effect:
    """The constants given a bound of the entries of the initial state, one per direction of each layer."""
    shape = data(node, "input").shape
    length = shape[1 if node["batch_first"] else 0]
    params: tuple[Constant, ...] = node["params"]  # type: ignore[assignment]
    each = 4 if node["has_biases"] else 2
    lstm_step = gates == 4
    layers: dict[int, list[Blocks]] = {}
    for position, layer in enumerate(_directions(node)):
        weights = [p.value.detach() for p in params[position * each : (position + 1) * each]]
        make = _lstm_step if lstm_step else _gru_step
        layers.setdefault(layer, []).append(_recurrence(length, make(weights, bounds[position], settings)))
    outputs = 3 if lstm_step else 2
    found = _stacked(list(layers.values()), outputs)
    sources = [("x", node["input"]), *zip("hc", _states(node), strict=False)]
    trust = Bracket.exact(1.0, rigor)
    return Effect.stretch(*(found[key] * trust for key, argument in sources if isinstance(argument, Ref)))


@ranged("aten.lstm.input")
def lstm_range(node: Node, intervals: tuple[Interval, ...]) -> Interval | tuple[Interval, ...]:
    """|h_t| <= 1 and |c_t| <= |c_0| + t; a projected hidden state has no such bound."""
    if len({shape_of(state)[-1] for state in _states(node)}) != 1:
        return Interval()
    hidden, cell = Interval(-1.0, 1.0), _state_bound(node, 1, intervals)
    length = data(node, "input").shape[1 if node["batch_first"] else 0]
    return hidden, hidden, Interval(-cell - length, cell + length)


@ranged("aten.gru.input")
def gru_range(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """|h_t| <= max(1, |h_0|)."""
    bound = max(1.0, _state_bound(node, 0, intervals))
    return Interval(-bound, bound)


def _state_bound(node: Node, state: int, intervals: tuple[Interval, ...]) -> float:
    """max |entry| of an initial state, infinite where nothing is known."""
    start = _states(node)[state]
    if isinstance(start, Ref):
        return intervals[node.refs.index(start)].largest
    if start.value.is_meta or not is_finite(start.value):
        return math.inf
    return largest(start.value.detach().to("cpu", torch.float64)) * (1 + 2.0**-40)


def _stacked(layers: Sequence[Sequence[Blocks]], outputs: int) -> dict[str, Bracket]:
    """The constants of all layers by source, each the largest over the outputs.

    ``reach`` bounds how far the sequence that a layer reads follows the network's input and the initial states of the
    layers before; the last states of all directions are stacked.
    """
    reach: dict[tuple[str, int, int], Bracket] = {("x", 0, 0): Bracket.exact(1.0)}
    last: list[dict[str, list[Bracket]]] = [{key: [] for key in "xhc"} for _ in range(outputs)]
    for depth, directions in enumerate(layers):
        following: dict[tuple[str, int, int], Bracket] = {}
        through = Bracket.root_sum_squares([blocks[0]["x"] for blocks in directions])
        for source, bound in reach.items():
            following[source] = through * bound
            for output in range(1, outputs):
                last[output][source[0]] += [blocks[output]["x"] * bound for blocks in directions]
        for position, blocks in enumerate(directions):
            for key in "hc":
                following[key, depth, position] = blocks[0][key]
                for output in range(1, outputs):
                    last[output][key].append(blocks[output][key])
        reach = following
    for source, bound in reach.items():
        last[0][source[0]].append(bound)
    return {key: Bracket.maximum(Bracket.root_sum_squares(parts[key]) for parts in last) for key in "xhc"}


def _lstm_step(weights: Sequence[torch.Tensor], start: float, settings: Settings) -> Step:
    """One step of an LSTM; ``start`` bounds |c_0|. The gates are stored in the order i, f, g, o."""
    parts = []
    for matrix in weights[:2]:
        gates = [matrix_norm([gate], settings) for gate in matrix.chunk(4)]
        parts.append((*gates, matrix_norm([matrix[: 3 * len(matrix) // 4]], settings)))

    def into_cell(part: tuple[Bracket, ...], cell: Bracket) -> Bracket:
        first, forget, new, _, together = part
        apart = Bracket.sum([_QUARTER * first, _QUARTER * cell * forget, new])
        joint = Bracket.root_sum_squares([_ONE, _QUARTER * cell]) * together
        return min(apart, joint, key=lambda b: b.log_upper)

    def step(t: int) -> tuple[Bracket, ...]:
        cell = rounded(start + t)
        out = _QUARTER * rounded(math.tanh(start + t + 1))
        x, h = ((into_cell(part, cell), out * part[3]) for part in parts)
        return _ONE, x[0], h[0], _ONE, x[1], h[1]

    return step


def _gru_step(weights: Sequence[torch.Tensor], start: float, settings: Settings) -> Step:
    """One step of a GRU; ``start`` bounds |h_0|. The gates are stored in the order r, z, n."""
    reset, update, new = ([matrix_norm([m.chunk(3)[k]], settings) for m in weights[:2]] for k in range(3))
    size = max(1.0, start)
    inner = Bracket.exact(1.0)
    if settings.norms.weights_known:
        recurrent = weights[1].chunk(3)[2].to("cpu", torch.float64)
        bias = weights[3].chunk(3)[2].to("cpu", torch.float64).abs() if len(weights) == 4 else 0.0
        entries = recurrent.abs().sum(1) * size + bias
        inner = rounded(float(entries.max()), (recurrent.shape[1] + 8) * 2.0**-52)
    gated = [Bracket.sum([rounded(1 + size) * _QUARTER * update[k], inner * _QUARTER * reset[k]]) for k in range(2)]
    from_x = Bracket.sum([new[0], gated[0]])
    from_h = Bracket.sum([Bracket.root_sum_squares([_ONE, new[1]]), gated[1]])
    nothing = Bracket.exact(0.0)
    return lambda _t: (nothing, nothing, nothing, nothing, from_x, from_h)


def _recurrence(length: int, step: Step) -> Blocks:
    """Frobenius norms of the blocks of all steps.

    ``step(t)`` gives bounds of the cell by the cell before, by x and by h, and of h by the new cell, by x and by the h
    before. Everything is a logarithm: one column per x_t, and one for each initial state. An addition errs by a few
    units of the largest logarithm and passes the errors before it on without enlarging them.
    """
    start = {"h": (0.0, -math.inf), "c": (-math.inf, 0.0)}
    states = list(start)
    size = length + len(states)
    h, c = (torch.full((size,), -math.inf, dtype=torch.float64) for _ in range(2))
    for position, state in enumerate(states):
        h[length + position], c[length + position] = start[state]
    total = torch.full((size,), -math.inf, dtype=torch.float64)
    top, rigor = 1.0, Rigor.CERTIFIED
    for t in range(length):
        bounds = step(t)
        rigor = Rigor.weakest((rigor, *(b.rigor for b in bounds)))
        keep, cell_x, cell_h, out_cell, out_x, out_h = (b.log_upper for b in bounds)
        here = torch.full((size,), -math.inf, dtype=torch.float64)
        here[t] = 0.0
        new = _sum(c + keep, h + cell_h, here + cell_x)
        h, c = _sum(new + out_cell, h + out_h, here + out_x), new
        total = torch.logaddexp(total, 2 * h)
        for vector in (h, c, total):
            finite = vector[torch.isfinite(vector)]
            top = max(top, float(finite.abs().max())) if len(finite) else top
    margin = 64 * (length + size + 4) * 2.0**-53 * (top + 2)
    return tuple(_grouped(v, length, states, margin, rigor) for v in (total, 2 * h, 2 * c))


def _sum(*logs: torch.Tensor) -> torch.Tensor:
    total = logs[0]
    for other in logs[1:]:
        total = torch.logaddexp(total, other)
    return total


def _grouped(
    squares: torch.Tensor, length: int, states: Sequence[str], margin: float, rigor: Rigor
) -> dict[str, Bracket]:
    logs = {"x": float(torch.logsumexp(squares[:length], 0))}
    logs |= {state: float(squares[length + position]) for position, state in enumerate(states)}
    return {key: Bracket(-math.inf, log / 2 + margin if log > -math.inf else log, rigor) for key, log in logs.items()}
