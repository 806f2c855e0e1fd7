"""One registry of published methods for the norm of a convolution or a dense layer, all with the same signature.

A method is a function ``(convolution, options) -> Bracket``. It gets an ordinary (not transposed) convolution whose kernel has the
precision of ``options.dtype``, on any device, and returns a figure in the log domain with its ``rigor`` *for this operator*:
``numerical`` where a theorem makes it an upper bound of the operator that the convolution describes (its padding, stride,
size), ``estimate`` where none does. None is ``certified``: published methods do not account for rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch

from lipaudit.errors import MethodError, RegistryError, UsageError
from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.geometry import Convolution
from lipaudit.spectral.rounding import as_float64


@dataclass(frozen=True)
class Options:
    """What a method may be told: ``iterations`` (or samples; None for the paper's own number), the seed of its random
    start, the floating-point type it computes in, and the tolerance of lipaudit's own norms.
    """

    iterations: int | None = None
    seed: int = 0
    dtype: torch.dtype = torch.float64
    tolerance: float = 1e-3


MethodFunction: TypeAlias = Callable[[Convolution, Options], Bracket]


@dataclass(frozen=True)
class Method:
    """A registered method.

    ``title`` is how tables cite it, ``reference`` the full citation, ``summary`` one line on what it computes and ``claim`` one line
    on what the figure is: an upper bound of what, or an estimate from which side. ``matrix`` finds the norm of a dense layer where
    that is not the method's figure for a 1 x 1 convolution. ``iterations`` is the paper's own number of iterations or samples, None for
    a method without any.
    """

    name: str
    title: str
    reference: str
    summary: str
    claim: str
    convolution: MethodFunction
    matrix: Callable[[torch.Tensor, Options], Bracket] | None = None
    iterations: int | None = None


_METHODS: dict[str, Method] = {}


def register(method: Method) -> Method:
    """Add a method; a name that is taken raises :class:`~lipaudit.errors.RegistryError`."""
    if method.name in _METHODS:
        raise RegistryError(f"the method {method.name} is registered twice")
    _METHODS[method.name] = method
    return method


def all_methods() -> tuple[Method, ...]:
    """Every registered method, by name (which ends in the year)."""
    return tuple(_METHODS[name] for name in sorted(_METHODS))


def find_method(name: str) -> Method:
    """The method of that name; a :class:`~lipaudit.errors.UsageError` lists the names where there is none."""
    if name not in _METHODS:
        raise UsageError(f"there is no method {name!r}; choose from {', '.join(sorted(_METHODS))}")
    return _METHODS[name]


def measure(method: Method, convolution: Convolution, options: Options = Options()) -> Bracket:
    """The method's figure for a convolution; a transposed one is measured by its adjoint, which has the same norm.

    Raises:
        MethodError: where the method is not defined for this padding or geometry.
        NonFiniteWeightsError: if the kernel holds NaN or infinity.
    """
    ordinary = convolution.adjoint() if convolution.transposed else convolution
    kernel = as_float64(ordinary.kernel, "the kernel").to(options.dtype)
    if not bool(kernel.any()):
        return Bracket(-math.inf, -math.inf)
    return method.convolution(replace(ordinary, kernel=kernel), options)


def measure_matrix(method: Method, matrix: torch.Tensor, options: Options = Options()) -> Bracket:
    """The method's figure for x -> W x; unless it has one of its own, W is a convolution with one tap on one pixel."""
    weight = as_float64(matrix, "the weight").to(options.dtype)
    if not bool(weight.any()):
        return Bracket(-math.inf, -math.inf)
    if method.matrix is not None:
        return method.matrix(weight, options)
    return method.convolution(Convolution(weight[:, :, None, None], (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1)), options)


def figure(value: torch.Tensor | float, rigor: Rigor) -> Bracket:
    """A figure in plain units as a bracket without a lower end."""
    number = float(value)
    return Bracket(-math.inf, math.log(number) if number > 0 else -math.inf, rigor)


def is_circular(convolution: Convolution) -> bool:
    """Whether the operator is a circular convolution of stride 1 of the input's size, or a selection of its rows."""
    if convolution.padding_mode != "circular":
        return False
    return all(n <= h for n, h in zip(convolution.output_size, convolution.input_size, strict=True))


def refuse_copied_borders(convolution: Convolution, method: str) -> None:
    """Refuse reflect and replicate padding, for which no published method is defined."""
    if convolution.padding_mode in ("reflect", "replicate"):
        raise MethodError(f"{method} is not defined for {convolution.padding_mode} padding")
