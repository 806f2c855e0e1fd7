"""Leading eigenvectors of Hermitian matrices, of small ones by decomposition, of others by the Lanczos process.

Cheap vectors for lower bounds.

Nothing here is certified and nothing needs to be: whatever vector comes out, its Rayleigh quotient is a lower bound of
the largest eigenvalue, and it is evaluated with its own margin where it is used.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

# Matrices of up to this side are decomposed, which takes less time than a few steps.
DIRECT = 32


def leading_vectors(gram: torch.Tensor, start: torch.Tensor, steps: int) -> torch.Tensor:
    """Approximate leading eigenvectors, from the Krylov spaces of ``start`` unless the matrices are small.

    Args:
        gram: (batch, n, n) Hermitian.
        start: (batch, n) non-zero start vectors.
        steps: dimension of the Krylov space, clipped to n.

    Returns:
        (batch, n) vectors of norm about 1.
    """
    n = gram.shape[1]
    if n <= DIRECT:
        vectors: torch.Tensor = torch.linalg.eigh(gram)[1]
        return vectors[..., -1]
    return lanczos(lambda v: torch.bmm(gram, v), start, min(steps, n))


def lanczos(product: Callable[[torch.Tensor], torch.Tensor], start: torch.Tensor, steps: int) -> torch.Tensor:
    """The Ritz vectors of the largest Ritz values of Hermitian operators, with full reorthogonalisation.

    Args:
        product: the operators on vectors (batch, n, 1).
        start: (batch, n) non-zero start vectors.
        steps: dimension of the Krylov space, at most n.

    Returns:
        (batch, n) vectors of norm about 1.
    """
    batch, n = start.shape
    real = start.real.dtype
    basis = start.new_zeros(batch, n, steps)
    diagonal = torch.zeros(batch, steps, dtype=real, device=start.device)
    coupling = torch.zeros(batch, steps, dtype=real, device=start.device)
    vector = (start / torch.linalg.vector_norm(start, dim=-1, keepdim=True).clamp_min(1e-30))[..., None]
    negligible = 100 * torch.finfo(real).eps
    for k in range(steps):
        basis[:, :, k : k + 1] = vector
        image = product(vector)
        diagonal[:, k] = torch.bmm(vector.mH, image).real[:, 0, 0]
        if k + 1 == steps:
            break
        known = basis[:, :, : k + 1]
        for _ in range(2):  # twice is enough
            image = torch.baddbmm(image, known, torch.bmm(known.mH, image), alpha=-1)
        length = torch.linalg.vector_norm(image, dim=1, keepdim=True)
        # an exhausted Krylov space goes on with zero vectors, which leave the projected matrix block diagonal
        alive = length > negligible * diagonal.amax(-1)[:, None, None]
        vector = torch.where(alive, image / length.clamp_min(1e-30), 0.0)
        coupling[:, k] = torch.where(alive, length, 0.0)[:, 0, 0]
    tridiagonal = torch.diag_embed(diagonal) + torch.diag_embed(coupling[:, :-1], -1)  # eigh reads the lower triangle
    # a decomposition on a GPU would wait for the device
    small = torch.linalg.eigh(tridiagonal)[1][..., -1] if start.device.type == "cpu" else by_squaring(tridiagonal)
    return torch.bmm(basis, small[..., None].to(basis.dtype))[..., 0]


def by_squaring(matrices: torch.Tensor, squarings: int = 12) -> torch.Tensor:
    """Nearly leading eigenvectors of symmetric positive semidefinite matrices whose lower triangles are given: (batch, n).

    >>> by_squaring(torch.tensor([[[2.0, 0.0], [1.0, 2.0]]])).abs().tolist()[0]
    [0.7071067690849304, 0.7071067690849304]
    """
    power = matrices.tril() + matrices.tril(-1).mT
    for _ in range(squarings):
        power = power / torch.linalg.matrix_norm(power).clamp_min(1e-30)[:, None, None]
        power = torch.bmm(power, power)
    lengths = torch.linalg.vector_norm(power, dim=1)
    column = power.gather(2, lengths.argmax(-1)[:, None, None].expand(-1, power.shape[1], 1))[..., 0]
    vectors: torch.Tensor = column / torch.linalg.vector_norm(column, dim=-1, keepdim=True).clamp_min(1e-30)
    return vectors
