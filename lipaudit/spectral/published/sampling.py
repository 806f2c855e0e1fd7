"""How far the maximum of a trigonometric polynomial over a grid can lie below its supremum.

A polynomial p of degree n in one variable (frequencies -n to n) is determined by N > 2 n samples: with the kernel K
whose coefficients are 1_A * 1_B / (N - 2 n), the sets A and B being N and N - 2 n consecutive integers, which is 1 from
-n to n and 0 from N - n on, p(x) = (1/N) sum_j p(x_j) K(x - x_j). By Cauchy and Schwarz (1/N) sum_j |K(x - x_j)| <=
sqrt(N (N - 2 n)) / (N - 2 n), hence

    sup |p| <= (1 - alpha)^(-1/2) max_j |p(x_j)|,    alpha = 2 n / N,

and one such factor per axis in several variables (Pfister and Bresler, *Bounding Multivariate Trigonometric
Polynomials*, 2018). For two axes of the same size that is 1 / (1 - alpha). It holds as well for vectors and matrices p,
through <u, p v> for unit u and v. A kernel of k taps has n = floor(k / 2) about its centre.

Ehlich and Zeller's factor 1 / cos(pi (k - 1) / (2 N)) per axis is no larger from N = 2 (k - 1) on, and much smaller on
fine grids; lipaudit's own bounds use it.
"""

from __future__ import annotations

import math

from lipaudit.spectral.published.errors import TooFewSamplesError


def oversampling_factor(kernel_size: tuple[int, ...], samples: tuple[int, ...]) -> float:
    """prod (1 - alpha)^(-1/2) over the axes: the supremum of the symbol is at most this times its maximum on the grid.

    >>> round(oversampling_factor((3, 3), (20, 20)) * (1 - 2 / 20), 9)
    1.0

    Raises:
        TooFewSamplesError: if an axis has too few samples for any bound, alpha >= 1.
    """
    factor = 1.0
    for taps, points in zip(kernel_size, samples, strict=True):
        alpha = 2 * (taps // 2) / points
        if alpha >= 1:
            raise TooFewSamplesError(points, taps)
        factor /= math.sqrt(1 - alpha)
    return factor
