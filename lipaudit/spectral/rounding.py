"""Floating-point margins: how far a computed quantity of float64 linear algebra can be from the exact one.

Notation as in Higham, *Accuracy and Stability of Numerical Algorithms*, chapters 3 and 10: u = 2^-53 is the unit
roundoff and gamma_n = n u / (1 - n u) bounds the relative error of an inner product of length n in any order of
summation, with or without fused multiply-add.

The real part of a complex inner product of length n is a sum of 2 n real products in some order, and so is the imaginary part: each is
off by at most gamma_{2n} times the sum of the absolute values of its products, p_k = |Re a_k Re b_k| + |Im a_k Im b_k| and
q_k = |Re a_k Im b_k| + |Im a_k Re b_k|. As p_k^2 + q_k^2 <= 2 |a_k|^2 |b_k|^2, the error is at most sqrt(2) gamma_{2n} sum_k |a_k| |b_k|.

All of this is said of products that are sums of products of entries. Strassen's algorithm, products of complex matrices by three real ones
(gemm3m) and emulation by integers are not, and are excluded (docs/theory.md).
"""

from __future__ import annotations

import math

import torch

from lipaudit.errors import NonFiniteWeightsError
from lipaudit.spectral.bracket import round_down, round_up

UNIT_ROUNDOFF = 2.0**-53


def gamma(n: int) -> float:
    """gamma_n = n u / (1 - n u), rounded up.

    >>> gamma(1) > 2.0**-53
    True
    """
    nu = n * UNIT_ROUNDOFF
    if nu >= 0.5:
        raise ValueError(f"a sum of {n} terms is too long for float64 error bounds")
    return nu / (1 - nu) * (1 + 2**-40)


def composed(*errors: float, roundings: int = 1) -> float:
    """A bound of the relative error of a product or quotient of numbers with these relative errors, rounded so many times.

    It bounds both |computed - exact| / |exact| and |computed - exact| / |computed|; infinite where the errors are large.

    >>> 2**-53 < composed() < 2**-52 < composed(2**-53) < 2**-51, composed(0.9)
    (True, inf)
    """
    total = math.fsum(errors) + roundings * UNIT_ROUNDOFF
    return total / (1 - total) * (1 + 2**-40) if total < 0.5 else math.inf


def log_power_of_two(exponent: float) -> tuple[float, float]:
    """A lower and an upper bound of log(2^exponent) = exponent log 2, for an integer exponent below 2^53.

    The error is relative to the product, which may dwarf a difference that it is part of: it must be rounded by itself.

    >>> low, high = log_power_of_two(1000.0)
    >>> low < 1000 * math.log(2) < high
    True
    """
    product = exponent * math.log(2)
    return round_down(product, 2), round_up(product, 2)


def product_error(inner: int, *, complex_entries: bool) -> float:
    """e with ||fl(A* B) - A* B||_F <= e ||A||_F ||B||_F for an inner dimension ``inner``.

    Two more terms than the textbook bound cover underflow of entries scaled to at most 1.
    """
    return (math.sqrt(2) * gamma(2 * inner + 2) if complex_entries else gamma(inner + 2)) * (1 + 2**-40)


def on_device(values: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A few numbers from the host on a device, without waiting for what the device is doing."""
    return values.to(device, non_blocking=True)


def as_float64(tensor: torch.Tensor, name: str = "the weight") -> torch.Tensor:
    """The same numbers in float64 (exact for float16, bfloat16, float32, integers below 2^53); complex stays complex.

    Raises:
        TypeError: if it is no tensor.
        NonFiniteWeightsError: if an entry is NaN or infinite.
    """
    check_tensor(tensor, name)
    wide = tensor.detach().to(torch.complex128 if tensor.is_complex() else torch.float64).resolve_conj()
    check_finite(wide, name)
    return wide


def check_tensor(value: object, name: str) -> None:
    """Refuse what is no tensor with a TypeError that says what to pass; of a layer its weight."""
    if isinstance(value, torch.Tensor):
        return
    kind = type(value).__name__
    if isinstance(getattr(value, "weight", None), torch.Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, not {kind}: pass the layer's weight, layer.weight")
    raise TypeError(f"{name} must be a torch.Tensor, not {kind}: torch.as_tensor makes one of numbers")


def check_finite(tensor: torch.Tensor, name: str) -> None:
    """Refuse NaN and infinity with a NonFiniteWeightsError that has the name."""
    if not is_finite(tensor):
        raise NonFiniteWeightsError([name])


def is_finite(tensor: torch.Tensor) -> bool:
    """Whether no entry is NaN or infinite: the smallest and the largest tell, without a mask of all entries."""
    parts = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    return not parts.numel() or bool(torch.isfinite(torch.stack(torch.aminmax(parts))).all())


def scale_to_unit(tensor: torch.Tensor, dims: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Scale by an exact power of two so that the largest real or imaginary part lies in [1/2, 1).

    ``dims`` is the number of trailing axes that share one scale; leading axes are a batch.
    Returns the scaled tensor (the tensor itself if its scale is 1) and the exponents e (batch shape, float64) with
    ``tensor = scaled * 2**e``; a zero tensor keeps e = 0.
    Entries so small that they underflow change by less than 2^-1074, which the error bounds of this module
    absorb.
    """
    parts = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    trailing = dims + int(tensor.is_complex())
    flat = parts.flatten(parts.dim() - trailing)
    largest = torch.maximum(flat.amax(-1), -flat.amin(-1))
    _, exponent = torch.frexp(largest)
    if exponent.numel() == 1 and exponent.device.type == "cpu" and int(exponent) == 0:
        return tensor, exponent.to(torch.float64)
    half = torch.div(exponent, 2, rounding_mode="floor")
    # two steps, because 2**-exponent itself may overflow
    first, second = (torch.exp2(-e.to(torch.float64)) for e in (half, exponent - half))
    shape = exponent.shape + (1,) * dims
    return (tensor * first.reshape(shape)).mul_(second.reshape(shape)), exponent.to(torch.float64)


def frobenius_squared_up(tensor: torch.Tensor, dims: int) -> torch.Tensor:
    """An upper bound of the squared Frobenius norm over the last ``dims`` axes, for entries of at most about 1."""
    parts = torch.view_as_real(tensor).flatten(-2) if tensor.is_complex() else tensor
    flat = parts.flatten(parts.dim() - dims)
    # a product of a row and a column holds no square of the tensor
    return (flat[..., None, :] @ flat[..., :, None])[..., 0, 0] * (1 + gamma(flat.shape[-1] + 4)) + 2.0**-1000
