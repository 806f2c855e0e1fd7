"""The parts of the page alone: order by exact values, places on scales, colours."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lipaudit.formats.html import depth, shares
from lipaudit.formats.html.brackets import axis, bracket
from lipaudit.formats.html.depth import ticks
from lipaudit.formats.html.page import render
from lipaudit.formats.html.ranks import ranks
from lipaudit.formats.html.rows import kind, log10_figure, words
from lipaudit.formats.html.scale import Scale, colour
from lipaudit.records.report import LayerRecord
from lipaudit.text.numbers import share_text
from tests.records import (
    fakes,
)

POSITIVE = st.floats(1e-300, 1e300)


@given(st.lists(POSITIVE, min_size=2, max_size=12))
def test_rows_are_ordered_by_exact_values(values: list[float]) -> None:
    rows = [
        fakes.layer(f"r{i}", value, lower_bound=value, tightness=value, share=value) for i, value in enumerate(values)
    ]
    exact = sorted(set(map(Fraction, values)))
    for key in ("upper", "lower", "tightness", "share"):
        assert ranks(key, rows) == [exact.index(Fraction(value)) for value in values]


def test_what_no_float_holds_and_what_has_no_bound_comes_last() -> None:
    rows = (
        fakes.missing("no rule", "unsupported", "fft", ""),
        fakes.layer("huge", upper_bound=None, log10_upper_bound=412.0),
        fakes.missing("gate", "unbounded", "mul", ""),
        fakes.layer("huger", upper_bound=None, log10_upper_bound=412.5),
        fakes.layer("usual", 1e300),
        fakes.layer("zero", upper_bound=0.0, log10_upper_bound=None),
        fakes.layer("tiny", upper_bound=None, log10_upper_bound=-400.0),
        fakes.estimated("guess", 5.0),
    )
    order = [rows[ranks("upper", rows).index(place)].name for place in range(len(rows))]
    assert order == ["tiny", "zero", "guess", "usual", "huge", "huger", "gate", "no rule"]


def test_names_are_ordered_as_people_count() -> None:
    rows = [fakes.layer(name) for name in ("b10", "B9", "b9", "b" + "1" * 6000, "", "b09", "10", "b9.c")]
    order = sorted(range(len(rows)), key=ranks("layer", rows).__getitem__)
    assert [rows[i].name[:5] for i in order] == ["", "10", "B9", "b09", "b9", "b9.c", "b10", "b1111"]


def test_shapes_are_ordered_by_their_size() -> None:
    rows = [fakes.layer("r", weight_shape=shape) for shape in ((64, 3, 7, 7), (10, 10), None, (9, 9, 9))]
    assert ranks("weight", rows) == [3, 1, 0, 2]


def luminance(code: str) -> float:
    parts = [int(code[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_colours_become_lighter_with_every_step() -> None:
    light = [luminance(colour(i / 200)) for i in range(201)]
    assert all(a < b for a, b in itertools.pairwise(light))
    assert light[-1] / light[0] > 20


@given(st.lists(POSITIVE, min_size=1, max_size=10))
def test_a_scale_holds_every_figure(values: list[float]) -> None:
    rows = [fakes.layer("r", value) for value in values]
    scale = Scale.of(rows)
    assert scale is not None
    logs = [math.log10(value) for value in values]
    assert scale.low <= min(logs) <= max(logs) <= scale.high
    assert scale.low < scale.high
    places = [scale.place(log) for log in sorted(logs)]
    assert places == sorted(places)


@given(st.floats(-400, 400), st.floats(0, 800))
def test_ticks_enclose_and_are_few_and_even(low: float, length: float) -> None:
    marks = ticks(low, low + length)
    assert marks[0] <= low + 1e-6
    assert marks[-1] >= low + length - 1e-6
    assert 2 <= len(marks) <= 8
    steps = [b - a for a, b in itertools.pairwise(marks)]
    assert max(steps) - min(steps) < 1e-6 * max(1, abs(low))


def test_a_bracket_is_drawn_from_its_lower_to_its_upper_bound() -> None:
    row = fakes.layer("r", 100.0, lower_bound=10.0, log10_lower_bound=1.0)
    rows = (row, fakes.layer("small", 0.1, lower_bound=0.1, log10_lower_bound=-1.0), fakes.layer("large", 1000.0))
    scale = axis(rows)
    assert scale == Scale(-1.0, 3.0)
    drawn = bracket(row, scale, Scale(-1.0, 3.0))
    assert drawn is not None
    start, width = float(drawn.left), float(drawn.width)
    room = 104 - 2 * 4
    assert start == pytest.approx(4 + room * 0.5)
    assert start + width == pytest.approx(4 + room * 0.75)


def test_marks_differ_by_shape_where_there_is_no_bound() -> None:
    rows = (
        fakes.layer("r", 2.0),
        fakes.layer("one-sided", 2.0, lower_bound=None, log10_lower_bound=None),
        fakes.estimated("guess", 2.0),
        fakes.missing("g", "unbounded", "mul", ""),
        fakes.missing("u", "unsupported", "fft", ""),
    )
    drawn = re.findall(r'<svg class="bracket".*?</svg>', render(fakes.report(rows, status="unsupported")))
    shapes = [re.sub(r"#[0-9a-f]{6}|[\d.]+", "", one) for one in drawn]
    assert len(set(shapes)) == 5


@pytest.mark.parametrize(
    ("row", "what", "log10"),
    [
        (fakes.layer("r", 100.0), "bound", 2.0),
        (fakes.layer("r", upper_bound=0.0, log10_upper_bound=None), "bound", -math.inf),
        (fakes.layer("r", upper_bound=None, log10_upper_bound=400.0), "bound", 400.0),
        (fakes.estimated("r", 10.0), "estimate", 1.0),
        (LayerRecord("r", "linear", "dense", (), "finite"), "plain", None),
        (fakes.missing("r", "unbounded", "mul", ""), "unbounded", None),
    ],
)
def test_kinds_and_logarithms(row: LayerRecord, what: str, log10: float | None) -> None:
    assert kind(row) == what
    assert log10_figure(row) == log10


def test_words_round_outwards_and_name_what_there_is_none_of() -> None:
    said = words(fakes.layer("conv", 4.51441, lower_bound=4.51441, share=0.5, note="torus"))
    assert said == "conv (conv2d); at most 4.515, certified; at least 4.514; share 50.0%; torus; reads input"
    assert words(fakes.estimated("conv", 4.51441)) == "conv (conv2d); estimate ~4.514, no bound; reads input"
    assert words(fakes.missing("gate", "unbounded", "mul", "why")) == "gate (mul); UNBOUNDED; why; reads input"


def bars(chart: shares.Chart) -> list[tuple[str, str]]:
    return [(bar.label, share_text(bar.share)) for bar in chart.bars]


def test_rows_beyond_the_largest_are_summed_by_their_sign() -> None:
    rows = [fakes.layer(f"r{i}", share=i / 1000) for i in range(1, 40)]
    rows += [fakes.layer(f"s{i}", share=-i / 100) for i in range(1, 11)]
    by_row = bars(shares.charts(rows)[0])
    assert by_row[0] == ("r39", "3.9%")
    assert by_row[15] == ("24 other rows that stretch", "30.0%")
    assert by_row[16] == ("5 other rows that shrink", "-15.0%")
    assert by_row[-1] == ("s10", "-10.0%")
    assert len(by_row) == 22


def test_parts_and_operations_sum_their_rows() -> None:
    rows = [
        fakes.layer("stem.conv", share=0.5),
        fakes.layer("body.0", share=0.25, op="linear"),
        fakes.layer("body.1", share=0.25, op="linear"),
    ]
    charts = shares.charts(rows)
    assert bars(charts[1]) == [("stem (1 layer)", "50.0%"), ("body (2 layers)", "50.0%")]
    assert bars(charts[2]) == [("conv2d (1 row)", "50.0%"), ("linear (2 rows)", "50.0%")]
    assert shares.charts([replace(row, share=None) for row in rows]) == []


def test_the_bars_over_depth_have_the_heights_of_the_factors() -> None:
    rows = (
        fakes.layer("a", 100.0),
        fakes.layer("b", 0.01),
        fakes.missing("c", "unbounded", "mul", ""),
        fakes.layer("d", 1.0),
    )
    (chart,) = depth.charts(fakes.report(rows, status="unbounded"), Scale.of(rows))
    # of a frame of 200 from 10^-2 to 10^2; a factor of 1 is a line
    assert [(bar.kind, bar.height) for bar in chart.bars] == [
        ("bound", 100),
        ("bound", 100),
        ("unbounded", 200),
        ("bound", 1),
    ]
