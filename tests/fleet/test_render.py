"""The summary of a fleet: what it says of each model, rounded to the safe side, in every format."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import fields, replace

import pytest
from markdown_it import MarkdownIt

from lipaudit.fleet.entry import DONE, Entry
from lipaudit.fleet.render import HEADINGS, render
from lipaudit.fleet.summary import Row, row_of
from lipaudit.records.report import AuditReport
from tests.records import (
    fakes,
)

ODD = 'a|b<i>"c"\t\n\x1b[2J\udce9\\'


def row(report: AuditReport, spec: str = "net", **options: object) -> Row:
    return row_of(Entry(spec, options, DONE, report=report.to_dict()), report)


CONSTANT = fakes.report(
    (), upper_bound=0.0, log10_upper_bound=None, pixel_upper_bound=0.0, pixel_log10_upper_bound=None
)
STRUCTURE = replace(
    fakes.report(
        (), **dict.fromkeys(("upper_bound", "log10_upper_bound", "pixel_upper_bound", "pixel_log10_upper_bound"))
    ),
    settings=replace(fakes.report().settings, structure=True),
)
ROWS = [
    row(fakes.report(), "resnet50"),
    row(fakes.gated(), "gated"),
    row(fakes.unsupported(), "gap"),
    row(fakes.estimate(), "guess"),
    row(fakes.on_pixels(), "gated", domain="pixels"),
    row(CONSTANT, "constant"),
    row_of(Entry.failed(ODD, {}, f"{ODD} is broken", 3), None),
]


def cells(text: str) -> list[list[str]]:
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    rows: list[list[str]] = []
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline" and rows and token.level > 2:
            rows[-1].append("".join(child.content for child in token.children or ()))
    return rows


def test_a_row_says_what_the_report_says() -> None:
    first = ROWS[0]
    assert (first.status, first.rigor, first.domain, first.layers) == ("finite", "certified", "global", 36 - 2)
    assert first.log10_upper_bound == 21.4567
    most = max(fakes.report().layers, key=lambda layer: layer.share or 0)
    assert (first.costliest, first.share) == (most.name, most.share)
    assert [entry.status for entry in ROWS] == [
        *("finite", "unbounded", "unsupported", "finite", "finite", "finite", "failed"),
    ]
    assert ROWS[1].problem.startswith("blocks.")
    assert (ROWS[3].upper_bound, ROWS[3].log10_upper_bound, ROWS[3].log10_estimate) == (None, None, 21.4567)


def test_the_table_rounds_bounds_up_and_marks_estimates() -> None:
    lines = render(ROWS, {}, "table").splitlines()
    head, rule, *body = lines
    start = head.index(" log10") - 1
    assert [line[start : start + 7].strip() for line in body[: len(ROWS)]] == [
        *("21.46", "", "", "~21.46", "8.712", "-inf", ""),
    ]
    assert set(rule) == {"-", " "}
    assert " ".join(lines[-3:-1]) == (
        "7 models: 3 with a finite bound, 1 with an estimate, which is no bound, 1 unbounded, 1 unsupported, 1 failed."
    )
    assert lines[-1] == "~ marks an estimate, which is no bound."
    assert "\ngated --domain pixels  " in "\n".join(lines)
    assert all(line.isprintable() for line in lines)


def test_gates_are_a_column_and_a_count_where_any_was_asked_for() -> None:
    judged = [replace(ROWS[0], gates=["max-layer", "strict"]), replace(ROWS[1], gates=[]), ROWS[-1]]
    head, *body = cells(render(judged, {}, "markdown"))
    assert tuple(head) == HEADINGS
    assert [line[6] for line in body] == ["max-layer, strict", "met", ""]
    lines = render(judged, {}, "table", 100).splitlines()
    assert max(map(len, lines)) <= 100
    start = lines[0].index("gates")
    assert [line[start : start + 10].strip() for line in lines[2:5]] == ["2 exceeded", "met", ""]
    assert lines[-1] == "3 models: 1 with a finite bound, 1 unbounded, 1 failed; 1 exceeds a gate."
    assert render([judged[1]], {}, "table").splitlines()[-1] == "1 model: 1 unbounded; none exceeds a gate."
    assert "gate" not in render(ROWS, {}, "table").replace("gated", "")
    read = list(csv.DictReader(io.StringIO(render(judged, {}, "tsv")), delimiter="\t", quoting=csv.QUOTE_NONE))
    assert [line["gates"] for line in read] == ["max-layer,strict", "met", ""]
    assert [model["gates"] for model in json.loads(render(judged, {}, "json"))["models"]] == [
        ["max-layer", "strict"],
        [],
        None,
    ]


def test_a_structure_has_no_figure_and_says_so() -> None:
    lines = render([row(STRUCTURE)], {}, "table").splitlines()
    assert lines[0].split() == ["model", "status", "rigor", "domain", "layers"]
    assert lines[2].split() == ["net", "finite", "structure", "global", "0"]


@pytest.mark.parametrize("width", [80, 100, 140])
def test_a_table_at_a_terminal_fits_and_keeps_names_apart(width: int) -> None:
    long = [replace(ROWS[0], spec=f"models/{'deep/' * 20}{i}.onnx", costliest="layer." * 30 + "conv") for i in range(3)]
    text = render([*ROWS, *long], {}, "table", width)
    assert max(map(len, text.splitlines())) <= width
    names = [line.split()[0] for line in text.splitlines() if ".onnx " in line]
    assert len(set(names[:3])) == 3
    assert text.count(".conv  ") == 3  # the end of a layer's name
    assert text.count("3.9%") >= 3


def test_what_all_models_share_gives_way_to_what_they_do_not() -> None:
    alike = [
        replace(ROWS[0], spec=f"models/{'deep/' * 8}{i}.onnx", costliest="stage.block.layer." * 3) for i in range(3)
    ]
    assert "domain" in render(alike, {}, "table", 140).splitlines()[0]
    assert "domain" not in render(alike, {}, "table", 80).splitlines()[0]
    mixed = [*alike, replace(alike[0], spec="net", domain="pixels")]
    assert "domain" in render(mixed, {}, "table", 80)


def test_markdown_reads_back_as_the_same_cells() -> None:
    head, *body = cells(render(ROWS, {}, "markdown"))
    assert tuple(head) == tuple(heading for heading in HEADINGS if heading != "gates")
    assert [line[2] for line in body] == ["21.46", "", "", "~21.46", "8.712", "-inf", ""]
    assert body[-1][0] == 'a|b<i>"c"\\t\\n\\x1b[2J\\udce9\\'
    assert body[-1][-1] == "is broken"


def test_tsv_reads_back_exactly() -> None:
    reader = csv.DictReader(io.StringIO(render(ROWS, {}, "tsv")), delimiter="\t", quoting=csv.QUOTE_NONE)
    rows = list(reader)
    assert list(rows[0]) == [entry.name for entry in fields(Row)]
    assert [float(line["log10_upper_bound"] or "nan") for line in rows[:1]] == [21.4567]
    assert [json.loads(line["options"]) for line in rows] == [entry.options for entry in ROWS]
    assert rows[-1]["spec"].encode().decode("unicode_escape", "surrogatepass") == ODD


def test_json_reads_back_exactly() -> None:
    document = json.loads(render(ROWS, {"tol": 0.001}, "json"))
    assert (document["kind"], document["settings"]) == ("fleet summary", {"tol": 0.001})
    assert [Row(**entry) for entry in document["models"]] == ROWS


@pytest.mark.parametrize("form", ["table", "markdown", "tsv", "json"])
def test_one_failure_is_a_summary(form: str) -> None:
    assert "broken" in render([ROWS[-1]], {}, form)
