from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lipaudit.formats import (
    table,
)
from lipaudit.records.report import AuditReport
from tests.records import (
    fakes,
)

NAMES = st.lists(
    st.lists(st.sampled_from(["stages", "blocks", "0", "17", "downsample", "conv_pw"]), min_size=1, max_size=9),
    min_size=1,
    max_size=12,
)
FACTORS = st.floats(min_value=1e-300, max_value=1e300)


def widest(text: str) -> int:
    return max(map(len, text.splitlines()))


def column(text: str, name: str) -> list[str]:
    """The cells of one column, found by its dashes."""
    lines = text.splitlines()
    rule = next(i for i, line in enumerate(lines) if line.startswith("---"))
    start = lines[rule - 1].split().index(name)
    begins = [i for i, c in enumerate(lines[rule]) if c == "-" and (i == 0 or lines[rule][i - 1] == " ")]
    ends = [*begins[1:], 200]
    rows = lines[rule + 1 : lines.index("", rule)]
    return [row[begins[start] : ends[start]].strip() for row in rows]


@pytest.mark.parametrize(
    "report",
    [
        fakes.report(),
        fakes.unsupported(),
        fakes.two_outputs(),
        fakes.gated(),
        fakes.on_pixels(200.0),
        fakes.around_a_cat(),
    ],
)
@pytest.mark.parametrize("depth", [None, 1, 2])
def test_table_fits_100_columns_and_keeps_every_row(report: AuditReport, depth: int | None) -> None:
    text = table.render(report, depth=depth)
    assert widest(text) <= 100
    if depth is None:
        assert len(column(text, "layer")) == len(report.layers)


@given(
    NAMES, FACTORS, st.sampled_from(["conv2d", "adaptive_avg_pool2d", "scaled_dot_product_attention"]), st.booleans()
)
def test_any_table_fits_and_no_figure_is_cut(names: list[list[str]], factor: float, op: str, remark: bool) -> None:
    layers = tuple(
        fakes.layer(
            f"{'.'.join(parts)}#{i}",
            factor,
            op,
            weight_shape=(2048, 2048, 17, 17, 17),
            input_size=(1024, 1024, 1024),
            details="k3x5 s2x1 p1,2,3,4 d2 g2048 out1",
            note="a remark that is long enough to be cut somewhere in the middle of it" if remark else "",
        )
        for i, parts in enumerate(names)
    )
    gap = fakes.missing("some.where.deep.inside.of.the.network", "unsupported", "fft_rfft2", "no rule")
    text = table.render(fakes.report((*layers, gap), status="unsupported"))
    assert widest(text) <= 100
    assert column(text, "upper")[-1] == "unsupported"
    assert all(float(cell) >= factor for cell in column(text, "upper")[:-1])
    assert all(float(cell) <= factor for cell in column(text, "lower")[:-1])
    assert len(set(column(text, "layer"))) == len(layers) + 1


def test_remarks_get_a_column_only_where_there_is_room() -> None:
    short = fakes.report((fakes.layer("conv", note="torus grid 8x8"),))
    long = fakes.report((fakes.layer("conv" * 10, note="torus grid 8x8", weight_shape=(64, 64, 3, 3)),))
    assert column(table.render(short), "note") == ["torus grid 8x8"]
    assert "note" not in table.render(long).splitlines()[2].split()


def test_columns_can_be_chosen() -> None:
    text = table.render(fakes.report(), columns=("layer", "log10"))
    assert text.splitlines()[2].split() == ["layer", "log10"]
    assert column(text, "log10")[1] == "0.3011"


def test_chosen_columns_are_cut_to_the_width_of_a_terminal_unless_wide() -> None:
    report = fakes.report((fakes.layer("conv" * 20, note="torus grid 8x8 " * 5),))
    narrow = table.render(report, columns=("layer", "note"))
    wide = table.render(report, columns=("layer", "note"), wide=True)
    assert widest(narrow) <= 100
    assert column(wide, "layer") == ["conv" * 20]
    assert widest(wide) > 100
    assert widest(table.render(report, wide=True)) <= 100


def test_the_column_of_shares_is_left_out_where_there_are_none() -> None:
    assert "share" in table.render(fakes.report()).splitlines()[2].split()
    assert "share" not in table.render(fakes.unsupported()).splitlines()[2].split()


def test_constants_beyond_floats_are_shown_through_their_logarithm() -> None:
    layer = fakes.layer(
        "conv", upper_bound=None, log10_upper_bound=412.305, lower_bound=None, log10_lower_bound=412.305
    )
    text = table.render(fakes.report((layer,), upper_bound=None, log10_upper_bound=412.305))
    assert column(text, "upper") == ["10^412.31"]
    assert column(text, "lower") == ["10^412.30"]
    assert "at most 10^412.31, over all inputs" in " ".join(text.split())


def test_estimates_are_announced_in_the_first_line() -> None:
    network = table.render(fakes.estimate("ryu2019"))
    layer = table.render(fakes.report((fakes.estimated("conv"),), status="unbounded"))
    assert network.splitlines()[0].startswith("ESTIMATE (ryu2019): the network's figure")
    assert layer.splitlines()[0] == "ESTIMATE (gram): the figures of these rows are estimates, not proven bounds: conv."
    assert "ESTIMATE" not in table.render(fakes.report())


def test_estimates_are_marked_in_a_column_that_is_not_headed_upper() -> None:
    text = table.render(fakes.estimate())
    assert "upper" not in text.split("Result")[0].split()
    assert column(text, "figure")[:2] == ["~4.751", "2"]  # a pooling layer keeps its bound
    assert column(table.render(fakes.estimate(), ("layer", "upper", "log10")), "log10")[:2] == ["~0.6768", "0.3011"]
    alone = fakes.report((fakes.estimated("conv"), fakes.estimated("zero", estimate=0.0, log10_estimate=None)))
    assert "ratio" not in table.render(alone).splitlines()[3].split()
    assert column(table.render(alone), "figure") == ["~2", "~0"]
    assert widest(table.render(fakes.estimate())) <= 100


def test_a_network_without_rows_is_said_to_be_one() -> None:
    assert "No operation of this network can stretch a perturbation." in table.render(fakes.report(()))


@given(st.text(min_size=1, max_size=150))
def test_names_cannot_break_the_layout(name: str) -> None:
    layer = replace(fakes.layer("conv", math.e), name=name)
    text = table.render(fakes.report((layer,)))
    assert widest(text) <= 100
    assert all(line.isprintable() for line in text.splitlines())
