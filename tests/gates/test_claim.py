"""A claimed constant: proved by an upper bound, refuted by a pair of inputs, else open."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.errors import InvalidValueError
from lipaudit.formats.options import Audits, Options
from lipaudit.formats.registry import FORMATS
from lipaudit.gates.claim import Verdict, claim
from lipaudit.gates.report import CLAIM, NETWORK, Gates, gate_problems
from lipaudit.records.figure import Figure
from tests.records import fakes


def report(upper: float | None, lower: float | None, **changes: Any) -> lipaudit.AuditReport:
    figures = {
        "figure": None if upper is None else Figure.of(upper),
        "lower": None if lower is None else Figure.of(lower, "empirical"),
    }
    return fakes.report(**{**figures, "lower_bound_distance": 1.0 if lower else None, **changes})


@pytest.mark.parametrize(
    ("upper", "lower", "limit", "tolerance", "verdict"),
    [
        (1.0, None, 1.0, 0.0, Verdict.PROVED),
        (math.nextafter(1.0, 2.0), 0.5, 1.0, 0.0, Verdict.OPEN),
        (1.00005, 0.99, 1.0, 1e-3, Verdict.PROVED),
        (1.0011, 1.0009, 1.0, 1e-3, Verdict.OPEN),
        (1.2, 1.0011, 1.0, 1e-3, Verdict.REFUTED),
        (1.2, math.nextafter(1.0, 2.0), 1.0, 0.0, Verdict.REFUTED),
        (1.2, 1.0, 1.0, 0.0, Verdict.OPEN),
        (1.2, None, 1.0, 1e-3, Verdict.OPEN),
        (None, 2.0, 1.0, 1e-3, Verdict.REFUTED),
        (2.999, 2.5, 3.0, 0.0, Verdict.PROVED),
    ],
)
def test_a_claim_is_judged_by_both_ends(
    upper: float | None, lower: float | None, limit: float, tolerance: float, verdict: Verdict
) -> None:
    changes = {"status": "unbounded"} if upper is None else {}
    answer = claim(report(upper, lower, **changes), limit, tolerance)
    assert answer.verdict is verdict
    assert (answer.upper, answer.lower) == (upper, lower)
    how = " within the tolerance" if verdict == "proved" and upper > limit else ""
    assert answer.text.startswith(f"{verdict}{how}: at most {limit!r}")


def test_the_sentences_name_both_ends() -> None:
    assert claim(report(1.5, 0.9)).text == (
        "open: at most 1.0 (tolerance 0.001): the upper bound is 1.5, the largest stretch found is 0.9"
    )
    assert claim(report(1.5, None), tolerance=0.0).text == (
        "open: at most 1.0: the upper bound is 1.5, no stretch was searched for (--lower-bound)"
    )
    assert claim(report(1.5, 1.25)).text.endswith("two inputs were found between which the network stretches by 1.25")
    assert "the network is unbounded" in claim(report(None, None, status="unbounded")).text


def test_an_estimate_proves_nothing() -> None:
    assert claim(fakes.estimate("ryu2019", estimate=0.5, log10_estimate=math.log10(0.5))).verdict is Verdict.OPEN


@pytest.mark.parametrize(
    ("limit", "tolerance"),
    [(0.0, 0.0), (math.nan, 0.0), (1.0, -0.1), (math.inf, 0.0), ("1", 0.0), (True, 0.0), (1.0, "0"), (1.0, None)],
)
def test_a_claim_that_is_none_is_refused(limit: Any, tolerance: Any) -> None:
    with pytest.raises(InvalidValueError, match="must be a finite number"):
        claim(report(1.0, None), limit, tolerance)


def test_as_a_gate() -> None:
    assert gate_problems(report(1.0005, 0.9), Gates(claim=1.0)) == ()
    (problem,) = gate_problems(report(1.0005, 0.9), Gates(claim=1.0, claim_tolerance=0.0))
    assert (problem.gate, problem.place, problem.row) == (CLAIM, NETWORK, None)
    assert problem.text.startswith("open: ")


def test_networks() -> None:
    linear = nn.Linear(4, 4, bias=False)
    nn.init.orthogonal_(linear.weight)
    audited = lipaudit.audit(linear, input_shape=(1, 4), lower_bound=True)
    assert lipaudit.claim(audited).verdict is Verdict.PROVED
    assert lipaudit.claim(audited, 0.99).verdict is Verdict.REFUTED
    with torch.no_grad():
        linear.weight.mul_(1.01)
    assert lipaudit.claim(lipaudit.audit(linear, input_shape=(1, 4), lower_bound=True)).verdict is Verdict.REFUTED


def test_in_junit_and_sarif() -> None:
    options = Options(gates=Gates(claim=1.0))
    junit = FORMATS["junit"].render(Audits([report(1.5, 1.25)]), options)
    assert '<failure message="refuted: at most 1.0' in junit
    assert "claim" not in FORMATS["junit"].render(Audits([report(1.0, None)]), Options(gates=Gates())).replace(
        "claimed", ""
    )
    results = json.loads(FORMATS["sarif"].render(Audits([report(1.5, 1.25)]), options))["runs"][0]["results"]
    assert [(r["ruleId"], r["level"]) for r in results] == [("claimed-bound", "error")]
