"""The matrix A of a sum of powers A |u|^p + e: its column sums, and the number that its entries are if they are all one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import torch

from lipaudit.graph.evaluate import Value, evaluate
from lipaudit.graph.functions.normal_form import number
from lipaudit.graph.node import Constant, Node, Ref
from lipaudit.graph.ops import CASTS, VIEWS
from lipaudit.graph.passes.power_sums import SELECTIONS, SPLITS, PowerSum

_MAX_ENTRIES = 2**26


def column_sums(chain: Sequence[Node], total: PowerSum, sources: list[str]) -> list[float] | None:
    """max_i sum_j A_ji for the entries of each source.

    The matrix is run on ones, powers and what changes nothing left out, and its adjoint on ones.
    """
    ends = total.producers[chain[-1].name]
    shapes = [total.producers[name].output.shape for name in sources]
    if any(math.prod(shape) > _MAX_ENTRIES for shape in shapes) or any(
        len(total.producers[n].outputs) != 1 for n in sources
    ):
        return None
    if any(_is_meta(node) for node in chain):
        return None
    with torch.enable_grad():
        ones = [torch.ones(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
        values: dict[str, Value] = dict(zip(sources, ones, strict=True))
        for node in chain:
            through = total.leaves.get(node.name) or total.passed.get(node.name)
            values[node.name] = values[through.name] if through is not None else evaluate(node, values, torch.float64)
        last = values[ends.name]
        if not isinstance(last, torch.Tensor):
            return None
        sums = torch.autograd.grad(last.sum(), ones)
    if any(not bool(torch.isfinite(c).all()) or c.numel() == 0 for c in sums):
        return None
    return [float(c.max()) for c in sums]


def uniform_entry(chain: Sequence[Node], total: PowerSum) -> Fraction | None:
    """The number that all entries of A other than 0 are; None where they may differ.

    A sum of powers of two tensors may hold an entry twice: it counts as two entries, which bounds 2^(2/p) by 2.
    """
    entry, reduced = Fraction(1), False
    for node in chain:
        if node.name in total.leaves or node.name in total.passed or node.op in SELECTIONS | VIEWS | CASTS | SPLITS:
            continue
        if node.op == "getitem":
            continue
        if len(node.refs) == 2 and node.op == "aten.add.Tensor" and entry == 1 and not reduced and node["alpha"] == 1:
            continue
        c = _scale(node)
        if c is None:
            share = _share(node)
            if share is None or reduced:
                return None
            c, reduced = share, True
        entry *= c
    return entry


def _scale(node: Node) -> Fraction | None:
    """The factor of a multiplication by a number, 1 for an addition of one."""
    if len(node.refs) != 1:
        return None
    if node.op.startswith("aten.add"):
        return Fraction(1)
    if node.op.split(".")[1] not in ("mul", "div"):
        return None
    c = number(node["other"] if isinstance(node["self"], Ref) else node["self"])
    if not c:
        return None
    return c if node.op.startswith("aten.mul") else 1 / c


def _share(node: Node) -> Fraction | None:
    """The weight of every entry in a sum or a mean over disjoint or overlapping windows of one size."""
    size = math.prod(node.refs[0].info.shape) // max(1, math.prod(node.output.shape))
    name = node.op.split(".")[1]
    if name == "sum":
        return Fraction(1)
    if name == "mean":
        return Fraction(1, size)
    if name.startswith("avg_pool") and node["ceil_mode"] is False and node.get("divisor_override") is None:
        window, padding = node["kernel_size"], node["padding"]
        d = int(name[len("avg_pool")])
        sizes = window if isinstance(window, tuple) else (window,)
        padded = padding if isinstance(padding, tuple) else (padding,)
        if node["count_include_pad"] is not True and any(padded):
            return None
        return Fraction(1, math.prod(s for s in (sizes * d if len(sizes) == 1 else sizes) if isinstance(s, int)))
    if name.startswith("adaptive_avg_pool"):
        pairs = zip(node.refs[0].info.shape, node.output.shape, strict=True)
        return Fraction(1, size) if all(before % after == 0 for before, after in pairs) else None
    return None


def _is_meta(node: Node) -> bool:
    return any(isinstance(a, Constant) and a.value.is_meta for a in node.arguments.values())
