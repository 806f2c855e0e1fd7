from __future__ import annotations

import math
from dataclasses import replace

import pytest

from lipaudit.gates.report import (
    MAX_LAYER,
    NETWORK,
    NO_UNBOUNDED,
    GateProblem,
    Gates,
    exceeded,
    gate_problem,
    gate_problems,
    strict_problem,
)
from lipaudit.records.report import AuditReport
from tests.records import (
    fakes,
)


def test_gate_compares_the_exact_figure() -> None:
    report = fakes.report(log10_upper_bound=10.3908)
    assert gate_problem(report, 10.3908) == ""
    assert gate_problem(report, math.nextafter(10.3908, 0)) == (
        f"the log10 upper bound 10.3908 is above {math.nextafter(10.3908, 0)!r}"
    )


def test_gate_passes_a_constant_network() -> None:
    assert gate_problem(fakes.report(upper_bound=0.0, log10_upper_bound=None), -100.0) == ""


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"status": "unbounded"}, "unbounded"),
        ({"status": "unsupported"}, "unsupported"),
        ({"figure": None}, "no upper bound"),
    ],
)
def test_gate_fails_without_a_proven_finite_bound(changes: dict[str, str], problem: str) -> None:
    assert problem in gate_problem(fakes.report(**changes), 1e9)


def test_an_estimate_passes_neither_gate() -> None:
    report = fakes.estimate("ryu2019", estimate=0.0, log10_estimate=None)
    assert gate_problem(report, 1e9) == "the network's figure is an estimate (ryu2019), and an estimate is no bound"
    assert strict_problem(replace(report, layers=())) == (
        "the network's figure is an estimate (ryu2019); an estimate is no bound: choose --method gram"
    )
    assert strict_problem(report).startswith("the network's figure is an estimate (ryu2019): conv1, layer1.0.conv1, ")


def test_one_row_that_is_an_estimate_is_enough_for_strict() -> None:
    rows = (fakes.estimated("a"), fakes.layer("b"))
    found = fakes.report(rows)
    assert strict_problem(found) == "figures are estimates (gram): a; an estimate is no bound: choose --method gram"
    gap = fakes.report((*rows, fakes.missing("c", "unsupported", "fft", "no rule")), status="unsupported")
    assert strict_problem(gap).startswith("the network is unsupported; without a bound: c (unsupported); figures are ")


def test_strict_names_the_places() -> None:
    assert strict_problem(fakes.report()) == ""
    assert strict_problem(fakes.unsupported()) == (
        "the network is unsupported; without a bound: blocks.3.se.mul (unbounded), blocks.4.se.mul (unbounded), "
        "head.fft (unsupported)"
    )
    assert strict_problem(fakes.report(status="unbounded")) == "the network is unbounded"


def test_a_gate_over_all_inputs_names_the_domain_that_has_a_figure() -> None:
    assert gate_problem(fakes.gated(), 1e9) == (
        "the network's bound is unbounded, and a gate needs a number; over all images with pixels in [0, 1] it has one: "
        "--domain pixels"
    )
    assert strict_problem(fakes.gated()).endswith("it has one: --domain pixels")
    unknown = fakes.gated(other_domains=())
    unknown = replace(unknown, model=replace(unknown.model, preprocessing=None))
    assert gate_problem(unknown, 1e9).endswith("--domain pixels with --mean and --std may give one")


def test_a_gate_judges_the_domain_in_force() -> None:
    assert gate_problem(fakes.on_pixels(), 9.0) == ""
    assert strict_problem(fakes.on_pixels()) == ""
    assert gate_problem(fakes.on_pixels(), 8.5) == (
        "the log10 upper bound 8.71169 over all images with pixels in [0, 1] is above 8.5"
    )
    # a finite figure elsewhere does not save it
    assert gate_problem(fakes.gated(), 9.0)


def test_a_gate_does_not_send_to_an_estimate_as_to_a_bound() -> None:
    for problem in (gate_problem(fakes.estimated_on_pixels(), 1e9), strict_problem(fakes.estimated_on_pixels())):
        assert "it has one" not in problem
        assert problem.endswith(
            "; over all images with pixels in [0, 1] it has an estimate by ryu2019, which is no bound: --method gram with "
            "--domain pixels may give one"
        )


def places(report: AuditReport, gates: Gates) -> list[str]:
    return [problem.place for problem in gate_problems(report, gates)]


def test_no_gate_asks_nothing() -> None:
    assert gate_problems(fakes.unsupported(), Gates()) == ()


def test_a_limit_for_layers_judges_the_exact_figure() -> None:
    rows = (fakes.layer("a", 3.0), fakes.layer("b", math.nextafter(3.0, 4)), fakes.layer("c", 0.5))
    assert gate_problems(fakes.report(rows), Gates(max_layer=3.0)) == (
        GateProblem(MAX_LAYER, "b", "the upper bound 3.0000000000000004 is above 3.0", 1),
    )
    assert places(fakes.report(rows), Gates(max_layer=math.nextafter(3.0, 4))) == []
    assert places(fakes.report(rows), Gates(max_layer=0.1)) == ["a", "b", "c"]


def test_a_constant_beyond_floats_is_above_every_limit() -> None:
    large = fakes.changed(fakes.layer("a"), upper_bound=None, log10_upper_bound=308.3)
    zero = fakes.changed(fakes.layer("b"), upper_bound=0.0, log10_upper_bound=None)
    silent = fakes.changed(fakes.layer("c"), upper_bound=None, log10_upper_bound=None)
    report = fakes.report((large, zero, silent))
    assert places(report, Gates(max_layer=1.7976931348623157e308)) == ["a", "c"]
    above = fakes.changed(large, log10_upper_bound=0.3010299956639812)  # 10 to that is 2.0000000000000000134...
    below = fakes.changed(large, log10_upper_bound=math.nextafter(0.3010299956639812, 0))
    assert places(fakes.report((above,)), Gates(max_layer=2.0)) == ["a"]
    assert places(fakes.report((below,)), Gates(max_layer=2.0)) == []


def test_a_row_without_a_bound_passes_no_limit() -> None:
    rows = (fakes.layer("a"), fakes.estimated("b", 1e-9), fakes.missing("c", "unbounded", "mul", "a product"))
    report = fakes.report((*rows, fakes.missing("d", "unsupported", "fft", "")), status="unsupported")
    found = {problem.place: problem.text for problem in gate_problems(report, Gates(max_layer=1e300))}
    assert found == {
        "b": "an estimate (gram), which is no bound; a gate needs a bound",
        "c": "unbounded: a product; a gate needs a bound",
        "d": "unsupported; a gate needs a bound",
    }
    assert places(report, Gates(no_unbounded=True)) == ["b", "c", "d"]


def test_rows_of_a_structure_have_a_bound_but_no_figure() -> None:
    rows = tuple(replace(row, figure=None) for row in (fakes.layer("a"), fakes.layer("b")))
    report = fakes.report(rows)
    report = replace(report, settings=replace(report.settings, structure=True))
    assert places(report, Gates(max_layer=1e300)) == ["a", "b"]
    assert places(report, Gates(no_unbounded=True)) == []


def test_a_network_without_a_bound_is_a_problem_where_no_row_is() -> None:
    report = fakes.report((fakes.layer("a", 2.0),), status="unsupported")
    for gates in (Gates(max_layer=3.0), Gates(no_unbounded=True)):
        assert places(report, gates) == [NETWORK]
    bare = replace(fakes.estimate("ryu2019"), layers=())
    assert gate_problems(bare, Gates(no_unbounded=True)) == (
        GateProblem(NO_UNBOUNDED, NETWORK, "the network's figure is an estimate (ryu2019), which is no bound"),
    )


def test_gates_judge_the_domain_in_force() -> None:
    assert places(fakes.gated(), Gates(no_unbounded=True)) == ["blocks.3.se.mul", "blocks.4.se.mul"]
    assert places(fakes.on_pixels(), Gates(no_unbounded=True)) == []
    (first, _) = gate_problems(fakes.on_pixels(), Gates(max_layer=248.0))
    assert first.text == "the upper bound 248.6 over all images with pixels in [0, 1] is above 248.0"


def test_problems_come_gate_by_gate() -> None:
    found = gate_problems(fakes.unsupported(), Gates(1.0, 4.7, True, True))
    assert list(dict.fromkeys(problem.gate for problem in found)) == [
        "max-log10-bound",
        "max-layer",
        "no-unbounded",
        "strict",
    ]
    assert found[-1].text == strict_problem(fakes.unsupported())


def test_a_terminal_gets_one_sentence_per_gate() -> None:
    said = dict(exceeded(fakes.gated(), Gates(max_layer=4.4, no_unbounded=True)))
    assert said["max-layer"].startswith(
        "6 rows of 36 above 4.4 or without a bound (conv1: the upper bound 4.7512 is above 4.4; "
    )
    assert said["max-layer"].count("; layer3.") == 2
    assert "; ...)" in said["max-layer"]
    assert said["no-unbounded"].startswith("2 rows of 36 without a finite bound (blocks.3.se.mul: unbounded: product ")
    assert said["no-unbounded"].endswith("; over all images with pixels in [0, 1] the network has one: --domain pixels")
    assert dict(exceeded(fakes.report(), Gates(22.0, 5.0, True, True))) == {}


def test_estimates_do_not_explain_why_the_network_has_no_bound() -> None:
    report = fakes.report((fakes.estimated("a"), fakes.layer("b")), status="unsupported")
    assert gate_problems(report, Gates(no_unbounded=True))[1:] == (
        GateProblem(NO_UNBOUNDED, NETWORK, "the network is unsupported"),
    )
    ((_, said),) = exceeded(report, Gates(no_unbounded=True))
    assert said.startswith("the network is unsupported; 1 row of 2 without a finite bound (a: an estimate")


def test_a_row_may_have_any_name() -> None:
    rows = (fakes.layer("", 5.0), fakes.layer("", 6.0), fakes.layer("a"))
    problems = gate_problems(fakes.report(rows), Gates(max_layer=4.0))
    assert [problem.row for problem in problems] == [0, 1]
    ((_, said),) = exceeded(fakes.report(rows), Gates(max_layer=4.0))
    assert said.startswith("2 rows of 3 above 4.0")
