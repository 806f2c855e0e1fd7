"""Two linear maps around an activation, bounded together: y = C s(W x + b) with slopes of s in [0, 1].

For every diagonal L = diag(l_i) > 0 and the linear map

    K z = (C L^-1/2 z, W* L^1/2 z / 2),    the constant is at most t = ||K||^2.

For ||K||^2 <= t says C* C <= t L - L W W* L / 4. With u = W (x - x') and z = s(u) - s(u') the slopes give <z, L z> <= <z, L u>, so that

    |C z|^2 <= t <z, L u> - |W* L z|^2 / 4 = t <v, x - x'> - |v|^2 / 4 <= t^2 |x - x'|^2,    v = W* L z.

Sandwich layers (Wang and Manchester, *Direct Parameterization of Lipschitz-Bounded Deep Networks*, ICML 2023) have C = sqrt(2) A^T P and
W = sqrt(2) P^-1 B with A A^T + B B^T = I: for L = 2 P^2 the map K is an isometry, and t = 1. The product rule says up to 2 cond(P).

P is not known. Where K* K = I the entries beside the diagonal satisfy (C* C)_ij = -l_i l_j (W W*)_ij / 4, which the l_i are fitted to; of
convolutions with circular padding at every frequency. Layers of which these numbers have no common sign are no such layers.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from lipaudit.graph.linear import CONVOLUTION, DENSE
from lipaudit.graph.node import Node
from lipaudit.graph.passes.folding_errors import margin, unknown, widened
from lipaudit.network.entrywise import slopes
from lipaudit.network.part import Part, Shortcut
from lipaudit.rules.effect import Status
from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.linear_map import LinearMap
from lipaudit.spectral.oracle import certified_norm
from lipaudit.spectral.rounding import UNIT_ROUNDOFF, is_finite

_TOLERANCES = (1e-3, 1e-6)
_UP = 1 + 2.0**-30
# Units of which the signs are looked at first, and how much of all the weight must have the right one.
_FEW, _AGREEING = 48, 0.98
# Beside the diagonal there is nothing to fit to; how much the fit is drawn to what the diagonal says.
_NOTHING, _RIDGE = 1e-9, 1e-10
_MOST_ENTRIES = 2**26


def sandwich(node: Node, part: Part) -> Shortcut | None:
    """The constant of a linear map, an activation and a linear map that ends in ``node``."""
    if node.op not in (DENSE, CONVOLUTION):
        return None
    activation = part.before(node)
    inner = None if activation is None else part.before(activation)
    if activation is None or inner is None or inner.op != node.op:
        return None
    effect, source = part.effects[activation.name], part.before(inner)
    if source is None or effect.status is not Status.FINITE or len(effect.factors) != 1:
        return None
    interval = slopes(activation, effect.factors[0].upper)
    if (
        interval is None
        or not 0 <= interval[0] <= interval[1] <= 1
        or activation.refs[0].info.shape != activation.output.shape
    ):
        return None
    pair = _spectra(inner, node)
    if pair is None:
        return None
    weights = _fitted(*pair)
    apart = sum(factor.log_upper for each in (inner, node) for factor in part.effects[each.name].factors)
    bound = None if weights is None else _bound(inner, node, *pair, weights, apart)
    if bound is None:
        return None
    rigor = Rigor.weakest((bound.rigor, effect.rigor))
    return Shortcut(source.name, Bracket.at_most(bound.upper**2 * _UP, rigor), "sandwich", whole=node.op == CONVOLUTION)


def _spectra(inner: Node, last: Node) -> tuple[torch.Tensor, torch.Tensor] | None:
    """W (frequencies, m, n) and C (frequencies, p, m); None for other maps than matrices and convolutions that go around."""
    if inner.op == DENSE:
        matrices = inner.payload.weight[None], last.payload.weight[None]
        if max(m.numel() for m in matrices) > _MOST_ENTRIES or not _some_agree(*matrices):
            return None
        w, c = (matrix.to(torch.float64) for matrix in matrices)
        return (w, c) if is_finite(w) and is_finite(c) else None
    if not (_goes_around(inner.payload) and _goes_around(last.payload)):
        return None
    if inner.payload.input_size != last.payload.input_size:
        return None
    kernels = [_around(node.payload) for node in (inner, last)]
    if not all(is_finite(kernel) for kernel in kernels):
        return None
    axes = tuple(range(2, kernels[0].dim()))
    w, c = (torch.fft.rfftn(kernel, dim=axes).flatten(2).permute(2, 0, 1).conj() for kernel in kernels)
    return (w, c) if _some_agree(w, c) else None


def _goes_around(convolution: Convolution) -> bool:
    plain = convolution.groups == 1 and not convolution.transposed and set(convolution.stride) == {1}
    same = convolution.output_size == convolution.input_size
    border = convolution.padding_mode == "circular" or all(e == 1 for e in convolution.extent)
    entries = math.prod(convolution.weight.shape[:2]) * math.prod(convolution.input_size)
    return plain and same and border and entries <= _MOST_ENTRIES and not convolution.weight.is_meta


def _around(convolution: Convolution) -> torch.Tensor:
    """The kernel (out, in, *sizes) of y[j] = sum_b k[b] x[j + b mod n], with as many taps as there are pixels."""
    kernel = convolution.kernel.to(torch.float64)
    axes = zip(convolution.input_size, convolution.kernel_size, convolution.dilation, convolution.padding, strict=True)
    for axis, (n, taps, dilation, (left, _)) in enumerate(axes, 2):
        places = (torch.arange(taps) * dilation - left) % n
        shape = (*kernel.shape[:axis], n, *kernel.shape[axis + 1 :])
        kernel = torch.zeros(shape, dtype=torch.float64).index_add_(axis, places, kernel)
    return kernel


def _fitted(w: torch.Tensor, c: torch.Tensor) -> torch.Tensor | None:
    """The logarithms of l_i, None where the signs say that there are none."""
    products, sizes, h, g = _products(w, c)
    tiny = 1e-12
    by_diagonal = ((2 * ((h + tiny * h.mean()) / (g + tiny * g.mean())).sqrt()).clamp(1e-150, 1e150)).log()
    if float(sizes.sum()) <= _NOTHING * float((h * g).sqrt().sum()):
        return by_diagonal
    if not _agree(products, sizes):
        return None
    sizes = torch.where(products > 0, sizes, 0.0)
    logs = torch.where(sizes > 0, products.clamp_min(1e-300).log(), 0.0)
    rows = sizes.sum(1)
    ridge = _RIDGE * float(rows.mean())
    system = torch.diag(rows + ridge) + sizes
    solved: torch.Tensor = torch.linalg.solve(system, (sizes * logs).sum(1) + ridge * by_diagonal)
    return solved if is_finite(solved) else None


def _some_agree(w: torch.Tensor, c: torch.Tensor) -> bool:
    """Whether the signs of a few of the units, evenly spread, agree: most pairs of maps are told apart by them."""
    units = w.shape[1]
    some = torch.linspace(0, units - 1, min(units, _FEW)).round().long()
    few = [m if m.is_complex() else m.to(torch.float64) for m in (w[:, some], c[:, :, some])]
    return all(map(is_finite, few)) and _agree(*_products(*few)[:2])


def _products(w: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """What l_i l_j would be, and how much it counts, (m, m); the squared sizes of the columns of C and the rows of W, (m,)."""
    h, g = c.mH @ c, w @ w.mH
    across = (h * g.conj()).real.sum(0)
    squares, others = (g.abs() ** 2).sum(0), (h.abs() ** 2).sum(0)
    sizes = (squares * others).sqrt().fill_diagonal_(0.0)
    diagonals = [m.diagonal(dim1=1, dim2=2).real.mean(0) for m in (h, g)]
    return -4 * across / squares.clamp_min(1e-300), sizes, diagonals[0], diagonals[1]


def _agree(products: torch.Tensor, sizes: torch.Tensor) -> bool:
    """Whether nearly all of them are positive; where all vanish they are."""
    return float(sizes[products > 0].sum()) >= _AGREEING * float(sizes.sum())


def _bound(
    inner: Node, last: Node, w: torch.Tensor, c: torch.Tensor, logs: torch.Tensor, apart: float
) -> Bracket | None:
    """A close bound of ||K||; None where its square is not below the product of the norms, with the logarithm ``apart``."""
    roots = (logs / 2).exp()
    if not is_finite(roots) or not bool((roots > 0).all()):
        return None
    linear: LinearMap
    if inner.op == DENSE:
        linear = torch.cat([c[0] / roots, w[0].mT * (roots / 2)])
        size, taps = float(torch.linalg.vector_norm(linear)), 1
    else:
        first, second = _around(inner.payload), _around(last.payload)
        axes = tuple(range(2, first.dim()))
        back = first.transpose(0, 1).flip(axes).roll((1,) * len(axes), axes)  # the adjoint reads the other way
        along = roots.reshape(1, -1, *(1,) * len(axes))
        kernel = torch.cat([second / along, back * (along / 2)])
        size, taps = float(torch.linalg.vector_norm(kernel)), math.prod(kernel.shape[2:])
        sizes = tuple(kernel.shape[2:])
        ones = (1,) * len(sizes)
        linear = Convolution(kernel, sizes, ones, tuple((0, n - 1) for n in sizes), ones, padding_mode="circular")
    off = margin(last.payload) / float(roots.min()) + margin(inner.payload) * float(roots.max()) / 2
    off = (off + 8 * UNIT_ROUNDOFF * math.sqrt(taps) * size) * _UP
    bound = Bracket.at_most(math.inf)
    for tolerance in _TOLERANCES:
        bound = widened(certified_norm(linear, tolerance).bracket, off)
        if 2 * bound.log_upper >= apart:
            return None
    unsure = unknown(last.payload) or unknown(inner.payload)
    return replace(bound, rigor=Rigor.NUMERICAL, ends=None) if unsure else bound
