"""Power iteration on a batch of matrices.

[P] Delattre, Barthelemy, Araujo, Allauzen, ICML 2023, algorithm 1: from a random u,

    v <- G u / ||G u||,  u <- G* v / ||G* v||,  sigma <- (G u)* v.

Since u is along G* v, sigma = (G u)* v = u* G* v = ||G* v||, which costs no product of its own. Every sigma is at most
sigma_1 and rises to it, at the rate of (sigma_2 / sigma_1)^2 per iteration, unless u starts orthogonal to the leading
singular space. So sigma is an estimate from below, and it depends on the start.

The authors' code divides by ||G u|| even where it is 0; here a zero matrix has sigma = 0. No step waits for the device.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch


def singular_values(matrices: torch.Tensor, iterations: int, generator: torch.Generator) -> Iterator[torch.Tensor]:
    """Estimates from below of sigma_1 of each matrix of a batch, after 1, 2, ..., ``iterations`` iterations.

    Args:
        matrices: (batch, p, q), real or complex. The squares of its entries must neither overflow nor vanish.
        iterations: the number after which to stop.
        generator: a generator on the CPU, from which the Gaussian starts are drawn, the same ones for every device and
            precision.

    Yields:
        ``iterations`` tensors (batch,) in plain units, of the real type and the device of ``matrices``.

    >>> sigma = singular_values(torch.diag(torch.tensor([4.0, 2.0]))[None], 20, torch.Generator().manual_seed(0))
    >>> [round(float(x), 3) for x in sigma][-1]
    4.0
    """
    shape = (matrices.shape[0], matrices.shape[2], 1)
    wide = torch.complex128 if matrices.is_complex() else torch.float64
    u = torch.randn(shape, generator=generator, dtype=wide).to(matrices)
    for _ in range(iterations):
        v, _ = _normalised(matrices @ u)
        u, sigma = _normalised(matrices.mH @ v)
        yield sigma


def _normalised(vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Vectors (batch, n, 1) divided by their lengths, and the lengths (batch,); a zero vector stays what it is."""
    lengths = torch.linalg.vector_norm(vectors, dim=(1, 2))
    return vectors / torch.where(lengths > 0, lengths, torch.ones_like(lengths))[:, None, None], lengths
