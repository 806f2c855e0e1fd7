"""The layout of comparisons, with records made by hand."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lipaudit.formats import (
    comparison as text,
)
from lipaudit.records.comparison import (
    Comparison,
    ComparisonSettings,
    FigureRecord,
    LayerComparison,
    MethodComparison,
)
from lipaudit.records.figure import CERTIFIED, Figure
from lipaudit.text.explanations import TOPICS
from tests.records import (
    fakes,
)

METHODS = tuple(f"somebody{year}" for year in range(2010, 2025))


def figure(method: str, **changes: Any) -> FigureRecord:
    values = {"outcome": "measured", "figure": 2.5, "log10_figure": 0.398, "rigor": "estimate", "seconds": 0.25}
    return fakes.changed(FigureRecord(method, ""), **{**values, **changes})


def layer(name: str, *figures: FigureRecord) -> LayerComparison:
    lower, upper = Figure(0.4771, CERTIFIED, 3.0), Figure(0.5119, CERTIFIED, 3.25)
    return LayerComparison(name, "conv2d", (4, 2, 3, 3), (8, 8), "k3 p1", 0.5, figures, lower, upper)


def method(name: str, **changes: Any) -> MethodComparison:
    values: dict[str, Any] = {"iterations": None, "seconds": 1.0, "measured": 1, "undefined": 0, "skipped": 0}
    values |= {
        "violations": 0,
        "violations_in_last_digits": 0,
        "worst_shortfall": None,
        "network_status": "finite",
        "network_rigor": "estimate",
    }
    values |= {"network_figure": 7.5, "log10_network_figure": 0.875}
    bare = MethodComparison(name, name.title(), f"{name}: a paper", "a claim", None, 0.0, 0, 0, 0, 0, 0, None, "")
    return fakes.changed(bare, **{**values, **changes})


def comparison(layers: tuple[LayerComparison, ...], methods: tuple[MethodComparison, ...]) -> Comparison:
    return Comparison(
        fakes.report().model, ComparisonSettings(time_limit=60.0), layers, methods, "0.1.0", "2026-11-28T06:00:00Z"
    )


def test_only_what_is_below_is_marked_and_digits_stay_below_each_other() -> None:
    below = figure("a", below_lower_bound=True, shortfall=1 / 6)
    above = figure("a", figure=3.5, log10_figure=0.544)
    bound = figure("b", figure=3.0031, rigor="numerical")
    found = comparison((layer("one", below, bound), layer("two", above, bound)), (method("a"), method("b")))
    lines = text.table(found).splitlines()
    one, two = (next(line for line in lines if line.startswith(f"{name} ")) for name in ("one", "two"))
    assert one.split() == ["one", "3", "3.25", "~2.5!", "3.004"]
    assert two.split() == ["two", "3", "3.25", "~3.5", "3.004"]
    assert one.index("~2.5") == two.index("~3.5")


def test_what_is_below_in_its_last_digits_only_has_a_mark_of_its_own() -> None:
    far, near, exact = (
        figure("a", below_lower_bound=True, shortfall=1e-6),
        *(
            figure("a", below_lower_bound=below, shortfall=shortfall)
            for below, shortfall in ((True, 9.9e-7), (False, None))
        ),
    )
    counted = method("a", measured=3, violations=2, violations_in_last_digits=1, worst_shortfall=1e-6)
    found = comparison(tuple(layer(n, f) for n, f in zip("xyz", (far, near, exact), strict=True)), (counted,))
    lines = text.table(found).splitlines()
    rows = [line.split() for line in lines if line[:2] in ("x ", "y ", "z ")]
    assert [row[3] for row in rows[:3]] == ["~2.5!", "~2.5<", "~2.5"]
    row = next(line for line in lines if line.startswith("a  "))
    assert row.split()[3:] == ["2", "of", "3", "1", "-0.0001%", "3", "of", "3", "1.000"]
    assert "| ~2.5&lt; |".replace("~", "\\~") in text.markdown(found)


def test_the_legend_claims_no_more_than_the_marks_say() -> None:
    shown = " ".join(text.table(comparison((layer("one", figure("a")),), (method("a", iterations=1),))).split())
    assert (
        "~ marks an estimate, ! a figure below the certified lower bound of its layer, which is provably no bound"
        in shown
    )
    assert "`lipaudit explain compare`" in shown
    legend = " ".join(TOPICS["compare"].paragraphs)
    assert "An estimate without ! is no bound either" in legend
    assert "what gram gives for a layer is certified" in legend
    assert "up to rounding" in legend
    assert "there is no theorem" in legend
    assert "strides, which most methods ignore" in legend
    assert "a: a: a paper, 1 iteration or sample; a claim." in shown


def test_the_table_of_networks_is_no_wider_than_the_others() -> None:
    crowd = comparison(
        tuple(layer(f"l{i}", figure("ryu2019")) for i in range(2000)),
        (
            method(
                "ryu2019",
                measured=2000,
                violations=1999,
                worst_shortfall=1.8e-9,
                network_status="unsupported",
                ratio_to_ryu2019=1e-5,
            ),
        ),
    )
    lines = text.table(crowd).splitlines()
    assert max(map(len, lines)) <= 80
    assert "1999 of 2000" in "\n".join(lines)


def test_outcomes_without_a_figure_are_named_and_numbered_once() -> None:
    nothing = [figure("a", outcome="undefined", figure=None, log10_figure=None, rigor=None, reason=r) for r in "xyx"]
    skipped = figure("b", outcome="skipped", figure=None, log10_figure=None, rigor=None, reason="no time")
    layers = tuple(layer(f"l{i}", entry, skipped) for i, entry in enumerate(nothing))
    missing = method("b", network_status="skipped", network=None, skipped=3)
    found = comparison(layers, (method("a"), missing))
    shown = text.table(found)
    assert [line.split()[3:] for line in shown.splitlines() if re.match(r"l[012] .*n/a", line)] == [
        ["n/a", "[1]", "skipped"],
        ["n/a", "[2]", "skipped"],
        ["n/a", "[1]", "skipped"],
    ]
    assert "\nn/a [1]: x.\nn/a [2]: y.\n" in shown
    assert "used up its 60 s" in shown
    assert next(line for line in shown.splitlines() if line.startswith("b  ")).split()[1] == "skipped"


def test_ratios_are_shown_only_beside_ryu2019() -> None:
    one = (layer("one", figure("ryu2019"), figure("a")),)
    beside = comparison(one, (method("ryu2019", ratio_to_ryu2019=1.0), method("a", ratio_to_ryu2019=2.5)))
    assert "/ ryu2019" in text.table(beside)
    alone = comparison((layer("one", figure("a")),), (method("a"),))
    assert "/ ryu2019" not in text.table(alone)
    shown = text.table(beside).splitlines()
    assert [line.split()[1:3] for line in shown if line.startswith(("ryu2019  ", "a    "))][:2] == [
        ["~7.5", "~1"],
        ["~7.5", "~2.5"],
    ]
    assert "~ where one of them is an estimate" in " ".join(" ".join(shown).split())


def test_a_ratio_is_an_estimate_where_either_figure_is_one() -> None:
    one = (layer("one", figure("ryu2019"), figure("a")),)
    for rigors, shown in ((("estimate", "numerical"), "~2.5"), (("numerical", "numerical"), "2.5")):
        methods = (
            method("ryu2019", ratio_to_ryu2019=1.0, network_rigor=rigors[0]),
            method("a", ratio_to_ryu2019=2.5, network_rigor=rigors[1]),
        )
        row = next(line for line in text.table(comparison(one, methods)).splitlines() if line.startswith("a    "))
        assert row.split()[2] == shown


def test_shares_below_are_percents_without_exponents() -> None:
    for shortfall, shown in ((0.998, "-100%"), (1.0, "-100%"), (0.5404, "-54%"), (0.0757, "-7.6%"), (2e-9, "-2e-07%")):
        counted = method("b", violations=1, worst_shortfall=shortfall)
        found = comparison((layer("one", figure("b", below_lower_bound=True, shortfall=shortfall)),), (counted,))
        assert shown in text.table(found).split()


def test_without_layers_there_are_no_empty_tables() -> None:
    found = comparison((), (method("a", measured=0),))
    for shown in (text.table(found), text.markdown(found)):
        assert "no convolution and no dense layer" in " ".join(shown.split())
        assert "Figures" not in shown
        assert "Seconds" not in shown
        assert "Networks" in shown


def test_cells_of_the_tsv_do_not_drive_a_terminal() -> None:
    rows = text.tsv(comparison((layer("\x1b[2Jone\u202e\\", figure("a")),), (method("a"),))).split("\n")
    assert rows[1].split("\t")[1] == "\\x1b[2Jone\\u202e\\\\"


@settings(deadline=None)
@given(
    st.lists(st.text(min_size=1, max_size=60), min_size=1, max_size=4, unique=True),
    st.floats(min_value=1e-300, max_value=1e300),
)
def test_any_names_and_figures_fit(names: list[str], value: float) -> None:
    figures = tuple(figure(m, figure=value, below_lower_bound=True, shortfall=0.25, seconds=12345.6) for m in METHODS)
    found = comparison(tuple(layer(n, *figures) for n in names), tuple(map(method, METHODS)))
    lines = text.table(found).splitlines()
    assert max(map(len, lines)) <= 80
    assert all(line.isprintable() for line in lines)
    cells = [cell for line in lines for cell in line.split() if cell.startswith("~") and cell.endswith("!")]
    assert len(cells) >= len(names) * len(METHODS)
    assert all(abs(float(cell[1:-1]) / value - 1) < 1e-3 for cell in cells)
    rows = text.tsv(found).split("\n")
    assert len(rows) == 1 + len(METHODS) * (len(names) + 1)
    assert {row.count("\t") for row in rows} == {21}
    heads = [line for line in text.markdown(found).splitlines() if line.startswith("| layer")]
    assert heads[0].count(" | ") == 17


def test_raw_numbers_survive_in_tsv_and_json() -> None:
    one = figure("a", figure=1 / 3, below_lower_bound=True, shortfall=8 / 9)
    found = comparison((layer("one", one),), (method("a", violations=1, worst_shortfall=8 / 9),))
    first, last = csv.DictReader(io.StringIO(text.tsv(found)), delimiter="\t")
    assert (float(first["figure"]), float(first["shortfall"]), first["weight_shape"]) == (1 / 3, 8 / 9, "4x2x3x3")
    assert (last["layer"], last["method"], float(last["figure"])) == ("", "a", 7.5)
    assert (last["outcome"], last["network_status"], last["violations"], last["ratio_to_ryu2019"]) == (
        "",
        "finite",
        "1",
        "",
    )
    assert (first["outcome"], first["network_status"], first["violations"]) == ("measured", "", "")
    assert (float(last["worst_shortfall"]), last["violations_in_last_digits"], last["shortfall"]) == (8 / 9, "0", "")
    document = json.loads(found.to_json())
    assert document["layers"][0]["figures"][0]["figure"] == 1 / 3
    assert (document["kind"], document["schema_version"]) == ("comparison", "1.0")
    assert document["tool"] == {"name": "lipaudit", "version": "0.1.0"}
    assert json.loads(replace(found, layers=()).to_json(None))["layers"] == []
