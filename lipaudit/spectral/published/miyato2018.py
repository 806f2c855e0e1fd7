"""Miyato, Kataoka, Koyama and Yoshida, *Spectral Normalization for Generative Adversarial Networks*, ICLR 2018.

sigma_1 of the kernel reshaped to W (c_out x c_in k_h k_w) by power iteration from a random u on the output side,

    v <- W^T u / ||W^T u||,  u <- W v / ||W v||,  sigma <- u^T W v.

It stands for the norm of the convolution but does not bound it: the factor sqrt(k_h k_w) is missing (see ``reshaped``),
without which it can lie on either side. The paper makes one iteration per training step, keeping u; here 100 in a row
stand for them. With the factor and an exact norm it is the bound of Tsuzuku 2018, and one of the four of Singla 2021.
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


def miyato2018(convolution: Convolution, options: Options) -> Bracket:
    """sigma_1 of the reshaped kernel by power iteration, without any factor."""
    refuse_copied_borders(convolution, "miyato2018")
    sigma = power_norm_of_rows(convolution, count(options, ITERATIONS), generator(options))
    return figure(sigma, Rigor.ESTIMATE)


MIYATO2018 = register(
    Method(
        "miyato2018",
        "Miyato 2018",
        "Miyato, Kataoka, Koyama, Yoshida: Spectral Normalization for Generative Adversarial Networks, ICLR 2018",
        "norm of the kernel reshaped to a matrix with a row per output channel, by power iteration",
        "an estimate on either side, without a theorem for convolutions; for a dense layer from below",
        miyato2018,
        iterations=ITERATIONS,
    )
)
