"""What rests on an estimated norm is an estimate, in every rule that asks for norms."""

from __future__ import annotations

import pytest

import lipaudit.rules  # noqa: F401  registers the rules
from lipaudit.rules.effect import Settings, Status
from lipaudit.rules.rule import apply_rule
from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.linear_map import LinearMap, OperatorNorm
from lipaudit.spectral.oracle import CertifiedNorms
from tests.rules.ops.cases import Case, all_cases

CASES = [case for case in all_cases() if case.status is Status.FINITE]


class EstimatedNorms(CertifiedNorms):
    """Certified figures that pose as estimates, and how many were asked for."""

    asked = 0

    def norm(self, linear: LinearMap) -> OperatorNorm:
        type(self).asked += 1
        bracket = super().norm(linear).bracket
        return OperatorNorm(Bracket(bracket.log_lower, bracket.log_upper, Rigor.ESTIMATE))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_estimated_norms_make_estimates(case: Case) -> None:
    node = case.build().node
    before = EstimatedNorms.asked
    effect = apply_rule(node, Settings(EstimatedNorms()))
    if EstimatedNorms.asked == before:
        assert effect.rigor is not Rigor.ESTIMATE
    else:
        assert effect.rigor is Rigor.ESTIMATE


def test_rules_do_ask_for_norms() -> None:
    kinds = set()
    for case in CASES:
        before = EstimatedNorms.asked
        apply_rule(case.build().node, Settings(EstimatedNorms()))
        if EstimatedNorms.asked > before:
            kinds.add(case.op)
    assert {
        "aten.lstm.input",
        "aten.gru.input",
        "aten.linear.default",
        "aten.conv2d.default",
        "aten.bmm.default",
    } <= kinds
