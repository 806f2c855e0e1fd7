from __future__ import annotations

import json
import math
from typing import Any

import pytest

from lipaudit.errors import UsageError
from lipaudit.formats.columns import (
    COLUMNS,
    DEFAULT_COLUMNS,
    Group,
    cell,
    default_columns,
    group_rows,
    least_width,
    parse_columns,
)
from lipaudit.records.report import LayerRecord
from tests.places import SAMPLES
from tests.records import (
    fakes,
)

SAMPLE = SAMPLES / "expected" / "digits_resnet.json"


def test_grouping_keeps_shallow_rows_and_sums_the_shares_of_deep_ones() -> None:
    rows = group_rows(fakes.resnet_layers(), 1)
    assert [row.label if isinstance(row, Group) else row.name for row in rows] == [
        "conv1",
        "maxpool",
        "layer1 (10 layers)",
        "layer2 (10 layers)",
        "layer3 (10 layers)",
        "avgpool",
        "fc",
    ]
    shares = [row.share for row in rows if row.share is not None]
    assert math.fsum(share for share in shares if share > 0) == pytest.approx(1.0)


def test_a_group_shows_no_bound() -> None:
    (group,) = group_rows((fakes.layer("body.0", share=0.25), fakes.layer("body.1", share=0.5)), 1)
    shown = {key: cell(key, group) for key in COLUMNS}
    assert {key: text for key, text in shown.items() if text} == {
        "layer": "body (2 layers)",
        "share": "75.0%",
        "status": "finite",
    }


def test_a_group_does_not_hide_a_missing_bound() -> None:
    deep = fakes.missing("body.se.mul", "unbounded", "mul", "a product")
    (group,) = group_rows((fakes.layer("body.0", share=0.25), deep), 1)
    assert cell("upper", group) == "unbounded"
    assert cell("share", group) == ""


def test_repeated_use_of_a_module_is_grouped_by_its_module() -> None:
    rows = group_rows((fakes.layer("net.relu"), fakes.layer("net.relu#2")), 1)
    assert [row.label for row in rows if isinstance(row, Group)] == ["net (2 layers)"]


def onnx_layer(name: str, **changes: Any) -> LayerRecord:
    return fakes.layer(name, module=name.removeprefix("/").replace("shortcut.0", "shortcut_0"), **changes)


@pytest.mark.parametrize(
    ("depth", "labels"),
    [
        (1, ["/block1 (3 layers)", "/head (1 layer)", "/ReduceMean"]),
        (2, ["/block1/conv1 (1 layer)", "/block1/shortcut (2 layers)", "/head/Gemm", "/ReduceMean"]),
        (3, ["/block1/conv1/Conv", "/block1/shortcut/shortcut (2 layers)", "/head/Gemm", "/ReduceMean"]),
    ],
)
def test_names_with_slashes_are_grouped_by_their_components(depth: int, labels: list[str]) -> None:
    names = (
        "/block1/conv1/Conv",
        "/block1/shortcut/shortcut.0/Conv",
        "/block1/shortcut/shortcut.1/Conv",
        "/head/Gemm",
        "/ReduceMean",
    )
    rows = group_rows([onnx_layer(name) for name in names], depth)
    assert [row.label if isinstance(row, Group) else row.name for row in rows] == labels


def test_rows_without_a_module_are_grouped_by_their_name() -> None:
    (group,) = group_rows([fakes.layer(name, module="") for name in ("net.a", "net.b")], 1)
    assert isinstance(group, Group)
    assert group.label == "net (2 layers)"


def test_a_sample_onnx_model_is_grouped_by_its_blocks() -> None:
    entries = json.loads(SAMPLE.read_text(encoding="utf-8"))["layers"]
    layers = [fakes.layer(entry["name"], module=entry["module"]) for entry in entries]
    labels = [row.label for row in group_rows(layers, 1) if isinstance(row, Group)]
    blocks = ["/stem (2 layers)", "/block1 (2 layers)", "/block2 (3 layers)", "/block3 (2 layers)"]
    assert labels == [*blocks, "/pool (1 layer)", "/head (1 layer)"]


def test_shares_are_no_default_column_where_no_row_has_one() -> None:
    assert default_columns(fakes.report().layers) == DEFAULT_COLUMNS
    assert default_columns(fakes.unsupported().layers) == DEFAULT_COLUMNS[:-1]


def test_without_depth_every_row_stays() -> None:
    assert group_rows(fakes.resnet_layers(), None) == fakes.resnet_layers()


@pytest.mark.parametrize("status", ["unbounded", "unsupported"])
def test_a_figure_is_never_shown_beside_another_status(status: str) -> None:
    row = fakes.layer("conv", status=status)
    assert [cell(key, row) for key in ("lower", "upper", "log10", "ratio")] == ["", status, status, ""]


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
    assert least_width(DEFAULT_COLUMNS) <= 100
    assert all(column.floor >= len(column.key) for column in COLUMNS.values())


def test_control_characters_of_names_are_escaped() -> None:
    row = LayerRecord("a\x1b[31m\n", "conv2d", "convolution", (), "unsupported")
    assert cell("layer", row) == "a\\x1b[31m\\n"
