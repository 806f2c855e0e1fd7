"""The Jacobian of a recurrent layer, block by block: how far every output follows every input and the initial states.

A step gives bounds of how the cell and the hidden state follow what they are computed from, for the norms of differences,

    ||d c_t|| <= keep ||d c_{t-1}|| + cell_x ||d x_t|| + cell_h ||d h_{t-1}||
    ||d h_t|| <= out_cell ||d c_t|| + out_x ||d x_t|| + out_h ||d h_{t-1}||.

Followed from step to step, every column x_s by itself, they bound the blocks, ||d h_t / d x_s|| <= m_ts. The whole Jacobian
then obeys, with w_s = ||d x_s||, so that ||w|| = ||d x||,

    ||J d x||^2 = sum_t ||sum_s (d h_t / d x_s) d x_s||^2 <= sum_t (sum_s m_ts w_s)^2 = ||M w||^2 <= sigma_1(M)^2 ||d x||^2.

So the norm of a block matrix is at most sigma_1 of the matrix of its blocks' norms, which is at most the Frobenius norm of
that matrix: of a matrix with entries q^(t-s) on and below its diagonal sigma_1 stays below 1 / (1 - q), however long
the sequence, while the Frobenius norm grows with the root of the length. The smaller figure of the two computed ones counts; of
more than 2048 steps the Frobenius norm alone, which needs no matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch

from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.matrix.nonnegative import nonnegative_norm

_ZERO, _ONE = Bracket.exact(0.0), Bracket.exact(1.0)
_LONGEST_MATRIX = 2048


@dataclass(frozen=True)
class Step:
    """Bounds of one step, as above; a layer without cells leaves the first four out."""

    out_x: Bracket
    out_h: Bracket
    keep: Bracket = _ZERO
    cell_x: Bracket = _ZERO
    cell_h: Bracket = _ZERO
    out_cell: Bracket = _ZERO

    @property
    def all(self) -> tuple[Bracket, ...]:
        """Every bound."""
        return self.keep, self.cell_x, self.cell_h, self.out_cell, self.out_x, self.out_h


Steps: TypeAlias = Callable[[int], Step]
Blocks: TypeAlias = tuple[dict[str, Bracket], ...]
"""By output (sequence, last h, last c): bounds by source (``x``, ``h``, ``c``)."""


def blocks(length: int, step: Steps) -> Blocks:
    """How far the sequence and the last states follow the input sequence and the initial states.

    Everything is a logarithm: one column per x_t, and one for each initial state. An addition errs by a few units of the
    largest logarithm and passes the errors before it on without enlarging them.
    """
    start = {"h": (0.0, -math.inf), "c": (-math.inf, 0.0)}
    states = list(start)
    size = length + len(states)
    h, c = (torch.full((size,), -math.inf, dtype=torch.float64) for _ in range(2))
    for position, state in enumerate(states):
        h[length + position], c[length + position] = start[state]
    total = torch.full((size,), -math.inf, dtype=torch.float64)
    rows, top, rigor = [], 1.0, Rigor.CERTIFIED
    for t in range(length):
        bounds = step(t)
        rigor = Rigor.weakest((rigor, *(b.rigor for b in bounds.all)))
        here = torch.full((size,), -math.inf, dtype=torch.float64)
        here[t] = 0.0
        new = _sum(c + bounds.keep.log_upper, h + bounds.cell_h.log_upper, here + bounds.cell_x.log_upper)
        h = _sum(new + bounds.out_cell.log_upper, h + bounds.out_h.log_upper, here + bounds.out_x.log_upper)
        c = new
        total = torch.logaddexp(total, 2 * h)
        for vector in (h, c, total):
            finite = vector[torch.isfinite(vector)]
            top = max(top, float(finite.abs().max())) if len(finite) else top
        if length <= _LONGEST_MATRIX:
            rows.append(h[:length])
    margin = 64 * (length + size + 4) * 2.0**-53 * (top + 2)
    sequence, *last = (_grouped(v, length, states, margin, rigor) for v in (total, 2 * h, 2 * c))
    if rows:
        norm = nonnegative_norm(torch.stack(rows)).log_upper + margin
        if norm < sequence["x"].log_upper:
            sequence["x"] = Bracket(-math.inf, norm, rigor)
    return sequence, *last


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


def stacked(layers: Sequence[Sequence[Blocks]], outputs: int) -> dict[str, Bracket]:
    """The constants of all layers by source, each the largest over the outputs; ``layers`` holds the directions of each.

    ``reach`` bounds how far the sequence that a layer reads follows the network's input and the initial states of the
    layers before; the last states of all directions are stacked.
    """
    reach: dict[tuple[str, int, int], Bracket] = {("x", 0, 0): _ONE}
    last: list[dict[str, list[Bracket]]] = [{key: [] for key in "xhc"} for _ in range(outputs)]
    for depth, directions in enumerate(layers):
        following: dict[tuple[str, int, int], Bracket] = {}
        through = Bracket.root_sum_squares([direction[0]["x"] for direction in directions])
        for source, bound in reach.items():
            following[source] = through * bound
            for output in range(1, outputs):
                last[output][source[0]] += [direction[output]["x"] * bound for direction in directions]
        for position, direction in enumerate(directions):
            for key in "hc":
                following[key, depth, position] = direction[0][key]
                for output in range(1, outputs):
                    last[output][key].append(direction[output][key])
        reach = following
    for source, bound in reach.items():
        last[0][source[0]].append(bound)
    return {key: Bracket.maximum(Bracket.root_sum_squares(parts[key]) for parts in last) for key in "xhc"}
