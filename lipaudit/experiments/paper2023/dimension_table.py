"""Square matrices of growing size: [P] second table of Appendix D, and what its times would mean.

Gaussian p x p matrices in float32, 100 power iterations against 10 Gram products. The reference is the singular value
decomposition in float64 up to ``DECOMPOSED``, and 200 steps of Lanczos bidiagonalisation above. A size whose iteration does not fit
the memory is left out and named.

10 Gram products of p x p matrices are 20 p^3 operations, and 100 power iterations read the matrix 200 times. The paper's times divided
into that give rates that no card of its kind has: the NVIDIA RTX A6000 that it used is rated at 38.7e12 float32 operations per second
(309.7e12 with TF32 tensor cores and sparsity) and 768e9 bytes per second.
"""

from __future__ import annotations

import os

import torch

from lipaudit.device import describe, timed
from lipaudit.experiments.harness.cells import error_cell
from lipaudit.experiments.harness.golub_kahan import lanczos_norm
from lipaudit.experiments.harness.registry import PAPER_NAME, Experiment, Request, register
from lipaudit.experiments.harness.result import Cell, Claim, Plot, Result, Series, Table
from lipaudit.experiments.harness.statistics import mean
from lipaudit.spectral.published.gram_iteration import schatten_norms
from lipaudit.spectral.published.power_iteration import singular_values

# p: (PI seconds, GI seconds, PI error, GI error, reference)
PAPER = {
    10: (0.0093, 0.0012, 0.0006, 0.0, 5.28),
    100: (0.0083, 0.0010, -0.0231, 0.0, 19.31),
    1000: (0.0093, 0.0017, -0.0426, 0.0005, 62.95),
    10000: (0.016, 0.0019, -0.6004, 0.0037, 199.77),
    50000: (0.017, 0.0040, -1.70, 0.1, 447.21),
}
CARD_FLOPS, CARD_BYTES = 309.7e12, 768e9
POWER_ITERATIONS, PRODUCTS = 100, 10
DECOMPOSED = 2000
_LANCZOS_STEPS = 200
_ROUNDING = 1e-6  # of float32, relative
_COPIES = 4  # the matrix, the iterate, the rescaled iterate and its product
_COMMON = ("p", "PI time (s)", "GI time (s)", "PI error", "GI error", "ref")
_COLUMNS = (*_COMMON, "PI |error|", "GI |error|", "GI flop/s")
_PAPER_COLUMNS = (*_COMMON, "GI flop/s", "PI byte/s")


def gram_operations(p: int) -> float:
    """Floating-point operations of the Gram products: a multiplication and an addition per entry and step."""
    return PRODUCTS * 2.0 * p**3


def power_bytes(p: int) -> float:
    """Bytes of the float32 matrix that the power iterations read: the matrix twice per iteration."""
    return POWER_ITERATIONS * 2 * 4.0 * p**2


def free_memory(device: torch.device) -> int:
    """Bytes that can be allocated on a device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def run(request: Request, sizes: tuple[int, ...], repeats: int, memory: int | None = None) -> Result:
    """The experiment at those sizes; ``memory`` replaces the free memory of the device."""
    generator = request.generator()
    room = free_memory(request.device) if memory is None else memory
    fitting = [p for p in sizes if _COPIES * 4 * p * p <= room]
    rows = []
    for position, p in enumerate(fitting):
        request.report(position, len(fitting), f"p = {p}")
        rows.append(_measure(p, repeats if p <= 1000 else 1, request.device, generator))
    request.report(len(fitting), len(fitting))
    left_out = [p for p in PAPER if p not in fitting]
    notes = []
    if left_out:
        names = ", ".join(str(p) for p in left_out)
        why = (
            "beyond the reduced size, or more than the free memory" if not request.full else "more than the free memory"
        )
        notes.append(f"Left out: p = {names} ({why}; {_COPIES} float32 matrices must fit).")
    setting = (
        f"one Gaussian float32 matrix per run, {repeats} runs up to p = 1000 and one above; reference by decomposition up to "
        f"p = {DECOMPOSED}, else by {_LANCZOS_STEPS} Lanczos steps; {describe(request.device)}, seed {request.seed}"
    )
    return Result(
        "dimension-table",
        f"time and error by dimension of power iteration (PI) and Gram iteration (GI) ({PAPER_NAME}, Appendix D)",
        setting,
        (
            Table(
                "sigma - sigma_ref and times, here (means over the runs; PI: power iteration, GI: Gram iteration; * marks an error of at "
                f"most {_ROUNDING:g} of ref, the rounding of float32, which counts as none)",
                _COLUMNS,
                tuple(_cells(row) for row in rows),
            ),
            paper_table(),
        ),
        claims(rows),
        (_plot(rows),),
        (*notes, *rate_notes()),
    )


# p, PI time, GI time, PI error, GI error, reference, PI |error|, GI |error|
Measured = tuple[int, float, float, float, float, float, float, float]


def _measure(p: int, repeats: int, device: torch.device, generator: torch.Generator) -> Measured:
    columns: list[list[float]] = [[] for _ in range(7)]
    for i in range(repeats + 1):
        if i == 0 and p > 1000:
            continue  # small sizes warm up
        matrix = _random(p, device, generator)
        power, power_time = timed(lambda m=matrix: _last_power(m, generator), device)  # type: ignore[misc]
        gram, gram_time = timed(lambda m=matrix: _last_gram(m), device)  # type: ignore[misc]
        if i == 0:
            continue
        reference = reference_norm(matrix[0], generator)
        errors = (power - reference, gram - reference)
        for column, value in zip(columns, (power_time, gram_time, *errors, reference, *map(abs, errors)), strict=True):
            column.append(value)
    power_time, gram_time, power_error, gram_error, reference, power_size, gram_size = map(mean, columns)
    return p, power_time, gram_time, power_error, gram_error, reference, power_size, gram_size


def _cells(row: Measured) -> tuple[Cell, ...]:
    """The row of the table, errors within the rounding of float32 marked as such."""
    p, power_time, gram_time, power_error, gram_error, reference, power_size, gram_size = row
    errors = [error_cell(e, _ROUNDING * reference) for e in (power_error, gram_error, power_size, gram_size)]
    return p, power_time, gram_time, *errors[:2], reference, *errors[2:], gram_operations(p) / gram_time


def _random(p: int, device: torch.device, generator: torch.Generator) -> torch.Tensor:
    """A Gaussian matrix (1, p, p): the same on every device up to ``DECOMPOSED``, above it drawn where it is used."""
    if p <= DECOMPOSED:
        return torch.randn(1, p, p, generator=generator).to(device)
    there = torch.Generator(device).manual_seed(generator.initial_seed())
    return torch.randn(1, p, p, generator=there, device=device)


def reference_norm(matrix: torch.Tensor, generator: torch.Generator) -> float:
    """sigma_1, by decomposition where that is affordable."""
    if max(matrix.shape) <= DECOMPOSED:
        return float(torch.linalg.svdvals(matrix.double())[0])
    return lanczos_norm(matrix, _LANCZOS_STEPS, generator)


def _last_power(matrix: torch.Tensor, generator: torch.Generator) -> float:
    *_, value = singular_values(matrix, POWER_ITERATIONS, generator)
    return float(value[0])


def _last_gram(matrix: torch.Tensor) -> float:
    *_, value = schatten_norms(matrix, PRODUCTS)
    return float(value[0])


def paper_table() -> Table:
    """The paper's row for every dimension, with the rates that its times imply."""
    rows = tuple((p, *row, gram_operations(p) / row[1], power_bytes(p) / row[0]) for p, row in PAPER.items())
    return Table("the same in the paper, with the rates that its times imply", _PAPER_COLUMNS, rows, "paper")


def claims(rows: list[Measured]) -> tuple[Claim, ...]:
    """Which iteration is faster and which is closer."""
    faster = [row[0] for row in rows if row[2] < row[1]]
    closer = [row[0] for row in rows if row[7] <= max(row[6], _ROUNDING * row[5])]
    allowed = [
        f"{row[7]:.2g} against {row[6]:.2g} at p = {row[0]}, within the {_ROUNDING * row[5]:.2g} of rounding"
        for row in rows
        if row[6] < row[7] <= _ROUNDING * row[5]
    ]
    return (
        Claim(
            f"{PRODUCTS} Gram products are faster than {POWER_ITERATIONS} power iterations at every dimension",
            "at all five dimensions",
            f"at p = {', '.join(map(str, faster)) or 'none'} of {', '.join(str(row[0]) for row in rows)}",
            len(faster) == len(rows),
        ),
        Claim(
            f"{PRODUCTS} Gram products are at least as close as {POWER_ITERATIONS} power iterations at every dimension, up to rounding "
            f"(mean absolute error; {_ROUNDING:g} of sigma or less, the rounding of float32, counts as none)",
            "at all five dimensions",
            f"at p = {', '.join(map(str, closer)) or 'none'} of {', '.join(str(row[0]) for row in rows)}"
            + (f" (allowed: {'; '.join(allowed)})" if allowed else ""),
            len(closer) == len(rows),
        ),
    )


def rate_notes() -> tuple[str, ...]:
    """What the paper's times would mean: the rates that they imply against those of its card."""
    flops = {p: gram_operations(p) / row[1] for p, row in PAPER.items()}
    bytes_read = {p: power_bytes(p) / row[0] for p, row in PAPER.items()}
    return (
        _rate_note("Gram times imply", "flop/s", flops, CARD_FLOPS),
        _rate_note("times of power iteration imply", "B/s", bytes_read, CARD_BYTES),
    )


def _rate_note(what: str, unit: str, rates: dict[int, float], rated: float) -> str:
    implied = ", ".join(f"{rate:.2g} {unit} at p = {p}" for p, rate in rates.items())
    above = ", ".join(str(p) for p, rate in rates.items() if rate > rated)
    return f"The paper's {what} {implied}; they are above the {rated:.4g} of its card at p = {above}, so that they cannot be the work's."


def _plot(rows: list[Measured]) -> Plot:
    sizes = tuple(float(row[0]) for row in rows)
    paper = tuple(float(p) for p in PAPER)
    series = (
        Series("power iteration", sizes, tuple(row[1] for row in rows)),
        Series("Gram iteration", sizes, tuple(row[2] for row in rows)),
        Series("power iteration, paper", paper, tuple(row[0] for row in PAPER.values())),
        Series("Gram iteration, paper", paper, tuple(row[1] for row in PAPER.values())),
    )
    return Plot("time by dimension", "p", "seconds", series, log_x=True, log_y=True)


def _run(request: Request) -> Result:
    return run(request, tuple(PAPER) if request.full else (10, 100, 1000, 2000), 10 if request.full else 3)


DIMENSION_TABLE = register(
    Experiment(
        "dimension-table",
        "the table of times by dimension in Appendix D",
        "p = 10, 100, 1000, 2000",
        "p = 10 to 50000, as far as the memory goes",
        _run,
    )
)
