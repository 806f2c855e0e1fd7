"""Farnia, Zhang and Tse, *Generalizable Adversarial Training via Spectral Normalization*, ICLR 2019.

Power iteration with the convolution and the transposed convolution, stride and padding included, for spectral
normalisation during training. It differs from Ryu 2019 in its start, a random *output* u as in Miyato 2018, so that one
iteration is

    v <- K* u / ||K* u||,  u <- K v / ||K v||,  sigma <- u* K v = ||K v||,

and in its use: one iteration per training step, with u kept from step to step. Here the steps of a training run are
replaced by 100 iterations in a row. An estimate from below.
"""

from __future__ import annotations

from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.published.operator_power import operator_and_adjoint, random_output, rising_norms
from lipaudit.spectral.published.registry import Method, Options, count, figure, generator, register

ITERATIONS = 100


def farnia2019(convolution: Convolution, options: Options) -> Bracket:
    """sigma after the given number of iterations from a random output."""
    image, adjoint = operator_and_adjoint(convolution)
    start = random_output(convolution, generator(options))
    *_, (sigma, _) = rising_norms(adjoint, image, start, count(options, ITERATIONS))
    return figure(sigma, Rigor.ESTIMATE)


FARNIA2019 = register(
    Method(
        "farnia2019",
        "Farnia 2019",
        "Farnia, Zhang, Tse: Generalizable Adversarial Training via Spectral Normalization, ICLR 2019",
        "power iteration with the transposed convolution and the convolution, from a random output",
        "an estimate from below of the true operator's norm",
        farnia2019,
        iterations=ITERATIONS,
    )
)
