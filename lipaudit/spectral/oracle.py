"""Oracles of operator norms: the ways to find the norm of a linear map that a rule asks for.

The rules know which linear map an operation is (:mod:`lipaudit.spectral.linear_map`); how its norm is found is a choice of the audit:
certified brackets (the default), a published method (:mod:`lipaudit.spectral.published`), or nothing at all where the weights are unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch

from lipaudit.spectral.bracket import Bracket
from lipaudit.spectral.convolution.norm import convolution_norm
from lipaudit.spectral.linear_map import LinearMap, OperatorNorm
from lipaudit.spectral.matrix.gram import spectral_norm
from lipaudit.spectral.published.registry import Method, Options, measure, measure_matrix


class Norms(Protocol):
    """One way to find operator norms.

    ``tolerance`` is the relative one of norms that do not depend on weights (pooling, resizing); ``weights_known`` is False
    where only the structure of a network is asked for.
    """

    @property
    def tolerance(self) -> float:
        """The relative tolerance."""

    @property
    def weights_known(self) -> bool:
        """Whether weights have values."""

    def norm(self, linear: LinearMap) -> OperatorNorm:
        """The operator norm of a convolution or a matrix.

        Raises:
            MethodError: where a published method has no figure for it.
            NonFiniteWeightsError: if it holds NaN or infinity.
        """


def certified_norm(linear: LinearMap, tolerance: float) -> OperatorNorm:
    """The certified bracket of a convolution or a matrix on the CPU, within a relative tolerance where it can be known that closely.

    See :func:`lipaudit.spectral.convolution.norm.convolution_norm` and :func:`lipaudit.spectral.matrix.gram.spectral_norm`.

    >>> certified_norm(torch.diag(torch.tensor([3.0, 4.0])), 1e-3).bracket.upper < 4.01
    True
    """
    if isinstance(linear, torch.Tensor):
        return OperatorNorm(spectral_norm(linear.to("cpu"), tolerance), "matrix")
    return convolution_norm(linear.to("cpu"), tolerance)


@dataclass(frozen=True)
class CertifiedNorms:
    """Certified brackets, each map by itself."""

    tolerance: float = 1e-3
    weights_known: ClassVar[bool] = True

    def norm(self, linear: LinearMap) -> OperatorNorm:
        """See :func:`certified_norm`."""
        return certified_norm(linear, self.tolerance)


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

    def norm(self, linear: LinearMap) -> OperatorNorm:
        """The method's figure; a :class:`~lipaudit.errors.MethodError` where it is not defined."""
        if isinstance(linear, torch.Tensor):
            return OperatorNorm(measure_matrix(self.method, linear, self.options), self.method.name)
        return OperatorNorm(measure(self.method, linear, self.options), self.method.name)


@dataclass(frozen=True)
class UnknownNorms:
    """Stands for norms where the weights are unknown: every norm is 1, and only the status of an operation counts."""

    tolerance: float = 1e-3
    weights_known: ClassVar[bool] = False

    def norm(self, linear: LinearMap) -> OperatorNorm:
        """1."""
        return OperatorNorm(Bracket.exact(1.0))
