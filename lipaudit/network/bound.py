"""What an upper bound of the whole network is: the problem that it is given and the result that it returns.

A network bound is a function of a :class:`Problem` that returns a :class:`NetworkBound` or says why it has none
(:class:`NotApplicable`). Each is one file of this package and one line in the table of :mod:`lipaudit.network.bounds`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from lipaudit.graph.node import Graph
from lipaudit.network.domain import Domain
from lipaudit.network.forms.certificate import Certificate
from lipaudit.network.forms.watch import Watch
from lipaudit.network.magnitudes import Extents
from lipaudit.network.propagate import Propagation, Value
from lipaudit.spectral.oracle import Norms


@dataclass(frozen=True)
class Problem:
    """What a network bound is computed from.

    Attributes:
        graph: the simplified graph. Its differences f(x) - f(y) are those of the network; its values may be shifted.
        domain: the inputs over which the bound is to hold.
        propagation: the product rule on this domain: the effect of every node (its constants, their rigor) and the constant of every
            node with respect to the network's input.
        extents: centres, radii and intervals of every node on this domain.
        norms: how the norms of linear maps are found; ``norms.weights_known`` is False where only statuses are asked for.
        work: floating-point operations that one bound may spend beyond what the product rule costs, by formula and not by time, so that
            a bound is the same on every machine. A bound that needs more stops with what it has, or is not applicable.
        certificate: what to prove a bound by forms from, in the place of a search.
        watch: who follows a search, and may end it.
        warm_start: a certificate of an earlier checkpoint, whose numbers a search over all inputs starts from.
    """

    graph: Graph
    domain: Domain
    propagation: Propagation
    extents: Extents
    norms: Norms
    work: float = 0.0
    certificate: Certificate | None = None
    watch: Watch = field(default_factory=Watch, compare=False)
    warm_start: Certificate | None = None


@dataclass(frozen=True)
class SegmentFactor:
    """A part of a network between two cuts, and its factor in a bound that is the product of all parts' factors.

    Attributes:
        inputs: the nodes that it reads.
        output: the node at its end.
        operations: how many nodes it has.
        form: where its quadratic form lives: "entries", "frequencies", or "constant" where it has none.
        log_factor: the natural logarithm of its factor between the metrics at its two ends.
        log_product: of the constant that the product rule gives the part.
    """

    inputs: tuple[str, ...]
    output: str
    operations: int
    form: str
    log_factor: float
    log_product: float


@dataclass(frozen=True)
class NetworkBound:
    """Upper bounds of the network's Lipschitz constant that one method found on one domain.

    Attributes:
        name: the method's name in the table of network bounds.
        network: of all outputs taken as one vector: status, natural logarithm of the upper bound, rigor.
        outputs: the same for every output by itself, by the name of its node.
        note: a short remark for the report.
        certificate: where the numbers that prove the bound are kept, empty if the bound needs none.
        segments: the parts whose factors make up the bound, from the inputs to the outputs; empty for a method without any.
        proof: the numbers that prove the bound, where it needs some.
        interrupted: whether its search was ended before its work was used up.
    """

    name: str
    network: Value
    outputs: Mapping[str, Value]
    note: str = ""
    certificate: str = ""
    segments: tuple[SegmentFactor, ...] = ()
    proof: Certificate | None = field(default=None, compare=False)
    interrupted: bool = False


@dataclass(frozen=True)
class NotApplicable:
    """Why a method has no bound of this network.

    Attributes:
        name: the method's name in the table of network bounds.
        reason: one sentence for the report.
    """

    name: str
    reason: str


Result: TypeAlias = NetworkBound | NotApplicable
BoundFunction: TypeAlias = Callable[[Problem], Result]
