"""Ryu, Liu, Wang, Chen, Wang and Yin, *Plug-and-Play Methods Provably Converge with Properly Trained Denoisers*, ICML 2019.

Their real spectral normalisation is power iteration with the convolution and its adjoint in place of a matrix, from a
random input u:

    v <- K u / ||K u||,  u <- K* v / ||K* v||,  sigma <- (K u)* v.

K is the true operator: its zero padding and input size, and here also its stride and its copied borders, which the
paper does not need. So sigma rises to the norm that the layer has, and [P] takes it as the reference, with 100
iterations. It is an estimate from below: where the two largest singular values are close, 100 iterations are not
enough.
"""

from __future__ import annotations

from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.published.operator_power import operator_and_adjoint, random_input, rising_norms
from lipaudit.spectral.published.registry import Method, Options, count, figure, generator, register

ITERATIONS = 100


def ryu2019(convolution: Convolution, options: Options) -> Bracket:
    """sigma after the given number of iterations from a random input."""
    image, adjoint = operator_and_adjoint(convolution)
    start = random_input(convolution, generator(options))
    *_, (sigma, _) = rising_norms(image, adjoint, start, count(options, ITERATIONS))
    return figure(sigma, Rigor.ESTIMATE)


RYU2019 = register(
    Method(
        "ryu2019",
        "Ryu 2019",
        "Ryu, Liu, Wang, Chen, Wang, Yin: Plug-and-Play Methods Provably Converge with Properly Trained Denoisers, ICML 2019",
        "power iteration with the convolution and its adjoint, from a random input",
        "an estimate from below of the true operator's norm",
        ryu2019,
        iterations=ITERATIONS,
    )
)
