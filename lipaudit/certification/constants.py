"""Lipschitz constants of the differences f_i - f_j of two logits, over all inputs and on balls, and how far these can fall on balls.

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
from lipaudit.network.domain import GLOBAL, Domain, ball
from lipaudit.network.local.bound import linearise
from lipaudit.network.local.linearise import NotLinearisableError
from lipaudit.network.magnitudes import Extents
from lipaudit.network.propagate import Propagation, Value, propagate
from lipaudit.network.shortcuts import find_shortcuts
from lipaudit.rules.effect import Effect, Settings, Status
from lipaudit.rules.rule import apply_rule
from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.rounding import UNIT_ROUNDOFF

# Searches for a bound of their own are for so many pairs of classes; with more of them the bounds of logits and features count.
MOST_PAIRS = 64
# Operations that the bounds on one ball may take.
_BALL_WORK = 1e11
# What norms of rows, products and sums of a few numbers may round, generously.
_ROUNDING = 1 + 2.0**-40
Pair = tuple[int, int]
LARGEST = 1e300
"""What stands for a distance without a limit."""


@dataclass(frozen=True)
class PairBound:
    """An upper bound of Lip(f_i - f_j) in plain units, infinite where there is none; its rigor, and what it was derived from."""

    upper: float
    rigor: Rigor = Rigor.CERTIFIED
    method: str = ""


@dataclass(frozen=True)
class BallBound:
    """Bounds of g = f_i - f_j on a ball of radius R around the image c, of which the one that certifies more counts:

    |g(x) - g(c)| <= lipschitz ||x - c||,   g(x) - g(c) >= -(linear ||x - c|| + excess),   g(c) >= least.
    """

    lipschitz: float
    linear: float = 0.0
    excess: float = math.inf
    least: float = math.inf

    def reach(self, margin: float) -> float:
        """The distance within which g keeps its sign, if the ball is that large and g(c) is at least the margin: rounded down."""
        margin = min(margin, self.least)
        left = (margin - self.excess) * (1 - 2.0**-50)
        return max(quotient(margin, self.lipschitz), quotient(left, self.linear))

    def slope(self, radius: float) -> float:
        """A bound of (g(c) - g(x)) / radius for every x within the radius, which is not above R."""
        return min(self.lipschitz, (self.linear + self.excess / radius) * _ROUNDING if radius > 0 else math.inf)


def quotient(margin: float, constant: float) -> float:
    """margin / L rounded down: 0 for an infinite constant, the largest float for a constant of 0."""
    if margin <= 0 or math.isinf(constant):
        return 0.0
    return min(margin / constant * (1 - 2.0**-50), LARGEST) if constant > 0 else LARGEST


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
    """Finds bounds of pairs of classes.

    Args:
        classifier: the network.
        constants: the norms and effects of the nodes of ``classifier.simple``.
        work: operations that the search for a tighter bound of the logits may take; features and all pairs together take a third each.
    """

    def __init__(self, classifier: Classifier, constants: LayerConstants, work: float = 0.0) -> None:
        self.classifier = classifier
        self._constants = constants
        self._work = work
        self._shortcuts = find_shortcuts(classifier.simple, constants.effects, constants.norms, work)
        self._wider: Propagation | None = None

    def everywhere(self, progress: Callable[[int, int], None] | None = None) -> GlobalBounds:
        """The bounds over all inputs; ``progress`` is told how many pairs are done."""
        classifier, count = self.classifier, self.classifier.classes
        share = self._work / 3
        logits = self._solve(classifier.simple, self._work)
        features = self._solve(classifier.features, share)
        pairs = list(combinations(range(count), 2)) if count * (count - 1) // 2 <= MOST_PAIRS else []
        found = {}
        for number, pair in enumerate(pairs):
            if progress is not None:
                progress(number, len(pairs))
            alone = self._alone(pair, features, share / len(pairs))
            found[pair] = smaller(derived(classifier.weight, pair, logits, features), alone)
        return GlobalBounds(classifier.weight, logits, features, found)

    def around(self, image: torch.Tensor, radius: float, decision: int) -> dict[int, BallBound]:
        """The bounds of f_decision - f_j for every other class j on the ball around an image, (1, ...).

        The constants are those of the product rule on the ball, or the norms of the gradients of these differences over it. How far the
        differences can fall below those at the image follows from the network with lines in the place of its operations, and from what
        operations differ by from their lines (:mod:`lipaudit.network.local.linearise`). As the radius falls to 0 both tend to the norm of
        the gradient at the image. Both, and the least value of a difference at the image, hold whatever rounding does to the values there
        (:mod:`lipaudit.network.rounding`): no unit is taken to be on or off because of a value that is nearer to its kink than that.
        """
        (name,) = self.classifier.simple.inputs
        if self._wider is None:
            self._wider = self._problem(self.classifier.simple, GLOBAL, None, 0.0).propagation
        problem = self._problem(self.classifier.simple, ball({name: image}, radius), self._wider, _BALL_WORK)
        values = problem.propagation.values
        logits, features = (
            _bound(values[name], "product") for name in (self.classifier.simple.outputs[0], self.classifier.read.name)
        )
        others = [j for j in range(self.classifier.classes) if j != decision]
        products = {j: derived(self.classifier.weight, ordered(decision, j), logits, features).upper for j in others}
        try:
            lines = linearise(problem, chords=True)
        except NotLinearisableError:
            return {j: BallBound(product) for j, product in products.items()}
        unit = torch.eye(self.classifier.classes, dtype=torch.float64)
        logits_at = lines.outputs(self.classifier.recognised.outputs)
        differences = unit[decision] - unit[others]
        found = lines.bounds(logits_at, differences)
        least = differences @ logits_at.detach() - found.error * _ROUNDING
        columns = (found.gradients, found.linear, found.below, found.error, least)
        return {
            j: BallBound(
                min(products[j], gradient * _ROUNDING),
                linear,
                max(below * _ROUNDING - linear * radius, 0.0) + error * _ROUNDING,
                lowest,
            )
            for j, gradient, linear, below, error, lowest in zip(others, *(c.tolist() for c in columns), strict=True)
        }

    def _alone(self, pair: Pair, features: PairBound, work: float) -> PairBound:
        """The bound of the network that ends with the difference of the two rows."""
        bound = self._solve(self.classifier.pair(*pair), work)
        lost = _product(row_error(self.classifier.weight, pair), features.upper)
        return PairBound((bound.upper + lost) * _ROUNDING, Rigor.weakest((bound.rigor, features.rigor)), bound.method)

    def _solve(self, graph: Graph, work: float) -> PairBound:
        found = least(network_bounds(self._problem(graph, GLOBAL, None, work)), graph.outputs)
        return _bound(found.network, found.name)

    def _problem(self, graph: Graph, domain: Domain, wider: Propagation | None, work: float) -> Problem:
        extents = Extents(self.classifier.recognised, domain)
        propagation = propagate(graph, self._effects(graph), extents, wider, self._shortcuts)
        return Problem(graph, domain, propagation, extents, self._constants.norms, work)

    def _effects(self, graph: Graph) -> dict[str, Effect]:
        """The effects of a graph's nodes, of which all but a difference of two rows are known."""
        known, settings = self._constants.effects, Settings(self._constants.norms)
        nodes = [node for node in graph if node.op != "input"]
        return {node.name: known.get(node.name) or apply_rule(node, settings) for node in nodes}


def _bound(value: Value, method: str) -> PairBound:
    if value.status is not Status.FINITE or value.rigor is Rigor.ESTIMATE:
        return PairBound(math.inf)
    return PairBound(Bracket(-math.inf, value.log_upper).upper, value.rigor, method)


def smaller(first: PairBound, second: PairBound) -> PairBound:
    """The smaller of two bounds of one constant, the first of equal ones."""
    return second if second.upper < first.upper else first


def _product(factor: float, constant: float) -> float:
    """A product of two bounds, rounded up; 0 times infinity is infinite, because nothing is known of the second."""
    return math.inf if math.isinf(constant) else factor * constant * _ROUNDING
