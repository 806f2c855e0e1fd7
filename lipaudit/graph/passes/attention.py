"""Written-out dot-product attention: softmax(s q k^T + b) v with constant s and b.

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

from lipaudit.graph.node import Argument, Constant, Node, Ref
from lipaudit.graph.ops import CASTS, SOFTMAX, VIEWS
from lipaudit.graph.passes.attention_logits import Logits, before_added_product, before_operation, in_float64
from lipaudit.graph.pattern import OTHER_OPERATION, GraphIndex, Match, Matcher, NewNodes, NoMatch

ATTENTION = "aten.scaled_dot_product_attention.default"
_SHIFTED_PRODUCT = "aten.baddbmm.default"
_TRANSPOSE = "aten.transpose.int"
# From the product back to the softmax, and from there back to the product of queries and keys.
_MAX_OPERATIONS = 24
_NO_SOFTMAX = NoMatch("neither factor comes from a softmax")
_OTHER_AXIS = NoMatch("the softmax is not over the last axis of the weights")
_NO_PRODUCT = NoMatch("the logits are no product of data-dependent queries and keys")
_OTHER_LOGITS = NoMatch("what is added to the product depends on the data, or has a factor")
_OTHER_TYPES = NoMatch("queries, keys, values or scales have another type than the result")
_OTHER_SHAPES = NoMatch("the shapes of queries, keys and values are not those of one attention per head")
_OTHER_SCALE = NoMatch("a constant factor of the logits varies along queries and keys")


def matcher(index: GraphIndex) -> Matcher:
    """Matches written-out attentions, at the product with the values."""
    return _Reader(index).attention


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
class _Weights:
    """Softmax weights of queries and keys: the product that the logits start from, and what was done to it."""

    query: _Operand
    key: _Operand
    logits: Logits
    shape: tuple[int, ...]  # of the product
    merged: tuple[str, ...]


class _Reader:
    """Follows tensors of one graph back."""

    def __init__(self, index: GraphIndex) -> None:
        self.index = index
        self.producers = index.producers

    def attention(self, node: Node) -> Match | NoMatch:
        """What takes the place of a product of softmax weights with values."""
        operands = self.product(node) if node.op != _SHIFTED_PRODUCT else None
        if operands is None:
            return OTHER_OPERATION
        left, right = operands
        reasons = []
        for weights, values, flipped in ((left, right, False), (right.transposed, left.transposed, True)):
            softmax = self.weights(weights)
            if isinstance(softmax, _Weights):
                return self.match(node, softmax, values, flipped)
            reasons.append(softmax)
        return next((reason for reason in reasons if reason is not _NO_SOFTMAX), _NO_SOFTMAX)

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

    def weights(self, operand: _Operand) -> _Weights | NoMatch:
        """The softmax that an operand comes from, whose rows must be the rows of the operand."""
        merged: list[str] = []
        ref = operand.ref
        flipped = operand.flipped
        for _ in range(_MAX_OPERATIONS):
            node = self.producers[ref.name]
            if node.op in SOFTMAX:
                last = node["dim"] in (-1, len(node.output.shape) - 1)
                return self.logits(node, merged) if last and not flipped else _OTHER_AXIS
            peeled = self.peeled(_Operand(ref))
            if peeled.ref is not ref:
                ref, flipped = peeled.ref, not flipped
            elif not node.output.dtype.is_floating_point:
                return _NO_SOFTMAX
            elif node.op in CASTS or (node.op in VIEWS and node.output.shape[-2:] == node.refs[0].info.shape[-2:]):
                ref = node.refs[0]
            else:
                return _NO_SOFTMAX
            merged.append(node.name)
        return _NO_SOFTMAX

    def logits(self, softmax: Node, before: list[str]) -> _Weights | NoMatch:
        """The product of queries and keys that a softmax's input comes from."""
        merged = [*before, softmax.name]
        source, state = softmax["self"], Logits()
        for _ in range(_MAX_OPERATIONS):
            if not isinstance(source, Ref):
                return _NO_PRODUCT
            node = self.producers[source.name]
            merged.append(node.name)
            operands = self.product(node)
            if operands is not None:
                if node.op == _SHIFTED_PRODUCT:
                    added = before_added_product(node, state)
                    if added is None:
                        return _OTHER_LOGITS
                    state = added
                query, key = operands[0], operands[1].transposed
                return _Weights(query, key, state, node.output.shape, tuple(merged))
            previous = before_operation(node, state)
            if previous is None:
                return NoMatch(f"attention has no place for {node.op} between the product and the softmax")
            source, state = previous
        return _NO_PRODUCT

    def match(self, node: Node, weights: _Weights, values: _Operand, flipped: bool) -> Match | NoMatch:
        """The attention in the place of the product with the values."""
        new = NewNodes(self.index, node)
        lead, (*pages, rows, columns) = node.output.shape[:-2], weights.shape
        if any(operand.ref.info.dtype != node.output.dtype for operand in (weights.query, weights.key, values)):
            return _OTHER_TYPES
        query, key = _upright(new, weights.query, "query"), _upright(new, weights.key, "key")
        value = _expanded(new, _upright(new, values, "value"), lead, "value")
        width = query.info.shape[-1]
        fits = query.info.shape[-2:] == (rows, width) and key.info.shape[-2:] == (columns, width)
        if not fits or value.info.shape[-2] != columns or math.prod(lead) != math.prod(pages):
            return _OTHER_SHAPES
        query, key = (_expanded(new, t, tuple(pages), n) for t, n in ((query, "query"), (key, "key")))
        scale = weights.logits.scale
        if scale < 0:
            query = new.add("query_negated", "aten.neg.default", {"self": query}, query.info.shape)
        for factor in weights.logits.factors:
            if factor.dtype != node.output.dtype:
                return _OTHER_TYPES
            if factor.value.dim() == 0 or factor.value.shape[-1] == 1:
                query = _times(new, query, factor, "query_scaled")
            elif factor.value.dim() == 1 or factor.value.shape[-2] == 1:
                turned = factor.value.detach().reshape(*factor.value.shape[:-2], -1, 1)
                key = _times(new, key, replace(factor, value=turned), "key_scaled")
            else:
                return _OTHER_SCALE
        query, key = _regrouped(new, query, lead, "query_view"), _regrouped(new, key, lead, "key_view")
        shape = (*lead, rows, value.info.shape[-1])
        arguments: dict[str, Argument] = {
            "query": query, "key": key, "value": value,
            "attn_mask": _mask(weights, (*lead, rows, columns), node.output.dtype),
            "dropout_p": 0.0, "is_causal": False, "scale": _float_above(abs(scale)), "enable_gqa": False,
        }  # fmt: skip
        last = new.add("attention", ATTENTION, arguments, shape)
        if flipped:
            last = new.add("transposed", _TRANSPOSE, {"self": last, "dim0": -2, "dim1": -1}, node.output.shape)
        return new.match(ATTENTION, weights.merged) if last.info.shape == node.output.shape else _OTHER_SHAPES


def _upright(new: NewNodes, operand: _Operand, name: str) -> Ref:
    """The operand's matrices as a tensor of their own."""
    if not operand.flipped:
        return operand.ref
    *lead, rows, columns = operand.ref.info.shape
    return new.add(
        f"{name}_transposed", _TRANSPOSE, {"self": operand.ref, "dim0": -2, "dim1": -1}, (*lead, columns, rows)
    )


def _expanded(new: NewNodes, tensor: Ref, lead: tuple[int, ...], name: str) -> Ref:
    """One page for all, where queries, keys or values are shared by several heads."""
    shape = (*lead, *tensor.info.shape[-2:])
    if shape == tensor.info.shape:
        return tensor
    return new.add(f"{name}_expanded", "aten.expand.default", {"self": tensor, "size": shape, "implicit": False}, shape)


def _times(new: NewNodes, tensor: Ref, factor: Constant, name: str) -> Ref:
    return new.add(name, "aten.mul.Tensor", {"self": tensor, "other": factor}, tensor.info.shape)


def _regrouped(new: NewNodes, tensor: Ref, lead: tuple[int, ...], name: str) -> Ref:
    shape = (*lead, *tensor.info.shape[-2:])
    if shape == tensor.info.shape:
        return tensor
    return new.add(name, "aten.reshape.default", {"self": tensor, "shape": shape}, shape)


def _mask(weights: _Weights, shape: tuple[int, ...], dtype: torch.dtype) -> Constant | None:
    """The sum of all biases in the shape of the attention's logits, in ``dtype`` where that holds it exactly."""
    biases = weights.logits.biases
    if not biases:
        return None
    first, *others = in_float64(biases)
    total = sum(others, start=first)
    if shape != weights.shape:
        total = total.expand(weights.shape).reshape(shape)  # one page for each, in the same order
    total = total.reshape((1,) * (len(shape) - total.dim()) + tuple(total.shape))
    rounded = total.to(dtype)
    exact = total.is_meta or torch.equal(rounded.double(), total)
    names = tuple(dict.fromkeys(n for bias in biases for n in bias.names))
    return Constant(rounded if exact else total, names, all(bias.known for bias in biases))


def _float_above(value: Fraction) -> float:
    """The smallest float that is at least ``value`` > 0, so that a bound computed from it stays one."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)
