"""Rows taken together: what they are called, and what is claimed of them."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lipaudit.records.groups import Group, group_by_path, group_repeated, is_chain, layers_of, name_of
from lipaudit.records.report import LayerRecord
from tests.places import SAMPLES
from tests.records import (
    fakes,
)

SAMPLE = SAMPLES / "expected" / "digits_resnet.json"


def test_grouping_keeps_shallow_rows_and_sums_the_shares_of_deep_ones() -> None:
    rows = group_by_path(fakes.resnet_layers(), 1)
    assert list(map(name_of, rows)) == [
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


def test_repeated_use_of_a_module_is_grouped_by_its_module() -> None:
    rows = group_by_path((fakes.layer("net.relu"), fakes.layer("net.relu#2")), 1)
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
    rows = group_by_path([onnx_layer(name) for name in names], depth)
    assert list(map(name_of, rows)) == labels


def test_rows_without_a_module_are_grouped_by_their_name() -> None:
    (group,) = group_by_path([fakes.layer(name, module="") for name in ("net.a", "net.b")], 1)
    assert isinstance(group, Group)
    assert group.label == "net (2 layers)"


def test_a_sample_onnx_model_is_grouped_by_its_blocks() -> None:
    entries = json.loads(SAMPLE.read_text(encoding="utf-8"))["layers"]
    layers = [fakes.layer(entry["name"], module=entry["module"]) for entry in entries]
    labels = [row.label for row in group_by_path(layers, 1) if isinstance(row, Group)]
    blocks = ["/stem (2 layers)", "/block1 (2 layers)", "/block2 (3 layers)", "/block3 (2 layers)"]
    assert labels == [*blocks, "/pool (1 layer)", "/head (1 layer)"]


def test_without_depth_every_row_stays() -> None:
    assert group_by_path(fakes.resnet_layers(), None) == fakes.resnet_layers()


def named(*names: str, **changes: Any) -> list[LayerRecord]:
    return [fakes.layer(name, **changes) for name in names]


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (("a.0.b", "a.1.b", "a.2.b"), ["a.[0-2].b ×3"]),
        (("a.0.b", "a.1.c", "a.2.b"), ["a.[0,2].b ×2", "a.1.c"]),
        (("/s/0/Conv", "/s/1/Conv"), ["/s/[0,1]/Conv ×2"]),
        (("a.0.b.0", "a.0.b.1", "a.1.b.0", "a.1.b.1"), ["a.[0,1].b.0 ×2", "a.[0,1].b.1 ×2"]),
        (("layer1.conv", "layer2.conv"), ["layer1.conv", "layer2.conv"]),
        (("se", "se#2"), ["se", "se#2"]),
        (("a.0", "a.0.0"), ["a.0", "a.0.0"]),
    ],
)
def test_equal_layers_whose_names_differ_in_one_number_are_one_group(names: tuple[str, ...], labels: list[str]) -> None:
    assert list(map(name_of, group_repeated(named(*names)))) == labels


@pytest.mark.parametrize(
    "change",
    [{"op": "linear"}, {"weight_shape": (1, 2)}, {"input_size": (7, 7)}, {"details": "s2"}, {"status": "unbounded"}],
)
def test_layers_that_differ_in_anything_else_stay_apart(change: dict[str, Any]) -> None:
    first, second = named("a.0", "a.1")
    assert group_repeated([first, replace(second, **change)]) == (first, replace(second, **change))


def test_rows_without_a_bound_for_the_same_reason_are_one_group() -> None:
    gates = [fakes.missing(f"stages.{i}.{j}.se.mul", "unbounded", "mul", "a product") for i in (1, 2) for j in (0, 3)]
    (group,) = group_repeated([*gates[:3], replace(gates[3], input_size=(1, 1))])
    assert name_of(group) == "stages.*.*.se.mul ×4"
    assert group.status == "unbounded"


@given(st.lists(st.lists(st.sampled_from(["a", "0", "1", "b", "17"]), min_size=1, max_size=5), max_size=12))
def test_grouping_loses_no_row_and_no_share(paths: list[list[str]]) -> None:
    names = list(dict.fromkeys(map(".".join, paths)))
    rows = [fakes.layer(name, 2.0 + i, share=1 / len(names)) for i, name in enumerate(names)]
    groups = group_repeated(rows)
    assert sorted(layer.name for row in groups for layer in layers_of(row)) == sorted(names)
    assert math.fsum(row.share or 0.0 for row in groups) == pytest.approx(1.0 if rows else 0.0)
    assert len(set(map(name_of, groups))) == len(groups)
    for row in groups:
        if isinstance(row, Group):
            assert row.largest.upper_bound == max(layer.upper_bound or 0.0 for layer in row.layers)


def chain(*factors: float) -> tuple[LayerRecord, ...]:
    names = ["x", *(f"net.{i // 2}.{i}" for i in range(len(factors)))]
    return tuple(fakes.layer(n, f, inputs=(b,)) for n, f, b in zip(names[1:], factors, names, strict=False))


def test_only_a_chain_of_rows_has_products() -> None:
    rows = chain(2.0, 3.0, 5.0)
    report = fakes.report(rows, upper_bound=30.0, log10_upper_bound=math.log10(30.0))
    assert is_chain(report)
    first, last = group_by_path(rows, 2, is_chain(report))
    assert isinstance(first, Group)
    assert first.log10_product is not None
    assert 10**first.log10_product == pytest.approx(6.0)
    assert first.log10_product >= math.log10(2.0) + math.log10(3.0)
    assert name_of(last) == "net.1 (1 layer)"


@pytest.mark.parametrize("log10", [math.log10(60.0), math.log10(31.0), None])
def test_a_network_whose_figure_is_not_the_product_is_no_chain(log10: float | None) -> None:
    report = fakes.report(chain(2.0, 3.0, 5.0), upper_bound=None, log10_upper_bound=log10)  # x + x between rows
    assert not is_chain(report)
    (group, *_) = group_by_path(report.layers, 2, is_chain(report))
    assert isinstance(group, Group)
    assert group.log10_product is None


def test_rows_of_a_part_that_do_not_stand_together_have_no_product() -> None:
    a, b, c = chain(2.0, 3.0, 5.0)
    rows = (
        replace(a, name="n.a", module="n.a"),
        replace(b, name="m.b", module="m.b"),
        replace(c, name="n.c", module="n.c"),
    )
    part = group_by_path(rows, 1, chain=True)[0]
    assert isinstance(part, Group)
    assert len(part.layers) == 2
    assert part.log10_product is None
