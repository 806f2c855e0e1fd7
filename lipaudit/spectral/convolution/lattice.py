"""Regular lattices of frequencies, and what the largest value on one says of the supremum over the torus.

For a trigonometric polynomial of degree n_a in axis a, and so for sigma_1 of a symbol, the supremum over all frequencies is at most the
largest value on a lattice of N_a points per axis divided by prod_a cos(pi n_a / N_a) (Ehlich and Zeller, 1964, one axis after the other).
"""

from __future__ import annotations

import math

from lipaudit.spectral.bracket import round_down


def lattice(degrees: tuple[float, ...], density: float) -> tuple[int, ...]:
    """Points per axis of a lattice with ``density`` points per degree; one where the symbol is constant."""
    return tuple(1 if n == 0 else max(math.ceil(density / 2), math.ceil(density * n)) for n in degrees)


def cosine_squared(angles: list[float]) -> float:
    """prod cos^2, rounded down; 0 where an angle reaches pi / 2."""
    product = 1.0
    for angle in angles:
        product *= round_down(math.cos(angle)) if angle < math.pi / 2 else 0.0
    return max(0.0, round_down(product * product, 8))
