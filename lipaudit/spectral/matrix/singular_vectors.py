"""Leading singular vectors and eigenpairs by Gram iteration ([P] appendix A.3 and A.4). Estimates, not bounds.

The last Gram iterate is nearly a projector on the leading right singular space: its column of largest norm is a multiple of
v, and u = A v / ||A v||. Further triplets follow by deflation, A <- A - s u v*. For a square matrix the iteration
G <- G G instead of G* G converges to the leading eigenspace.
"""

from __future__ import annotations

import torch

from lipaudit.spectral.matrix.gram import GramIteration
from lipaudit.spectral.rounding import as_float64, scale_to_unit

PRODUCTS = 12


def leading_singular_triplets(
    matrix: torch.Tensor, count: int = 1, products: int = PRODUCTS
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The leading left vectors, singular values and right vectors of a matrix (p, q).

    Equals the first columns of ``torch.linalg.svd`` up to phases, as far as the singular values are distinct.

    Returns:
        u (p, count), s (count,) in plain units, v (q, count), in float64 or complex128.

    Raises:
        ValueError: if ``count`` exceeds the smaller side.

    >>> u, s, v = leading_singular_triplets(torch.diag(torch.tensor([1.0, 5.0, 3.0])), count=2)
    >>> [round(x, 9) for x in s.tolist()]
    [5.0, 3.0]
    """
    rest = as_float64(matrix, "the matrix")
    if rest.dim() != 2 or not 1 <= count <= min(rest.shape):
        raise ValueError(f"{count} singular triplets cannot be taken of a tensor of shape {tuple(rest.shape)}")
    left, values, right = [], [], []
    for _ in range(count):
        iteration = GramIteration(rest)
        for _ in range(0 if iteration.is_zero else products):
            iteration.step()
        if iteration.is_zero:
            v = torch.zeros_like(rest[0])
            v[0] = 1
        else:
            v = iteration.singular_vector()
            v = rest.mH @ v if iteration.transposed else v
            v = v / torch.linalg.vector_norm(v)
        image = rest @ v
        size = torch.linalg.vector_norm(image)
        u = image / size if float(size) > 0 else torch.eye(len(image), dtype=image.dtype)[0]
        left.append(u)
        values.append(size)
        right.append(v)
        rest = rest - size * torch.outer(u, v.conj())
    return torch.stack(left, 1), torch.stack(values), torch.stack(right, 1)


def leading_eigenpair(matrix: torch.Tensor, products: int = 24) -> tuple[complex, torch.Tensor]:
    """The eigenvalue of largest modulus of a square matrix and a unit eigenvector, by G <- G G.

    Raises:
        ValueError: if the matrix is not square, or if no single eigenvalue dominates (a conjugate pair, a Jordan block).

    >>> value, vector = leading_eigenpair(torch.tensor([[2.0, 1.0], [0.0, -3.0]]))
    >>> round(value.real, 9), round(value.imag, 9)
    (-3.0, 0.0)
    """
    square = as_float64(matrix, "the matrix")
    if square.dim() != 2 or square.shape[0] != square.shape[1]:
        raise ValueError(f"eigenpairs belong to square matrices, not to the shape {tuple(square.shape)}")
    iterate = square
    for _ in range(products):
        iterate, _ = scale_to_unit(iterate @ iterate, dims=2)
    vector = iterate[:, torch.linalg.vector_norm(iterate, dim=0).argmax()]
    length = torch.linalg.vector_norm(vector)
    if not float(length) > 0:
        raise ValueError("the matrix is nilpotent to rounding: it has no leading eigenvector")
    vector = vector / length
    image = square @ vector
    value = torch.linalg.vecdot(vector, image)
    residual = float(torch.linalg.vector_norm(image - value * vector))
    if residual > 1e-6 * float(torch.linalg.matrix_norm(square)):
        raise ValueError(f"no single eigenvalue dominates: the iteration leaves a residual of {residual:.3g}")
    return complex(value), vector
