"""How far values that are computed in float64 can be from the exact ones: a running bound of the rounding error, entry by entry.

A node z = F(u_1 ... u_p) is computed from operands u~ that are within e_i of the exact ones. Then

    |z - z~| <= |F(u) - F(u~)| + |F(u~) - z~|,

what the operands bring along, and what the node adds itself. With u = 2^-53 and gamma_n = n u / (1 - n u) as in Higham, *Accuracy and
Stability of Numerical Algorithms*, chapter 3, an affine map A u + b of n terms an entry has, in whatever order it is summed up,

    |z - z~| <= |A| e + gamma_n (|A| |u~| + |b|),

for which constants that are known up to a relative error e_c count as 2 e_c more in gamma_n. So has a product of two operands, which is
linear in each of them. What picks entries of its operands (maxima, order statistics) adds nothing.

Of other operations it is assumed, not proved, that they are computed backward stably: F(u~) is F of operands that are moved by at most
gamma_(n + 64), and is rounded by as much itself, with n entries in the operands. Then with the constants L_i of the operation a node adds
gamma_(n + 64) (sum_i L_i ||u~_i|| + |z~|); a function of each entry has n = 0. A composition of functions of each entry that is replaced
by one function adds what interval arithmetic leaves between z~ and the exact value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from lipaudit.graph.aliases import canonical
from lipaudit.graph.constant_errors import margin_of
from lipaudit.graph.evaluate import Value, evaluate
from lipaudit.graph.linear import BATCH_NORMS, CONVOLUTIONS
from lipaudit.graph.node import Argument, Constant, Node, Ref, parts
from lipaudit.graph.ops import CHOICES, MAXIMA, MINIMA, MOVEMENT, SOFTMAX, SUMS, aten
from lipaudit.graph.passes.elementwise import ELEMENTWISE
from lipaudit.network.affine import MATRIX_PRODUCTS, RESIZES, SAMPLERS, is_affine
from lipaudit.rules.effect import Effect, Status
from lipaudit.rules.entry_slopes import is_entrywise, value_ranges
from lipaudit.rules.ops.pooling import ADAPTIVE_MAX_POOL, MAX_POOL, MAX_POOL_AND_PLACES
from lipaudit.rules.ops.reduction import EXTREMES, EXTREMES_AND_PLACES, RANKED, SORTED, TOPK
from lipaudit.spectral.rounding import gamma

_FEW = 8  # roundings of an operation that takes no sums
_FUNCTION = 64
_SMALLEST = 2.0**-1000  # what underflow loses, and more
_BILINEAR = set(aten("mul.Tensor", "matmul", "mm", "bmm"))
_MAX_POOLS = MAX_POOL | MAX_POOL_AND_PLACES | ADAPTIVE_MAX_POOL
# What has entries of its operands for outputs.
_PICKS = {*MAXIMA, *MINIMA, *(EXTREMES | EXTREMES_AND_PLACES | SORTED | RANKED | TOPK | _MAX_POOLS).names}
_SHORT = MOVEMENT | SUMS | BATCH_NORMS | set(aten("mul.Tensor", "mul.Scalar", "div.Tensor", "div.Scalar", "neg"))
# Arguments that are numbers and multiply or are added.
_NUMBERS = ("self", "other", "alpha", "beta", "value")
Errors = Mapping[str, Value]


def error_of(node: Node, values: Mapping[str, Value], errors: Errors, value: Value, effect: Effect | None) -> Value:
    """The bound of any node, or of each of its outputs, from those of its operands; infinite where nothing is known.

    Args:
        node, values, errors, value: as in :func:`affine_error`.
        effect: its constants, None where they are not known.
    """
    if is_affine(node):
        return affine_error(node, values, errors, value)
    operands = [v for ref in node.refs if isinstance(v := values[ref.name], torch.Tensor)]
    brought = [e for ref in node.refs if isinstance(e := errors[ref.name], torch.Tensor)]
    factors = [math.inf] * len(node.refs)
    if effect is not None and effect.status is Status.FINITE and len(effect.factors) == len(node.refs):
        factors = [f.upper if f.log_upper < 700 else math.inf for f in effect.factors]

    def bound(output: torch.Tensor) -> torch.Tensor:
        if not output.is_floating_point() and not output.is_complex():
            return torch.zeros(output.shape, dtype=torch.float64)
        if len(operands) < len(node.refs):
            return torch.full(output.shape, math.inf, dtype=torch.float64)
        if is_entrywise(node):
            constant = math.fsum(factors)
            own = entrywise_error(node, operands[0], output, constant)
            return own + constant * brought[0] if math.isfinite(constant) else torch.full_like(own, math.inf)
        return own_error(node, output, operands, factors) + passed_error(node, output, operands, brought, factors)

    return tuple(map(bound, value)) if isinstance(value, tuple) else bound(value)


def affine_error(node: Node, values: Mapping[str, Value], errors: Errors, value: Value) -> Value:
    """The bound of an affine node, or of each of its outputs.

    Args:
        node: the node.
        values: what it reads, as computed.
        errors: bounds of their errors.
        value: what it computed.
    """
    rate = gamma(_terms(node)) + 2 * math.fsum(
        margin_of(c.error) for c in parts(tuple(node.arguments.values()), Constant)
    )
    moved: dict[str, Value] = {}
    for ref in node.refs:
        own, error = values[ref.name], errors[ref.name]
        if isinstance(own, tuple) and isinstance(error, tuple):
            moved[ref.name] = tuple(
                _size(v) + e / rate if v.is_floating_point() else e for v, e in zip(own, error, strict=True)
            )
        elif isinstance(own, torch.Tensor) and isinstance(error, torch.Tensor):
            moved[ref.name] = _size(own) + error / rate
    with torch.no_grad():
        sizes = _sizes(node if node.op in CHOICES else canonical(node), moved)
    if isinstance(value, tuple):
        return tuple(_known(v, rate * s) for v, s in zip(value, sizes, strict=True))
    assert isinstance(sizes, torch.Tensor)
    return _known(value, rate * sizes)


def entrywise_error(node: Node, centre: torch.Tensor, value: torch.Tensor, constant: float) -> torch.Tensor:
    """What a function of each entry adds itself; none of its slopes exceeds ``constant``."""
    if node.op == ELEMENTWISE:
        least, most = value_ranges(node, centre.detach())
        # of functions that differ from entry to entry the nearest one
        away = torch.maximum((most - value).abs(), (value - least).abs()).nan_to_num(nan=math.inf).amin(0)
    else:
        away = torch.zeros_like(value)
    return _known(value, away + gamma(_FUNCTION) * (constant * _size(centre) + _size(value)))


def errors_need_no_constants(node: Node) -> bool:
    """Whether the errors of a node follow from values alone."""
    node = canonical(node)
    return node.op in _PICKS or node.op == "aten.div.Tensor" or (node.op in _BILINEAR and len(node.refs) == 2)


def own_error(
    node: Node, value: torch.Tensor, operands: Sequence[torch.Tensor], factors: Sequence[float]
) -> torch.Tensor:
    """What any other node adds itself; ``factors`` are its constants in its operands, infinite where they are not known."""
    node = canonical(node)
    if node.op in _PICKS:
        return torch.zeros(value.shape, dtype=torch.float64)
    if node.op in _BILINEAR and len(operands) == 2:
        return _known(value, gamma(_terms(node)) * _bilinear(node, _size(operands[0]), _size(operands[1])))
    if node.op == "aten.div.Tensor":
        return _known(value, gamma(_FEW) * _size(value))
    rate = gamma(_FUNCTION + sum(operand.numel() for operand in operands))
    return _known(value, rate * (_lengths(node, [_size(o) for o in operands], factors) + _size(value)))


def passed_error(
    node: Node,
    value: torch.Tensor,
    operands: Sequence[torch.Tensor],
    errors: Sequence[torch.Tensor],
    factors: Sequence[float],
) -> torch.Tensor:
    """What the operands of such a node bring along; infinite where its constants are not known."""
    node = canonical(node)
    if node.op in _PICKS:
        return torch.full(value.shape, max(float(error.max()) for error in errors), dtype=torch.float64)
    if node.op in _BILINEAR and len(operands) == 2:
        (a, b), (e, f) = map(_size, operands), errors
        return _known(value, _bilinear(node, a, f) + _bilinear(node, e, b) + _bilinear(node, e, f))
    if node.op == "aten.div.Tensor" and len(operands) == 2:  # a / b - a~ / b~ = (a - a~ + (a~ / b~) (b~ - b)) / b
        least = (_size(operands[1]) - errors[1]).clamp_min(0.0)
        return _known(value, ((errors[0] + _size(value) * errors[1]) / least).nan_to_num(nan=math.inf, posinf=math.inf))
    return _known(value, torch.full(value.shape, _lengths(node, errors, factors), dtype=torch.float64))


def _lengths(node: Node, tensors: Sequence[torch.Tensor], factors: Sequence[float]) -> float:
    """sum_i L_i ||u_i||; of a softmax L = 1/2 wherever it stands."""
    if node.op in SOFTMAX:
        factors = (0.5,)
    pairs = zip(factors, tensors, strict=True)
    return math.fsum(f * float(torch.linalg.vector_norm(t)) if f else 0.0 for f, t in pairs)


def _size(tensor: torch.Tensor) -> torch.Tensor:
    """|v|, 0 where it is infinite: minus infinity hides an entry from a softmax, and is exact."""
    size = tensor.detach().abs()
    return size.masked_fill(torch.isinf(size), 0.0)


def _known(value: torch.Tensor, error: torch.Tensor) -> torch.Tensor:
    """The error of a value that is not infinite by itself."""
    return (error + _SMALLEST).masked_fill(torch.isinf(value), 0.0).detach()


def _bilinear(node: Node, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    return first * second if node.op == "aten.mul.Tensor" else first @ second


def _terms(node: Node) -> int:
    """How many terms an entry of the output is the sum of at most, and a few roundings more."""
    if node.op in _SHORT or node.op == "getitem":
        return _FEW
    constants = list(parts(tuple(node.arguments.values()), Constant))
    if node.op in CONVOLUTIONS:
        kernel = max(constants, key=lambda c: c.value.dim()).value
        return _FEW + kernel.numel() // min(kernel.shape[:2])
    if node.op in MATRIX_PRODUCTS:
        return _FEW + max(max(ref.info.shape, default=1) for ref in node.refs)
    return _FEW + sum(math.prod(ref.info.shape) for ref in node.refs) + sum(c.value.numel() for c in constants)


def _sizes(node: Node, moved: Mapping[str, Value]) -> Value:
    """|A| m + |b| of an affine node for the tensors m >= 0."""
    if node.op in SUMS:
        shift = node.get("alpha", 1)
        scales = (abs(shift), 1) if "rsub" in node.op else (1, abs(shift))  # type: ignore[arg-type]
        left, right = (_operand(node[key], moved) for key in ("self", "other"))
        return (scales[0] * left + scales[1] * right).expand(node.output.shape)
    if node.op == "aten.neg.default":
        return moved[node.refs[0].name]
    if (
        node.op in RESIZES | SAMPLERS
    ):  # weights sum up to less than 2 in absolute value, 4 where bicubic ones are cut off and scaled
        largest = float(_operand(node.refs[0], moved).max())
        return torch.full(node.output.shape, (4 if "bicubic2d_aa" in node.op else 2) * largest, dtype=torch.float64)
    if node.op == "aten.lerp.Scalar":
        share, (first, second) = node["weight"], (_operand(node[key], moved) for key in ("self", "end"))
        assert isinstance(share, int | float)
        return (abs(1 - share) * first + abs(share) * second).expand(node.output.shape)
    arguments = {key: _absolute(key, argument) for key, argument in node.arguments.items()}
    if node.op in BATCH_NORMS and isinstance(mean := arguments["running_mean"], Constant):
        arguments["running_mean"] = replace(mean, value=-mean.value)
    sizes = evaluate(replace(node, arguments=arguments), moved, torch.float64)
    return sizes if isinstance(sizes, tuple) else sizes.abs()  # a divisor of one's own may be negative


def _operand(argument: Argument, moved: Mapping[str, Value]) -> torch.Tensor:
    if isinstance(argument, Ref):
        known = moved[argument.name]
        assert isinstance(known, torch.Tensor)
        return known
    if isinstance(argument, Constant):
        return argument.value.detach().to(torch.float64).abs()
    return torch.tensor(abs(argument), dtype=torch.float64)  # type: ignore[arg-type]


def _absolute(key: str, argument: Argument) -> Argument:
    if isinstance(argument, Constant) and key != "running_var":
        return replace(argument, value=argument.value.abs()) if argument.value.is_floating_point() else argument
    if isinstance(argument, tuple):
        return tuple(_absolute("", part) for part in argument)
    if key in _NUMBERS and isinstance(argument, int | float) and not isinstance(argument, bool):
        return abs(argument)
    return argument
