"""The largest Schatten norm among the symbols of a layer, found without keeping them.

The norms S_k after k Gram products, of order 2^(k+1), fall with k and satisfy S_k <= S_N n^(2^-(k+1) - 2^-(N+1)), n the smaller side.
So a matrix whose S_k is below a known S_N of another, or below the largest S_k divided by that power, cannot have the largest
S_N and is dropped before the next product. What is found is the maximum of [P] Algorithm 3 itself.

Real and imaginary parts are kept apart, because two real products then square a Hermitian matrix X + iY (X symmetric, Y
antisymmetric), where a complex product takes four: with P = (X - Y)(X + Y) and Q = XY

    (X + iY)^2 = (P - Q - Q^T) + i(Q - Q^T).
"""

from __future__ import annotations

import torch

from lipaudit.training.geometry import Layout

# Entries of the symbols that are held at once.
CHUNK_NUMBERS = 2**20
# The batch is copied without the matrices that were dropped once so many of them are gone.
_LEAVES = 0.75


def largest_bound(weight: torch.Tensor, where: Layout, products: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest Schatten norm of the symbols, without the layout's factor, and its place (2,): the group, the frequency.

    ``weight`` is in the precision to compute in. NaN and infinite weights give NaN.
    """
    largest = weight.abs().amax()
    place = torch.zeros(2, dtype=torch.long, device=weight.device)
    if not bool(torch.isfinite(largest)):
        return torch.full_like(largest, torch.nan), place
    if not bool(largest > 0):
        return torch.zeros_like(largest), place
    blocks = where.blocks(weight / largest)
    groups, _, rows, columns = blocks.shape
    at_once = max(1, CHUNK_NUMBERS // (groups * rows * columns))
    best = 0.0
    for start in range(0, len(where.frequencies), at_once):
        parts = symbol_parts(blocks, where.waves(slice(start, start + at_once)))
        value, position = largest_schatten_norm(parts.flatten(1, 2), products, best)
        if position is not None:
            best = value
            count = parts.shape[2]
            place = torch.tensor([position // count, start + position % count], device=weight.device)
    return largest * best, place


def symbol_parts(blocks: torch.Tensor, waves: torch.Tensor) -> torch.Tensor:
    """D(w) of every group at some frequencies, (parts, groups, points, rows, columns): real and imaginary, or real alone for one shift."""
    groups, shifts, *sides = blocks.shape
    if shifts == 1:
        return blocks.expand(groups, len(waves), *sides)[None]
    flat = blocks.flatten(2)
    parts = [part.to(blocks) @ flat for part in (waves.real, waves.imag)]
    return torch.stack(parts).reshape(2, groups, len(waves), *sides)


def largest_schatten_norm(parts: torch.Tensor, products: int, floor: float) -> tuple[float, int | None]:
    """The largest Schatten norm of order 2^(products + 1) of a batch and its position, None if none exceeds ``floor``.

    ``parts`` are the real parts of the matrices, or real and imaginary ones, (1 or 2, batch, p, q). Their entries must neither overflow
    nor vanish when they are squared.

    >>> largest_schatten_norm(torch.stack([torch.eye(2), torch.diag(torch.tensor([2.0, 0.0]))])[None], 3, 0.0)
    (2.0, 1)
    """
    wide = parts.shape[2] < parts.shape[3]
    side = min(parts.shape[2:])
    products = products if side > 1 else 0  # of a vector every Schatten norm is its length
    slack = 1 - torch.finfo(parts.dtype).eps ** 0.5
    position = torch.arange(parts.shape[1], device=parts.device)
    norms = _frobenius_norms(parts)
    bounds, log_scale = norms, torch.zeros_like(norms)
    for product in range(products):
        least = float(bounds.max()) * side ** (0.5 ** (products + 1) - 0.5 ** (product + 1))
        keep = bounds >= slack * max(floor, least)
        left = int(keep.sum())
        if not left:
            return floor, None
        if left <= _LEAVES * len(keep):
            parts, norms, log_scale, position = parts[:, keep], norms[keep], log_scale[keep], position[keep]
        divisors = torch.where(norms > 0, norms, 1.0)
        log_scale = log_scale + divisors.log() * 0.5**product
        parts = parts / divisors[:, None, None]
        parts = _square(parts) if product else _gram(parts, wide)
        norms = _frobenius_norms(parts)
        bounds = norms.pow(0.5 ** (product + 1)) * log_scale.exp()
    value, index = bounds.max(0)
    return (float(value), int(position[index])) if float(value) > floor else (floor, None)


def _frobenius_norms(parts: torch.Tensor) -> torch.Tensor:
    norms: torch.Tensor = torch.linalg.vector_norm(parts, dim=(0, 2, 3))
    return norms


def _gram(parts: torch.Tensor, wide: bool) -> torch.Tensor:
    """A* A of tall matrices A; of wide ones that of A^T, the conjugate of A A*, whose iterates have the same norms."""
    real, *imaginary = (parts.mT if wide else parts).unbind()
    if not imaginary:
        return (real.mT @ real)[None]
    half = real.mT @ imaginary[0]
    return torch.stack([real.mT @ real + imaginary[0].mT @ imaginary[0], half - half.mT])


def _square(parts: torch.Tensor) -> torch.Tensor:
    """The square of Hermitian matrices; see the top of the file."""
    real, *imaginary = parts.unbind()
    if not imaginary:
        return (real @ real)[None]
    total, half = (real - imaginary[0]) @ (real + imaginary[0]), real @ imaginary[0]
    return torch.stack([total - half - half.mT, half - half.mT])
