"""By how much a bound may grow."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lipaudit.auditing.diff import diff as diff_reports
from lipaudit.gates.diff import growth_problem, growth_remark, layer_growth_problem, unjudged
from lipaudit.records.report import AuditReport
from tests.records import (
    fakes,
)


def bounded(upper: float | None, log10: float | None = None) -> AuditReport:
    log10 = math.log10(upper) if log10 is None and upper else log10
    return fakes.report(upper_bound=upper, log10_upper_bound=log10)


def test_exactly_the_limit_passes_and_the_next_float_fails() -> None:
    for limit in (1.0, 1.05, 2.0, 3.0):
        before, after = 7.0, 7.0 * limit  # 7 * 1.05 is rounded, so ask what is exact
        after = math.nextafter(after, 0.0) if limit == 1.05 else after
        assert growth_problem(diff_reports(bounded(before), bounded(after)), limit) == ""
        above = math.nextafter(math.nextafter(after, math.inf), math.inf)
        assert "has grown by a factor of" in growth_problem(diff_reports(bounded(before), bounded(above)), limit)


def test_a_failed_gate_names_the_factor_and_the_limit() -> None:
    problem = growth_problem(diff_reports(bounded(2.0), bounded(8.0)), 1.5)
    assert problem.startswith("the network's bound has grown by a factor of 3.99999") or "factor of 4.0" in problem
    assert problem.endswith(", more than 1.5")


def test_bounds_beyond_floats_are_judged_by_their_logarithms() -> None:
    before, after = bounded(None, 400.0), bounded(None, 400.25)
    assert growth_problem(diff_reports(before, after), 10**0.2501) == ""
    assert "factor of 1.77" in growth_problem(diff_reports(before, after), 10**0.2499)
    assert "10^400.00" in growth_problem(diff_reports(before, bounded(None, 800.0)), 2.0)
    assert growth_problem(diff_reports(bounded(None, 800.0), before), 1.0) == ""


def test_without_a_proven_bound_after_the_gate_fails() -> None:
    lost = diff_reports(fakes.report(), fakes.gated())
    assert growth_problem(lost, 1e300) == "the network's bound is unbounded after, and a gate needs a number"
    assert "unsupported" in growth_problem(diff_reports(fakes.report(), fakes.unsupported()), 1e300)
    both = diff_reports(fakes.gated(), fakes.gated())
    assert "unbounded after" in growth_problem(both, 1e300)
    guess = diff_reports(fakes.estimate(), fakes.estimate())
    assert growth_problem(guess, 2.0) == "the network's figure after is an estimate, and an estimate is no bound"


def test_a_bound_that_is_gained_passes_and_is_said() -> None:
    gained = diff_reports(fakes.gated(), fakes.report())
    assert growth_problem(gained, 1.0) == ""
    assert "no proven bound before and has one after" in growth_remark(gained)
    assert growth_remark(diff_reports(fakes.report(), fakes.report())) == ""
    assert growth_remark(diff_reports(fakes.report(), fakes.gated())) == ""


def test_growth_from_zero_has_no_factor() -> None:
    zero = bounded(0.0)
    assert "was 0 before and is above 0 after" in growth_problem(diff_reports(zero, bounded(1.0)), 1e300)
    assert growth_problem(diff_reports(zero, zero), 1.0) == ""
    assert growth_problem(diff_reports(bounded(1.0), zero), 1.0) == ""


def test_layers_are_judged_each_and_the_worst_come_first() -> None:
    names = "abcdefgh"
    before = fakes.report(tuple(fakes.layer(n, 2.0) for n in names))
    after = fakes.report(tuple(fakes.layer(n, 2.0 * (1 + i)) for i, n in enumerate(names)))
    problem = layer_growth_problem(diff_reports(before, after), 2.5)
    assert [part.partition(":")[0].strip() for part in problem.split(";")] == [
        "h",
        "g",
        "f",
        "e",
        "d",
        "and 1 more rows",
    ]
    assert layer_growth_problem(diff_reports(before, after), 8.0) == ""
    assert layer_growth_problem(diff_reports(after, before), 1.0) == ""


def test_a_layer_without_a_bound_after_fails_first() -> None:
    before = fakes.report((fakes.layer("a", 2.0), fakes.layer("b", 2.0, "mul")))
    after = fakes.report((fakes.layer("a", 9.0), fakes.missing("b", "unbounded", "mul", "")), status="unbounded")
    problem = layer_growth_problem(diff_reports(before, after), 2.0)
    assert problem.startswith("b: bound is unbounded after, and a gate needs a number; a: bound has grown")
    assert layer_growth_problem(diff_reports(after, before), 2.0) == ""


def test_rows_without_a_counterpart_are_not_judged_and_named() -> None:
    before = fakes.report((fakes.layer("a", 2.0, weight_shape=(2, 2)), fakes.layer("gone", 2.0)))
    after = fakes.report((fakes.layer("a", 9.0, weight_shape=(4, 4)), fakes.layer("new", 900.0, "mul")))
    found = diff_reports(before, after)
    assert layer_growth_problem(found, 1.0) == ""
    assert [change.record.name for change in unjudged(found)] == ["a", "new"]


def test_renamed_layers_are_judged() -> None:
    before, after = fakes.report((fakes.layer("a", 2.0),)), fakes.report((fakes.layer("/a/Conv", 9.0),))
    assert "/a/Conv: bound has grown" in layer_growth_problem(diff_reports(before, after), 2.0)


@settings(deadline=None)
@given(st.floats(1e-9, 1e9), st.floats(1e-9, 1e9), st.floats(1, 1e6))
def test_the_gate_is_the_inequality(before: float, after: float, limit: float) -> None:
    passed = growth_problem(diff_reports(bounded(before), bounded(after)), limit) == ""
    quotient = after / before
    if not math.isclose(quotient, limit, rel_tol=1e-12):
        assert passed == (quotient < limit)


def test_the_rounded_figures_of_a_table_are_not_judged() -> None:
    before = bounded(1.0)
    after = replace(before, network=fakes.changed(before.network, upper_bound=1.0 + 1e-12))
    assert growth_problem(diff_reports(before, after), 1.0) != ""
    assert growth_problem(diff_reports(before, before), 1.0) == ""


@pytest.mark.parametrize("status", ["unbounded", "unsupported"])
def test_an_unbounded_row_on_both_sides_fails_the_gate_on_layers(status: str) -> None:
    report = fakes.report((fakes.missing("a", status, "mul", ""),), status=status)
    assert (
        layer_growth_problem(diff_reports(report, report), 2.0)
        == f"a: bound is {status} after, and a gate needs a number"
    )


TINY = 2e-323  # what the bound of a constant below the range of floats is rounded up to


def underflowed(log10: float) -> AuditReport:
    row = fakes.layer("a", upper_bound=TINY, log10_upper_bound=log10, lower_bound=0.0, log10_lower_bound=log10 - 1e-4)
    return fakes.report((row,), upper_bound=TINY, log10_upper_bound=log10)


@pytest.mark.parametrize(("log10", "factor"), [(-348.0, "10\\^12.0|1e\\+12|1000000000000.0"), (-359.5, "3.1622")])
def test_bounds_below_floats_are_judged_by_their_logarithms(log10: float, factor: str) -> None:
    before, after = underflowed(-360.0), underflowed(log10)
    found = diff_reports(before, after)
    assert re.search(f"grown by a factor of ({factor})", growth_problem(found, 2.0))
    assert "a: bound has grown" in layer_growth_problem(found, 2.0)
    assert found.layers[0].move is not None
    assert found.layers[0].move.verdict == "grew"
    back = diff_reports(after, before)
    assert growth_problem(back, 1.0) == layer_growth_problem(back, 1.0) == ""
    assert growth_problem(diff_reports(before, before), 1.0) == ""


def test_growth_out_of_the_range_below_floats_is_seen() -> None:
    assert "has grown" in growth_problem(diff_reports(underflowed(-360.0), bounded(1.0)), 1e300)
    assert growth_problem(diff_reports(bounded(1.0), underflowed(-360.0)), 1.0) == ""
    assert "was 0 before" in growth_problem(diff_reports(bounded(0.0), underflowed(-360.0)), 1e300)
