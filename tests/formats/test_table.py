"""What a terminal shows of a report: the first screen fits 80 by 24, no line is too long, no figure is cut, nothing is hidden unsaid."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lipaudit.formats import (
    table,
)
from lipaudit.formats.layout import ORDERS, WHOLE, Layout, Order
from lipaudit.records.figure import Figure
from lipaudit.records.groups import layers_of, name_of
from lipaudit.records.report import AuditReport, DomainRecord, LayerRecord
from tests.places import SAMPLES
from tests.records import (
    fakes,
)

NAMES = st.lists(
    st.lists(st.sampled_from(["stages", "blocks", "0", "17", "downsample", "conv_pw"]), min_size=1, max_size=9),
    min_size=1,
    max_size=12,
)
FACTORS = st.floats(min_value=1e-300, max_value=1e300)
EVERY_ROW = Layout(every_row=True)
REPORTS = {
    "finite": fakes.report(),
    "unsupported": fakes.unsupported(),
    "two outputs": fakes.two_outputs(),
    "gated": fakes.gated(),
    "on pixels": fakes.on_pixels(200.0),
    "in a ball": fakes.around_a_cat(),
    "estimate": fakes.estimate(),
    "no rows": fakes.report(()),
    "constant": fakes.report(upper_bound=0.0, log10_upper_bound=None),
}


def vision_transformer() -> AuditReport:
    """A hundred rows in twelve kinds, a bound that says nothing useful, bounded outputs."""
    rows: list[LayerRecord] = [fakes.layer("patch_embed.proj", 0.8588, weight_shape=(192, 3, 16, 16))]
    for block in range(12):
        for name, factor, op in (
            ("norm1", 1000.0, "layer_norm"),
            ("attn.qkv", 0.7543, "linear"),
            ("attn", 160.0 + block, "scaled_dot_product_attention"),
            ("attn.proj", 0.5457, "linear"),
            ("norm2", 1000.0, "layer_norm"),
            ("mlp.fc1", 0.821, "linear"),
            ("mlp.act", 1.129, "gelu"),
            ("mlp.fc2", 0.8343, "linear"),
        ):
            shape = (192, 768) if op == "linear" else None
            rows.append(fakes.layer(f"blocks.{block}.{name}", factor, op, weight_shape=shape, input_size=(197, 192)))
    total = math.fsum(max(0.0, row.log10_upper_bound or 0.0) for row in rows)
    layers = tuple(replace(row, share=(row.log10_upper_bound or 0.0) / total) for row in rows)
    report = fakes.report(
        layers,
        rigor="numerical",
        upper_bound=1e95,
        log10_upper_bound=95.0,
        pixel_log10_upper_bound=95.6,
        output_diameter=24.99,
    )
    return replace(
        report, model=replace(report.model, spec="timm:vit_tiny_patch16_224", source="timm", unused_parameters=())
    )


def sample() -> AuditReport:
    document = json.loads((SAMPLES / "expected" / "digits_resnet.json").read_text(encoding="utf-8"))
    return AuditReport.from_json(json.dumps({"created": "2026-11-27T20:28:00Z", **document}))


def widest(text: str) -> int:
    return max(map(len, text.splitlines()))


def column(text: str, name: str) -> list[str]:
    """The cells of one column, found by its dashes."""
    lines = text.splitlines()
    rule = next(i for i, line in enumerate(lines) if line.startswith("---"))
    spans = [found.span() for found in re.finditer("-+", lines[rule])]
    heads = [lines[rule - 1][slice(*span)].strip() for span in spans]
    end = lines.index("", rule) if "" in lines[rule:] else len(lines)
    start, stop = spans[heads.index(name)]
    return [line[start:stop].strip() for line in lines[rule + 1 : end]]


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("report", [fakes.report(), fakes.gated(), fakes.estimate(), vision_transformer(), sample()])
@pytest.mark.parametrize("height", [23, 24])
def test_the_first_screen_fits_80_by_24(report: AuditReport, height: int) -> None:
    text = table.render(report, Layout(height=height, bars=True, typed="lipaudit resnet50 --weights random"))
    assert widest(text) <= 80
    assert len(text.splitlines()) <= height
    assert len(column(text, "layer")) >= 3


@pytest.mark.parametrize("height", [30, 40, 60])
def test_a_higher_screen_is_filled_with_rows(height: int) -> None:
    text = table.render(fakes.report(), Layout(height=height))
    assert len(text.splitlines()) == height or "All 34 rows" in text
    assert len(text.splitlines()) <= height


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("width", [80, 100, 140])
@pytest.mark.parametrize(
    "more",
    [{}, {"depth": 1}, {"verbose": True}, {"every_row": True}, {"verbose": True, "every_row": True, "bars": True}],
)
def test_no_line_is_longer_than_the_terminal(name: str, width: int, more: dict[str, bool]) -> None:
    text = table.render(REPORTS[name], Layout(width=width, **more))  # type: ignore[arg-type]
    assert widest(text) <= width
    if more.get("every_row") and REPORTS[name].layers and "depth" not in more:
        assert len(column(text, "layer")) == len(REPORTS[name].layers)


@given(
    NAMES, FACTORS, st.sampled_from(["conv2d", "adaptive_avg_pool2d", "scaled_dot_product_attention"]), st.booleans()
)
def test_any_table_fits_and_no_figure_is_cut(names: list[list[str]], factor: float, op: str, verbose: bool) -> None:
    layers = tuple(
        fakes.layer(
            f"{'.'.join(parts)}#{i}",
            factor,
            op,
            weight_shape=(2048, 2048, 17, 17, 17),
            input_size=(1024, 1024, 1024),
            details="k3x5 s2x1 p1,2,3,4 d2 g2048 out1",
            note="a remark that is long enough to be cut somewhere in the middle of it",
        )
        for i, parts in enumerate(names)
    )
    gap = fakes.missing("some.where.deep.inside.of.the.network", "unsupported", "fft_rfft2", "no rule")
    text = table.render(fakes.report((*layers, gap), status="unsupported"), replace(EVERY_ROW, verbose=verbose))
    assert widest(text) <= 80
    upper = column(text, "upper" if verbose else "factor")
    assert upper[-1] == "unsupported"
    assert all(float(cell) >= factor for cell in upper[:-1])
    if verbose:
        assert all(float(cell) <= factor for cell in column(text, "lower")[:-1])
    assert len(set(column(text, "layer"))) == len(layers) + 1


def test_the_answer_comes_first_and_says_what_it_is_worth() -> None:
    lines = table.render(fakes.report(lower_bound=46.21, lower_bound_distance=0.5)).splitlines()
    assert lines[0] == "resnet50 · torchvision, weights IMAGENET1K_V2 · 1x3x224x224 · 25.6 M parameters"
    assert lines[2:5] == [
        "  Lipschitz bound (l2)   ≤ 10^21.46 over all inputs, certified",
        "    in pixels in [0, 1]  ≤ 10^22.11, before the model's normalisation",
        "  Largest stretch found  ≥ 46.21 between two inputs 0.5 apart, measured",
    ]
    assert "outputs that differ by at most 10^21.46 d. That is true, but says nothing useful" in words("\n".join(lines))


def test_quiet_leaves_the_answer_in_one_line() -> None:
    quiet = Layout(quiet=True)
    assert table.render(fakes.report(), quiet) == "resnet50: Lipschitz bound (l2) ≤ 10^21.46 over all inputs, certified"
    searched = table.render(fakes.report(lower_bound=46.21, lower_bound_distance=0.5), quiet)
    assert searched.endswith("certified; largest stretch found ≥ 46.21")
    assert table.render(fakes.gated(), quiet).endswith("none over all inputs: 2 operations unbounded")
    assert table.render(fakes.unsupported(), quiet).endswith(
        "not available over all inputs: 1 operation unsupported and 2 operations unbounded"
    )
    assert table.render(fakes.estimate(), quiet).endswith(
        "~10^21.46 over all inputs: an estimate by sedghi2019, no bound"
    )


@pytest.mark.parametrize("report", [fakes.gated(), fakes.unsupported()])
def test_a_network_without_a_bound_shows_no_figure_of_its_own_and_its_gaps_first(report: AuditReport) -> None:
    text = table.render(report)
    assert "≤" not in text.splitlines()[2]
    assert column(text, "factor")[0] in ("unbounded", "unsupported")
    assert "share" not in text.split("Missing")[0].split()
    assert words(text).count("unbounded: mul at 2 places, first blocks.3.se.mul") == 1


def test_a_bound_over_another_domain_is_part_of_the_answer() -> None:
    text = table.render(fakes.gated(), Layout(typed="lipaudit net"))
    assert "    over pixels in [0, 1]  ≤ 10^8.712 (5.149e+08), numerical" in text.splitlines()
    assert "Over all images with pixels in [0, 1], two inputs that differ by d have outputs" in words(text)
    assert "--domain pixels" in text.split("Next")[1]


def test_equal_layers_stand_together_and_what_is_hidden_is_said() -> None:
    text = table.render(vision_transformer())
    assert column(text, "layer")[:3] == ["blocks.[0-11].norm1 ×12", "blocks.[0-11].norm2 ×12", "blocks.[0-11].attn ×12"]
    assert column(text, "factor")[0] == "max 1000"
    shown = sum(len(layers_of(row)) for row in table.chosen_rows(vision_transformer(), Layout(top=3)))
    screen = table.render(vision_transformer(), Layout(top=3))
    assert f"{shown} of 97 rows, grouped, by share; max = largest of the group (--all: each row)" in screen


def test_single_rows_are_named_below_groups() -> None:
    text = table.render(vision_transformer())
    (line,) = [line for line in text.splitlines() if line.startswith("Costs most")]
    names = re.findall(r"(\S+) [0-9.]+%", line)
    assert len(set(names)) == 3
    assert set(names) <= {row.name for row in vision_transformer().layers}
    assert "Costs most" not in table.render(sample(), Layout(height=40))


def test_verbose_has_at_least_the_rows_of_the_first_screen_and_every_column() -> None:
    brief, verbose = (table.render(sample(), Layout(verbose=verbose)) for verbose in (False, True))
    assert len(column(verbose, "layer")) >= len(column(brief, "layer"))
    headings = {"op", "weight", "input", "lower", "upper", "tightness", "share"}
    assert headings <= set(verbose.split("\nResult")[0].split())


def test_rows_that_fit_are_all_there_one_by_one() -> None:
    text = table.render(sample(), Layout(height=40))
    assert "All 11 rows, the largest share first" in text
    assert "--all" not in text
    assert len(column(text, "layer")) == 11


def test_every_row_is_in_the_order_of_computation() -> None:
    text = table.render(sample(), EVERY_ROW)
    assert column(text, "layer") == [row.name for row in sample().layers]
    assert "All 11 rows, in the order of computation" in text


@pytest.mark.parametrize("order", ORDERS)
def test_rows_are_sorted_as_asked(order: Order) -> None:
    rows = table.chosen_rows(sample(), Layout(order=order, top=100))
    keys = {
        "share": [-(row.share or 0.0) for row in rows],
        "factor": [-(layers_of(row)[0].upper_bound or 0.0) for row in rows],
        "depth": [sample().layers.index(layers_of(row)[0]) for row in rows],
        "name": list(map(name_of, rows)),
    }
    assert keys[order] == sorted(keys[order])  # type: ignore[type-var]
    assert len(table.chosen_rows(sample(), Layout(order=order, top=4))) == 4


def test_names_are_sorted_by_their_numbers() -> None:
    report = fakes.report(tuple(fakes.layer(name) for name in ("b.10.x", "b.9.y", "a")))
    assert [name_of(row) for row in table.chosen_rows(report, Layout(order="name"))] == ["a", "b.9.y", "b.10.x"]


def test_parts_have_a_factor_and_no_empty_columns() -> None:
    text = table.render(fakes.report(), Layout(depth=1))
    assert column(text, "layer")[0] == "layer3 (10 layers)"
    assert column(text, "factor")[0] == "max 4.604"
    assert all(any(column(text, head)) for head in ("layer", "op", "weight", "factor", "share"))
    assert "weight" not in table.render(fakes.report((fakes.layer("a.b"), fakes.layer("a.c"))), Layout(depth=1)).split()


def test_columns_can_be_chosen() -> None:
    text = table.render(fakes.report(), Layout(columns=("layer", "log10"), every_row=True))
    assert column(text, "log10")[1] == "0.3011"


def test_chosen_columns_stand_in_blocks_on_a_terminal_and_whole_elsewhere() -> None:
    report = fakes.report((fakes.layer("conv" * 20, note="torus grid 8x8 " * 5),))
    columns = ("layer", "note", "lower", "upper", "log10", "tightness", "reads", "rule", "rigor", "status")
    narrow = table.render(report, Layout(columns=columns))
    wide = table.render(report, replace(WHOLE, columns=columns))
    assert widest(narrow) <= 80
    assert narrow.count("\nlayer ") == 2
    assert column(wide, "layer") == ["conv" * 20]
    assert widest(wide) > 100
    assert column(table.render(report, WHOLE), "note") == ["torus grid 8x8 " * 4 + "torus grid 8x8"]


def test_a_file_holds_every_row_and_every_section() -> None:
    text = table.render(vision_transformer(), WHOLE)
    assert len(column(text, "layer")) == 97
    for label in ("Result", "Scope", "Costs most", "What to do", "Remarks", "Time"):
        assert f"\n{label} " in text


def test_the_column_of_shares_is_left_out_where_there_are_none() -> None:
    assert any(line.endswith("share") for line in table.render(fakes.report()).splitlines())
    assert not any(line.endswith("share") for line in table.render(fakes.unsupported()).splitlines())


def test_constants_beyond_floats_are_shown_through_their_logarithm() -> None:
    layer = fakes.layer(
        "conv", upper_bound=None, log10_upper_bound=412.305, lower_bound=None, log10_lower_bound=412.305
    )
    report = fakes.report((layer,), upper_bound=None, log10_upper_bound=412.305)
    text = table.render(report, Layout(verbose=True))
    assert column(text, "upper") == ["10^412.31"]
    assert column(text, "lower") == ["10^412.30"]
    assert "differ by at most 10^412.31 d" in words(table.render(report))


def test_estimates_are_announced_above_the_answer_and_marked() -> None:
    network = table.render(fakes.estimate("ryu2019"))
    layer = table.render(fakes.report((fakes.estimated("conv"),), status="unbounded"))
    assert network.splitlines()[0].startswith("ESTIMATE (ryu2019): the network's figure")
    assert words(layer).startswith(
        "ESTIMATE (gram): the figures of these rows are estimates, not proven bounds: conv. resnet50 ·"
    )
    assert "ESTIMATE" not in table.render(fakes.report())
    assert column(network, "factor")[0] == "max ~4.604"
    assert "≤" not in network
    verbose = table.render(fakes.estimate(), Layout(verbose=True, every_row=True))
    assert column(verbose, "figure")[:2] == ["~4.751", "2"]  # a pooling layer keeps its bound


def test_a_network_without_rows_is_said_to_be_one() -> None:
    assert "No operation of this network can stretch a perturbation." in table.render(fakes.report(()))


def test_a_bound_near_one_shows_by_how_much_and_leads_to_a_claim() -> None:
    near = fakes.report(upper_bound=1.0000019, log10_upper_bound=math.log10(1.0000019))
    text = table.render(near, Layout(typed="lipaudit m.onnx"))
    assert "≤ 1.000002 over all inputs" in text
    assert "--claim 1 " in text.split("Next")[1]


def test_what_to_type_next_is_a_command_where_it_fits_and_an_option_where_it_does_not() -> None:
    short = table.render(fakes.report(), Layout(typed="lipaudit resnet50"))
    assert "Next        lipaudit resnet50 --lower-bound" in short
    assert "Next" not in table.render(fakes.report())
    long = table.render(fakes.report(), Layout(typed="lipaudit " + "deep/" * 12 + "model.onnx --weights random"))
    assert "Next        add --lower-bound" in long
    assert widest(long) <= 80


def test_no_limit_is_advised_where_one_is_given() -> None:
    small = fakes.report(upper_bound=2.5, log10_upper_bound=0.39794)
    for verbose in (False, True):
        free, gated = (
            table.render(small, Layout(typed="lipaudit net", verbose=verbose, gated=gated)) for gated in (False, True)
        )
        assert "--max-log10-bound" in free
        assert "--max-log10-bound" not in gated


def test_a_ball_that_does_not_lower_the_bound_is_said_to_be_too_large() -> None:
    report = fakes.around_a_cat()
    log10 = report.network.log10
    for beside, told in ((log10, True), (log10 + 1.0, False)):
        other = DomainRecord("global", "finite", figure=Figure(log10=beside), reasons=())
        text = table.render(
            replace(report, network=replace(report.network, other_domains=(other,))), Layout(typed="lipaudit net")
        )
        assert ("The ball does not lower it" in words(text)) is told
        assert ("a smaller ball" in text) is told


def test_colour_and_bars_are_only_there_when_asked_for() -> None:
    plain = table.render(fakes.gated())
    assert plain.replace("\n", "").isprintable()
    assert "█" not in table.render(fakes.report())
    assert "█" in table.render(fakes.report(), Layout(bars=True))
    coloured = table.render(fakes.gated(), Layout(colour=True))
    assert re.sub("\x1b\\[[0-9;]*m", "", coloured) == plain
    assert "\x1b[31m" in coloured


@given(st.text(min_size=1, max_size=150))
def test_names_cannot_break_the_layout(name: str) -> None:
    layer = replace(fakes.layer("conv", math.e), name=name)
    report = fakes.report((layer,))
    report = replace(report, model=replace(report.model, spec=name))
    text = table.render(report, Layout(typed=f"lipaudit {name}"))
    assert widest(text) <= 80
    assert all(line.isprintable() for line in text.splitlines())
