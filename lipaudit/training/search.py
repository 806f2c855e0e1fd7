"""The largest Schatten norm among the symbols of a layer, found without keeping them.

The norms S_k after k Gram products, of order 2^(k+1), fall with k and satisfy S_k <= S_N n^(2^-(k+1) - 2^-(N+1)), n the smaller side.
So a matrix whose S_k is below a known S_N of another, or below the largest S_k divided by that power, cannot have the largest
S_N and is dropped before the next product. What is found is the maximum of [P] Algorithm 3 itself.
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
        matrices = symbols(blocks, where.waves(slice(start, start + at_once)))
        value, position = largest_schatten_norm(matrices.flatten(0, 1), products, best)
        if position is not None:
            best = value
            count = matrices.shape[1]
            place = torch.tensor([position // count, start + position % count], device=weight.device)
    return largest * best, place


def symbols(blocks: torch.Tensor, waves: torch.Tensor) -> torch.Tensor:
    """D(w) of every group at some frequencies, (groups, points, rows, columns); real where there is one shift."""
    groups, shifts, *sides = blocks.shape
    if shifts == 1:
        return blocks.expand(groups, len(waves), *sides)
    flat = blocks.flatten(2)
    real, imaginary = (part.to(blocks) @ flat for part in (waves.real, waves.imag))
    return torch.complex(real, imaginary).reshape(groups, len(waves), *sides)


def largest_schatten_norm(matrices: torch.Tensor, products: int, floor: float) -> tuple[float, int | None]:
    """The largest Schatten norm of order 2^(products + 1) of a batch and its position, None if none exceeds ``floor``.

    The entries must neither overflow nor vanish when they are squared.

    >>> largest_schatten_norm(torch.stack([torch.eye(2), torch.diag(torch.tensor([2.0, 0.0]))]), 3, 0.0)
    (2.0, 1)
    """
    iterate = matrices.mH if matrices.shape[1] < matrices.shape[2] else matrices
    side = iterate.shape[2]
    products = products if side > 1 else 0  # of a vector every Schatten norm is its length
    slack = 1 - torch.finfo(iterate.dtype).eps ** 0.5
    position = torch.arange(len(iterate), device=iterate.device)
    norms = torch.linalg.matrix_norm(iterate)
    bounds, log_scale = norms, torch.zeros_like(norms)
    for product in range(products):
        least = float(bounds.max()) * side ** (0.5 ** (products + 1) - 0.5 ** (product + 1))
        keep = bounds >= slack * max(floor, least)
        left = int(keep.sum())
        if not left:
            return floor, None
        if left <= _LEAVES * len(keep):
            iterate, norms, log_scale, position = (part[keep] for part in (iterate, norms, log_scale, position))
        divisors = torch.where(norms > 0, norms, 1.0)
        log_scale = log_scale + divisors.log() * 0.5**product
        iterate = iterate / divisors[:, None, None]
        iterate = iterate.mH @ iterate
        norms = torch.linalg.matrix_norm(iterate)
        bounds = norms.pow(0.5 ** (product + 1)) * log_scale.exp()
    value, index = bounds.max(0)
    return (float(value), int(position[index])) if float(value) > floor else (floor, None)
