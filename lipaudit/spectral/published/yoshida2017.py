"""Yoshida and Miyato, *Spectral Norm Regularization for Improving the Generalizability of Deep Learning*, 2017.

The paper adds half of sigma^2 of every layer to the loss, where Miyato 2018 divides the weights by sigma. The number is
the same: the kernel reshaped to W (c_out x c_in k_h k_w), and one iteration per training step v <- W^T u, u <- W v,
sigma <- ||u|| / ||v||, which is u^T W v with normalised vectors. So are the iterations that stand for training here,
and the claim: an estimate on either side.
"""

from __future__ import annotations

from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.published.registry import (
    Method,
    Options,
    count,
    figure,
    generator,
    refuse_copied_borders,
    register,
)
from lipaudit.spectral.published.reshaped import power_norm_of_rows

ITERATIONS = 100


def yoshida2017(convolution: Convolution, options: Options) -> Bracket:
    """||W v|| / ||v|| of the reshaped kernel after power iteration."""
    refuse_copied_borders(convolution, "yoshida2017")
    sigma = power_norm_of_rows(convolution, count(options, ITERATIONS), generator(options))
    return figure(sigma, Rigor.ESTIMATE)


YOSHIDA2017 = register(
    Method(
        "yoshida2017",
        "Yoshida 2017",
        "Yoshida, Miyato: Spectral Norm Regularization for Improving the Generalizability of Deep Learning, arXiv 1705.10941, 2017",
        "norm of the kernel reshaped to a matrix with a row per output channel, by power iteration; the same number as miyato2018",
        "an estimate on either side, without a theorem for convolutions; for a dense layer from below",
        yoshida2017,
        iterations=ITERATIONS,
    )
)
