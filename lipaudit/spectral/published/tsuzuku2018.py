"""Tsuzuku, Sato and Sugiyama, *Lipschitz-Margin Training: Scalable Certification of Perturbation Invariance*, NeurIPS 2018.

With W the kernel reshaped to c_out x (c_in k_h k_w), stride s and an input of n pixels per axis,

    ||K|| <= ||W|| prod_axes sqrt(ceil(min(k, n - k + 1) / s)).

Proof: an output pixel is W times a window of the padded input, so that ||K x||^2 <= ||W||^2 times the sum of
||window||^2, in which a pixel counts as often as windows see it. On an axis these are at most ceil(k / s), and at most
all of the ceil((n - k + 1) / s) windows. This takes the n of the *padded* input: with the n before padding a 3-tap
kernel on 3 pixels with padding 1 has the factor 1 although the middle pixel is seen three times, and the formula is no
bound. So n counts the padding here.

Dilation d: a window sees every d-th pixel, and at most ceil(k gcd(s, d) / s) windows see the same one. Circular
padding: windows are counted on the padded input, where one pixel may stand twice; the formula is a bound where the
windows are distinct ones of the circular input, none wraps onto itself and the stride is 1, else an estimate. ||W|| is
computed exactly, from the eigenvalues of the smaller Gram matrix. The paper's training uses power iteration, which
would make it an estimate.
"""

from __future__ import annotations

import math

import torch

from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.published.registry import (
    Method,
    Options,
    bounded_by_torus,
    figure,
    refuse_copied_borders,
    register,
)
from lipaudit.spectral.published.reshaped import reshaped


def windows_per_pixel(convolution: Convolution) -> int:
    """The product over the axes of min(ceil(k gcd(s, d) / s), number of windows)."""
    axes = zip(convolution.kernel_size, convolution.stride, convolution.dilation, convolution.output_size, strict=True)
    return math.prod(min(-(-k * math.gcd(s, d) // s), windows) for k, s, d, windows in axes)


def tsuzuku2018(convolution: Convolution, options: Options) -> Bracket:
    """The exact norm of the reshaped kernel times the root of the number of windows that see a pixel."""
    refuse_copied_borders(convolution, "tsuzuku2018")
    matrices = reshaped(convolution)
    tall = matrices.mT if matrices.shape[1] < matrices.shape[2] else matrices
    largest = float(torch.linalg.eigvalsh(tall.mT @ tall).max())
    bound = math.sqrt(max(0.0, largest) * windows_per_pixel(convolution))
    return figure(bound, Rigor.NUMERICAL if _is_bound(convolution) else Rigor.ESTIMATE)


def _is_bound(convolution: Convolution) -> bool:
    if convolution.padding_mode == "zeros":
        return True
    fits = all(k <= h for k, h in zip(convolution.extent, convolution.input_size, strict=True))
    return bounded_by_torus(convolution) and fits and max(convolution.stride) == 1


TSUZUKU2018 = register(
    Method(
        "tsuzuku2018",
        "Tsuzuku 2018",
        "Tsuzuku, Sato, Sugiyama: Lipschitz-Margin Training: Scalable Certification of Perturbation Invariance, NeurIPS 2018",
        "exact norm of the reshaped kernel times the root of the number of windows that see a pixel",
        "an upper bound for zero padding, and for circular padding at stride 1",
        tsuzuku2018,
    )
)
