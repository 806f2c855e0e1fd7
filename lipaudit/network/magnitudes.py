"""How large the tensors of a network can become on a domain: centres, radii and intervals of all nodes.

The simplified graph carries the radii, because it has the norms. Where it drops shifts or folds scales its values differ
from the network's by constants, so that centres and intervals come from the recognised graph, which equals the network;
nodes that read magnitudes have the same names and operands in both. A centre is evaluated only where a finite radius
makes it worth something. Source: bounds.md section 6.
"""

from __future__ import annotations

import math
from collections import Counter

import torch

from lipaudit.errors import GraphError
from lipaudit.graph.evaluate import Value, evaluate
from lipaudit.graph.node import Graph, Node, Ref
from lipaudit.network.domain import Domain
from lipaudit.network.rounding import error_of
from lipaudit.rules.effect import Effect, Status
from lipaudit.rules.region.magnitude import Magnitude, Region
from lipaudit.rules.region.radii import Radii
from lipaudit.rules.rule import interval_of, radii_of, region_of
from lipaudit.spectral.interval import Interval


class Extents:
    """Magnitudes of the nodes of a network, filled in topological order by :meth:`record`; ``graph`` is the recognised graph."""

    def __init__(self, recognised: Graph, domain: Domain, structure: bool = False) -> None:
        self.graph = recognised
        self._nodes = {node.name: node for node in recognised}
        self._domain = domain
        self._radii: dict[str, tuple[Radii, ...]] = {}
        self._intervals = _intervals(recognised)
        self._centres = _Centres(recognised, domain, structure)

    def operands(self, node: Node) -> tuple[Magnitude, ...]:
        """The magnitudes of what a node of the simplified graph reads."""
        twin = self._nodes.get(node.name)
        refs = twin.refs if twin is not None and len(twin.refs) == len(node.refs) else node.refs
        return tuple(self._magnitude(node, ref, own) for ref, own in zip(node.refs, refs, strict=True))

    def _magnitude(self, node: Node, ref: Ref, own: Ref) -> Magnitude:
        radii = self._radii[ref.name]
        index = node["index"] if node.op == "getitem" else 0
        known = radii[index] if isinstance(index, int) and index < len(radii) else Radii(ref.info.shape)
        if known.shape != ref.info.shape:
            known = Radii(ref.info.shape)
        interval, centres = self._intervals.get(own.name, Interval()), self._centres
        return Magnitude(known, interval, lambda: centres.of(own.name), lambda: centres.error_of(own.name))

    def record(self, node: Node, effect: Effect | None) -> None:
        """Note what is known of a node's outputs; ``effect`` is None for a network input."""
        if effect is None:
            self._radii[node.name] = (self._domain.radii.get(node.name, Radii(node.output.shape)),)
            return
        self._centres.effects[node.name] = effect
        operands = self.operands(node)
        nothing = tuple(Radii(o.shape) for o in node.outputs)
        radii = radii_of(node, effect, operands) if effect.status is Status.FINITE else nothing
        for region in (region_of(node, operands), self._between(node)):
            if region is not None and region.radii[0].total.log_upper < radii[0].total.log_upper:
                radii = region.radii
                self._centres.override(node.name, region.centre)
                break
        self._radii[node.name] = radii

    def _between(self, node: Node) -> Region | None:
        """The region between the ends of the interval of a bounded node that has the same value in both graphs."""
        if len(node.outputs) != 1 or node.payload is not None or not node.output.dtype.is_floating_point:
            return None
        interval = self._intervals.get(node.name, Interval())
        if interval.largest == math.inf:
            return None
        middle = interval.low / 2 + interval.high / 2
        return Region((Radii.of(node.output.shape, {(): (interval - middle).largest}),), middle)

    def radii(self, name: str) -> Radii:
        """The radii of a node's first output."""
        return self._radii[name][0]

    def centre(self, name: str) -> torch.Tensor | None:
        """The centre of a node of the recognised graph that has one output."""
        return self._centres.of(name)


def _intervals(graph: Graph) -> dict[str, Interval]:
    intervals: dict[str, Interval] = {}
    nodes = {node.name: node for node in graph}
    for node in graph:
        index, read = None, node
        if node.op == "getitem" and isinstance(node["index"], int):
            index, read = node["index"], nodes[node.refs[0].name]
        before = tuple(intervals[ref.name] for ref in read.refs)
        intervals[node.name] = Interval() if read.op == "input" else interval_of(read, before, index)
    return intervals


class _Centres:
    """Centres of the nodes of a recognised graph, evaluated in float64 on demand and dropped after their last use."""

    def __init__(self, graph: Graph, domain: Domain, structure: bool) -> None:
        self._nodes = {node.name: node for node in graph}
        self._position = {node.name: i for i, node in enumerate(graph)}
        self._domain = domain
        self._structure = structure
        self._values: dict[str, Value] = {}
        self._errors: dict[str, Value] = {}
        self.effects: dict[str, Effect] = {}  # constants on the domain, by which rounding errors are passed on
        self._overrides: dict[str, torch.Tensor | float] = {}
        self._waiting = Counter(ref.name for node in graph for ref in node.refs)
        self._evaluated: set[str] = set()

    def override(self, name: str, centre: torch.Tensor | float) -> None:
        """Set the centre of a node; what follows is evaluated from it."""
        self._overrides[name] = centre
        self._values.pop(name, None)
        self._errors.pop(name, None)

    def of(self, name: str) -> torch.Tensor | None:
        """The centre of a node with one output; None without weights."""
        if self._structure:
            return None
        with torch.no_grad():
            value = self._evaluate(name)
        if not isinstance(value, torch.Tensor):
            raise GraphError(f"{name} has several outputs, and one of them is read without saying which")
        return value

    def error_of(self, name: str) -> torch.Tensor | None:
        """How far the centre of such a node may be from the exact one, entry by entry; None without weights."""
        if self.of(name) is None:
            return None
        error = self._errors[name]
        assert isinstance(error, torch.Tensor)
        return error

    def _evaluate(self, wanted: str) -> Value:
        pending, seen = [wanted], set[str]()
        order: list[str] = []
        while pending:
            name = pending.pop()
            if name in seen or name in self._values:
                continue
            seen.add(name)
            order.append(name)
            if name not in self._overrides:
                pending += [ref.name for ref in self._nodes[name].refs]
        for name in sorted(order, key=self._position.__getitem__):
            node = self._nodes[name]
            self._values[name] = value = self._value(node)
            self._errors[name] = self._error(node, value)
            if name not in self._evaluated and name not in self._overrides:
                self._evaluated.add(name)
                self._release(node, wanted)
        return self._values[wanted]

    def _value(self, node: Node) -> Value:
        fixed = self._overrides.get(node.name)
        if isinstance(fixed, torch.Tensor):
            return fixed
        if fixed is not None:
            return torch.full(node.output.shape, fixed, dtype=torch.float64)
        if node.op == "input":
            known = self._domain.centres.get(node.name)
            return torch.zeros(node.output.shape, dtype=torch.float64) if known is None else known
        return evaluate(node, self._values, torch.float64)

    def _error(self, node: Node, value: Value) -> Value:
        if node.op == "input" or node.name in self._overrides:
            assert isinstance(value, torch.Tensor)
            return torch.zeros(value.shape, dtype=torch.float64)
        return error_of(node, self._values, self._errors, value, self.effects.get(node.name))

    def _release(self, node: Node, wanted: str) -> None:
        """Drop the values that no node is left to read; one that is asked for again is evaluated again."""
        for ref in node.refs:
            self._waiting[ref.name] -= 1
            if self._waiting[ref.name] <= 0 and ref.name != wanted:
                self._values.pop(ref.name, None)
                self._errors.pop(ref.name, None)
