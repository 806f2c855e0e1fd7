"""Convergence of Gram iteration and power iteration to sigma_1: [P] Figure 1 and the two convergence plots of Appendix D.

Random Gaussian matrices, float64; the error is |sigma - sigma_ref| with sigma_ref by singular value decomposition. Power iteration is
run once per matrix, and then several times from different starts on one matrix. Errors are relative to sigma_ref in the claims, because
the floor that rounding sets is relative: 1e-13 here, about 450 units in the last place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from lipaudit.device import describe
from lipaudit.experiments.harness.registry import PAPER_NAME, Experiment, Request, register
from lipaudit.experiments.harness.result import Claim, Plot, Result, Series, Table
from lipaudit.experiments.harness.statistics import with_band
from lipaudit.spectral.published.gram_iteration import schatten_norms
from lipaudit.spectral.published.power_iteration import singular_values

FLOOR = 1e-13
PRODUCTS = 16
COMPARED = (10, 11)
SPREAD = 2.0
_DRAWN_BELOW = 1e-16
_METHODS = "Gram: Gram iteration, counted in products; power: power iteration"


@dataclass(frozen=True)
class Histories:
    """Signed relative errors sigma / sigma_ref - 1: gram (products + 1, matrices), power (iterations, matrices)."""

    gram: torch.Tensor
    power: torch.Tensor
    reference: torch.Tensor

    def needed(self, products: int) -> int | None:
        """Iterations after which power iteration's mean error is at most that of Gram iteration; None if it never is."""
        target = (self.gram[products] * self.reference).abs().mean()
        reached = (self.power * self.reference).abs().mean(1) <= target
        return int(reached.to(torch.int8).argmax()) + 1 if bool(reached.any()) else None


def measure(matrices: torch.Tensor, iterations: int, generator: torch.Generator) -> Histories:
    """Both iterations on a batch (matrices, p, q); the reference is decomposed on the CPU, which is faster than a GPU at it."""
    reference = torch.stack([torch.linalg.svdvals(matrix.cpu())[0] for matrix in matrices])
    gram = torch.stack(list(schatten_norms(matrices, PRODUCTS))).cpu()
    power = torch.stack(list(singular_values(matrices, iterations, generator))).cpu()
    return Histories(gram / reference - 1, power / reference - 1, reference)


def run(request: Request, count: int, shape: tuple[int, int], iterations: int, starts: int) -> Result:
    """The experiment on ``count`` matrices and on ``starts`` runs of power iteration on the first of them."""
    generator = request.generator()
    matrices = torch.randn(count, *shape, dtype=torch.float64, generator=generator).to(request.device)
    request.report(0, 2, f"{count} matrices")
    several = measure(matrices, iterations, generator)
    request.report(1, 2, f"{starts} starts")
    same = matrices[:1].expand(starts, *shape)
    fixed = measure(same, iterations, generator)
    again = torch.stack(list(schatten_norms(same, PRODUCTS))).cpu() / fixed.reference - 1
    request.report(2, 2)
    setting = (
        f"{count} Gaussian matrices {shape[0]} x {shape[1]}, float64, {iterations} power iterations, {PRODUCTS} Gram products; "
        f"{starts} starts on one matrix; {describe(request.device)}, seed {request.seed}"
    )
    return Result(
        "convergence",
        f"error against iterations of Gram iteration and power iteration ({PAPER_NAME}, Figure 1 and Appendix D)",
        setting,
        (_table(several, ""), _starts_table(fixed, "starts")),
        (*claims(several), determinism(fixed, bool(torch.equal(again, fixed.gram)))),
        (_matrices_plot(several), _starts_plot(fixed)),
    )


def claims(histories: Histories) -> tuple[Claim, ...]:
    """What the paper says of both iterations over random matrices."""
    floor = [int((column.abs() <= FLOOR).to(torch.int8).argmax()) for column in histories.gram.T]
    reached = bool((histories.gram[-1].abs() <= FLOOR).all())
    iterations = len(histories.power)
    claimed = [
        Claim(
            f"Gram iteration reaches the floor of float64 (relative error {FLOOR:g}) within 15 products",
            "less than 12 iterations in Figure 1, under 15 in every case",
            f"{min(floor)} to {max(floor)} products" if reached else f"not within {PRODUCTS} products on every matrix",
            reached and max(floor) <= 15,
        )
    ]
    for products in COMPARED:
        needed = histories.needed(products)
        text = f"more than {iterations}" if needed is None else f"{needed}"
        claimed.append(
            Claim(
                f"power iteration needs more than 100 times {products} iterations for the mean error of {products} Gram products",
                "1000 power iterations are less accurate than 11 products; up to 5000 until convergence",
                f"{text} iterations",
                (needed or iterations + 1) > 100 * products,
            )
        )
    highest, lowest = float(histories.power.max()), float(histories.gram.min())
    claimed.append(
        Claim(
            "power iteration is always below sigma_1",
            "negative error ratio at each iteration",
            f"largest sigma / sigma_ref - 1: {highest:.2g} (rounding: up to {FLOOR:g})",
            highest <= FLOOR,
        )
    )
    claimed.append(
        Claim(
            "Gram iteration is always above sigma_1",
            "an upper bound at each iteration",
            f"smallest sigma / sigma_ref - 1: {lowest:.2g} (rounding: down to -{FLOOR:g})",
            lowest >= -FLOOR,
        )
    )
    return tuple(claimed)


def determinism(histories: Histories, same: bool) -> Claim:
    """Spread of power iteration over its starts; ``same`` says whether Gram iteration gave the same bits twice."""
    middle = histories.power[len(histories.power) // 50].abs()
    factor = float(middle.max() / middle.min().clamp_min(_DRAWN_BELOW))
    return Claim(
        f"on one matrix power iteration depends on its start (errors differ by a factor of more than {SPREAD:g}) and Gram iteration does "
        "not",
        "inherent randomness by design, unlike Gram iteration",
        f"after {len(histories.power) // 50 + 1} iterations the errors of {histories.power.shape[1]} starts differ by a factor of "
        f"{factor:.3g}; Gram iteration run twice gives {'the same bits' if same else 'different bits'}",
        same and factor > SPREAD,
    )


def _marks(iterations: int) -> list[int]:
    """Iterations that a table shows: 1, 2, 5, 10, ... and the last."""
    decades = [m * 10**e for e in range(6) for m in (1, 2, 5)]
    return sorted({m for m in decades if m <= iterations} | {iterations})


def _rows(
    method: str, steps: Sequence[int], first: int, errors: torch.Tensor
) -> list[tuple[str, int, float, float, float]]:
    sizes = errors.abs()
    return [
        (method, s, float(sizes[s - first].mean()), float(sizes[s - first].min()), float(sizes[s - first].max()))
        for s in steps
    ]


def _table(histories: Histories, part: str) -> Table:
    rows = _rows("Gram", range(len(histories.gram)), 0, histories.gram * histories.reference)
    rows += _rows("power", _marks(len(histories.power)), 1, histories.power * histories.reference)
    columns = ("method", "iterations", "mean error", "smallest", "largest")
    return Table(f"|sigma - sigma_ref| over the matrices ({_METHODS})", columns, tuple(rows), part)


def _starts_table(histories: Histories, part: str) -> Table:
    rows = _rows("power", _marks(len(histories.power)), 1, histories.power * histories.reference)
    columns = ("method", "iterations", "mean error", "smallest", "largest")
    return Table(f"|sigma - sigma_ref| over random starts on one matrix ({_METHODS})", columns, tuple(rows), part)


def _matrices_plot(histories: Histories) -> Plot:
    gram, power = ((h * histories.reference).abs() for h in (histories.gram, histories.power))
    series = (
        with_band("Gram iteration", range(1, len(gram)), gram[1:], _DRAWN_BELOW),
        with_band("power iteration", range(1, len(power) + 1), power, _DRAWN_BELOW),
    )
    return Plot("random matrices", "iterations", "|sigma - sigma_ref|", series, log_x=True, log_y=True)


def _starts_plot(histories: Histories) -> Plot:
    steps = tuple(float(i) for i in range(1, len(histories.power) + 1))
    power = (histories.power * histories.reference).abs().clamp_min(_DRAWN_BELOW)
    series = [Series(f"power, start {i + 1}", steps, tuple(power[:, i].tolist())) for i in range(power.shape[1])]
    gram = (histories.gram[1:, 0] * histories.reference[0]).abs().clamp_min(_DRAWN_BELOW)
    series.insert(0, Series("Gram iteration", steps[: len(gram)], tuple(gram.tolist())))
    return Plot("one matrix", "iterations", "|sigma - sigma_ref|", tuple(series), log_x=True, log_y=True)


def _run(request: Request) -> Result:
    if request.full:
        return run(request, 100, (2000, 1000), 5000, 20)
    return run(request, 20, (200, 100), 3000, 10)


CONVERGENCE = register(
    Experiment(
        "convergence",
        "Figure 1 and the two convergence plots of Appendix D",
        "20 matrices 200 x 100, 3000 power iterations",
        "100 matrices 2000 x 1000, 5000 power iterations",
        _run,
    )
)
