"""The published methods as the paper's experiments run them: figure and time of one convolution, or of every weight of a network."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch

import lipaudit.spectral.published  # noqa: F401  registers the methods
from lipaudit.device import timed
from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.convolution.norm_batch import convolution_norms
from lipaudit.spectral.linear_map import LinearMap, OperatorNorm
from lipaudit.spectral.published.registry import Method, Options, find_method, measure, measure_matrix

_STRIDE_1 = ", stride 1"
REFERENCE = "ryu2019"
REFERENCE_STRIDE_1 = REFERENCE + _STRIDE_1
OURS = "gram"


def short(name: str) -> str:
    """How tables name a method; ``gram`` is the certified bound of this package."""
    return "lipaudit" if name == OURS else name


@dataclass(frozen=True)
class TimedNorms:
    """A way to find norms (:class:`lipaudit.spectral.oracle.Norms`): a published method on a device, with the time it takes.

    The certified method works in float64; on a GPU as :mod:`lipaudit.spectral.convolution.norm_batch` does, one layer at a time. With
    ``stride_1`` the stride of convolutions is ignored, as most papers do. ``dense`` may be shared by several of them.
    """

    method: Method
    options: Options
    device: torch.device
    stride_1: bool = False
    seconds: list[float] = field(default_factory=list)
    dense: dict[tuple[int, ...], Bracket] = field(default_factory=dict)
    weights_known: ClassVar[bool] = True

    @property
    def tolerance(self) -> float:
        """The one in the options."""
        return self.options.tolerance

    def norm(self, linear: LinearMap) -> OperatorNorm:
        """The method's figure for a convolution; the certified norm of a matrix, whatever the method: these methods are about convolutions.

        Convolutions are timed. Matrices are not, and their norms are kept in ``dense``.
        """
        if isinstance(linear, torch.Tensor):
            key = (linear.data_ptr(), *linear.shape)
            if key not in self.dense:
                self.dense[key] = measure_matrix(find_method(OURS), linear.cpu(), self.options)
            return OperatorNorm(self.dense[key], OURS)
        there = linear.to(self.device)
        if self.stride_1:
            there = replace(there, stride=(1,) * len(there.stride))
        bracket, seconds = timed(lambda: self._figure(there), self.device)
        self.seconds.append(seconds)
        return OperatorNorm(bracket, self.method.name)

    def _figure(self, convolution: Convolution) -> Bracket:
        if self.method.name == OURS and self.device.type == "cuda":
            return convolution_norms([convolution], self.options.tolerance)[0].bracket
        return measure(self.method, convolution, self.options)


def timed_norms(
    name: str, iterations: int | None, device: torch.device, seed: int = 0, dtype: torch.dtype = torch.float32
) -> TimedNorms:
    """A method by name, with ", stride 1" behind it where strides are to be ignored.

    ``iterations`` are iterations, products or samples, None for a method without any.
    """
    options = Options(iterations=iterations, seed=seed, dtype=dtype)
    return TimedNorms(find_method(name.removesuffix(_STRIDE_1)), options, device, name.endswith(_STRIDE_1))


def warm_up(norms: TimedNorms) -> None:
    """One small convolution, not counted: a GPU's libraries start with their first call."""
    figure(norms, Convolution(torch.ones(2, 2, 3, 3), (8, 8), (1, 1), ((1, 1), (1, 1)), (1, 1)))
    norms.seconds.clear()


def figure(norms: TimedNorms, convolution: Convolution) -> tuple[float, Rigor, float]:
    """The figure of one convolution in plain units (rounded up), what it is worth for that convolution, and the seconds."""
    bracket = norms.norm(convolution).bracket
    return bracket.upper, bracket.rigor, norms.seconds[-1]
