"""lipaudit's own brackets, as one method among the others.

``convolution_norm`` for convolutions and ``spectral_norm`` for dense layers: certified on both sides, within the
tolerance of the options where that is possible, for every padding. They take the weights as stored and compute in
float64, whatever precision the options name.
"""

from __future__ import annotations

import torch

from lipaudit.spectral.bracket import Bracket
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.convolution.norm import convolution_norm
from lipaudit.spectral.matrix.gram import spectral_norm
from lipaudit.spectral.published.registry import Method, Options, register


def gram(convolution: Convolution, options: Options) -> Bracket:
    """The certified bracket of the true operator's norm."""
    return convolution_norm(convolution, options.tolerance).bracket


def gram_of_matrix(matrix: torch.Tensor, options: Options) -> Bracket:
    """The certified bracket of sigma_1."""
    return spectral_norm(matrix.to("cpu"), options.tolerance)


GRAM = register(
    Method(
        "gram",
        "lipaudit",
        "lipaudit: Gram iteration with rounding margins and polyphase symbols over all frequencies",
        "certified bracket of the true operator: its padding, stride, dilation and size",
        "a certified upper and lower bound",
        gram,
        matrix=gram_of_matrix,
        exact_weights=True,
    )
)
