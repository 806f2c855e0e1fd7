"""Gouk, Frank, Pfahringer and Cree, *Regularisation of Neural Networks by Enforcing Lipschitz Continuity*, Machine Learning 2021.

Power iteration on the operator of the layer, x <- K* K x from a random input, and then the quotient ||K x|| / ||x||.
After n iterations it lies between what Ryu 2019 gives after n and after n + 1 of them. The paper takes few iterations
per training step, from the x of the step before; here 100 in a row stand for them. An estimate from below.

The paper's rules for the other layers of a network are in the documentation of the methods.
"""

from __future__ import annotations

import torch

from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.published.operator_power import operator_and_adjoint, random_input, rising_norms
from lipaudit.spectral.published.registry import Method, Options, count, figure, generator, register

ITERATIONS = 100


def gouk2021(convolution: Convolution, options: Options) -> Bracket:
    """||K x|| for the unit vector x along (K* K)^n x_0."""
    image, adjoint = operator_and_adjoint(convolution)
    start = random_input(convolution, generator(options))
    *_, (_, x) = rising_norms(image, adjoint, start, count(options, ITERATIONS))
    return figure(torch.linalg.vector_norm(image(x)), Rigor.ESTIMATE)


GOUK2021 = register(
    Method(
        "gouk2021",
        "Gouk 2021",
        "Gouk, Frank, Pfahringer, Cree: Regularisation of Neural Networks by Enforcing Lipschitz Continuity, Machine Learning 110, 2021",
        "power iteration on the operator, then how much it stretches the last vector",
        "an estimate from below of the true operator's norm",
        gouk2021,
        iterations=ITERATIONS,
    )
)
