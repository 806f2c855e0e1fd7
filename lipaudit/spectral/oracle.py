"""Ways to find the norms of linear maps: what the rules ask for every weight.

The rules know which linear map an operation is; how its norm is found is a choice of the audit: certified brackets (the default), a
published method (:mod:`lipaudit.spectral.published`), or nothing at all where the weights are unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch

from lipaudit.spectral.bracket import Bracket
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.convolution.norm import ConvolutionNorm, convolution_norm
from lipaudit.spectral.matrix.gram import spectral_norm
from lipaudit.spectral.published.registry import Method, Options, measure, measure_matrix


class Norms(Protocol):
    """One way to find norms.

    ``tolerance`` is the relative one of norms that do not depend on weights (pooling, resizing); ``weights_known`` is False
    where only the structure of a network is asked for.
    """

    @property
    def tolerance(self) -> float:
        """The relative tolerance."""

    @property
    def weights_known(self) -> bool:
        """Whether weights have values."""

    def convolution(self, convolution: Convolution) -> ConvolutionNorm:
        """The operator norm of a convolution."""

    def matrices(self, matrices: Iterable[torch.Tensor]) -> Bracket:
        """The largest spectral norm of several matrices."""


@dataclass(frozen=True)
class CertifiedNorms:
    """Certified brackets within a relative tolerance where the operation's norm can be known that closely."""

    tolerance: float = 1e-3
    weights_known: ClassVar[bool] = True

    def convolution(self, convolution: Convolution) -> ConvolutionNorm:
        """See :func:`lipaudit.spectral.convolution.norm.convolution_norm`; on the CPU, one after another."""
        return convolution_norm(convolution.to("cpu"), self.tolerance)

    def matrices(self, matrices: Iterable[torch.Tensor]) -> Bracket:
        """See :func:`lipaudit.spectral.matrix.gram.spectral_norm`."""
        return Bracket.maximum(spectral_norm(matrix.to("cpu"), self.tolerance) for matrix in matrices)


@dataclass(frozen=True)
class PublishedNorms:
    """The figures of a published method, with the rigor that the method has for each operator."""

    method: Method
    options: Options
    weights_known: ClassVar[bool] = True

    @property
    def tolerance(self) -> float:
        """The one in the options."""
        return self.options.tolerance

    def convolution(self, convolution: Convolution) -> ConvolutionNorm:
        """The method's figure; a :class:`~lipaudit.errors.MethodError` where it is not defined."""
        return ConvolutionNorm(measure(self.method, convolution, self.options), self.method.name)

    def matrices(self, matrices: Iterable[torch.Tensor]) -> Bracket:
        """The largest of the method's figures for dense layers."""
        return Bracket.maximum(measure_matrix(self.method, matrix, self.options) for matrix in matrices)


@dataclass(frozen=True)
class UnknownNorms:
    """Stands for norms where the weights are unknown: every norm is 1, and only the status of an operation counts."""

    tolerance: float = 1e-3
    weights_known: ClassVar[bool] = False

    def convolution(self, convolution: Convolution) -> ConvolutionNorm:
        """1."""
        return ConvolutionNorm(Bracket.exact(1.0), "")

    def matrices(self, matrices: Iterable[torch.Tensor]) -> Bracket:
        """1."""
        return Bracket.exact(1.0)
