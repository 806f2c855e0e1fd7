"""Suprema of |f'| of smooth activations, each between the floats next to it.

Each is attained where f'' = 0: at x = 2.3993573 for SiLU, x = sqrt(2) for GELU, x = 1.4185040 for its tanh form and
x = 1.4905712 for Mish. The slope of SELU is largest at 0 from the left, where it is scale * alpha.
"""

from __future__ import annotations

import math

from lipaudit.spectral.interval import Interval


def _up_to(upper: float) -> Interval:
    """A number between a float and the one below it."""
    return Interval(math.nextafter(upper, 0.0), upper)


SILU = _up_to(1.099839320128867)  # 1.09983932012886691696
GELU_ERF = _up_to(1.128904145185155)  # 1.12890414518515478634 = 1/2 (1 + erf(1)) + 1 / (e sqrt(pi))
GELU_TANH = _up_to(1.128993068658772)  # 1.12899306865877176546, with sqrt(2/pi) (x + 0.044715 x^3)
MISH = _up_to(1.088498161251728)  # 1.08849816125172786123
SELU = _up_to(1.758099340847377)  # 1.75809934084737685994 = 1.0507009873554804934 * 1.6732632423543772848
ERF = _up_to(1.1283791670955128)  # 1.12837916709551257390 = 2 / sqrt(pi)
