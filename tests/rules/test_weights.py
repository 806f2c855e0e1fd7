"""Every norm that a rule asks for is that of a weight which ``lipaudit.graph.weights`` lists: no weight misses cache and batches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

import lipaudit.rules  # noqa: F401  registers the rules
from lipaudit.graph.node import Graph, Node
from lipaudit.graph.passes.table import fold
from lipaudit.graph.weights import Weight, weights_of
from lipaudit.rules.effect import Settings
from lipaudit.rules.rule import apply_rule
from lipaudit.spectral.bracket import Bracket
from lipaudit.spectral.fingerprint import content_key
from lipaudit.spectral.linear_map import LinearMap, OperatorNorm
from tests.rules.ops.cases import Case, all_cases


@dataclass
class RecordedNorms:
    """Every norm is 1; ``keys`` are the contents of the linear maps that were asked for."""

    tolerance: float = 1e-3
    weights_known: bool = True
    keys: set[bytes] = field(default_factory=set)

    def norm(self, linear: LinearMap) -> OperatorNorm:
        self.keys.add(content_key(linear))
        return OperatorNorm(Bracket.exact(1.0))


def simplified(case: Case) -> list[Node]:
    """The operation of a case in a simplified graph."""
    node = case.build().node
    inputs = {ref.name: Node(ref.name, "input", {}, (ref.info,)) for ref in node.refs}
    return fold(Graph((*inputs.values(), node), tuple(inputs), (node.name,))).nodes[len(inputs) :]  # type: ignore[return-value]


def asked(nodes: list[Node]) -> set[bytes]:
    norms = RecordedNorms()
    for node in nodes:
        apply_rule(node, Settings(norms))
    return norms.keys


def listed(weights: Iterable[Weight]) -> set[bytes]:
    return {content_key(linear_map) for weight in weights for linear_map in weight.linear_maps()}


CASES = [case for case in all_cases() if case.op != "lipaudit.uncaptured" and asked([case.build().node])]


def test_many_operations_have_weights() -> None:
    operations = {case.op for case in CASES}
    assert {"aten.conv2d.default", "aten.bmm.default", "aten.einsum.default", "aten.lstm.input"} <= operations
    assert len(operations) > 20


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_what_a_rule_asks_for_is_listed(case: Case) -> None:
    nodes = simplified(case)
    wanted = asked(nodes)
    assert wanted
    assert wanted <= listed(weight for node in nodes for weight in weights_of(node))
