"""A reference for the largest singular value of matrices that are too large for a decomposition.

Golub and Kahan's bidiagonalisation with full reorthogonalisation: after k steps the largest singular value of the k x k bidiagonal
matrix is at most sigma_1 and converges to it faster than any power iteration from the same start, since it is the best
value in the whole Krylov space. Products accumulate in float64 whatever the precision of the matrix.
"""

from __future__ import annotations

import torch

_CHUNK = 2**27
_EXHAUSTED = 1e-13


def lanczos_norm(matrix: torch.Tensor, steps: int, generator: torch.Generator) -> float:
    """sigma_1 of a matrix (p, q) from below, by at most ``steps`` steps of Golub-Kahan bidiagonalisation.

    >>> round(lanczos_norm(torch.diag(torch.tensor([3.0, 2.0, 1.0])), 3, torch.Generator().manual_seed(0)), 9)
    3.0
    """
    steps = min(steps, *matrix.shape)
    # a start orthogonal to the null space, which would only cost a step
    v = _apply_adjoint(matrix, torch.randn(matrix.shape[0], generator=generator, dtype=torch.float64).to(matrix.device))
    rights = [v / _positive(torch.linalg.vector_norm(v))]
    lefts: list[torch.Tensor] = []
    diagonal, upper = [], []
    for step in range(steps):
        u = _orthogonal(_apply(matrix, rights[-1]), lefts)
        diagonal.append(torch.linalg.vector_norm(u))
        lefts.append(u / _positive(diagonal[-1]))
        if step + 1 == steps:
            break
        v = _orthogonal(_apply_adjoint(matrix, lefts[-1]), rights)
        length = torch.linalg.vector_norm(v)
        if float(length) <= _EXHAUSTED * float(torch.stack(diagonal).amax()):
            break  # the Krylov space is invariant: nothing but rounding is left
        upper.append(length)
        rights.append(v / _positive(upper[-1]))
    bidiagonal = torch.diag(torch.stack(diagonal).cpu())
    if upper:
        bidiagonal += torch.diag(torch.stack(upper).cpu(), 1)
    return float(torch.linalg.svdvals(bidiagonal)[0])


def _positive(length: torch.Tensor) -> torch.Tensor:
    return torch.where(length > 0, length, torch.ones_like(length))


def _orthogonal(vector: torch.Tensor, basis: list[torch.Tensor]) -> torch.Tensor:
    """The part of a vector orthogonal to a basis, projected twice against rounding."""
    if not basis:
        return vector
    matrix = torch.stack(basis)
    for _ in range(2):
        vector = vector - matrix.T @ (matrix @ vector)
    return vector


def _parts(matrix: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.split(matrix, max(1, _CHUNK // matrix.shape[1]))


def _apply(matrix: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    return torch.cat([part.double() @ vector for part in _parts(matrix)])


def _apply_adjoint(matrix: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    result = vector.new_zeros(matrix.shape[1])
    for part, piece in zip(_parts(matrix), torch.split(vector, max(1, _CHUNK // matrix.shape[1])), strict=True):
        result += part.double().T @ piece
    return result
