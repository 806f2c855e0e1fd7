"""Adding, averaging and picking at constant places: scatter and index operations, as in graph networks.

Every entry of the source goes to one place of the result. With c entries at a place the row of that place in the matrix S
of the source has c ones, no column has two, and S S^T is diagonal: the norm is the root of the largest count. A mean
divides the row by c, or by c + 1 where the entry of the target counts too. The largest or smallest of the entries at a
place is one of them, |max - max'| <= max |difference|, and every entry has one place: each source counts once, and the
squares add. Values that are broadcast to their places count as often as they are read.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from lipaudit.graph.node import Node
from lipaudit.rules.effect import Combination, Effect, Settings
from lipaudit.rules.index_probe import PROBE_LIMIT
from lipaudit.rules.operands import count_refs, data, is_float, number, root, rounded, stretch
from lipaudit.rules.rule import operations
from lipaudit.spectral.bracket import Bracket

DIAGONAL = "S S^T is diagonal and counts the entries at each place"


def _counts(node: Node) -> torch.Tensor | Effect:
    """How many entries of the source go to each place of the result, or why that is not known."""
    name = node.op.split(".")[1]
    if not is_float(node.output):
        return Effect.unbounded(f"{name} into a tensor of {node.output.dtype} rounds, a jump")
    if any(count_refs(node.get(key)) for key in ("index", "indices")):
        return Effect.unsupported(f"{name} at data-dependent places jumps")
    target = data(node, "self").shape
    if torch.Size(target).numel() > PROBE_LIMIT:
        return Effect.unsupported(
            f"counting what {name} adds takes more than {PROBE_LIMIT} elements; audit a smaller input"
        )
    return _COUNTS[node.op](node, torch.zeros(target, dtype=torch.int64))


def _scattered(node: Node, zeros: torch.Tensor) -> torch.Tensor:
    index, axis = _places(node, "index"), int(number(node, "dim"))
    return zeros.scatter_add(axis, index, torch.ones_like(index))


def _indexed(node: Node, zeros: torch.Tensor) -> torch.Tensor:
    index, axis = _places(node, "index"), int(number(node, "dim"))
    return zeros.index_add(axis, index, torch.ones(data(node, "source").shape, dtype=torch.int64))


def _put(node: Node, zeros: torch.Tensor) -> torch.Tensor:
    indices = [None if i is None else i.value.detach().cpu() for i in node["indices"]]  # type: ignore[union-attr]
    ones = torch.ones((), dtype=torch.int64)
    return torch.ops.aten.index_put.default(zeros, indices, ones, True)  # type: ignore[no-any-return]


def _places(node: Node, key: str) -> torch.Tensor:
    return node[key].value.detach().cpu()  # type: ignore[union-attr]


_COUNTS: dict[str, Callable[[Node, torch.Tensor], torch.Tensor]] = {
    "aten.scatter_add.default": _scattered,
    "aten.scatter_reduce.two": _scattered,
    "aten.index_add.default": _indexed,
    "aten.index_reduce.default": _indexed,
    "aten.index_put.default": _put,
}


def _most(counts: torch.Tensor) -> int:
    return int(counts.max()) if counts.numel() else 0


@operations("aten.scatter_add.default", "aten.index_add.default").constant(
    formula="1 and |alpha| sqrt(largest number of entries at one place); the terms add", source=DIAGONAL, exact=True
)
def scatter_add(node: Node, _settings: Settings) -> Effect:
    """The target, and every entry of the source added to its place."""
    counts = _counts(node)
    if isinstance(counts, Effect):
        return counts
    alpha = Bracket.exact(abs(number(node, "alpha"))) if "alpha" in node.arguments else Bracket.exact(1.0)
    return stretch(node, dict.fromkeys(("src", "source"), alpha * root(_most(counts))) | {"self": 1.0})


def accumulated(node: Node) -> Effect:
    """index_put that accumulates: the target, and every value added to its places.

    The values are broadcast, a map of norm sqrt(copies), then added: the product of the norms.
    """
    counts = _counts(node)
    if isinstance(counts, Effect):
        return counts
    copies = 1
    if count_refs(node["values"]):
        shape = data(node, "values").shape
        written = int(counts.sum()) if counts.numel() else 0
        copies = max(1, written // max(1, torch.Size(shape).numel()))
    factor = root(copies) * root(_most(counts))
    exactly = copies == 1 or _most(counts) <= 1
    return stretch(node, {"self": 1.0, "values": factor if exactly else factor * Bracket(-torch.inf, 0.0)})


@operations("aten.scatter_reduce.two", "aten.index_reduce.default").constant(
    formula="sum: sqrt(c) for c entries at one place; mean: sqrt(c) / (c + 1), 1 / sqrt(c) without the target; amax, amin: 1",
    source=DIAGONAL + "; an extreme is one of the entries",
    exact=True,
)
def scatter_reduce(node: Node, _settings: Settings) -> Effect:
    """Sums, means and extremes of the entries at each place, with or without the entry of the target."""
    kind, included = str(node["reduce"]), bool(node["include_self"])
    counts = _counts(node)
    if isinstance(counts, Effect):
        return counts
    if kind == "prod":
        return Effect.unbounded("a product of entries of the input has no finite constant over all inputs")
    covered = counts.numel() > 0 and int(counts.min()) > 0
    kept = float(included or not covered)  # what is written over does not count
    source: Bracket | float
    if kind in ("amax", "amin"):
        source = 1.0 if _most(counts) else 0.0
        return stretch(node, {"self": kept, "src": source, "source": source}, Combination.ROOT_SUM_SQUARES)
    if kind == "sum":
        source = root(_most(counts))
        return stretch(node, {"self": kept, "src": source, "source": source})
    total = (counts + included).clamp(min=1).to(torch.float64)
    source = _largest(counts.to(torch.float64).sqrt() / total)
    target = _largest(torch.where(counts > 0, float(included) / total, 1.0))
    return stretch(node, {"self": target, "src": source, "source": source})


def _largest(values: torch.Tensor) -> Bracket:
    return rounded(float(values.max())) if values.numel() else Bracket.exact(0.0)
