"""The bound of Gram iteration as a differentiable function with an explicit gradient.

[P] Proposition 4. The bound after N Gram products is s(A) = ||A_{N+1}||_F^(2^-N), the Schatten norm of order 2^(N+1), and

    ds/dA = A (A* A)^(2^N - 1) / s^(2^(N+1) - 1).

With B = A / s the right side is B (B* B)^(2^N - 1): the singular values of B are at most 1, nothing overflows, and because
2^N - 1 = 1 + 2 + ... + 2^(N-1) it is the product of B with the N Gram iterates of B. The result X is divided by <B, X>, which is 1
in exact arithmetic (Euler's identity for a function of degree 1); this removes the error of s, which the power would multiply by
2^(N+1). It cannot help where the power of that error leaves the range of the numbers, as it does in float32 from about N = 28. So N is
at most 20; the bound of a matrix of rank m then exceeds sigma_1 by a factor of at most m^(2^-21), which is 1 + 3.3e-6 for m = 1000.

Automatic differentiation of the iteration keeps every iterate until the backward pass. Here only A and s are kept, whatever
N is. Complex matrices follow the convention of torch: the gradient is ds/d(Re A) + i ds/d(Im A), so that ||A||_F has the gradient
A / ||A||_F. At a zero matrix s is not differentiable; 0 is the subgradient that is taken.

Autocasting is off in both passes: in bfloat16 the rounding of s is a factor of up to 1 + 2^-8 itself, whose power is not small.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from lipaudit.spectral.published.gram_iteration import schatten_norms

MOST_PRODUCTS = 20


def schatten_norm(matrices: torch.Tensor, products: int) -> torch.Tensor:
    """The upper bound ||A_{N+1}||_F^(2^-N) of sigma_1 after N = ``products`` Gram products, differentiable once.

    In plain units and without a margin for rounding: a quantity to train with, not a certificate. It is computed in the precision
    of ``matrices``, but at least in float32, under :class:`torch.autocast` too.
    A matrix whose bound the loss does not read (all but one under a maximum over frequencies) costs no product in the
    backward pass.

    Args:
        matrices: (..., p, q), real or complex, on any device.
        products: 0 <= N <= 20; 0 gives the Frobenius norm.

    Returns:
        (...), real.

    Raises:
        ValueError: for a tensor without matrices or without floating-point numbers, or a number of products out of range.
        RuntimeError: in the backward pass, where its result is to be differentiated again (``create_graph=True``).

    >>> matrix = torch.tensor([[3.0, 0.0], [0.0, 4.0]], requires_grad=True)
    >>> bound = schatten_norm(matrix, 6)
    >>> bound.backward()
    >>> round(bound.item(), 4), matrix.grad.round(decimals=4).tolist()
    (4.0, [[0.0, 0.0], [0.0, 1.0]])
    """
    if matrices.dim() < 2 or 0 in matrices.shape[-2:]:
        raise ValueError(f"a Schatten norm needs matrices, not a tensor of shape {tuple(matrices.shape)}")
    if not (matrices.is_floating_point() or matrices.is_complex()):
        raise ValueError(f"a Schatten norm needs floating-point numbers, not {matrices.dtype}")
    if not 0 <= products <= MOST_PRODUCTS:
        raise ValueError(f"the number of Gram products must be from 0 to {MOST_PRODUCTS}, not {products}")
    wide = matrices.to(torch.promote_types(matrices.dtype, torch.float32))
    bound: torch.Tensor = _SchattenNorm.apply(wide, products)
    return bound


class _SchattenNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrices: torch.Tensor, products: int) -> torch.Tensor:
        with own_precision(matrices):
            bound = _iterate(matrices, products)
        ctx.save_for_backward(matrices, bound)
        ctx.products = products
        return bound

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "the explicit gradient of schatten_norm cannot be differentiated again (create_graph=True); for second derivatives let "
                "torch differentiate lipaudit.spectral.published.gram_iteration.schatten_norms"
            )
        matrices, bound = ctx.saved_tensors
        with own_precision(matrices):
            return _chain(grad, matrices, bound, ctx.products), None


def own_precision(matrices: torch.Tensor) -> AbstractContextManager[object]:
    """No autocasting on the device of the matrices."""
    kind = matrices.device.type
    return torch.autocast(kind, enabled=False) if torch.amp.is_autocast_available(kind) else nullcontext()


def _chain(grad: torch.Tensor, matrices: torch.Tensor, bound: torch.Tensor, products: int) -> torch.Tensor:
    """The gradient of the loss, computed for those matrices only whose bound it reads."""
    read = grad != 0
    if bool(read.all()):
        return grad[..., None, None] * schatten_gradient(matrices, bound, products)
    result = torch.zeros_like(matrices)
    result[read] = grad[read][..., None, None] * schatten_gradient(matrices[read], bound[read], products)
    return result


def _tall(matrices: torch.Tensor) -> torch.Tensor:
    """The matrices or their adjoints, so that the Gram matrix is on the smaller side."""
    return _adjoint(matrices) if matrices.shape[-2] < matrices.shape[-1] else matrices


def _adjoint(matrices: torch.Tensor) -> torch.Tensor:
    """``matrices.mH`` with its numbers written out.

    Inside an operation of its own (``torch.library``) under a dispatch mode, as ``torch.utils.flop_counter`` is one, torch takes no
    notice of the mark by which ``mH`` and ``conj`` put a conjugation off.
    """
    return matrices.mT.conj_physical()


def _iterate(matrices: torch.Tensor, products: int) -> torch.Tensor:
    """The bound itself, of matrices whose largest entry is made 1, so that no square overflows or vanishes."""
    largest = matrices.abs().amax((-2, -1))
    scaled = matrices / _positive(largest)[..., None, None]
    *_, bound = schatten_norms(scaled.reshape(-1, *scaled.shape[-2:]), products)
    return largest * bound.reshape(largest.shape)


def _positive(scale: torch.Tensor) -> torch.Tensor:
    """1 where a scale is 0 (a zero matrix) or NaN, which the largest entry passes on."""
    return torch.where(scale > 0, scale, 1.0)


def schatten_gradient(matrices: torch.Tensor, bound: torch.Tensor, products: int) -> torch.Tensor:
    """The gradient of the bound s of each matrix: B (B* B)^(2^N - 1) / <B, B (B* B)^(2^N - 1)>, B = A / s; 0 for a zero matrix."""
    scaled = _tall(matrices) / _positive(bound)[..., None, None]
    result = scaled
    power = scaled
    for _ in range(products):
        power = _adjoint(power) @ power  # (B* B)^(2^k), k = 0, 1, ...
        result = result @ power
    inner = (scaled.conj_physical() * result).sum((-2, -1)).real
    result = result / _positive(inner)[..., None, None]
    return _adjoint(result) if matrices.shape[-2] < matrices.shape[-1] else result
