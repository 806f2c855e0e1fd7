"""Sums of powers A |u|^p + e of tensors, with a matrix A and numbers e that are not negative, followed back to the powers.

Sums, means, average pooling, convolutions with non-negative weights and filter banks are such matrices.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import torch

from lipaudit.graph import ops
from lipaudit.graph.functions.normal_form import number
from lipaudit.graph.node import Argument, Constant, Node, Ref
from lipaudit.graph.ops import CASTS, EXPANSIONS, FLIPS, PERMUTATIONS, REPETITIONS, SLICES, VIEWS, aten

_MAX_OPERATIONS = 32
_RECIPROCAL = 1e-6  # how far p q of a p-th power and an exponent q may be from 1
POWERS = {"aten.pow.Tensor_Scalar", "aten.pow.Tensor_Tensor"}
SELECTIONS = (
    VIEWS
    | SLICES
    | PERMUTATIONS
    | FLIPS
    | EXPANSIONS
    | REPETITIONS
    | frozenset(aten("select.int", "index_select", "unfold"))
)
SPLITS = ops.SPLITS | {"aten.unbind.int"}


@dataclass
class PowerSum:
    """What a root is taken of: ``nodes`` of which the ``leaves`` raise tensors to the power."""

    producers: Mapping[str, Node]
    order: Fraction
    nodes: dict[str, Node] = field(default_factory=dict)
    leaves: dict[str, Ref] = field(default_factory=dict)  # nodes that raise to the power, and what they raise
    passed: dict[str, Ref] = field(
        default_factory=dict
    )  # nodes that change nothing of the inequality: what they pass on
    powers: set[Fraction] = field(default_factory=set)

    def reads(self, argument: Argument) -> bool:
        """Whether a term is A |u|^p + e."""
        if not isinstance(argument, Ref):
            return False
        node = self.producers[argument.name]
        if node.name in self.nodes:
            return True
        if len(self.nodes) >= _MAX_OPERATIONS or len(node.outputs) != 1 or not node.output.dtype.is_floating_point:
            return False
        self.nodes[node.name] = node
        if (leaf := self._power(node)) is not None:
            self.leaves[node.name] = leaf
            return True
        if (inner := _passed(node, self.producers)) is not None:
            self._pass(node, inner)
            return self.reads(inner)
        return _keeps_signs(node) and bool(node.refs) and all(self.reads(ref) for ref in node.refs)

    def _pass(self, node: Node, inner: Ref) -> None:
        """Note that a node, and what it computes from ``inner``, changes nothing of the inequality."""
        self.nodes[node.name], self.passed[node.name] = node, inner
        for ref in node.refs:
            if ref != inner:
                self._pass(self.producers[ref.name], inner)

    def _same(self, a: Argument, b: Argument) -> bool:
        """Whether two operands are one tensor, or the same selection of one."""
        if not isinstance(a, Ref) or not isinstance(b, Ref) or a == b:
            return isinstance(a, Ref) and a == b
        left, right = self.producers[a.name], self.producers[b.name]
        if (
            left.op != right.op
            or not is_selection(left, self.producers)
            or left.arguments.keys() != right.arguments.keys()
        ):
            return False
        return all(
            self._same(left[key], right[key]) if isinstance(left[key], Ref) else left[key] == right[key]
            for key in left.arguments
        )

    def _power(self, node: Node) -> Ref | None:
        """u of a node |u|^p."""
        base = node.get("self")
        if node.op == "aten.square.default":
            exponent: Fraction | None = Fraction(2)
        elif node.op == "aten.mul.Tensor" and self._same(base, node["other"]):
            exponent = Fraction(2)
        else:
            exponent = number(node["exponent"]) if node.op in POWERS else None
        if exponent is None or not isinstance(base, Ref) or not _near(exponent, self.order):
            return None
        even = exponent.denominator == 1 and exponent.numerator % 2 == 0
        if not even and not _not_negative(self.producers[base.name]):
            return None
        self.powers.add(exponent)
        return base

    def sources(self) -> tuple[list[str], dict[str, Node]]:
        """The tensors whose entries are raised to the power, and the selections of entries between them and the powers."""
        selections: dict[str, Node] = {}
        names = dict[str, None]()
        for name in [ref.name for leaf in self.leaves for ref in self.producers[leaf].refs]:
            while is_selection(node := self.producers[name], self.producers):
                selections[name] = node
                name = node.refs[0].name
            names[name] = None
        return list(names), selections


def _near(p: Fraction, q: Fraction) -> bool:
    return abs(p / q - 1) <= _RECIPROCAL


def is_selection(node: Node, producers: Mapping[str, Node]) -> bool:
    """Whether a node, or one output of one, holds entries of its only operand."""
    if node.op == "getitem":
        return producers[node.refs[0].name].op in SPLITS
    return (node.op in SELECTIONS or node.op in SPLITS) and len(node.refs) == 1


def _passed(node: Node, producers: Mapping[str, Node]) -> Ref | None:
    """What an operation passes on, as far as the inequality goes: a maximum with a number, |u| of what is not negative."""
    inner = node.get("self")
    if not isinstance(inner, Ref):
        return None
    if node.op in ("aten.relu.default", "aten.abs.default", "aten.positive.default"):
        return inner
    if node.op in ("aten.clamp.default", "aten.clamp_min.default") and node.get("max") is None:
        limit = number(node["min"])
        return inner if limit is not None and limit >= 0 else None
    if node.op == "aten.mul.Tensor" and isinstance(node["other"], Ref):  # sign(u) relu(|u|), as Lp pooling has it
        for sign, size in ((inner, node["other"]), (node["other"], inner)):
            signed = producers[sign.name]
            other = size
            while producers[other.name].op in ("aten.relu.default", "aten.abs.default"):
                other = producers[other.name].refs[0]
            if signed.op == "aten.sign.default" and signed.refs[0] == other and other != size:
                return other
    return None


def _keeps_signs(node: Node) -> bool:
    """Whether an operation is linear with non-negative weights in its data-dependent operands, up to a non-negative shift."""
    if node.op in _LINEAR or node.op in SELECTIONS or node.op in VIEWS or node.op in CASTS:
        return True
    constants = [
        v
        for k, v in node.arguments.items()
        if k in ("self", "other", "weight", "bias", "mat2") and not isinstance(v, Ref)
    ]
    if node.op in _WEIGHTED:
        refs = {k for k, v in node.arguments.items() if isinstance(v, Ref)}
        fits = len(node.refs) == 1 or node.op.startswith("aten.add")
        divides = node.op.startswith("aten.div") and (not refs <= {"self"} or node.get("rounding_mode") is not None)
        alpha = number(node.get("alpha", 1))
        return fits and not divides and alpha is not None and alpha > 0 and all(_is_not_negative(c) for c in constants)
    return False


def _is_not_negative(argument: Argument) -> bool:
    if argument is None:
        return True
    if isinstance(argument, Constant):
        value = argument.value
        return (
            not value.is_meta
            and not value.is_complex()
            and bool((value >= 0).all())
            and bool(torch.isfinite(value).all())
        )
    return isinstance(argument, int | float) and 0 <= argument < math.inf


def _not_negative(node: Node) -> bool:
    """Whether no entry of an output can be negative."""
    if node.op in ("aten.clamp.default", "aten.clamp_min.default"):
        low, high = node["min"], node.get("max")
        return _is_not_negative(low) and low is not None and (high is None or _is_not_negative(high))
    return node.op in _NOT_NEGATIVE


_NOT_NEGATIVE = {
    f"aten.{name}"
    for name in (
        "relu.default", "relu6.default", "abs.default", "sigmoid.default", "softplus.default", "exp.default",
        "square.default", "hardsigmoid.default", "softmax.int",
    )
}  # fmt: skip
_LINEAR = {
    "aten.sum.default", "aten.sum.dim_IntList", "aten.mean.default", "aten.mean.dim",
    *(f"aten.avg_pool{d}d.default" for d in (1, 2, 3)), *(f"aten.adaptive_avg_pool{d}d.default" for d in (1, 2, 3)),
}  # fmt: skip
_WEIGHTED = {
    *(f"aten.{name}.{kind}" for name in ("add", "mul", "div") for kind in ("Tensor", "Scalar")),
    "aten.linear.default", "aten.matmul.default", "aten.mm.default",
    *(f"aten.conv{d}d.default" for d in (1, 2, 3)),
}  # fmt: skip
