from __future__ import annotations

from dataclasses import replace

import pytest

from lipaudit.errors import UsageError
from lipaudit.formats.columns import (
    COLUMNS,
    DEFAULT_COLUMNS,
    FIRST_COLUMNS,
    cell,
    default_columns,
    parse_columns,
    rows_grid,
)
from lipaudit.records.groups import Group, group_by_path
from lipaudit.records.report import LayerRecord
from tests.records import (
    fakes,
)


def group(*layers: LayerRecord, **options: bool) -> Group:
    return Group("body", layers, **options)


def test_a_group_shows_what_its_rows_have_in_common_its_largest_factor_and_the_sum_of_shares() -> None:
    pair = group(fakes.layer("body.0", 2.5, share=0.25), fakes.layer("body.1", 4.25, share=0.5))
    assert {key: text for key in COLUMNS if (text := cell(key, pair))} == {
        "layer": "body (2 layers)",
        "op": "conv2d",
        "factor": "max 4.25",
        "share": "75.0%",
        "rule": "convolution",
        "rigor": "certified",
        "status": "finite",
        "reads": "input",
    }


def test_a_group_that_follows_each_other_shows_the_product_rounded_up() -> None:
    chain = group(fakes.layer("body.0", 2.5), fakes.layer("body.1", 0.1), chain=True)
    assert cell("factor", chain) == "0.2501"
    huge = group(*(fakes.layer(f"body.{i}", 1e200) for i in range(3)), chain=True)
    assert cell("factor", huge) == "10^600.01"
    zero = fakes.layer("body.0", upper_bound=0.0, log10_upper_bound=None)
    assert cell("factor", group(zero, fakes.layer("body.1"), chain=True)) == "0"
    assert cell("factor", group(fakes.estimated("body.0", 2.0), fakes.layer("body.1"), chain=True)) == "~4"
    assert cell("factor", group(fakes.estimated("body.0", 3.0), fakes.layer("body.1"))) == "max ~3"


def test_a_group_of_one_row_shows_its_figures() -> None:
    row = fakes.layer("body.0", 2.5)
    assert [cell(key, group(row)) for key in ("factor", "lower", "upper", "tightness")] == [
        cell(key, row) for key in ("factor", "lower", "upper", "tightness")
    ]


def test_a_group_does_not_hide_a_missing_bound() -> None:
    deep = fakes.missing("body.se.mul", "unbounded", "mul", "a product")
    pair = group(fakes.layer("body.0", share=0.25), deep, chain=True)
    assert [cell(key, pair) for key in ("factor", "upper", "log10", "status")] == ["unbounded"] * 4
    assert cell("share", pair) == ""


def test_shares_are_no_default_column_where_no_row_has_one() -> None:
    assert default_columns(fakes.report().layers) == DEFAULT_COLUMNS[:-1]
    assert default_columns(fakes.unsupported().layers) == DEFAULT_COLUMNS[:-2]


def test_blocks_are_a_column_where_a_row_is_in_one() -> None:
    rows = (*fakes.report().layers, fakes.layer("step", share=0.0, block="gradient step ≤ 1"))
    assert default_columns(rows) == DEFAULT_COLUMNS
    assert cell("block", rows[-1]) == "gradient step ≤ 1"


def test_columns_without_a_value_are_left_out() -> None:
    bare = (fakes.layer("a", share=0.5, tightness=None, lower_bound=None, log10_lower_bound=None),)
    assert default_columns(bare) == ("layer", "op", "upper", "share")
    assert default_columns(group_by_path(fakes.resnet_layers(), 1)) == (
        "layer",
        "op",
        "weight",
        "input",
        "geometry",
        "factor",
        "share",
    )
    shares = (group(fakes.layer("body.a"), fakes.layer("body.b", op="linear")),)
    assert default_columns(shares) == ("layer", "factor")


@pytest.mark.parametrize("status", ["unbounded", "unsupported"])
def test_a_figure_is_never_shown_beside_another_status(status: str) -> None:
    row = fakes.layer("conv", status=status)
    assert [cell(key, row) for key in ("lower", "upper", "log10", "tightness")] == ["", status, status, ""]


def test_bounds_are_rounded_outward() -> None:
    row = fakes.layer("conv", upper_bound=4.51441, lower_bound=4.51449, log10_upper_bound=0.654601)
    assert [cell(key, row) for key in ("lower", "upper", "log10")] == ["4.514", "4.515", "0.6547"]


def test_columns_are_chosen_by_name() -> None:
    assert parse_columns("layer,upper , note") == ("layer", "upper", "note")


@pytest.mark.parametrize(("text", "message"), [("layer,foo", "'foo'"), ("", "''"), ("upper,upper", "twice")])
def test_a_wrong_list_of_columns_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_columns(text)


def test_the_default_columns_always_fit() -> None:
    assert rows_grid(fakes.resnet_layers(), DEFAULT_COLUMNS).least_width() <= 100
    assert rows_grid(fakes.resnet_layers(), FIRST_COLUMNS).least_width() <= 80


def test_control_characters_of_names_are_escaped() -> None:
    row = LayerRecord("a\x1b[31m\n", "conv2d", "convolution", (), "unsupported")
    assert cell("layer", row) == "a\\x1b[31m\\n"


def test_a_group_says_in_how_many_blocks_its_rows_are() -> None:
    rows = [
        replace(fakes.layer(f"body.{k}", 2.0), block=block) for k, block in enumerate(("step ≤ 1", "step ≤ 1.1", ""))
    ]
    assert [cell("block", group(*some)) for some in (rows[:1], rows[:2], rows)] == ["step ≤ 1", "2 blocks", ""]
