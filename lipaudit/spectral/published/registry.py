"""One registry of published methods for the norm of a convolution or a dense layer, all with the same signature.

A method is a function ``(convolution, options) -> Bracket``. It gets an ordinary (not transposed) convolution whose
kernel has the precision of ``options.dtype`` and a largest entry between 1/2 and 1, on any device, and returns a figure
in the log domain with its ``rigor`` *for this operator*: ``numerical`` where a theorem makes it an upper bound of the
operator that the convolution describes (its padding, stride, size), ``estimate`` where none does. None but lipaudit's
own is ``certified``: published methods do not account for rounding.

The papers ignore the stride. A strided convolution selects rows of the one with stride 1 on the same padded input, so
that what bounds that one bounds it as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch

from lipaudit.device import full_precision
from lipaudit.errors import InvalidValueError, RegistryError, UnknownChoiceError
from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.published.errors import PaddingError
from lipaudit.spectral.rounding import as_float64, log_power_of_two, scale_to_unit


@dataclass(frozen=True)
class Options:
    """What a method may be told: ``iterations`` (or samples; None for the paper's own number), the seed of its random
    start, the floating-point type it computes in, and the tolerance of lipaudit's own norms.
    """

    iterations: int | None = None
    seed: int = 0
    dtype: torch.dtype = torch.float64
    tolerance: float = 1e-3

    def __post_init__(self) -> None:
        if self.dtype not in (torch.float32, torch.float64):
            raise InvalidValueError(
                "the precision of a published method", "torch.float32 or torch.float64", str(self.dtype)
            )


MethodFunction: TypeAlias = Callable[[Convolution, Options], Bracket]


@dataclass(frozen=True)
class Method:
    """A registered method.

    ``title`` is how tables cite it, ``reference`` the full citation, ``summary`` one line on what it computes and ``claim`` one line
    on what the figure is: an upper bound of what, or an estimate from which side. ``matrix`` finds the norm of a dense layer where
    that is not the method's figure for a 1 x 1 convolution. ``iterations`` is the number of iterations or samples where the options name
    none, None for a method without any. ``exact_weights``: the method takes the weights as they are stored, whatever the
    precision that the options name.
    """

    name: str
    title: str
    reference: str
    summary: str
    claim: str
    convolution: MethodFunction
    matrix: Callable[[torch.Tensor, Options], Bracket] | None = None
    iterations: int | None = None
    exact_weights: bool = False


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
    """The method of that name; an :class:`~lipaudit.errors.UnknownChoiceError` lists the names where there is none."""
    if name not in _METHODS:
        raise UnknownChoiceError("method", name, sorted(_METHODS))
    return _METHODS[name]


def measure(method: Method, convolution: Convolution, options: Options = Options()) -> Bracket:
    """The method's figure for a convolution; a transposed one is measured by its adjoint, which has the same norm.

    The kernel is scaled by a power of two, and the figure back, so that no method over- or underflows: every figure is
    homogeneous. Products and convolutions do not round to TF32 meanwhile.

    Raises:
        MethodError: where the method is not defined for this padding or geometry.
        NonFiniteWeightsError: if the kernel holds NaN or infinity.
    """
    ordinary = convolution.adjoint() if convolution.transposed else convolution
    kernel = as_float64(ordinary.kernel, "the kernel")
    if not bool(kernel.any()):
        return Bracket(-math.inf, -math.inf)
    if method.exact_weights:
        return method.convolution(ordinary.with_kernel(kernel), options)
    scaled, exponent = scale_to_unit(kernel, kernel.dim())
    with full_precision():
        bracket = method.convolution(ordinary.with_kernel(scaled.to(options.dtype)), options)
    return bracket * Bracket(*log_power_of_two(float(exponent)))


def measure_matrix(method: Method, matrix: torch.Tensor, options: Options = Options()) -> Bracket:
    """The method's figure for x -> W x; unless it has one of its own, W is a convolution with one tap on one pixel.

    A complex W stands as the real matrix [[Re, -Im], [Im, Re]], which has the same norm.
    """
    if method.matrix is not None:
        return method.matrix(matrix, options)
    if matrix.is_complex():
        matrix = torch.cat([torch.cat([matrix.real, -matrix.imag], 1), torch.cat([matrix.imag, matrix.real], 1)])
    return measure(method, Convolution(matrix[:, :, None, None], (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1)), options)


def figure(value: torch.Tensor | float, rigor: Rigor) -> Bracket:
    """A figure in plain units as a bracket without a lower end."""
    number = float(value)
    return Bracket(-math.inf, math.log(number) if number > 0 else -math.inf, rigor)


def count(options: Options, default: int) -> int:
    """The number of iterations or samples: the options', or the method's own."""
    number = default if options.iterations is None else options.iterations
    if number < 1:
        raise InvalidValueError("the number of iterations or samples", "at least 1", number)
    return number


def generator(options: Options) -> torch.Generator:
    """The source of random starts, on the CPU, so that every device gets the same ones."""
    return torch.Generator().manual_seed(options.seed)


def bounded_by_torus(convolution: Convolution) -> bool:
    """Whether the supremum of sigma_1(D(w)) over all frequencies bounds the operator.

    With zero padding the operator is a compression of the convolution on Z^d. With circular padding it selects rows of a
    circular convolution of the input's size, as long as no pixel is the first of two windows: p_left + p_right <= k - 1.
    """
    if convolution.padding_mode == "circular":
        axes = zip(convolution.padding, convolution.extent, strict=True)
        return all(min(p) >= 0 and sum(p) <= k - 1 for p, k in axes)
    return convolution.padding_mode == "zeros"


def bounded_by_grid(convolution: Convolution) -> bool:
    """Whether the maximum over the grid of the input's size bounds the operator.

    So it does under circular padding, and under zero padding where there is none, or only one tap, on every axis.
    """
    if convolution.padding_mode == "zeros":
        return all(max(p) <= 0 or k == 1 for p, k in zip(convolution.padding, convolution.extent, strict=True))
    return bounded_by_torus(convolution)


def refuse_copied_borders(convolution: Convolution, method: str) -> None:
    """Refuse reflect and replicate padding, for which most published methods are not defined."""
    if convolution.padding_mode in ("reflect", "replicate"):
        raise PaddingError(method, convolution.padding_mode)
