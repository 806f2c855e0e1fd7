"""The norm of a matrix without negative entries that is known by its products with vectors only.

For A >= 0 and any v > 0 the Perron eigenvalue of A^T A is at most max_i (A^T A v)_i / v_i (Collatz 1942, Wielandt 1950), and
||A v|| / ||v|| is at most sigma_1(A). Both close in on sigma_1 when v is replaced by A^T A v.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from lipaudit.spectral.bracket import Bracket, log_down, log_up

Product = Callable[[torch.Tensor], torch.Tensor]
# Products beyond which the bracket is left as it is.
MOST_STEPS = 200
# What the sums of one product may lose, all terms having one sign: (terms + 2) 2^-53 for up to 2^20 terms.
_LOSS = 2.0**-32


def norm_by_products(forward: Product, adjoint: Product, start: torch.Tensor, tol: float) -> Bracket:
    """A bracket of sigma_1 of a matrix without negative entries; ``start`` is a tensor of ones in the shape of its input.

    >>> matrix = torch.tensor([[1.0, 2.0], [0.0, 1.0]], dtype=torch.float64)
    >>> found = norm_by_products(lambda v: matrix @ v, lambda w: matrix.T @ w, torch.ones(2, dtype=torch.float64), 1e-6)
    >>> found.lower <= 1 + 2**0.5 <= found.upper <= 2.415
    True
    """
    image = adjoint(forward(start))
    support = image > 0  # a column without entries does not count
    if not bool(support.any()):
        return Bracket.exact(0.0)
    vector = support.to(start.dtype)
    upper, lower = math.inf, 0.0
    for _ in range(MOST_STEPS):
        out = forward(vector)
        image = adjoint(out)
        ratio = float((image[support] / vector[support]).max())
        upper = min(upper, math.sqrt(ratio * (1 + _LOSS)))
        lower = max(lower, float(out.norm() / vector.norm()) * (1 - _LOSS))
        if upper <= lower * (1 + tol):
            break
        # far from the largest block entries die away: any positive vector will do there
        vector = torch.where(support, (image / image.max()).clamp_min(1e-100), 0.0)
    return Bracket(log_down(lower), log_up(upper))
