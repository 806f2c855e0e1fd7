"""ONNX Einsum: with a constant factor a dense layer or a batched product between permutations, else torch's own."""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Sequence

import torch
from torch import nn

from lipaudit.frontends.onnx.operators import Apply, NodeView, all_operands, converter
from lipaudit.frontends.onnx.products import dense

_SPARE = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@converter("Einsum")
def einsum(node: NodeView) -> nn.Module:
    """Sums of products by subscripts."""
    equation = node.attr("equation").replace(" ", "")
    terms, target = _subscripts(equation, [len(node.shape(i)) for i in range(len(node.operands))])
    if len(terms) == 2 and node.is_constant(0) != node.is_constant(1):
        factor = _constant_factor(node, terms, target, fixed=0 if node.is_constant(0) else 1)
        if factor is not None:
            return factor
    if len(terms) == 1 and sorted(terms[0]) == sorted(target):
        order = [terms[0].index(letter) for letter in target]
        return all_operands(node, lambda x: x.permute(order))
    return all_operands(node, lambda *tensors: torch.einsum(equation, *tensors))


def _subscripts(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """One letter per axis for each operand and for the result; an ellipsis becomes capital letters, aligned at its end."""
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if not arrow:
        counts = Counter(left.replace(",", "").replace("...", ""))
        right = ("..." if "..." in left else "") + "".join(sorted(c for c, n in counts.items() if n == 1))
    spare = [letter for letter in _SPARE if letter not in equation]
    widths = [rank - len(t.replace("...", "")) for t, rank in zip(terms, ranks, strict=True)]
    longest = max((w for t, w in zip(terms, widths, strict=True) if "..." in t), default=0)

    def expand(term: str, width: int) -> str:
        return term.replace("...", "".join(spare[longest - width : longest]))

    return [expand(t, w) for t, w in zip(terms, widths, strict=True)], expand(right, longest)


def _constant_factor(node: NodeView, terms: list[str], target: str, fixed: int) -> nn.Module | None:
    """x (batch, free, shared) times a constant (batch, shared, own), None where the subscripts say anything else."""
    data, weight = terms[1 - fixed], terms[fixed]
    sizes = dict(zip(data, node.shape(1 - fixed), strict=True))
    own_sizes = dict(zip(weight, node.shape(fixed), strict=True))
    batch = [letter for letter in data if letter in weight and letter in target]
    shared = [letter for letter in data if letter in weight and letter not in target]
    free = [letter for letter in data if letter not in weight]
    own = [letter for letter in weight if letter not in data]
    repeated = any(len(set(t)) < len(t) for t in (data, weight, target))
    if (
        repeated
        or sorted(target) != sorted([*batch, *free, *own])
        or any(sizes[i] != own_sizes[i] for i in batch + shared)
    ):
        return None
    count = [math.prod((sizes | own_sizes)[i] for i in group) for group in (batch, free, shared, own)]
    order = [data.index(i) for i in (*batch, *free, *shared)]
    entry = tuple(count[:3]) if batch else tuple(count[1:3])
    matrix = node.tensor(fixed).permute([weight.index(i) for i in (*batch, *own, *shared)])
    result = tuple((sizes | own_sizes)[i] for i in (*batch, *free, *own))
    back = [[*batch, *free, *own].index(i) for i in target]
    product: nn.Module
    if batch:
        product = Apply(torch.bmm, [None, matrix.reshape(count[0], count[3], count[2]).transpose(1, 2).contiguous()])
    else:
        product = dense(matrix.reshape(count[3], count[2]).contiguous(), None)
    before = Apply(lambda x: x.permute(order).reshape(entry), [None])
    after = Apply(lambda y: y.reshape(result).permute(back), [None])
    return nn.Sequential(OrderedDict(before=before, product=product, after=after))
