"""Suprema of |f'| of smooth activations, to the last digit of a float and rounded up.

Each is attained where f'' = 0: at x = 2.3993573 for SiLU, x = sqrt(2) for GELU, x = 1.4185040 for its tanh form and
x = 1.4905712 for Mish. The slope of SELU is largest at 0 from the left, where it is scale * alpha.
"""

from __future__ import annotations

SILU = 1.0998393201288671  # 1.09983932012886691696
GELU_ERF = 1.1289041451851550  # 1.12890414518515478634 = 1/2 (1 + erf(1)) + 1 / (e sqrt(pi))
GELU_TANH = 1.1289930686587720  # 1.12899306865877176546, with sqrt(2/pi) (x + 0.044715 x^3)
MISH = 1.0884981612517280  # 1.08849816125172786123
SELU = 1.7580993408473770  # 1.75809934084737685994 = 1.0507009873554804934 * 1.6732632423543772848
ERF = 1.1283791670955128  # 1.12837916709551257390 = 2 / sqrt(pi)
