"""Convolutions, dense layers and folded scales: linear maps given by weights, whose constant is their spectral norm.

y = K * x + b has the Lipschitz constant sigma_1(K *), whatever b is. The certified brackets come from ``spectral``; what a batch norm
folded into a kernel adds in rounding is covered by a margin (:mod:`lipaudit.graph.passes.folding_errors`).
"""

from __future__ import annotations

import math

import torch

from lipaudit.graph.constant_errors import LARGEST
from lipaudit.graph.contraction import matrix_product
from lipaudit.graph.linear import CONVOLUTION, CONVOLUTIONS, DENSE, SCALE, Dense, Linear, as_convolution, as_dense
from lipaudit.graph.node import Constant, Node, Ref
from lipaudit.graph.ops import aten
from lipaudit.graph.passes.folding_errors import exact_norm, unknown, widened
from lipaudit.graph.weights import FACTORS, stack
from lipaudit.rules.contraction import product_factors
from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.induced_facets import same_in_every_norm
from lipaudit.rules.norm import Norm
from lipaudit.rules.operands import count_refs, repeats, root, rounded, stretch
from lipaudit.rules.ops.matrix_products import BILINEAR, matrix_norm
from lipaudit.rules.radii_facets import entrywise, whole_tensor
from lipaudit.rules.region.axes import along
from lipaudit.rules.region.magnitude import Magnitude
from lipaudit.rules.region.radii import Axes, Radii, merged
from lipaudit.rules.rule import operations
from lipaudit.spectral.absolute_sums import convolution_sums, largest_sums
from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.convolution.geometry import Convolution

KERNEL = "convolution with a data-dependent kernel: no finite constant holds over all inputs"
FOLDED_CONVOLUTION = operations(CONVOLUTION)
CONVOLVE = FOLDED_CONVOLUTION | operations(*CONVOLUTIONS)
ROWS_OF_WEIGHTS = operations(DENSE, *aten("linear"))
MATRIX = ROWS_OF_WEIGHTS | operations(*aten("addmm", "mm", "matmul"))
CHANNEL_SCALE = operations(SCALE)


@CONVOLVE.constant(
    formula="sigma_1 of the convolution with its padding, stride, dilation, groups and size",
    source="grid or torus supremum of sigma_1 of the symbol; zero padding is a compression",
    two_sided=True,
    where_bounded=True,
)
def convolution(node: Node, settings: Settings) -> Effect:
    """A convolution or transposed convolution with a constant kernel."""
    if node.payload is None and count_refs(node["weight"]) and count_refs(node["input"]):
        return Effect.where_bounded(KERNEL, lambda operands: _data_dependent_kernel(node, operands))
    payload = node.payload or as_convolution(node)
    if payload is None:
        return Effect.unsupported(f"{node.op} of a constant with a data-dependent kernel")
    norm = settings.norms.norm(payload)
    bracket, note = exact_norm(norm.bracket, payload), norm.note
    if node.payload is not None:
        return Effect.stretch(bracket, note=note)
    factors: dict[str, Bracket | float] = {"input": bracket}
    if isinstance(node.get("bias"), Ref):  # added at every position of every sample
        factors["bias"] = root(math.prod(node.output.shape) // payload.channels[1])
    return stretch(node, factors, note=note)


def _reads_data(node: Node) -> bool:
    """Whether a factor depends on the input; otherwise it is a sum with a constant product."""
    return node.payload is not None or any(count_refs(node[key]) for key in FACTORS[node.op])


@MATRIX.constant(
    formula="sigma_1(W)",
    source="[P] Theorem 3 (Gram iteration)",
    exact=True,
    where_bounded=True,
    covers=_reads_data,
    complex_numbers=True,
)
def dense(node: Node, settings: Settings) -> Effect:
    """A matrix product with a constant on one side; leading axes are a batch."""
    if node.payload is not None:
        payload: Dense = node.payload
        return Effect.stretch(exact_norm(matrix_norm([payload.weight], settings), payload))
    if any(isinstance(node.get(key), complex) for key in ("alpha", "beta")):
        return Effect.unsupported("a sum weighted by a complex number; multiply by it first")
    operands = {key: node[key] for key in FACTORS[node.op]}
    varying = {key: v for key, v in operands.items() if isinstance(v, Ref)}
    constants = [v for v in operands.values() if isinstance(v, Constant)]
    if len(varying) == 2:
        return _two_matrices(node, *varying.values())
    if len(varying) != 1 or len(constants) != 1:
        return Effect.unsupported(f"{node.op} without one data-dependent and one constant operand")
    (key, source), value = *varying.items(), constants[0].value.detach()
    bracket = matrix_norm(stack(value), settings)  # a stack of matrices is block diagonal
    scale = node.get("alpha", 1)
    bracket = bracket * rounded(abs(float(scale))) if scale != 1 else bracket  # type: ignore[arg-type]
    # broadcasting a stack of constants applies several of them to the same data
    batch = source.info.shape[:-2]
    stacks = torch.broadcast_shapes(batch, value.shape[:-2])  # type: ignore[no-untyped-call]
    copies = math.prod(stacks) // max(1, math.prod(batch))
    if copies > 1:  # the copies need not be stretched by the same vector
        bracket = bracket * root(copies) * Bracket(-math.inf, 0.0)
    factors: dict[str, Bracket | float] = {key: bracket}
    if node.op == "aten.addmm.default":
        factors["self"] = rounded(abs(float(node["beta"]))) * root(repeats(node["self"], node.output))  # type: ignore[arg-type]
    if node.op == "aten.linear.default" and isinstance(node["bias"], Ref):
        factors["bias"] = root(repeats(node["bias"], node.output))
    return stretch(node, factors)


def _data_dependent_kernel(node: Node, operands: tuple[Magnitude, ...]) -> Effect:
    """K * x = sum over the taps t of K_t S_t x, S_t a shift: at most sqrt(taps) ||K||_F in x, sqrt(taps) ||x|| in K.

    ||sum_t K_t S_t x|| <= sum_t ||K_t|| ||x|| <= sqrt(taps) ||K||_F ||x||, and every tap of dK meets each entry of x at
    most once. Striding, dilation, groups and zero padding drop terms.
    """
    source, kernel, *bias = operands
    taps = root(math.prod(kernel.shape[2:]))
    factors = [taps * kernel.size(range(len(kernel.shape))), taps * source.size(range(len(source.shape)))]
    if bias:
        factors.append(root(math.prod(node.output.shape) // bias[0].shape[0]))
    return Effect.stretch(*factors)


def _two_matrices(node: Node, left: Ref, right: Ref) -> Effect:
    """A product of two data-dependent matrices, and what is added to it."""
    if node.output.dtype.is_complex:
        return Effect.unsupported("nothing is known of a product of two data-dependent complex tensors")
    transposed = node.op == "aten.linear.default"
    shape = right.info.shape[::-1] if transposed else right.info.shape
    product = matrix_product(left.info.shape, shape, node.output.shape)

    def given(operands: tuple[Magnitude, ...]) -> Effect:
        keys = [key for key, argument in node.arguments.items() if isinstance(argument, Ref)]
        first, second = (keys.index(key) for key in FACTORS[node.op])
        other = operands[second]
        if transposed:  # the norms of a matrix and its transpose agree, and the weight of a linear layer has two axes
            factors = other.size((0, 1)), operands[first].size(range(len(operands[first].shape)))
        else:
            factors = product_factors(product, operands[first], other)
        scale = rounded(abs(float(node.get("alpha", 1))))  # type: ignore[arg-type]
        by_key = {keys[first]: scale * factors[0], keys[second]: scale * factors[1]}
        for key in set(keys) - set(by_key):  # a data-dependent bias or summand
            weight = rounded(abs(float(node.get("beta", 1))))  # type: ignore[arg-type]
            by_key[key] = weight * root(repeats(node[key], node.output))
        return Effect.stretch(*(by_key[key] for key in keys))

    return Effect.where_bounded(BILINEAR, given)


@CHANNEL_SCALE.constant(
    formula="max |scale|", source="a diagonal map; its norm is its largest entry", exact=True, complex_numbers=True
)
def scale(node: Node, _settings: Settings) -> Effect:
    """A channelwise scale (batch norm in eval mode, LayerScale, a constant factor) that could not be folded."""
    largest = Bracket.exact(float(node.payload.factor.abs().max()))
    return Effect.stretch(exact_norm(largest, node.payload))


@FOLDED_CONVOLUTION.radii
def convolved_deviations(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """A kernel of a single tap maps the channels of every position, a depthwise one the positions of every channel.

    Position by position out_p = sum_t K_t in_(p + t), so that the channels of one position stray by at most sum_t ||K_t||
    times the largest deviation of one position, and a single entry by at most the largest sum of |weights| of an output
    channel times the largest deviation of an entry.
    """
    payload, (operand,) = node.payload, operands
    d = len(payload.kernel_size)
    if len(operand.shape) != d + 2:
        return whole_tensor(node, effect, operands)
    still = operand.shape[2:] == node.output.shape[2:]
    if still and payload.groups == 1 and math.prod(payload.kernel_size) == 1 and set(payload.stride) == {1}:
        mixed: tuple[int, ...] = (1,)
    elif payload.groups == payload.channels[0] == payload.channels[1]:
        mixed = tuple(range(2, 2 + d))
    else:
        mixed = tuple(range(1, 2 + d))
    whole_slices = along(operand, effect.factors[0], mixed, node.output.shape)
    if payload.transposed or payload.weight.is_meta:
        return (whole_slices,)
    entry, position = tap_sums(payload)
    local: dict[Axes, float] = {
        frozenset(): (entry * operand.spread(())).log_upper,
        frozenset({1}): (position * operand.spread((1,))).log_upper,
    }
    return (merged(whole_slices, local),)


def tap_sums(convolution: Convolution) -> tuple[Bracket, Bracket]:
    """The largest sum of |weights| of an output channel, and sum_t ||K_t|| over the taps t.

    ||K_t||^2 <= min(||K_t||_F^2, ||K_t||_1 ||K_t||_inf); groups are blocks on the diagonal.
    """
    kernel = convolution.kernel.to(torch.float64).abs()
    taps = kernel.reshape(convolution.groups, -1, kernel.shape[1], math.prod(kernel.shape[2:]))  # (g, out, in, taps)
    entry = float(taps.sum((2, 3)).max())
    frobenius = taps.square().sum((1, 2))
    product = taps.sum(1).amax(1) * taps.sum(2).amax(1)
    position = float(torch.minimum(frobenius, product).amax(0).sqrt().sum())
    error = (taps.numel() / convolution.groups + 16) * 2.0**-52 + min(convolution.error, LARGEST)
    # an operator that is off by e in the spectral norm has rows off by e, whose sums are off by sqrt(length) e, and so has every K_t
    off, count = Bracket.at_most(convolution.moved), math.prod(kernel.shape[2:])
    return (
        Bracket.sum([rounded(entry, error), off * root(count * kernel.shape[1])]),
        Bracket.sum([rounded(position, error), off * root(count * count)]),
    )


@ROWS_OF_WEIGHTS.radii
def dense_deviations(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """A matrix applied to every row."""
    if len(operands) > 1:
        return whole_tensor(node, effect, operands)
    return (along(operands[0], effect.factors[0], (-1,), node.output.shape),)


CHANNEL_SCALE.radii(entrywise)


@CONVOLVE.induced_norm
def convolution_in_norm(node: Node, _effect: Effect, norm: Norm) -> Effect:
    """The largest sum of moduli of a row (l-infinity) or a column (l1) of the convolution at its size, borders included.

    An operator that is off by e in the spectral norm has rows and columns off by e, whose sums are off by sqrt(length) e.
    """
    payload = node.payload or as_convolution(node)
    if payload is None or len(node.refs) > 1:
        return Effect.unsupported(
            f"{node.op} with a data-dependent kernel or bias has no rule in the {norm.value} norm"
        )
    bracket = convolution_sums(payload)[norm is Norm.L1]
    reach = payload.channels[norm is Norm.L1] // payload.groups * math.prod(payload.kernel_size)
    return Effect.stretch(_with_error(bracket, payload, payload.moved * math.sqrt(reach)))


@MATRIX.induced_norm
def dense_in_norm(node: Node, _effect: Effect, norm: Norm) -> Effect:
    """The largest sum of moduli of a row (l-infinity) or a column (l1) of the matrix."""
    payload = node.payload or as_dense(node)
    if payload is None or len(node.refs) > 1:
        return Effect.unsupported(f"{node.op} in this form has no rule in the {norm.value} norm")
    return Effect.stretch(_with_error(largest_sums(payload.weight)[norm is Norm.L1], payload))


def _with_error(bracket: Bracket, linear: Linear, moved: float = 0.0) -> Bracket:
    """The sum of the exact entries, each of which is known up to a relative error, and of an operator that is off by ``moved``."""
    if unknown(linear):
        return Bracket(-math.inf, bracket.log_upper, Rigor.NUMERICAL)
    if linear.error:
        bracket = bracket * rounded(1.0, 2 * linear.error)
    return widened(bracket, moved * (1 + 2.0**-40))


CHANNEL_SCALE.induced_norm(same_in_every_norm)
