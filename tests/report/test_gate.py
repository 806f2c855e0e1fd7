from __future__ import annotations

import math
from dataclasses import replace

import pytest

from lipaudit.report.gate import gate_problem, strict_problem
from tests.report import fakes


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
        ({"log10_upper_bound": None}, "no log10 upper bound"),
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
