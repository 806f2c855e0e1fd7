"""One step of a recurrent cell: how far the new state follows the input and the state before.

Notation of torch: s is the logistic function, gates act entry by entry, W are the slices of the weights.

LSTM. i, f, o = s(.), g = tanh(.), c_t = f c_{t-1} + i g, h_t = o tanh(c_t), so that |h_t| <= 1 and |c_t| <= |c_0| + t =: C_t.

    d c_t = f d c_{t-1} + g i(1-i) d z_i + c_{t-1} f(1-f) d z_f + i(1-g^2) d z_g
    d h_t = o (1 - tanh(c_t)^2) d c_t + tanh(c_t) o(1-o) d z_o
    ||d c_t|| <= ||d c_{t-1}|| + a ||d x_t|| + a' ||d h_{t-1}||
    ||d h_t|| <= ||d c_t|| + tanh(C_t)/4 (||W_o|| ||d x_t|| + ||W'_o|| ||d h_{t-1}||)

where a is the smaller of ||W_i||/4 + C_{t-1} ||W_f||/4 + ||W_g|| and sqrt(1 + C_{t-1}^2/16) ||(W_i; W_f; W_g)||. The
latter: the three coefficients of an entry have the squares (i(1-g^2))^2 + (g i(1-i))^2 <= 1 and at most C_{t-1}^2/16.
A projected hidden state is P o tanh(c_t): all that reaches it is multiplied by ||P||. Peepholes p add p_i d c_{t-1} to d z_i,
p_f d c_{t-1} to d z_f and p_o d c_t to d z_o, so that the factor 1 of d c_{t-1} becomes 1 + max|p_i|/4 + C_{t-1} max|p_f|/4
and that of d c_t becomes 1 + tanh(C_t) max|p_o|/4.

GRU. r, z = s(.), n = tanh(W_n x + b + r (W'_n h + b')), h_t = (1-z) n + z h_{t-1}, so that |h_t| <= max(1, |h_0|) =: H.

    d h_t = z d h_{t-1} + (h_{t-1} - n) z(1-z) d z_z
            + (1-z)(1-n^2)(W_n d x_t + r W'_n d h_{t-1} + (W'_n h_{t-1} + b') r(1-r) d z_r)
    ||d h_t|| <= (||W_n|| + (1+H) ||W_z||/4 + q ||W_r||/4) ||d x_t||
                 + (sqrt(1 + ||W'_n||^2) + (1+H) ||W'_z||/4 + q ||W'_r||/4) ||d h_{t-1}||

because (z u + (1-z) v)^2 <= z u^2 + (1-z) v^2 <= u^2 + v^2 in every entry; here q = max_j (sum_k |W'_n,jk|) H + |b'_j| bounds the
entries of W'_n h_{t-1} + b'. Where the reset gate acts first, n = tanh(W_n x + b + W'_n (r h) + b'), the two terms behind
W_n d x_t are W'_n (r d h_{t-1}) and W'_n (h_{t-1} r(1-r) d z_r): the same with q = ||W'_n|| H.

RNN. h_t = tanh or relu of W x_t + W' h_{t-1} + b: slopes of at most 1, ||d h_t|| <= ||W|| ||d x_t|| + ||W'|| ||d h_{t-1}||.

A clip of what the gates read has a slope of at most 1 and changes none of this.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from lipaudit.graph.recurrent import Direction, cell_gates, gates
from lipaudit.rules.effect import Settings
from lipaudit.rules.operands import largest, rounded
from lipaudit.rules.ops.matrix_products import matrix_norm
from lipaudit.rules.ops.recurrent_jacobian import Step, Steps
from lipaudit.spectral.bracket import Bracket

_ONE, _QUARTER = Bracket.exact(1.0), Bracket.exact(0.25)


def _stacked_matrices(weights: Direction) -> tuple[torch.Tensor, torch.Tensor]:
    """W and W'."""
    return weights.input.value.detach(), weights.recurrent.value.detach()


def lstm_steps(weights: Direction, start: float, settings: Settings, peepholes: Sequence[torch.Tensor] = ()) -> Steps:
    """The steps of an LSTM; ``start`` bounds |c_0|."""
    parts = []
    for matrix in _stacked_matrices(weights):
        norms = [matrix_norm([gate], settings) for gate in gates("lstm", matrix)]
        parts.append((*norms, matrix_norm([cell_gates(matrix)], settings)))
    projection = weights.projection
    project = _ONE if projection is None else matrix_norm([projection.value.detach()], settings)
    peep = [Bracket.exact(0.0)] * 3
    if peepholes:
        known = settings.norms.weights_known
        peep = [rounded(largest(p.to("cpu", torch.float64))) if known else _ONE for p in peepholes]

    def into_cell(part: tuple[Bracket, ...], cell: Bracket) -> Bracket:
        first, forget, new, _, together = part
        apart = Bracket.sum([_QUARTER * first, _QUARTER * cell * forget, new])
        joint = Bracket.root_sum_squares([_ONE, _QUARTER * cell]) * together
        return min(apart, joint, key=lambda b: b.log_upper)

    def step(t: int) -> Step:
        cell = rounded(start + t)
        out = _QUARTER * rounded(math.tanh(start + t + 1))
        x, h = ((into_cell(part, cell), project * out * part[3]) for part in parts)
        keep = out_cell = _ONE
        if peepholes:
            keep = Bracket.sum([_ONE, _QUARTER * peep[0], _QUARTER * cell * peep[1]])
            out_cell = Bracket.sum([_ONE, out * peep[2]])
        return Step(keep=keep, cell_x=x[0], cell_h=h[0], out_cell=project * out_cell, out_x=x[1], out_h=h[1])

    return step


def gru_steps(weights: Direction, start: float, settings: Settings, reset_first: bool = False) -> Steps:
    """The steps of a GRU; ``start`` bounds |h_0|."""
    input_gates, recurrent_gates = (gates("gru", matrix) for matrix in _stacked_matrices(weights))
    reset, update, new = (
        [matrix_norm([gate], settings) for gate in pair] for pair in zip(input_gates, recurrent_gates, strict=True)
    )
    size = max(1.0, start)
    inner = Bracket.exact(1.0)
    if reset_first:
        inner = new[1] * rounded(size)
    elif settings.norms.weights_known:
        recurrent = recurrent_gates[2].to("cpu", torch.float64)
        bias = (
            gates("gru", weights.biases[1].value.detach())[2].to("cpu", torch.float64).abs() if weights.biases else 0.0
        )
        entries = recurrent.abs().sum(1) * size + bias
        inner = rounded(float(entries.max()), (recurrent.shape[1] + 8) * 2.0**-52)
    gated = [Bracket.sum([rounded(1 + size) * _QUARTER * update[k], inner * _QUARTER * reset[k]]) for k in range(2)]
    bounds = Step(
        out_x=Bracket.sum([new[0], gated[0]]),
        out_h=Bracket.sum([Bracket.root_sum_squares([_ONE, new[1]]), gated[1]]),
    )
    return lambda _t: bounds


def rnn_steps(weights: Direction, settings: Settings) -> Steps:
    """The steps of a plain recurrent layer."""
    bounds = Step(*(matrix_norm(gates("rnn", matrix), settings) for matrix in _stacked_matrices(weights)))
    return lambda _t: bounds
