"""Gram iteration as published, on a batch of matrices, in the precision of its input.

[P] Delattre, Barthelemy, Araujo, Allauzen, *Efficient Bound of Lipschitz Constant for Convolutional Layers by Gram
Iteration*, ICML 2023, algorithms 2 (one matrix) and 3 (a batch over frequencies). With N products

    r <- 2 (r + log ||G||_F),  G <- G / ||G||_F,  G <- G* G      N times, from r = 0,
    ||G||_F^(2^-N) exp(2^-N r)

is the Schatten-2^(N+1) norm of the first G: at least sigma_1 in real arithmetic, and falling to it. Rounding is not
accounted for, so that the computed number can lie below sigma_1 by a few units of the last place.

The Gram matrix is taken on the smaller side. The authors' code divides by the norm of a zero matrix and returns NaN;
here its bound is 0. No step waits for the device.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch


def schatten_norms(matrices: torch.Tensor, products: int) -> Iterator[torch.Tensor]:
    """The Schatten-2^(N+1) norms of each matrix of a batch for N = 0, 1, ..., ``products``: upper bounds of its sigma_1.

    Args:
        matrices: (batch, p, q), real or complex. The squares of its entries must neither overflow nor vanish.
        products: the number N of Gram products after which to stop.

    Yields:
        ``products + 1`` tensors (batch,) in plain units, of the real type and the device of ``matrices``.

    >>> norms = list(schatten_norms(torch.tensor([[[3.0, 0.0], [0.0, 4.0]], [[0.0, 0.0], [0.0, 0.0]]]), 7))
    >>> norms[0].tolist(), [round(x, 3) for x in norms[7].tolist()]
    ([5.0, 0.0], [4.0, 0.0])
    """
    iterate = matrices.mH if matrices.shape[1] < matrices.shape[2] else matrices
    norms = torch.linalg.matrix_norm(iterate)
    # 2^-t r after t products: the same digits as r, which itself would double with every product
    scaled_log = torch.zeros_like(norms)
    yield norms
    for product in range(products):
        divisors = torch.where(norms > 0, norms, torch.ones_like(norms))
        scaled_log = scaled_log + divisors.log() * 0.5**product
        iterate = iterate / divisors[:, None, None]
        iterate = iterate.mH @ iterate
        norms = torch.linalg.matrix_norm(iterate)
        yield norms.pow(0.5 ** (product + 1)) * scaled_log.exp()
