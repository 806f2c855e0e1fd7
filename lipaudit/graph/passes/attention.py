"""Recognition of written-out dot-product attention: softmax(s q k^T + b) v with constant s and b.

As a chain of operations it holds two products of data-dependent tensors with a softmax between; as one operation its
rows are known to be weighted means of the values. A product with softmax weights is followed back through the softmax
over the last axis and what was done to its logits, to the product of queries and keys:

- products with and quotients by constants; one that varies along heads or queries multiplies the queries, one that
  varies along keys multiplies them, the others are the scale;
- additions of constants, and masks that fill with minus infinity: the bias b;
- views that only regroup the leading axes, as windows are; casts;
- broadcasting of queries, keys or values that several heads share.

In their place stands ``aten.scaled_dot_product_attention``, behind the transpositions, products, views and expansions that
it needs.

Not recognised, and left to the rules of the operations: biases or scales that depend on the data, anything that mixes
heads, a softmax over another axis, masks that fill with a finite number (they replace logits, they do not shift them),
weights that several heads of values share, constant queries, keys or values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import torch

from lipaudit.graph.functions.normal_form import number
from lipaudit.graph.node import Argument, Constant, Graph, Node, Ref
from lipaudit.graph.ops import CASTS, SOFTMAX, VIEWS
from lipaudit.graph.rewrite import Replacement, Steps, substitute

ATTENTION = "aten.scaled_dot_product_attention.default"
_SHIFTED_PRODUCT = "aten.baddbmm.default"
_TRANSPOSE = "aten.transpose.int"
# From the product back to the softmax, and from there back to the product of queries and keys.
_MAX_OPERATIONS = 24


def recognise_attentions(graph: Graph) -> Graph:
    """Replace every written-out attention."""
    reader = _Reader(graph)
    replacements = {}
    for node in graph:
        found = reader.attention(node)
        if found is not None:
            replacements[node.name] = found
    return substitute(graph, replacements)


@dataclass(frozen=True)
class _Operand:
    """A stack of matrices: those of ``ref``, or with ``flipped`` their transposes."""

    ref: Ref
    flipped: bool = False

    @property
    def transposed(self) -> _Operand:
        """The transposed matrices."""
        return _Operand(self.ref, not self.flipped)


@dataclass(frozen=True)
class _Logits:
    """softmax's input = ``scale`` * ``factors`` * current + ``biases``, in the shape of the current tensor."""

    scale: Fraction = Fraction(1)
    factors: tuple[Constant, ...] = ()
    biases: tuple[Constant, ...] = ()

    def scaled(self, argument: Argument, divides: bool = False) -> _Logits | None:
        """Another constant factor (or divisor) of the current tensor."""
        c = number(argument)
        if c is not None:
            return replace(self, scale=self.scale / c if divides else self.scale * c) if c else None
        if not isinstance(argument, Constant) or divides or not argument.value.is_floating_point():
            return None
        return replace(self, factors=(*self.factors, argument))

    def shifted(self, argument: Argument, sign: int = 1) -> _Logits | None:
        """Another constant addend of the current tensor."""
        c = number(argument)
        if c is not None and not self.factors:
            return self  # softmax ignores a shift of all logits
        if not isinstance(argument, Constant) or argument.value.is_complex():
            return None
        first, *factors = _exactly((argument, *self.factors))
        value = math.prod(factors, start=first * (sign * float(self.scale)))
        read = (argument, *self.factors)
        names = tuple(name for constant in read for name in constant.names)
        return replace(self, biases=(*self.biases, Constant(value, names, all(c.known for c in read))))

    def masked(self, mask: Argument, kept: bool) -> _Logits | None:
        """Minus infinity where ``mask`` is true, or with ``kept`` where it is false."""
        if not isinstance(mask, Constant) or mask.value.dtype is not torch.bool or self.factors or self.scale <= 0:
            return None
        away = ~mask.value if kept else mask.value
        bias = torch.zeros(away.shape, dtype=torch.float64, device=away.device).masked_fill(away, -math.inf)
        return replace(self, biases=(*self.biases, Constant(bias, mask.names, mask.known)))

    def viewed(self, before: tuple[int, ...], after: tuple[int, ...]) -> _Logits | None:
        """In front of a view from the shape ``before`` to ``after`` that regroups leading axes."""
        if before[-2:] != after[-2:]:
            return None

        def moved(constant: Constant) -> Constant:
            value = constant.value.detach()
            value = value.reshape((1,) * (len(after) - value.dim()) + tuple(value.shape))
            page = value.shape[-2:]
            return replace(constant, value=value.expand(*after[:-2], *page).reshape(*before[:-2], *page))

        return replace(self, factors=tuple(map(moved, self.factors)), biases=tuple(map(moved, self.biases)))


@dataclass(frozen=True)
class _Weights:
    """Softmax weights of queries and keys: the product that the logits start from, and what was done to it."""

    query: _Operand
    key: _Operand
    logits: _Logits
    shape: tuple[int, ...]  # of the product
    merged: tuple[str, ...]


class _Reader:
    """Follows tensors of one graph back."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.producers = {node.name: node for node in graph}

    def attention(self, node: Node) -> Replacement | None:
        """What takes the place of a product of softmax weights with values."""
        operands = self.product(node) if node.op != _SHIFTED_PRODUCT else None
        if operands is None:
            return None
        left, right = operands
        for weights, values, flipped in ((left, right, False), (right.transposed, left.transposed, True)):
            found = self.weights(weights)
            if found is not None:
                return self.replacement(node, found, values, flipped)
        return None

    def product(self, node: Node) -> tuple[_Operand, _Operand] | None:
        """The operands of a batched product of two data-dependent stacks of matrices."""
        match node.op:
            case "aten.matmul.default":
                pair = (node["self"], node["other"])
            case "aten.bmm.default":
                pair = (node["self"], node["mat2"])
            case "aten.baddbmm.default":  # what is added to the product is for the caller to see
                pair = (node["batch1"], node["batch2"])
            case "aten.einsum.default":
                return self.einsum(node)
            case _:
                return None
        left, right = pair
        if not isinstance(left, Ref) or not isinstance(right, Ref):
            return None
        dims = {len(left.info.shape), len(right.info.shape)}
        if len(dims) > 1 or min(dims) < 3 or left.info.dtype != right.info.dtype:
            return None
        return self.peeled(_Operand(left)), self.peeled(_Operand(right))

    def einsum(self, node: Node) -> tuple[_Operand, _Operand] | None:
        """An einsum that is a batched product of matrices, transposed or not, with the batch letters in front."""
        tensors, equation = node["tensors"], str(node["equation"]).replace(" ", "")
        if not isinstance(tensors, tuple) or len(tensors) != 2 or equation.count("->") != 1 or "." in equation:
            return None
        left, right = tensors
        inputs, out = equation.split("->")
        a, b = inputs.split(",")
        if not isinstance(left, Ref) or not isinstance(right, Ref) or left.info.dtype != right.info.dtype:
            return None
        if not a[:-2] == b[:-2] == out[:-2] or any(len(set(s)) != len(s) or len(s) < 3 for s in (a, b, out)):
            return None
        inner = set(a[-2:]) & set(b[-2:])
        if len(inner) != 1 or inner & set(out):
            return None
        rows, columns = _Operand(left, a[-2] in inner), _Operand(right, b[-1] in inner)
        if out[-1] in a:  # the transposed product
            rows, columns = columns.transposed, rows.transposed
        return self.peeled(rows), self.peeled(columns)

    def peeled(self, operand: _Operand) -> _Operand:
        """The same matrices without a transposition in front."""
        node = self.producers[operand.ref.name]
        order = list(range(len(operand.ref.info.shape)))
        if node.op == "aten.transpose.int":
            i, j = (int(node[key]) % len(order) for key in ("dim0", "dim1"))  # type: ignore[arg-type]
            order[i], order[j] = order[j], order[i]
        elif node.op == "aten.permute.default" and isinstance(node["dims"], tuple):
            order = [int(i) % len(order) for i in node["dims"]]  # type: ignore[arg-type]
        turned = [*range(len(order) - 2), len(order) - 1, len(order) - 2]
        return _Operand(node.refs[0], not operand.flipped) if order == turned else operand

    def weights(self, operand: _Operand) -> _Weights | None:
        """The softmax that an operand comes from, whose rows must be the rows of the operand."""
        merged: list[str] = []
        ref = operand.ref
        flipped = operand.flipped
        for _ in range(_MAX_OPERATIONS):
            node = self.producers[ref.name]
            if node.op in SOFTMAX:
                last = node["dim"] in (-1, len(node.output.shape) - 1)
                return self.logits(node, merged) if last and not flipped else None
            peeled = self.peeled(_Operand(ref))
            if peeled.ref is not ref:
                ref, flipped = peeled.ref, not flipped
            elif not node.output.dtype.is_floating_point:
                return None
            elif node.op in CASTS or (node.op in VIEWS and node.output.shape[-2:] == node.refs[0].info.shape[-2:]):
                ref = node.refs[0]
            else:
                return None
            merged.append(node.name)
        return None

    def logits(self, softmax: Node, before: list[str]) -> _Weights | None:
        """The product of queries and keys that a softmax's input comes from."""
        merged = [*before, softmax.name]
        source, state = softmax["self"], _Logits()
        for _ in range(_MAX_OPERATIONS):
            if not isinstance(source, Ref):
                return None
            node = self.producers[source.name]
            merged.append(node.name)
            operands = self.product(node)
            if operands is not None:
                if node.op == _SHIFTED_PRODUCT:
                    added = _added(node, state)
                    if added is None:
                        return None
                    state = added
                query, key = operands[0], operands[1].transposed
                return _Weights(query, key, state, node.output.shape, tuple(merged))
            step = _step(node, state)
            if step is None:
                return None
            source, state = step
        return None

    def replacement(self, node: Node, found: _Weights, values: _Operand, flipped: bool) -> Replacement | None:
        """The attention in the place of the product with the values, None where its shapes do not fit."""
        steps = Steps(self.graph, node)
        lead, (*pages, rows, columns) = node.output.shape[:-2], found.shape
        if any(operand.ref.info.dtype != node.output.dtype for operand in (found.query, found.key, values)):
            return None
        query, key = _upright(steps, found.query, "query"), _upright(steps, found.key, "key")
        value = _expanded(steps, _upright(steps, values, "value"), lead, "value")
        width = query.info.shape[-1]
        fits = query.info.shape[-2:] == (rows, width) and key.info.shape[-2:] == (columns, width)
        if not fits or value.info.shape[-2] != columns or math.prod(lead) != math.prod(pages):
            return None
        query, key = (_expanded(steps, t, tuple(pages), n) for t, n in ((query, "query"), (key, "key")))
        scale = found.logits.scale
        if scale < 0:
            query = steps.add("query_negated", "aten.neg.default", {"self": query}, query.info.shape)
        for factor in found.logits.factors:
            if factor.dtype != node.output.dtype:
                return None
            if factor.value.dim() == 0 or factor.value.shape[-1] == 1:
                query = _times(steps, query, factor, "query_scaled")
            elif factor.value.dim() == 1 or factor.value.shape[-2] == 1:
                turned = factor.value.detach().reshape(*factor.value.shape[:-2], -1, 1)
                key = _times(steps, key, replace(factor, value=turned), "key_scaled")
            else:
                return None
        query, key = _regrouped(steps, query, lead, "query_view"), _regrouped(steps, key, lead, "key_view")
        shape = (*lead, rows, value.info.shape[-1])
        arguments: dict[str, Argument] = {
            "query": query, "key": key, "value": value,
            "attn_mask": _mask(found, (*lead, rows, columns), node.output.dtype),
            "dropout_p": 0.0, "is_causal": False, "scale": _float_above(abs(scale)), "enable_gqa": False,
        }  # fmt: skip
        last = steps.add("attention", ATTENTION, arguments, shape)
        if flipped:
            last = steps.add("transposed", _TRANSPOSE, {"self": last, "dim0": -2, "dim1": -1}, node.output.shape)
        return steps.replacement(ATTENTION, found.merged) if last.info.shape == node.output.shape else None


def _added(node: Node, state: _Logits) -> _Logits | None:
    """baddbmm: beta * self + alpha * product."""
    alpha, beta, bias = node["alpha"], number(node["beta"]), node["self"]
    if beta is None or isinstance(bias, Ref):
        return None
    shifted = state.shifted(bias) if beta == 1 else state if beta == 0 else None
    return shifted and shifted.scaled(alpha)


def _step(node: Node, state: _Logits) -> tuple[Argument, _Logits] | None:
    """What a node did to the logits in front of it, None for what attention has no place for."""
    name = node.op.split(".")[1] if node.op.count(".") == 2 else ""
    after = node.output.shape
    result: _Logits | None = None
    source: Argument = node.get("self")
    if name in ("mul", "div", "add", "sub") and node.get("rounding_mode") is None:
        constant: Argument = node["other"]
        if not isinstance(source, Ref) and name in ("mul", "add"):
            source, constant = constant, source
        if number(node.get("alpha", 1)) == 1 and not isinstance(constant, Ref):
            moves = name in ("mul", "div")
            result = (
                state.scaled(constant, name == "div") if moves else state.shifted(constant, -1 if name == "sub" else 1)
            )
    elif name == "masked_fill":
        result = state.masked(node["mask"], kept=False) if _is_minus_infinity(node["value"]) else None
    elif name == "where":
        if isinstance(source, Ref):
            result = state.masked(node["condition"], kept=True) if _is_minus_infinity(node["other"]) else None
        else:
            result = state.masked(node["condition"], kept=False) if _is_minus_infinity(source) else None
            source = node["other"]
    elif node.op in VIEWS and isinstance(source, Ref):
        result = state.viewed(source.info.shape, after)
    elif node.op in CASTS and node.output.dtype.is_floating_point:
        result = state
    if result is None or not isinstance(source, Ref) or (node.op not in VIEWS and source.info.shape != after):
        return None
    return source, result


def _exactly(constants: tuple[Constant, ...]) -> list[torch.Tensor]:
    """The tensors in float64; all of them without values where one of them has none."""
    tensors = [constant.value.detach().double() for constant in constants]
    return [t.to("meta") for t in tensors] if any(t.is_meta for t in tensors) else tensors


def _is_minus_infinity(argument: Argument) -> bool:
    if isinstance(argument, Constant):
        return not argument.value.is_meta and bool((argument.value == -math.inf).all())
    return argument == -math.inf


def _upright(steps: Steps, operand: _Operand, name: str) -> Ref:
    """The operand's matrices as a tensor of their own."""
    if not operand.flipped:
        return operand.ref
    *lead, rows, columns = operand.ref.info.shape
    return steps.add(
        f"{name}_transposed", _TRANSPOSE, {"self": operand.ref, "dim0": -2, "dim1": -1}, (*lead, columns, rows)
    )


def _expanded(steps: Steps, tensor: Ref, lead: tuple[int, ...], name: str) -> Ref:
    """One page for all, where queries, keys or values are shared by several heads."""
    shape = (*lead, *tensor.info.shape[-2:])
    if shape == tensor.info.shape:
        return tensor
    return steps.add(
        f"{name}_expanded", "aten.expand.default", {"self": tensor, "size": shape, "implicit": False}, shape
    )


def _times(steps: Steps, tensor: Ref, factor: Constant, name: str) -> Ref:
    return steps.add(name, "aten.mul.Tensor", {"self": tensor, "other": factor}, tensor.info.shape)


def _regrouped(steps: Steps, tensor: Ref, lead: tuple[int, ...], name: str) -> Ref:
    shape = (*lead, *tensor.info.shape[-2:])
    if shape == tensor.info.shape:
        return tensor
    return steps.add(name, "aten.reshape.default", {"self": tensor, "shape": shape}, shape)


def _mask(found: _Weights, shape: tuple[int, ...], dtype: torch.dtype) -> Constant | None:
    """The sum of all biases in the shape of the attention's logits, in ``dtype`` where that holds it exactly."""
    biases = found.logits.biases
    if not biases:
        return None
    first, *others = _exactly(biases)
    total = sum(others, start=first)
    if shape != found.shape:
        total = total.expand(found.shape).reshape(shape)  # one page for each, in the same order
    total = total.reshape((1,) * (len(shape) - total.dim()) + tuple(total.shape))
    rounded = total.to(dtype)
    exact = total.is_meta or torch.equal(rounded.double(), total)
    names = tuple(dict.fromkeys(n for bias in biases for n in bias.names))
    return Constant(rounded if exact else total, names, all(bias.known for bias in biases))


def _float_above(value: Fraction) -> float:
    """The smallest float that is at least ``value`` > 0, so that a bound computed from it stays one."""
    found = float(value)
    return found if Fraction(found) >= value else math.nextafter(found, math.inf)
