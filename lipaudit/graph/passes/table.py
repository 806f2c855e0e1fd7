"""Every pass over a captured graph, in the order in which they run and enable each other.

A pass rewrites a graph. There are two kinds.

*Equal in value*: the new graph computes the same numbers. Networks and exporters write the same operation in many ways; these passes
remove identities, and what arrives written out becomes one operation that has a rule. Biases, shifts and masks stay, so that the result
can be evaluated (:mod:`lipaudit.graph.evaluate`) and equals the network. Intervals and magnitudes of values are bounded on this graph.

*Equal on differences*: f(x) - f(y) stays what it was for all inputs x and y, and f itself may change. Constant shifts go, linear maps
carry their weights, scales are folded into them. A Lipschitz constant needs no more, and a product of matrices has a norm of at most
the product of their norms, mostly a smaller one. The rules bound the operations of this graph.

All passes of the first kind run before those of the second: clamp(x + 3, 0, 6) is not clamp(x, 0, 6) inside a product. Before the table
runs, operations without a rule are written as several others (:mod:`lipaudit.graph.passes.decomposition`), and in an audit of the
structure alone other numbers stand for the weights (:mod:`lipaudit.graph.passes.unknown_weights`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from lipaudit.graph.aliases import resolve_aliases
from lipaudit.graph.node import Graph
from lipaudit.graph.passes import (
    activations,
    attention,
    constant_sums,
    elementwise,
    filter_convolutions,
    fourier_filters,
    linear_maps,
    local_response_norm,
    max_min_pairs,
    normalization,
    padded_pairs,
    padding,
    permuted_concatenation,
    power_means,
    radial,
    roll,
    sector_pairs,
    softmax,
    sorted_gathers,
)
from lipaudit.graph.passes.constant_shifts import drop_shifts
from lipaudit.graph.passes.identities import drop_identities
from lipaudit.graph.passes.inexact_constants import with_lost_constants
from lipaudit.graph.passes.parallel_branches import merge_branches
from lipaudit.graph.passes.read_back import drop_read_back
from lipaudit.graph.passes.scale_folding import fold_scales
from lipaudit.graph.pattern import OTHER_OPERATION, GraphIndex, Match, Matcher, NoMatch, match_all, replace_patterns

MatcherOf = Callable[[GraphIndex], Matcher]


class Equality(StrEnum):
    """In what the graph behind a pass equals the graph before it."""

    VALUE = "value"
    DIFFERENCES = "differences"


@dataclass(frozen=True)
class Pass:
    """One pass: ``formula`` is what it rests on; ``matcher`` is what it recognises, None for a pass that is no set of patterns."""

    name: str
    formula: str
    equality: Equality
    run: Callable[[Graph], Graph]
    matcher: MatcherOf | None = None

    @classmethod
    def of_patterns(cls, name: str, formula: str, equality: Equality, matcher: MatcherOf) -> Pass:
        """A pass that puts every match in place."""
        return cls(name, formula, equality, partial(replace_patterns, matcher_of=matcher), matcher)


_VALUE, _DIFFERENCES = Equality.VALUE, Equality.DIFFERENCES
IDENTITIES = Pass("identities", "clone(x) = x, dropout(x) = x in evaluation mode", _VALUE, drop_identities)
READ_BACK = Pass("read back", "slice(slice_scatter(x, y)) = y", _VALUE, drop_read_back)
SPELLINGS = Pass("spellings", "flipud(x) = flip(x, 0), squeeze(x) = reshape(x)", _VALUE, resolve_aliases)
CONSTANT_SHIFTS = Pass("constant shifts", "(f(x) + c) - (f(y) + c) = f(x) - f(y)", _DIFFERENCES, drop_shifts)
LINEAR_MAPS = Pass.of_patterns("linear maps", "(W x + b) - (W y + b) = W x - W y", _DIFFERENCES, linear_maps.matcher)
PADDING = Pass.of_patterns("padding", "K * pad(x) is a convolution with borders", _DIFFERENCES, padding.matcher)
SCALES = Pass("scales", "S (W x) = (S W) x, W (S x) = (W S) x", _DIFFERENCES, fold_scales)

PASSES = (
    SPELLINGS,
    IDENTITIES,
    READ_BACK,
    Pass.of_patterns("cyclic shifts", "cat(x[k:], x[:k]) = roll(x, -k)", _VALUE, roll.matcher),
    Pass.of_patterns("softmax", "exp(x - c) / sum(exp(x - c)) = softmax(x)", _VALUE, softmax.matcher),
    Pass.of_patterns("constant sums", "sum(softmax(x)) = 1", _VALUE, constant_sums.matcher),
    Pass.of_patterns(
        "normalisations",
        "z / sqrt(mean(z^2) + e), z / max(||z||, e), z / (||z|| + e) with z = x or x - mean(x)",
        _VALUE,
        normalization.matcher,
    ),
    Pass.of_patterns("attention", "softmax(s q k^T + b) v", _VALUE, attention.matcher),
    Pass.of_patterns(
        "local response normalisation", "x_i / (k + a sum_j x_j^2)^b", _VALUE, local_response_norm.matcher
    ),
    Pass.of_patterns("radial functions", "f(||z||) and phi(||z||) z / ||z||", _VALUE, radial.matcher),
    Pass.of_patterns("filters by frequency", "irfft(M_w rfft(x)_w)", _VALUE, fourier_filters.matcher),
    Pass.of_patterns("hypot of one tensor", "hypot(a, b) = sqrt(a^2 + b^2)", _VALUE, power_means.hypot_matcher),
    Pass.of_patterns("power means", "(A |u|^p + e)^(1/p)", _VALUE, power_means.matcher),
    Pass.of_patterns("sorted gathers", "gather(x, argsort(x)) = sort(x)", _VALUE, sorted_gathers.matcher),
    Pass.of_patterns("choices by comparison", "where(a > b, a, b) = max(a, b)", _VALUE, max_min_pairs.choice_matcher),
    Pass.of_patterns(
        "ordered pairs", "cat(max(a, b), min(a, b)) sorts pairs of cat(a, b)", _VALUE, max_min_pairs.matcher
    ),
    Pass.of_patterns(
        "pairs on sectors", "cat(a(x, y), b(x, y)) is linear on sectors of the plane", _VALUE, sector_pairs.matcher
    ),
    Pass.of_patterns(
        "activations", "polynomials in x and in one function of x, such as x sigmoid(x)", _VALUE, activations.matcher
    ),
    Pass.of_patterns("element-wise functions", "a composition of functions of each entry", _VALUE, elementwise.matcher),
    Pass.of_patterns(
        "permuted concatenation", "cat(x[i], x[j]) = x[cat(i, j)]", _VALUE, permuted_concatenation.matcher
    ),
    Pass.of_patterns(
        "pairs with a copy", "of an odd number of channels all but the last are in pairs", _VALUE, padded_pairs.matcher
    ),
    CONSTANT_SHIFTS,
    Pass.of_patterns(
        "filters as convolutions", "irfft(M_w rfft(x)_w) = irfft(M) * x", _DIFFERENCES, filter_convolutions.matcher
    ),
    LINEAR_MAPS,
    PADDING,
    SCALES,
    Pass("parallel branches", "K x + L x = (K + L) x", _DIFFERENCES, merge_branches),
)


def recognise(graph: Graph) -> Graph:
    """The passes that are equal in value: a captured graph in the operations that the rules know."""
    return with_lost_constants(resolve_aliases(graph), _run(graph, Equality.VALUE))


def fold(graph: Graph) -> Graph:
    """The passes that are equal on differences, of a recognised graph."""
    return _run(graph, Equality.DIFFERENCES)


def simplify(graph: Graph) -> Graph:
    """Every pass."""
    return fold(recognise(graph))


def _run(graph: Graph, equality: Equality) -> Graph:
    for each in PASSES:
        if each.equality is equality:
            graph = each.run(graph)
    return graph


@dataclass(frozen=True)
class Answer:
    """What a pass said of a node where such a pattern could end: a match, or why it is none."""

    name: str
    node: str
    answer: Match | NoMatch

    def __str__(self) -> str:
        said = self.answer.reason if isinstance(self.answer, NoMatch) else "recognised"
        return f"{self.name} at {self.node}: {said}"


def explain(graph: Graph) -> Iterator[Answer]:
    """For developers: what every pass says of every node of a captured graph at which its patterns could end.

    >>> import torch
    >>> from lipaudit.graph.node import Node, Ref, TensorInfo
    >>> info = TensorInfo((1, 2), torch.float32)
    >>> nodes = (
    ...     Node("x", "input", {}, (info,)),
    ...     Node("gate", "aten.sigmoid.default", {"self": Ref("x", info)}, (info,)),
    ...     Node("swish", "aten.mul.Tensor", {"self": Ref("x", info), "other": Ref("gate", info)}, (info,)),
    ... )
    >>> for answer in explain(Graph(nodes, ("x",), ("swish",))):
    ...     if answer.name in ("normalisations", "activations"):
    ...         print(answer)
    normalisations at swish: not the rows of one tensor by their own size with an epsilon
    activations at swish: recognised
    """
    for each in PASSES:
        if each.matcher is not None:
            for node, answer in match_all(graph, each.matcher):
                if answer is not OTHER_OPERATION:
                    yield Answer(each.name, node.name, answer)
        graph = each.run(graph)
