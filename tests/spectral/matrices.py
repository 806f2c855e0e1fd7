"""Matrices on which a spectral norm is easily got wrong."""

from __future__ import annotations

import math

import torch


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def gaussian(seed: int, rows: int, columns: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(rows, columns, dtype=dtype, generator=_generator(seed))


def wide_range(seed: int, rows: int, columns: int, decades: float) -> torch.Tensor:
    """Entries of both signs with magnitudes spread over 10^-decades to 10^decades."""
    generator = _generator(seed)
    exponents = (torch.rand(rows, columns, dtype=torch.float64, generator=generator) * 2 - 1) * decades
    return torch.randn(rows, columns, dtype=torch.float64, generator=generator) * 10.0**exponents


def hilbert(rows: int, columns: int) -> torch.Tensor:
    i = torch.arange(rows, dtype=torch.float64)[:, None]
    j = torch.arange(columns, dtype=torch.float64)[None, :]
    return 1 / (i + j + 1)


def rotation_multiple(seed: int, side: int, factor: float) -> torch.Tensor:
    """All singular values equal up to rounding."""
    q, _ = torch.linalg.qr(gaussian(seed, side, side))
    return factor * q


def repeated(seed: int, rows: int, columns: int) -> torch.Tensor:
    """The largest singular value three times, the next one 1e-9 below."""
    side = min(rows, columns)
    u, _ = torch.linalg.qr(gaussian(seed, rows, side))
    v, _ = torch.linalg.qr(gaussian(seed + 1, columns, side))
    values = torch.ones(side, dtype=torch.float64)
    values[3:] = 1 - 1e-9
    values[5:] = 0.5
    return (u * values) @ v.T


def sylvester(order: int) -> torch.Tensor:
    """Hadamard matrix of side 2^order: norm sqrt(2)^order, every singular value the same."""
    matrix = torch.ones(1, 1, dtype=torch.float64)
    for _ in range(order):
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)], 0)
    return matrix


SPECIAL = {
    "rank one": gaussian(1, 7, 1) @ gaussian(2, 1, 5),
    "rank one, integers": torch.outer(torch.arange(1.0, 6.0), torch.arange(2.0, 9.0)),
    "row": gaussian(3, 1, 9),
    "column": gaussian(4, 9, 1),
    "scalar": torch.tensor([[-3.7]], dtype=torch.float64),
    "identity": torch.eye(6, dtype=torch.float64),
    "identity / 3": torch.eye(8, dtype=torch.float64) / 3,
    "all ones / 8": torch.full((8, 8), 0.125, dtype=torch.float64),
    "rotation": rotation_multiple(5, 8, 1.0),
    "rotation times pi 1e200": rotation_multiple(6, 7, math.pi * 1e200),
    "repeated": repeated(7, 9, 8),
    "hadamard": sylvester(3),
    "permutation": torch.eye(7, dtype=torch.float64)[[3, 1, 4, 6, 5, 0, 2]],
    "nilpotent": torch.diag(torch.tensor([1.0, 2.0, 3.0, 4.0]), 1),
    "hilbert": hilbert(8, 8),
    "hilbert, wide": hilbert(3, 9),
    "one entry": torch.nn.functional.pad(torch.full((1, 1), 7.0, dtype=torch.float64), (3, 0, 2, 2)),
    "entries 1e-30 to 1e30": wide_range(8, 6, 6, 30),
    "entries 1e-300 to 1e300": wide_range(9, 5, 7, 300),
    "huge": gaussian(10, 6, 6).clamp(-1.7, 1.7) * 1e308,
    "the largest number": torch.full((3, 3), torch.finfo(torch.float64).max, dtype=torch.float64),
    "tiny": gaussian(11, 6, 5) * 1e-300,
    "subnormal": gaussian(12, 6, 5) * 1e-310,
    "the smallest number": torch.full((4, 4), 5e-324, dtype=torch.float64),
    "subnormal beside huge": torch.tensor([[1e300, 5e-324], [3e-320, 1e-310]], dtype=torch.float64),
    "complex": torch.complex(gaussian(13, 5, 6), gaussian(14, 5, 6)),
    "complex, tall": torch.complex(gaussian(15, 8, 3), gaussian(16, 8, 3)),
    "imaginary": torch.complex(torch.zeros(4, 4).double(), gaussian(17, 4, 4)),
    "complex rank one": torch.complex(gaussian(18, 5, 1), gaussian(19, 5, 1)) @ torch.complex(gaussian(20, 1, 6), gaussian(21, 1, 6)),
    "unitary": torch.linalg.qr(torch.complex(gaussian(22, 6, 6), gaussian(23, 6, 6)))[0],
    "graded": torch.diag(10.0 ** -torch.arange(0.0, 9.0, dtype=torch.float64)) @ gaussian(24, 9, 9),
    "integers, float32": torch.tensor([[3.0, 0.0], [4.0, 0.0]]),
    "float16": gaussian(25, 6, 5).half(),
    "bfloat16": gaussian(26, 6, 5).bfloat16(),
    "float32, subnormal": gaussian(27, 6, 5).float() * 1e-41,
}  # fmt: skip


def random_matrix(seed: int) -> torch.Tensor:
    """One of nine families, sides 1 to 8, deterministic in the seed."""
    generator = _generator(seed)
    rows, columns, family = (
        int(torch.randint(low, high, (), generator=generator)) for low, high in ((1, 9), (1, 9), (0, 9))
    )
    match family:
        case 0:
            return gaussian(seed, rows, columns)
        case 1:
            return gaussian(seed, rows, 1) @ gaussian(seed + 1, 1, columns)
        case 2:
            return wide_range(seed, rows, columns, 30)
        case 3:
            return wide_range(seed, rows, columns, 1) * 10.0 ** (seed % 597 - 298)
        case 4:
            return torch.randint(-3, 4, (rows, columns), generator=generator).double()
        case 5:
            return rotation_multiple(seed, rows, 1 + seed % 7)
        case 6:
            return torch.complex(gaussian(seed, rows, columns), gaussian(seed + 1, rows, columns))
        case 7:
            return gaussian(seed, rows, columns, torch.float32)
        case _:
            sparse = torch.rand(rows, columns, generator=generator) < 0.3
            return gaussian(seed, rows, columns) * sparse
