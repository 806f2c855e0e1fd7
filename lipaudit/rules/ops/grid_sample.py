"""Sampling an image at given places (``torch.nn.functional.grid_sample``).

At constant places the operation is linear, out = W x in every channel. Bilinear weights are not negative, and the norm of W
comes from its products with images (:mod:`lipaudit.spectral.matrix.nonnegative_operator`); cubic weights have signs, and ||W|| <= ||
|W| ||. The products with |W| need the weights one by one: the four rows and columns around a place fall into different residues modulo
4, so that of the pixels of one residue class each place reads one at most. Nearest neighbours are copies: the root of the largest
count; where a place lies half-way between pixels within the rounding of float32, all of them count.

At data-dependent places g, for bilinear weights: the weights of a place add up to 1 at most, so that with n places ||W|| <=
sqrt(||W||_1 ||W||_inf) <= sqrt(n). In g the operation is piecewise differentiable and continuous; a step of one pixel along
an axis changes the value by the difference of two pixels, of norm 2 R at most where every pixel is within R (0 outside), and an axis
of s pixels has s / 2 of them per unit of g, (s - 1) / 2 with aligned corners: the norm is at most R sqrt(sum of s^2).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import torch

from lipaudit.graph.arguments import call, overload
from lipaudit.graph.node import Node
from lipaudit.graph.ops import aten
from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.index_probe import PROBE_LIMIT
from lipaudit.rules.interval_facets import ZERO
from lipaudit.rules.operands import (
    constant,
    count_refs,
    interval_of_operand,
    is_finite,
    number,
    root,
    rounded,
    shape_of,
    stretch,
)
from lipaudit.rules.ops.pooling import axis_tolerance
from lipaudit.rules.region.magnitude import Magnitude, fixed
from lipaudit.rules.rule import operations
from lipaudit.spectral.bracket import Bracket
from lipaudit.spectral.interval import Interval
from lipaudit.spectral.matrix.nonnegative_operator import norm_by_products

BILINEAR, NEAREST, CUBIC = range(3)
GRID_SAMPLE = operations(*aten("grid_sampler", "grid_sampler_2d", "grid_sampler_3d"))


@GRID_SAMPLE.constant(
    formula="sigma_1 of the matrix of weights; at data-dependent places unbounded, for bilinear weights sqrt(n) and "
    "R sqrt(sum of s^2) where every pixel is within R",
    source="Collatz-Wielandt bound of a matrix without negative entries; bilinear interpolation is continuous in the places",
    where_bounded=True,
)
def grid_sample(node: Node, settings: Settings) -> Effect:
    """Bilinear, nearest and bicubic sampling with every padding."""
    mode = int(number(node, "interpolation_mode"))
    if count_refs(node["grid"]):
        return _moving(node, mode)
    grid = constant(node, "grid")
    if grid is None or not is_finite(grid):
        return Effect.unsupported("grid_sample at places that are NaN or infinite")
    if max(math.prod(shape_of(node["input"])[2:]), grid.numel()) * 2 ** len(shape_of(node["input"])) > PROBE_LIMIT:
        return Effect.unsupported(f"sampling at more than {PROBE_LIMIT} weights; audit a smaller input")
    sizes = shape_of(node["input"])[2:]
    norms = [_norm(node, mode, sizes, places, axis_tolerance(settings)) for places in torch.split(grid, 1)]
    return stretch(node, {"input": Bracket.maximum(norms)})


def _norm(node: Node, mode: int, sizes: tuple[int, ...], grid: torch.Tensor, tol: float) -> Bracket:
    """The norm for the places of one sample."""
    if not grid.numel() or not math.prod(sizes):
        return Bracket.exact(0.0)

    def sample(image: torch.Tensor, places: torch.Tensor = grid) -> torch.Tensor:
        arguments = {**node.arguments, "input": image[None, None], "grid": places}
        return call(overload(node.op), arguments)[0, 0]  # type: ignore[no-any-return]

    if mode == NEAREST:
        return _most_copies(sample, sizes, grid)
    with torch.enable_grad():
        image = torch.zeros(sizes, dtype=torch.float64, requires_grad=True)
        sampled = sample(image)

    def adjoint(out: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(sampled, image, out, retain_graph=True)[0]

    ones = torch.ones(sizes, dtype=torch.float64)
    # an error of a place by a rounding changes up to 4^d weights of each place, and a column has one entry per place at most
    taps = 4 ** len(sizes) if mode == CUBIC else 2 ** len(sizes)
    lost = 2.0**-46 * (max(sizes) + float(grid.abs().max()) * max(sizes)) * math.sqrt(taps * grid[..., 0].numel())
    if mode == BILINEAR:
        norm = norm_by_products(sample, adjoint, ones, tol)
        return Bracket.sum([Bracket(-math.inf, norm.log_upper), Bracket.at_most(lost)])
    classes = [_class(sizes, rest) for rest in itertools.product(range(4), repeat=len(sizes))]
    signs = [torch.sign(sample(one)) for one in classes]

    def modulus(image: torch.Tensor) -> torch.Tensor:
        return sum((sample(image * one).abs() for one in classes), torch.zeros(()))

    def modulus_adjoint(out: torch.Tensor) -> torch.Tensor:
        pulled = (one * adjoint(out * sign) for one, sign in zip(classes, signs, strict=True))
        return sum((p.clamp_min(0) for p in pulled), torch.zeros(()))

    norm = norm_by_products(modulus, modulus_adjoint, ones, tol)
    return Bracket.sum([Bracket(-math.inf, norm.log_upper), Bracket.at_most(lost)])


def _class(sizes: tuple[int, ...], rest: tuple[int, ...]) -> torch.Tensor:
    """Ones at the pixels with the given residues modulo 4."""
    image = torch.zeros(sizes, dtype=torch.float64)
    image[tuple(slice(r, None, 4) for r in rest)] = 1.0
    return image


def _most_copies(
    sample: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], sizes: tuple[int, ...], grid: torch.Tensor
) -> Bracket:
    """The root of the largest number of places that read one pixel, or may read it after rounding."""
    numbers = torch.arange(1, 1 + math.prod(sizes), dtype=torch.float64).reshape(sizes)
    near = (grid.abs() + 1) * 2.0**-20
    shifts = [torch.tensor(s, dtype=torch.float64) * near for s in itertools.product((-1, 1), repeat=len(sizes))]
    read = torch.stack([sample(numbers, grid + shift).flatten() for shift in shifts]).sort(0).values
    first = torch.cat([torch.ones_like(read[:1], dtype=torch.bool), read[1:] != read[:-1]])
    most = _largest_bin(read[first])
    return Bracket(root(_largest_bin(sample(numbers, grid))).log_lower, root(most).log_upper)


def _largest_bin(numbers: torch.Tensor) -> int:
    """How often the most frequent number above 0 occurs."""
    read = numbers.flatten().to(torch.int64)
    read = read[read > 0]
    return int(torch.bincount(read).max()) if read.numel() else 0


def _moving(node: Node, mode: int) -> Effect:
    """Sampling at data-dependent places."""
    if mode == NEAREST:
        return Effect.unbounded("nearest-neighbour sampling at data-dependent places jumps from pixel to pixel")
    if mode == CUBIC:
        return Effect.unsupported(
            "lipaudit has no bound for bicubic sampling at data-dependent places; bilinear has one"
        )
    image = shape_of(node["input"])
    sides = [n - bool(node["align_corners"]) for n in image[2:]]
    places = math.prod(node.output.shape[2:])

    def given(operands: tuple[Magnitude, ...]) -> Effect:
        pixels = operands[0] if count_refs(node["input"]) else fixed(constant(node, "input"))
        moved = pixels.size((1,)) * rounded(math.sqrt(sum(n * n for n in sides)))
        return Effect.stretch(root(places), moved) if count_refs(node["input"]) else Effect.stretch(moved)

    reason = "sampling at data-dependent places changes with the size of the image: no finite constant over all inputs"
    return Effect.where_bounded(reason, given)


@GRID_SAMPLE.interval
def sampled_entries(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """Means of pixels and of zeros around them; cubic weights have signs."""
    if int(number(node, "interpolation_mode")) == CUBIC:
        return Interval()
    return interval_of_operand(node, "input", intervals).union(ZERO)
