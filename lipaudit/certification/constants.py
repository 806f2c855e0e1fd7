"""Lipschitz constants of the differences f_i - f_j of two logits, over all inputs and on balls.

With logits f = W phi + b three bounds are known, of which the least counts:

    Lip(f_i - f_j) <= sqrt(2) Lip(f),   Lip(f_i - f_j) <= ||w_i - w_j|| Lip(phi),   and those of the network that ends in w_i - w_j.

The first is Cauchy and Schwarz with ||e_i - e_j|| = sqrt(2), the second the product rule. The third is bounded by every method of
:mod:`lipaudit.network.bounds`, as if that network were audited. Where W is known up to a relative error e per entry,
||delta|| Lip(phi) with ||delta|| <= e (||w_i|| + ||w_j||) is added to what is computed with the difference of the rows at hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations

import torch

from lipaudit.auditing.constants import LayerConstants
from lipaudit.certification.classifier import Classifier, row_difference
from lipaudit.graph.linear import Dense
from lipaudit.graph.node import Graph
from lipaudit.network.bound import Problem
from lipaudit.network.bounds import least, network_bounds
from lipaudit.network.domain import GLOBAL, Domain
from lipaudit.network.magnitudes import Extents
from lipaudit.network.propagate import Propagation, propagate
from lipaudit.rules.effect import Effect, Settings, Status
from lipaudit.rules.rule import apply_rule
from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.rounding import UNIT_ROUNDOFF

# Searches for a bound of their own are for so many pairs of classes; with more of them the bounds of logits and features count.
MOST_PAIRS = 64
# What norms of rows, products and sums of a few numbers may round, generously.
_ROUNDING = 1 + 2.0**-40
_LOGITS, _FEATURES = "logits", "features"
Pair = tuple[int, int]


@dataclass(frozen=True)
class PairBound:
    """An upper bound of Lip(f_i - f_j) in plain units, infinite where there is none; its rigor, and what it was derived from."""

    upper: float
    rigor: Rigor = Rigor.CERTIFIED
    method: str = ""


@dataclass(frozen=True, eq=False)
class GlobalBounds:
    """Bounds over all inputs: of the logits together, of the features, and of the pairs that were searched for one by one.

    ``weight`` is the last matrix.
    """

    weight: Dense
    logits: PairBound
    features: PairBound
    pairs: Mapping[Pair, PairBound]

    def of(self, first: int, second: int) -> PairBound:
        """The bound of a pair, in either order."""
        pair = ordered(first, second)
        return self.pairs.get(pair) or derived(self.weight, pair, self.logits, self.features)

    def rigor(self) -> Rigor:
        """The weakest rigor among all that have a bound."""
        known = (self.logits, self.features, *self.pairs.values())
        return Rigor.weakest(bound.rigor for bound in known if math.isfinite(bound.upper))


def ordered(first: int, second: int) -> Pair:
    """The pair with its smaller class first."""
    return (first, second) if first < second else (second, first)


def derived(weight: Dense, pair: Pair, logits: PairBound, features: PairBound) -> PairBound:
    """The bound of a pair that follows from those of the logits and of the features on one domain."""
    row = float(torch.linalg.vector_norm(row_difference(weight, *pair))) * _ROUNDING
    of_logits = PairBound(_product(math.sqrt(2), logits.upper), logits.rigor, logits.method)
    of_features = PairBound(_product(row + row_error(weight, pair), features.upper), features.rigor, features.method)
    return smaller(of_features, of_logits)


def row_error(weight: Dense, pair: Pair) -> float:
    """How far w_i - w_j may be from what the stored numbers define: e (||w_i|| + ||w_j||) for a relative error e per entry."""
    sizes = sum(float(torch.linalg.vector_norm(weight.weight[i].to(torch.float64))) for i in pair)
    return 2 * (weight.error + UNIT_ROUNDOFF) * sizes


class PairConstants:
    """Finds bounds of pairs of classes (i, j), i < j.

    Args:
        classifier: the network.
        constants: the norms and effects of the nodes of ``classifier.simple``.
    """

    def __init__(self, classifier: Classifier, constants: LayerConstants) -> None:
        self.classifier = classifier
        self._constants = constants
        self._extents = Extents(classifier.recognised, GLOBAL)
        self._everywhere: dict[str | Pair, Propagation] = {}

    def everywhere(self, work: float, progress: Callable[[int, int], None] | None = None) -> GlobalBounds:
        """The bounds over all inputs; searches for tighter ones may take ``work`` operations in all."""
        weight, count = self.classifier.weight, self.classifier.classes
        logits = self._solve(_LOGITS, self.classifier.simple, GLOBAL, self._extents, work / 3)
        features = self._solve(_FEATURES, self.classifier.features, GLOBAL, self._extents, work / 3)
        pairs = list(combinations(range(count), 2)) if count * (count - 1) // 2 <= MOST_PAIRS else []
        found = {}
        for number, pair in enumerate(pairs):
            if progress is not None:
                progress(number, len(pairs))
            alone = self.alone(pair, GLOBAL, self._extents, features, work / 3 / len(pairs))
            found[pair] = smaller(derived(weight, pair, logits, features), alone)
        return GlobalBounds(weight, logits, features, found)

    def alone(self, pair: Pair, domain: Domain, extents: Extents, features: PairBound, work: float = 0.0) -> PairBound:
        """The bound of the network that ends with the difference of the two rows; ``features`` are bounded on the same domain."""
        bound = self._solve(pair, self.classifier.pair(*pair), domain, extents, work)
        lost = _product(row_error(self.classifier.weight, pair), features.upper)
        return PairBound((bound.upper + lost) * _ROUNDING, Rigor.weakest((bound.rigor, features.rigor)), bound.method)

    def on(self, domain: Domain) -> LocalConstants:
        """The bounds on a ball."""
        return LocalConstants(self, domain)

    def whole(self, domain: Domain, extents: Extents) -> tuple[PairBound, PairBound]:
        """The bounds of the logits and of the features on a domain."""
        logits = self._solve(_LOGITS, self.classifier.simple, domain, extents, 0.0)
        return logits, self._solve(_FEATURES, self.classifier.features, domain, extents, 0.0)

    def _solve(self, key: str | Pair, graph: Graph, domain: Domain, extents: Extents, work: float) -> PairBound:
        wider = None
        if domain is not GLOBAL:
            if key not in self._everywhere:
                self._everywhere[key] = propagate(graph, self._effects(graph), self._extents)
            wider = self._everywhere[key]
        propagation = propagate(graph, self._effects(graph), extents, wider)
        problem = Problem(graph, domain, propagation, extents, self._constants.norms, work)
        found = least(network_bounds(problem), graph.outputs)
        value = found.network
        if value.status is not Status.FINITE or value.rigor is Rigor.ESTIMATE:
            return PairBound(math.inf)
        return PairBound(Bracket(-math.inf, value.log_upper).upper, value.rigor, found.name)

    def _effects(self, graph: Graph) -> dict[str, Effect]:
        """The effects of a graph's nodes, of which all but a difference of two rows are known."""
        known, settings = self._constants.effects, Settings(self._constants.norms)
        nodes = [node for node in graph if node.op != "input"]
        return {node.name: known.get(node.name) or apply_rule(node, settings) for node in nodes}


class LocalConstants:
    """Bounds of pairs of classes on one ball, found when they are asked for."""

    def __init__(self, constants: PairConstants, domain: Domain) -> None:
        self._constants = constants
        self._domain = domain
        self._extents = Extents(constants.classifier.recognised, domain)
        self._logits, self._features = constants.whole(domain, self._extents)

    def find(self, pair: Pair, enough: float) -> PairBound:
        """A bound of a pair; a bound of its own is left out where one of at most ``enough`` follows without."""
        bound = derived(self._constants.classifier.weight, pair, self._logits, self._features)
        if bound.upper <= enough:
            return bound
        return smaller(bound, self._constants.alone(pair, self._domain, self._extents, self._features))


def smaller(first: PairBound, second: PairBound) -> PairBound:
    """The smaller of two bounds of one constant, the first of equal ones."""
    return second if second.upper < first.upper else first


def _product(factor: float, constant: float) -> float:
    """A product of two bounds, rounded up; 0 times infinity is infinite, because nothing is known of the second."""
    return math.inf if math.isinf(constant) else factor * constant * _ROUNDING
