"""A differentiable upper bound of the spectral norm of a layer, with an explicit gradient.

The bound is the largest Schatten norm S of the layer's symbols after N Gram products ([P] Algorithm 3), times the factor of its
geometry (``geometry``). Only one symbol D = sum_t K_t exp(-i <w, t>), of one group at one frequency, attains the maximum, and with
X = dS/dD of [P] Proposition 4 (``spectral.gradient``)

    dS/dK_t = Re(exp(i <w, t>) X),

put back where the taps come from. Where several symbols attain the maximum, the first one gives a subgradient. From the forward pass
only the weight itself, the place of the maximum and its value are kept, whatever N and the number of frequencies are. Both
passes are operations of torch (``torch.ops.lipaudit``), so that ``torch.compile`` and ``torch.export`` go around them.

They compute in the precision of the weight, but at least in float32, without autocasting and without TF32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.autograd import forward_ad

from lipaudit.device import full_precision
from lipaudit.spectral.matrix.gradient import MOST_PRODUCTS, own_precision, schatten_gradient
from lipaudit.training.geometry import Geometry, Layout, encode, layout
from lipaudit.training.search import largest_bound, symbol_parts

OVERSAMPLING = 16


def spectral_norm_bound(
    weight: torch.Tensor,
    geometry: Geometry | None = None,
    iterations: int = 6,
    *,
    oversampling: int = OVERSAMPLING,
    any_size: bool = False,
) -> torch.Tensor:
    """An upper bound of the largest singular value of a dense layer or a convolution, differentiable once in the weight.

    It exceeds the maximum over frequencies of sigma_1 by a factor of at most m^(2^-(iterations + 1)), m the smaller side of a symbol,
    times 1 / cos(pi / (2 oversampling)) per axis on large inputs. No margin for rounding is added: a quantity to train with; the
    audit certifies.

    Args:
        weight: (out, in), or a kernel as ``torch.nn.Conv2d`` or ``ConvTranspose2d`` (1 to 3 dimensions) store it.
        geometry: the convolution, None for a dense layer.
        iterations: Gram products, from 0 to 20.
        oversampling: at least 2; points of the lattice that replaces the grid of a large input, per pixel between the first and last tap.
        any_size: bound the layer on inputs of every size instead of the geometry's: the supremum over all frequencies. Only the norm
            of reflected, replicated and misaligned circular borders is still that of the geometry's size.

    Returns:
        a scalar on the weight's device, float32 or float64.

    Raises:
        ValueError: for a weight or a geometry that torch would refuse, or arguments out of range.
        RuntimeError: in the backward pass, where its result is to be differentiated again (``create_graph=True``), and under
            forward-mode differentiation (``torch.func.jvp``).

    >>> kernel = torch.tensor([[[1.0, -1.0]]], requires_grad=True)
    >>> bound = spectral_norm_bound(kernel, Geometry(8, padding="same", padding_mode="circular"))
    >>> bound.backward()
    >>> bound.item(), kernel.grad.tolist()
    (2.0, [[[1.0, -1.0]]])
    """
    if not weight.is_floating_point() or not weight.numel():
        raise ValueError(f"a bound needs a weight of floating-point numbers, not {weight.dtype} {tuple(weight.shape)}")
    if not 0 <= iterations <= MOST_PRODUCTS:
        raise ValueError(f"the number of iterations must be from 0 to {MOST_PRODUCTS}, not {iterations}")
    if oversampling < 2:
        raise ValueError(f"oversampling must be at least 2, not {oversampling}")
    if geometry is None and weight.dim() != 2:
        raise ValueError(f"a weight of shape {tuple(weight.shape)} needs the geometry of its convolution")
    if geometry is not None and weight.dim() == 2:
        raise ValueError("the weight of a dense layer has no geometry")
    if not torch.compiler.is_compiling() and forward_ad.unpack_dual(weight).tangent is not None:  # type: ignore[no-untyped-call]
        raise RuntimeError(
            "spectral_norm_bound has no forward-mode derivative (torch.func.jvp): its derivative along T is (gradient * T).sum(), the "
            "gradient by torch.autograd.grad"
        )
    convolution = None if geometry is None else geometry.convolution(weight.detach())
    sizes = [1, 0] if convolution is None else encode(convolution)
    mode = "zeros" if convolution is None else convolution.padding_mode
    bound: torch.Tensor = _bound(weight, sizes, mode, iterations, oversampling, any_size)[0]
    return bound


def _wide(weight: torch.Tensor) -> torch.Tensor:
    return weight.detach().to(torch.promote_types(weight.dtype, torch.float32))


def _layout(weight: torch.Tensor, sizes: Sequence[int], mode: str, oversampling: int, any_size: bool) -> Layout:
    return layout(tuple(weight.shape[2:]), tuple(sizes), mode, oversampling, any_size)


@contextmanager
def _full_precision(weight: torch.Tensor) -> Iterator[None]:
    """No autocasting, and products of float32 in float32."""
    with full_precision(), own_precision(weight):
        yield


@torch.library.custom_op(
    "lipaudit::spectral_norm_bound",
    mutates_args=(),
    schema="(Tensor weight, int[] sizes, str mode, int products, int oversampling, bool any_size) -> (Tensor, Tensor)",
)
def _bound(
    weight: torch.Tensor, sizes: Sequence[int], mode: str, products: int, oversampling: int, any_size: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """The bound and the place (group, frequency) of its symbol."""
    where = _layout(weight, sizes, mode, oversampling, any_size)
    with _full_precision(weight):
        value, place = largest_bound(_wide(weight), where, products)
        return value * where.factor, place


@torch.library.custom_op(
    "lipaudit::spectral_norm_gradient",
    mutates_args=(),
    schema="(Tensor grad, Tensor weight, Tensor value, Tensor place, int[] sizes, str mode, int products, int oversampling, bool any_size)"
    " -> Tensor",
)
def _gradient(
    grad: torch.Tensor,
    weight: torch.Tensor,
    value: torch.Tensor,
    place: torch.Tensor,
    sizes: Sequence[int],
    mode: str,
    products: int,
    oversampling: int,
    any_size: bool,
) -> torch.Tensor:
    """``grad`` times the gradient of the bound, of the shape and type of the weight."""
    if not bool(grad):  # a layer below its target
        return torch.zeros_like(weight, memory_format=torch.contiguous_format)
    where = _layout(weight, sizes, mode, oversampling, any_size)
    group, frequency = place.tolist()
    with _full_precision(weight):
        waves = where.waves(slice(frequency, frequency + 1))
        blocks = where.blocks(_wide(weight))[group : group + 1]
        parts = symbol_parts(blocks, waves)[:, 0]
        symbol = torch.complex(*parts) if len(parts) == 2 else parts[0]
        slope = grad * where.factor * schatten_gradient(symbol, value[None] / where.factor, products)[0]
        waves = waves[0].to(slope.device)
        phases = waves.conj_physical().to(slope.dtype) if slope.is_complex() else torch.ones_like(waves.real).to(slope)
        turned = (phases[:, None, None] * slope).real if slope.is_complex() else phases[:, None, None] * slope
        return where.weight_gradient(turned, place[:1], weight).to(weight.dtype)


@_bound.register_fake
def _bound_fake(
    weight: torch.Tensor, _sizes: Any, _mode: str, _products: int, _oversampling: int, _any_size: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    wide = torch.promote_types(weight.dtype, torch.float32)
    return weight.new_empty((), dtype=wide), weight.new_empty(2, dtype=torch.long)


@_gradient.register_fake
def _gradient_fake(_grad: torch.Tensor, weight: torch.Tensor, *_others: Any) -> torch.Tensor:
    return torch.empty_like(weight, memory_format=torch.contiguous_format)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    weight, *ctx.settings = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(weight, *output)


def _backward(ctx: Any, grad: torch.Tensor, _place: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    if torch.is_grad_enabled():
        raise RuntimeError(
            "the explicit gradient of spectral_norm_bound cannot be differentiated again (create_graph=True); for second derivatives "
            "let torch differentiate lipaudit.spectral.published.gram_iteration.schatten_norms"
        )
    return _gradient(grad, *ctx.saved_tensors, *ctx.settings), None, None, None, None, None


_bound.register_autograd(_backward, setup_context=_keep)
