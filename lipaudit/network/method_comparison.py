"""The figures of several methods for every layer of one network, each beside a certified bracket of the layer's true norm.

A figure below the certified lower end is provably no upper bound of the layer. Every distinct operator is measured once per method,
and the network's figure is propagated from the same figures, so that its time is that of all its norms.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import count

import torch

from lipaudit.errors import MethodError
from lipaudit.graph.linear import Dense
from lipaudit.graph.node import Graph, Node
from lipaudit.graph.weights import weights
from lipaudit.network.magnitudes import Extents
from lipaudit.network.propagate import Propagation, evaluate_rules, propagate
from lipaudit.rules.effect import Settings, Status
from lipaudit.spectral.bracket import Bracket, round_down
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.convolution.power_iteration import lower_bound
from lipaudit.spectral.fingerprint import content_key
from lipaudit.spectral.linear_map import LinearMap, OperatorNorm
from lipaudit.spectral.oracle import CertifiedNorms, Norms, PublishedNorms
from lipaudit.spectral.precompute import Progress
from lipaudit.spectral.published.registry import Method, Options
from lipaudit.spectral.rounding import as_float64, log_power_of_two, scale_to_unit

# steps of the Lanczos process for the lower end of a convolution's bracket; an audit takes fewer
STEPS = 40
# what torch says in a bare RuntimeError where the system gives it no memory of the CPU
_REFUSED = "DefaultCPUAllocator: can't allocate memory"
_MEMORY = "it needs more memory than there is"


class Outcome(StrEnum):
    """What became of a measurement."""

    MEASURED = "measured"
    UNDEFINED = "undefined"  # the method has no figure for this operator
    SKIPPED = "skipped"  # the method's time was used up


@dataclass(frozen=True)
class Measurement:
    """A figure (None unless measured), the seconds that it took, and why there is none."""

    outcome: Outcome
    bracket: Bracket | None = None
    seconds: float = 0.0
    reason: str = ""


@dataclass(frozen=True)
class TrueNorms(CertifiedNorms):
    """Certified brackets whose lower ends come from a longer Lanczos process."""

    def norm(self, linear: LinearMap) -> OperatorNorm:
        """The certified bracket; the lower end of a convolution is raised where the iteration on the true operator gets further."""
        norm = super().norm(linear)
        if isinstance(linear, torch.Tensor):
            return norm
        ordinary = linear.adjoint() if linear.transposed else linear
        kernel, exponent = scale_to_unit(as_float64(ordinary.kernel), dims=ordinary.kernel.dim())
        log = lower_bound(ordinary.with_kernel(kernel), None, STEPS)
        log = round_down(log + log_power_of_two(float(exponent))[0]) if log > -math.inf else log
        lower = min(max(norm.bracket.log_lower, log), norm.bracket.log_upper)
        return replace(norm, bracket=replace(norm.bracket, log_lower=lower, ends=None))


@dataclass(eq=False)
class TimedNorms:
    """Other norms with a memory and a clock: each distinct operator is measured once, and nothing is once ``limit`` seconds are over.

    An operator without a figure raises :class:`~lipaudit.errors.MethodError`, as the norms themselves do.
    """

    norms: Norms
    limit: float = math.inf
    seconds: float = 0.0
    _known: dict[bytes, Measurement] = field(default_factory=dict)

    @property
    def tolerance(self) -> float:
        """That of the norms."""
        return self.norms.tolerance

    @property
    def weights_known(self) -> bool:
        """As the norms say."""
        return self.norms.weights_known

    @property
    def skipped(self) -> bool:
        """Whether something was not measured for lack of time."""
        return any(measurement.outcome is Outcome.SKIPPED for measurement in self._known.values())

    def measured(self, linear: LinearMap) -> Measurement:
        """The figure of a convolution or a matrix, recalled or measured."""
        key = content_key(linear)
        if key not in self._known:
            self._known[key] = self._measure(lambda: self.norms.norm(linear).bracket)
        return self._known[key]

    def norm(self, linear: LinearMap) -> OperatorNorm:
        """See :class:`~lipaudit.spectral.oracle.Norms`."""
        measurement = self.measured(linear)
        if measurement.bracket is None:
            raise MethodError(measurement.reason)
        return OperatorNorm(measurement.bracket)

    def _measure(self, measure: Callable[[], Bracket]) -> Measurement:
        if self.seconds >= self.limit:
            return Measurement(Outcome.SKIPPED, reason=f"the time limit of {self.limit:g} s was used up")
        begin = time.perf_counter()
        bracket, reason = None, ""
        try:
            bracket = measure()
        except MethodError as error:
            reason = str(error)
        except (MemoryError, torch.OutOfMemoryError):
            reason = _MEMORY
        except RuntimeError as error:
            if _REFUSED not in str(error):
                raise
            reason = _MEMORY
        seconds = time.perf_counter() - begin
        self.seconds += seconds
        return Measurement(Outcome.UNDEFINED if bracket is None else Outcome.MEASURED, bracket, seconds, reason)


@dataclass(frozen=True)
class Layer:
    """A convolution or dense layer with its true norm and the figures of the methods by name."""

    node: Node
    linear: Convolution | Dense
    truth: Measurement
    figures: dict[str, Measurement]


@dataclass(frozen=True)
class MethodResult:
    """One method on the whole network: its propagation, the seconds of all its norms, and whether its time was used up."""

    method: Method
    propagation: Propagation
    seconds: float
    skipped: bool


def linear_layers(graph: Graph) -> list[tuple[Node, Convolution | Dense]]:
    """The nodes with a constant kernel or matrix, in topological order."""
    pairs = [(weight.node, weight.linear_map()) for weight in weights(graph)]
    return [(node, linear) for node, linear in pairs if linear is not None]


def weighted_elsewhere(graph: Graph) -> list[Node]:
    """The other nodes whose rules need norms of weights: products with a constant, and recurrent layers."""
    layers = {node.name for node, _ in linear_layers(graph)}
    nodes = {weight.node.name: weight.node for weight in weights(graph)}
    return [node for name, node in nodes.items() if name not in layers]


def compare_methods(
    graph: Graph,
    extents: Callable[[], Extents],
    methods: Sequence[tuple[Method, Options]],
    limit: float = math.inf,
    progress: Progress | None = None,
) -> tuple[list[Layer], list[MethodResult]]:
    """Measure every layer by every method, then bound the network by each.

    Args:
        graph: a simplified graph.
        extents: gives fresh magnitudes on the domain in force.
        methods: what to measure with; the tolerance of the options is that of the true norms as well.
        limit: seconds after which a method measures nothing more; what has begun is finished.
        progress: called as progress(done, total, what) before each measurement.
    """
    nodes = linear_layers(graph)
    tolerance = max((options.tolerance for _, options in methods), default=1e-3)
    total, steps = len(nodes) * (1 + len(methods)), count()

    def figures(name: str, norms: TimedNorms) -> list[Measurement]:
        row = []
        for node, linear in nodes:
            if progress is not None:
                progress(next(steps), total, f"{name} {node.module or node.name}")
            row.append(norms.measured(linear.weight if isinstance(linear, Dense) else linear))
        return row

    truths = figures("true norm", TimedNorms(TrueNorms(tolerance)))
    by_method, results = {}, []
    for method, options in methods:
        norms = TimedNorms(PublishedNorms(method, options), limit)
        by_method[method.name] = figures(method.name, norms)
        effects = evaluate_rules(graph, Settings(norms))
        results.append(MethodResult(method, propagate(graph, effects, extents()), norms.seconds, norms.skipped))
    if progress is not None:
        progress(total, total, "")
    layers = [
        Layer(node, linear, truths[i], {name: row[i] for name, row in by_method.items()})
        for i, (node, linear) in enumerate(nodes)
    ]
    return layers, results


def is_violation(figure: Measurement, truth: Measurement) -> bool:
    """Whether a figure lies below the certified lower end of the true norm."""
    if figure.bracket is None or truth.bracket is None:
        return False
    return figure.bracket.log_upper < truth.bracket.log_lower


def gaps(result: MethodResult, graph: Graph) -> list[str]:
    """Why a method has no figure for the network: its nodes without a finite constant."""
    effects = result.propagation.effects
    return [
        f"{node.module or node.name}: {effects[node.name].reason}"
        for node in graph
        if node.op != "input" and effects[node.name].status is not Status.FINITE
    ]
