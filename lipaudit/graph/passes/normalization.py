"""Normalisations by the size of the data: layer, group, instance and RMS norms, l2 normalisation.

All become one operation without weights, followed by the product with a constant weight and the addition of a constant
bias where there are any, so that the weight folds into the linear layer behind it. With z = x - mean(x) (centred) or
z = x, over the rows that ``axes`` span, of D entries:

- root: z / sqrt(mean(z^2) + epsilon)
- clamped: z / max(||z||, epsilon)
- shifted: z / (||z|| + epsilon)

Not recognised, and left to the rules of the operations: data-dependent weights, rows that run over the batch axis,
quotients without an epsilon. What counts as written out is said in :mod:`lipaudit.graph.passes.row_functions`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import torch

from lipaudit.graph.node import Constant, Node, Ref
from lipaudit.graph.ops import CASTS
from lipaudit.graph.passes.row_functions import Quotient, RowReader
from lipaudit.graph.pattern import OTHER_OPERATION, GraphIndex, Match, Matcher, NewNodes, NoMatch

NORMALIZATION = "lipaudit.normalization"
_RESHAPE = "aten.reshape.default"
_QUOTIENTS = ("aten.mul.Tensor", "aten.div.Tensor")
_NOT_A_NUMBER = NoMatch("the epsilon is no number, or the input is constant, empty or changes its type")
_DATA_DEPENDENT = NoMatch("the weight or the bias depends on the data, or has another type")
_NOT_TWO = NoMatch("no product or quotient of two tensors")
_NOT_ROWS = NoMatch("not the rows of one tensor by their own size with an epsilon")
_OUT_OF_RANGE = NoMatch("the epsilon or the factor has no square among floats")
Form = Literal["root", "clamped", "shifted"]
_NAMES = {(True, "root"): "layer_norm", (False, "root"): "rms_norm"}
# Squares of numbers outside these limits leave the range of floats.
_SMALLEST, _LARGEST = Fraction(1, 10**300), Fraction(10**300)


@dataclass(frozen=True)
class Normalization:
    """The normalisation of the rows that ``axes`` span (sorted, counted from the front, without the batch axis)."""

    axes: tuple[int, ...]
    centred: bool
    epsilon: float
    form: Form

    @property
    def name(self) -> str:
        """What such a normalisation is called."""
        return _NAMES.get((self.centred, self.form), "l2_norm")

    def evaluate(self, x: torch.Tensor) -> torch.Tensor:
        """The normalised rows of ``x``."""
        z = x - x.mean(self.axes, keepdim=True) if self.centred else x
        if self.form == "root":
            return z / torch.sqrt(z.square().mean(self.axes, keepdim=True) + self.epsilon)
        size: torch.Tensor = torch.linalg.vector_norm(z, dim=self.axes, keepdim=True)
        return z / (size.clamp_min(self.epsilon) if self.form == "clamped" else size + self.epsilon)


def matcher(index: GraphIndex) -> Matcher:
    """Matches normalisations, whether operations of their own or written out."""

    def match(node: Node) -> Match | NoMatch:
        rows = _rows(node)
        if rows is not None:
            return _own_operation(index, node, *rows)
        return _written_out(index, node) if node.op in _QUOTIENTS else OTHER_OPERATION

    return match


def _own_operation(
    index: GraphIndex, node: Node, axes: tuple[int, ...], view: tuple[int, ...] | None
) -> Match | NoMatch:
    source, epsilon = node["input"], _epsilon(node)
    weight, bias = (_affine(node, key) for key in ("weight", "bias"))
    if not isinstance(source, Ref) or source.info != node.output or epsilon is None or 0 in source.info.shape:
        return _NOT_A_NUMBER
    if isinstance(weight, str) or isinstance(bias, str):
        return _DATA_DEPENDENT
    shape = source.info.shape
    new, last = NewNodes(index, node), source
    if view is not None:
        last = new.add("grouped", _RESHAPE, {"self": last, "shape": view}, view)
    payload = Normalization(axes, node.op != "aten.rms_norm.default", epsilon, "root")
    last = new.add("normalized", NORMALIZATION, {"input": last}, view or shape, payload)
    if view is not None:
        last = new.add("ungrouped", _RESHAPE, {"self": last, "shape": shape}, shape)
    if weight is not None:
        last = new.add("scaled", "aten.mul.Tensor", {"self": last, "other": weight}, shape)
    if bias is not None:
        new.add("shifted", "aten.add.Tensor", {"self": last, "other": bias, "alpha": 1}, shape)
    return new.match(NORMALIZATION)


def _rows(node: Node) -> tuple[tuple[int, ...], tuple[int, ...] | None] | None:
    """The axes of a norm's rows and the shape that a group norm views its input in; None for other operations."""
    match node.op:
        case "aten.layer_norm.default" | "aten.rms_norm.default":
            dims, size = len(node.output.shape), node["normalized_shape"]
            first = dims - len(size) if isinstance(size, tuple) else 0
            return (tuple(range(first, dims)), None) if 0 < first < dims else None
        case "aten.instance_norm.default":
            dims = len(node.output.shape)
            return (tuple(range(2, dims)), None) if node["use_input_stats"] and dims > 2 else None
        case "aten.group_norm.default":
            batch, channels, *positions = node.output.shape
            groups = node["num_groups"]
            if not isinstance(groups, int) or groups == channels * math.prod(positions):
                return None
            if groups == 1:
                return tuple(range(1, len(node.output.shape))), None
            if groups == channels:
                return tuple(range(2, len(node.output.shape))), None
            view = (batch, groups, channels // groups, *positions)
            return tuple(range(2, len(view))), view
    return None


def _epsilon(node: Node) -> float | None:
    epsilon = node["eps"]
    if epsilon is None:  # RMS norm: the resolution of the dtype that it computes in
        return torch.finfo(torch.float64 if node.output.dtype is torch.float64 else torch.float32).eps
    return float(epsilon) if isinstance(epsilon, int | float) else None


def _affine(node: Node, key: str) -> Constant | Literal["data-dependent"] | None:
    """The weight or bias in a shape that broadcasts to the output."""
    value = node.get(key)
    if value is None:
        return None
    if not isinstance(value, Constant) or value.dtype != node.output.dtype:
        return "data-dependent"
    if node.op in ("aten.layer_norm.default", "aten.rms_norm.default"):
        return value
    trailing = (1,) * (len(node.output.shape) - 2)
    return replace(value, value=value.value.reshape(-1, *trailing))


def _written_out(index: GraphIndex, node: Node) -> Match | NoMatch:
    """A quotient of rows by their size, or a product of rows with the reciprocal."""
    if len(node.refs) != 2:
        return _NOT_TWO
    for source in _sources(node, index.producers):
        if source.info != node.output or not source.info.dtype.is_floating_point or 0 in source.info.shape:
            continue
        reader = RowReader(index.producers, index.position, source)
        quotient = reader.value(node.name)
        if isinstance(quotient, Quotient):
            between = set(reader.known) - {source.name, node.name}
            merged = sorted(between, key=index.position.__getitem__)
            return _quotient(index, node, source, quotient, tuple(merged))
    return _NOT_ROWS


def _sources(node: Node, producers: Mapping[str, Node]) -> Iterator[Ref]:
    """The tensors that a quotient's rows may be those of, the farthest first: what was centred, cast or scaled."""
    for ref in node.refs:
        chain = [ref]
        while len(chain) < 6 and (refs := producers[chain[-1].name].refs) and producers[chain[-1].name].op in _LEADING:
            chain.append(refs[0])
        yield from reversed(chain)


_LEADING = {
    "aten.sub.Tensor", "aten.mul.Tensor", "aten.mul.Scalar", "aten.div.Tensor", "aten.div.Scalar", *CASTS,
}  # fmt: skip


def _quotient(
    index: GraphIndex, node: Node, source: Ref, quotient: Quotient, merged: tuple[str, ...]
) -> Match | NoMatch:
    size = quotient.size
    if not all(_SMALLEST < square < _LARGEST for square in (size.epsilon, quotient.square)):
        return _OUT_OF_RANGE
    # rounded so that a bound computed from them stays one
    epsilon = _float_below(size.epsilon) if size.form == "root" else _root(size.epsilon, up=False)
    factor = quotient.sign * _root(quotient.square, up=True)
    new, shape = NewNodes(index, node), node.output.shape
    payload = Normalization(size.axes, size.centred, epsilon, size.form)  # type: ignore[arg-type]
    last = new.add("normalized", NORMALIZATION, {"input": source}, shape, payload)
    if factor != 1:
        new.add("scaled", "aten.mul.Tensor", {"self": last, "other": factor}, shape)
    return new.match(NORMALIZATION, merged)


def _float_below(value: Fraction) -> float:
    """The largest float that is at most ``value`` > 0."""
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, 0)


def _root(square: Fraction, up: bool) -> float:
    """The square root rounded down, or up; itself where it is a float."""
    root = math.sqrt(float(square))
    while Fraction(root) ** 2 > square:
        root = math.nextafter(root, 0)
    while Fraction(math.nextafter(root, math.inf)) ** 2 <= square:
        root = math.nextafter(root, math.inf)
    return root if not up or Fraction(root) ** 2 == square else math.nextafter(root, math.inf)
