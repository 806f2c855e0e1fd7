"""Leading eigenvectors of Hermitian matrices by the Lanczos process: cheap vectors for lower bounds.

Nothing here is certified and nothing needs to be: whatever vector comes out, its Rayleigh quotient is a lower bound of
the largest eigenvalue, and it is evaluated with its own margin where it is used.
"""

from __future__ import annotations

import torch


def leading_vectors(gram: torch.Tensor, start: torch.Tensor, steps: int) -> torch.Tensor:
    """Approximate leading eigenvectors from the Krylov space of ``start`` with full reorthogonalisation.

    Args:
        gram: (batch, n, n) Hermitian.
        start: (batch, n) non-zero start vectors.
        steps: dimension of the Krylov space, clipped to n.

    Returns:
        (batch, n) vectors of norm about 1.
    """
    batch, n, _ = gram.shape
    steps = min(steps, n)
    basis = gram.new_zeros(batch, steps, n)
    tridiagonal = torch.zeros(batch, steps, steps, dtype=torch.float64, device=gram.device)
    basis[:, 0] = start / torch.linalg.vector_norm(start, dim=-1, keepdim=True)
    for k in range(steps):
        image = torch.bmm(gram, basis[:, k, :, None])[..., 0]
        tridiagonal[:, k, k] = torch.linalg.vecdot(basis[:, k], image).real
        if k + 1 == steps:
            break
        for _ in range(2):  # twice is enough
            known = basis[:, : k + 1]
            image = image - torch.einsum("bk,bkn->bn", torch.einsum("bkn,bn->bk", known.conj(), image), known)
        length = torch.linalg.vector_norm(image, dim=-1)
        # an exhausted Krylov space goes on with zero vectors, which leave the projected matrix block diagonal
        alive = length > 1e-14 * tridiagonal.diagonal(dim1=1, dim2=2).amax(-1)
        basis[:, k + 1] = torch.where(alive, 1 / length.clamp_min(1e-300), 0.0)[:, None] * image
        coupling = torch.where(alive, length, 0.0)
        tridiagonal[:, k, k + 1] = coupling
        tridiagonal[:, k + 1, k] = coupling
    _, vectors = torch.linalg.eigh(tridiagonal)
    return torch.einsum("bk,bkn->bn", vectors[..., -1].to(gram.dtype), basis)
