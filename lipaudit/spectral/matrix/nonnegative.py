"""The largest singular value of a matrix without negative entries, from the logarithms of its entries."""

from __future__ import annotations

import math

import torch

from lipaudit.spectral.bracket import Bracket, log_up

# Entries and weights below 2^-200 of the largest are raised to that: products of three stay far from underflow.
_FLOOR = 2.0**-200
_STEPS = 40


def nonnegative_norm(logs: torch.Tensor) -> Bracket:
    """An upper bound of sigma_1 of the matrix ``exp(logs)``; ``logs`` are float64 and count as exact, ``-inf`` is an entry 0.

    Collatz's bound of the largest eigenvalue of M^T M, for a positive vector u,

        sigma_1(M)^2 <= max_i (M^T M u)_i / u_i:

    the right side is the norm of M^T M as an operator on the maximum norm weighted by 1/u, and no eigenvalue exceeds an
    operator norm. It holds for every u and is attained by the eigenvector, to which a few power steps lead. A larger matrix
    without negative entries has a larger sigma_1, so that small entries may be raised. Nothing is subtracted, so that every
    sum of n terms is off by n units in the last place at most. Source: Horn and Johnson, Matrix Analysis, theorem 8.1.26.

    >>> bound = nonnegative_norm(torch.tensor([[3.0, 0.0], [4.0, 5.0]], dtype=torch.float64).log())
    >>> round(bound.upper, 6)
    6.708204
    """
    top = float(logs.max()) if logs.numel() else -math.inf
    if top == -math.inf:
        return Bracket.exact(0.0)
    rows, columns = logs.shape
    matrix = (logs - top).exp_().clamp_(min=_FLOOR)
    # differences of up to 200 log 2 are rounded before exp, which passes their error on
    slack = 2.0**-44 + (rows + columns + 8) * 2.0**-52
    weights = torch.ones(columns, dtype=torch.float64)
    best = math.inf
    for _ in range(_STEPS):
        image = matrix.T @ (matrix @ weights)
        quotients = image / weights
        best = min(best, float(quotients.max()))
        if float(quotients.max()) <= float(quotients.min()) * (1 + 1e-9):
            break
        weights = (image / image.max()).clamp_(min=_FLOOR)
    log = log_up(math.sqrt(best) * (1 + slack))
    return Bracket(-math.inf, log + top + 2.0**-50 * (abs(log) + abs(top)))
