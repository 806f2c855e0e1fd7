"""Comparison instead of evaluation: prove that the largest eigenvalue of a Hermitian matrix lies below a threshold.

If the Cholesky factorisation of ``t I - G`` runs to its end in floating point, then t I - G is positive definite up to
the factorisation's backward error, so lambda_max(G) <= t + error. The backward error of a successful factorisation is
at most gamma_{n+1} / (1 - gamma_{n+1}) times the trace (Rump, *Verification of positive definiteness*, BIT 2006). In complex
arithmetic an inner product of length n is a sum of 2 n terms, and sqrt(2) gamma_{2n+2} takes the place of gamma_{n+1}
(``rounding``): 2.83 times as much. The margin taken here is four times as large. It costs a sixth of a Gram product.
"""

from __future__ import annotations

import torch

from lipaudit.spectral.rounding import UNIT_ROUNDOFF

# Sides that a CPU's LAPACK factors more slowly than the next larger one, by a fifth to a half: it takes small matrices
# column by column, and rows at a distance of a power of two share the sets of a cache.
_SLOW_SIDES = frozenset((*range(112, 129), *range(256, 4097, 64)))


def is_below(gram: torch.Tensor, error: torch.Tensor | float, threshold: torch.Tensor | float) -> torch.Tensor:
    """Certify lambda_max <= threshold for a batch of Hermitian positive semidefinite matrices.

    Args:
        gram: (batch, n, n), computed; only the lower triangle is read.
        error: bound on the spectral norm of (computed - exact).
        threshold: the value to compare with, scalar or (batch,).

    Returns:
        (batch,) booleans; ``True`` is a proof, ``False`` says nothing.

    >>> g = torch.diag(torch.tensor([1.0, 4.0], dtype=torch.float64))[None]
    >>> is_below(g, 0.0, 4.001).item(), is_below(g, 0.0, 4.0).item()
    (True, False)
    """
    batch, n, _ = gram.shape
    side = n + 1 if gram.device.type == "cpu" and n in _SLOW_SIDES else n
    bound = torch.zeros(batch, dtype=torch.float64, device=gram.device) + threshold
    # the trace of t I - G is at most n t, its diagonal is rounded once more
    margin = bound * (4 * UNIT_ROUNDOFF * side * (side + 8)) + error
    shift = bound - margin
    # one more row of G, if any, is zero
    shifted = gram.new_zeros(batch, side, side) if side > n else torch.empty_like(gram)
    torch.neg(gram, out=shifted[:, :n, :n])
    shifted.diagonal(dim1=-2, dim2=-1).add_(shift[:, None])
    _, info = torch.linalg.cholesky_ex(shifted)
    proved: torch.Tensor = (info == 0) & (shift > 0)
    return proved
