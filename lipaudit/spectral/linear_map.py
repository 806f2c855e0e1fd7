"""The linear maps whose operator norms are asked for, and what an answer is.

An operator norm is the largest singular value, sup ||A x|| / ||x||. Two kinds of maps are asked about:

- a :class:`~lipaudit.spectral.convolution.geometry.Convolution`: kernel, input size, stride, padding, dilation and groups;
- a matrix, a ``torch.Tensor`` with two axes: x -> W x.

A linear map that is made of several, such as the blocks of a block-diagonal one, is asked about part by part. Who answers is in
:mod:`lipaudit.spectral.oracle`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import torch

from lipaudit.spectral.bracket import Bracket
from lipaudit.spectral.convolution.geometry import Convolution

LinearMap: TypeAlias = Convolution | torch.Tensor


@dataclass(frozen=True)
class OperatorNorm:
    """A bracket of the norm of a linear map, and the way it was found, in a few words ("matrix", "grid 29x29", "torus")."""

    bracket: Bracket
    note: str = ""
