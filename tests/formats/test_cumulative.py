from __future__ import annotations

import math
from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lipaudit.formats.cumulative import cumulative
from lipaudit.records.report import LayerRecord
from tests.records import (
    fakes,
)


def chain(factors: list[float]) -> tuple[LayerRecord, ...]:
    names = [f"r{i}" for i in range(len(factors))]
    return tuple(
        fakes.layer(name, factor, inputs=(before,), share=1 / len(factors))
        for name, factor, before in zip(names, factors, ["input", *names], strict=False)
    )


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=40))
def test_the_product_of_a_chain_is_bounded_at_every_row(factors: list[float]) -> None:
    logs = [math.log10(factor) for factor in factors]
    found = cumulative(fakes.report(chain(factors), log10_upper_bound=math.fsum(logs), upper_bound=1.0))
    assert found is not None
    assert found.kind == "bound"
    exact = [math.fsum(logs[: i + 1]) for i in range(len(logs))]
    assert all(value >= bound for value, bound in zip(found.values, exact, strict=True))
    assert found.values == pytest.approx(exact, abs=1e-9)


def test_where_the_network_is_more_than_the_product_the_shares_add_up() -> None:
    rows = chain([2.0, 3.0, 0.5])
    for log10 in (math.log10(3) + 0.3, 0.1):  # a hidden branch; a smaller bound from elsewhere
        found = cumulative(fakes.report(rows, log10_upper_bound=log10))
        assert found is not None
        assert found.kind == "share"
        assert found.values == tuple(accumulate(row.share for row in rows if row.share))


def test_branches_have_no_running_bound() -> None:
    first, second, third = chain([2.0, 3.0, 4.0])
    rows = (first, second, replace(third, inputs=("r0", "r1")))
    found = cumulative(fakes.report(rows, log10_upper_bound=math.log10(24)))
    assert found is not None
    assert found.kind == "share"


def test_without_figures_there_is_nothing() -> None:
    assert cumulative(fakes.gated()) is None
    assert cumulative(fakes.report(())) is None


def test_estimates_are_no_running_bound() -> None:
    found = cumulative(fakes.estimate())
    assert found is not None
    assert found.kind == "share"
