"""What the page says: the report's own figures, escaped, in HTML without an error, and the same every time."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from xml.etree import ElementTree

import html5lib
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lipaudit.escaping import printable
from lipaudit.formats.columns import FIRST_COLUMNS, cell, filled
from lipaudit.formats.html.page import render
from lipaudit.formats.layout import Layout
from lipaudit.formats.table import chosen_rows
from lipaudit.records.figure import Figure
from lipaudit.records.groups import layers_of
from lipaudit.records.report import AuditReport, BoundRecord, LayerRecord
from lipaudit.records.stretching import stretching
from lipaudit.text.answer import answer, meaning, short_title
from lipaudit.text.numbers import log10_upper_text, share_text, upper_text
from lipaudit.text.summary import sections
from tests.places import ROOT
from tests.records import (
    fakes,
)

FAKES = (
    fakes.report,
    fakes.unsupported,
    fakes.two_outputs,
    fakes.gated,
    fakes.on_pixels,
    fakes.around_a_cat,
    fakes.estimate,
    fakes.estimated_on_pixels,
)
HOSTILE = (
    "</script><img src=x onerror=alert(1)>",
    "<!--<script>",
    "]]></style><style>*{display:none}",
    "\"'><svg onload=alert(1)>",
    "a\x00b\x1b[2Jc\r\nd\u2028e\x7f",
    "\ud800\udfff\udc80",
    "\u202eevil\u202c \u05e9\u05dc\u05d5\u05dd",
    "&lt;&#60;&amp",
    "`${alert(1)}` {{7*7}}",
    "\ufffe\U0010ffff\ufdd0",
)


def parsed(page: str) -> ElementTree.Element:
    """The page as a tree; an error of the syntax raises."""
    page.encode("utf-8")
    tree: ElementTree.Element = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page)
    return tree


def texts(tree: ElementTree.Element, path: str) -> list[str]:
    return [" ".join("".join(found.itertext()).split()) for found in tree.iterfind(path)]


def saved(name: str) -> AuditReport:
    """The expected audit of a sample model, as a report."""
    document = json.loads((ROOT / "sample_models" / "expected" / f"{name}.json").read_text(encoding="utf-8"))
    return AuditReport.from_json(
        json.dumps({"created": "2026-11-27T20:28:00Z", "environment": {}, "timings": {}} | document)
    )


SAMPLES = ("digits_resnet", "digits_se", "digits_vit", "digits_unet", "digits_mobile")
REPORTS = (
    {make.__name__: make() for make in FAKES} | {name: saved(name) for name in SAMPLES} | {"empty": fakes.report(())}
)
every_report = pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)


@every_report
def test_the_page_is_html_without_an_error_and_the_same_every_time(report: AuditReport) -> None:
    page = render(report)
    tree = parsed(page)
    assert page == render(report)
    ids = [found.get("id") for found in tree.iter() if found.get("id")]
    assert len(ids) == len(set(ids))
    links = [found.get("href", "") for found in tree.iter("a")] + [
        found.get("href", "") for found in tree.iter("{http://www.w3.org/2000/svg}a")
    ]
    assert links
    assert {link[1:] for link in links} <= set(ids)


@every_report
def test_every_sentence_of_the_summary_is_on_the_page(report: AuditReport) -> None:
    tree = parsed(render(report))
    shown = {text for tag in ("p", "li") for text in texts(tree, f".//{tag}")}
    said = [line for part in sections(report) if part.label != "Costs most" for line in part.lines]
    assert [line for line in said if " ".join(line.split()) not in shown] == []
    assert texts(tree, ".//h1/bdi") == [report.model.spec]
    assert " · ".join(texts(tree, ".//h1/*")) == short_title(report.model)


@every_report
def test_the_answer_comes_first_as_on_the_terminal(report: AuditReport) -> None:
    tree = parsed(render(report))
    lines = zip(texts(tree, ".//dl[@class='answer']//dt"), texts(tree, ".//dl[@class='answer']//dd"), strict=True)
    assert list(lines) == [(line.label, line.text) for line in answer(report)]
    assert texts(tree, ".//p[@class='meaning']") == [meaning(report)]
    parts = [part.get("id") for part in tree.iter("section")]
    order = ["missing", "costs", "advice", "shares", "result", "depth", "graph", "layers", "scope"]
    assert [key for key in parts if key in order] == [key for key in order if key in parts]


@every_report
def test_the_rows_that_cost_most_are_those_of_the_first_screen(report: AuditReport) -> None:
    lines = [[*line] for line in parsed(render(report)).findall(".//table[@class='costs']/tbody/tr")]
    rows = chosen_rows(report, Layout(top=12)) if lines else ()
    assert len(lines) == len(rows)
    assert bool(lines) == (bool(stretching(report)) or any(row.status != "finite" for row in report.layers))
    keys = filled(FIRST_COLUMNS, rows)
    for cells, row in zip(lines, rows, strict=True):
        assert ["".join(cell.itertext()) for cell in cells][: len(keys)] == [cell(key, row) for key in keys]
        link = cells[0].find("a")
        assert link is not None
        assert link.get("href") == f"#row-{report.layers.index(layers_of(row)[0]) + 1}"


def test_every_bound_of_the_network_is_shown_where_there_are_several() -> None:
    least = fakes.report()
    assert texts(parsed(render(least)), ".//section[@id='bounds']") == []
    bounds = (
        BoundRecord("product", "finite", Figure.of(300.0)),
        BoundRecord("forms", "finite", Figure.of(20.0, "numerical"), note="of the last block"),
        BoundRecord("local", "not applicable", reason="the domain is not a ball"),
    )
    report = replace(least, network=replace(least.network, figure=Figure.of(20.0, "numerical"), bounds=bounds))
    rows = [
        ["".join(cell.itertext()) for cell in row]
        for row in parsed(render(report)).findall(".//section[@id='bounds']//tbody/tr")
    ]
    assert rows == [
        ["product", "≤ 300 (10^2.478)", "certified", ""],
        ["forms", "≤ 20 (10^1.302)", "numerical", "of the last block"],
        ["local", "not applicable", "", "the domain is not a ball"],
    ]


def figure(report: AuditReport) -> str:
    return texts(parsed(render(report)), ".//dl[@class='answer']/div[@class='bound']/dd")[0]


def test_the_bound_is_rounded_up() -> None:
    report = fakes.report(upper_bound=4.51441, log10_upper_bound=math.log10(4.51441))
    assert figure(report) == f"≤ 4.515 (10^{log10_upper_text(math.log10(4.51441))}) over all inputs, certified"
    huge = fakes.report(upper_bound=None, log10_upper_bound=412.305)
    assert figure(huge) == "≤ 10^412.31 over all inputs, certified"


@pytest.mark.parametrize(("make", "words"), [(fakes.gated, "none over"), (fakes.unsupported, "not available over")])
def test_there_is_no_figure_where_the_status_is_not_finite(make: Callable[[], AuditReport], words: str) -> None:
    said = figure(make())
    assert said.startswith(words)
    assert re.findall(r"\d+", re.sub(r"\d operations?", "", said)) == []


def test_an_estimate_is_marked_and_never_called_a_bound() -> None:
    report = fakes.estimate()
    tree = parsed(render(report))
    assert figure(report).startswith("~10^")
    assert "an estimate by sedghi2019, no bound" in figure(report)
    assert texts(tree, ".//p[@class='warning']")[0].startswith("ESTIMATE (sedghi2019)")
    body = " ".join(texts(tree, ".//header"))
    assert "≤" not in body
    assert "at most" not in body
    assert "upper bound" not in body


def test_a_report_of_the_structure_has_no_figures() -> None:
    rows = tuple(replace(row, figure=None, lower=None, tightness=None, share=None) for row in fakes.resnet_layers())
    report = fakes.report(rows, figure=None, pixel_figure=None)
    report = replace(report, settings=replace(report.settings, structure=True))
    tree = parsed(render(report))
    assert figure(report).startswith("finite over all inputs")
    assert "≤" not in " ".join(texts(tree, ".//main"))
    assert [cell for cell in texts(tree, ".//table[@class='costs']//td[@class='number']") if cell != "finite"] == []
    assert texts(tree, ".//section[@id='depth']") == []


@every_report
def test_the_table_has_the_figures_of_the_terminal(report: AuditReport) -> None:
    tree = parsed(render(report))
    (table,) = tree.findall(".//table[@id='layer-table']") or [ElementTree.Element("table")]
    heads = texts(table, ".//thead//th")
    lines = table.findall(".//tbody/tr")
    assert len(lines) == len(report.layers)
    for line, row in zip(lines, report.layers, strict=True):
        cells = dict(zip(heads, ["".join(entry.itertext()) for entry in line], strict=True))
        for key in ("layer", "op", "weight", "lower", "tightness", "share"):
            if key in cells:
                assert cells[key] == cell(key, row)
        assert cells.get("upper", cells.get("figure")) == cell("upper", row)


def test_the_shares_are_those_of_the_report() -> None:
    report = saved("digits_resnet")
    lists = texts(parsed(render(report)), ".//figure[@class='shares'][1]/ul/li")
    by_share = sorted(report.layers, key=lambda row: -(row.share or 0))
    assert lists == [f"{row.name}{share_text(row.share or 0)}" for row in by_share]


def test_what_a_row_of_the_graph_says() -> None:
    report = saved("digits_resnet")
    nodes = parsed(render(report)).findall(
        ".//{http://www.w3.org/2000/svg}svg[@class='network']/{http://www.w3.org/2000/svg}a"
    )
    said = ["".join(node[0].itertext()) for node in nodes]
    first = report.layers[0]
    assert len(said) == len(report.layers)
    assert said[0].startswith(
        f"{first.name} (conv2d); at most {upper_text(first.upper_bound or 0)}, certified; at least "
    )
    assert said[0].endswith("; reads image")


@every_report
def test_the_report_inside_is_the_report(report: AuditReport) -> None:
    (script,) = [s for s in parsed(render(report)).iter("script") if s.get("type") == "application/json"]
    assert AuditReport.from_json(script.text or "") == report


def hostile(name: str) -> AuditReport:
    """A report with a name at every place that holds a text."""
    rows = (
        fakes.layer("conv", 3.0, share=0.7, inputs=(name,)),
        replace(
            fakes.layer("fc", 2.0, share=0.3),
            name=name,
            op=name,
            rule=name,
            module=name,
            note=name,
            folded=(name,),
            inputs=(name, "conv"),
        ),
        replace(fakes.missing("x", "unbounded", "mul", name), inputs=(name,), name=name + "2"),
        replace(fakes.missing("y", "unsupported", name, name), inputs=(name,), details=name),
    )
    made = fakes.report(rows, status="unsupported", reasons=(name,))
    return replace(
        made,
        model=replace(
            made.model, spec=name, weights=name, source=name, input_shapes={name: (1, 3)}, unused_parameters=(name,)
        ),
        settings=replace(made.settings, around=name, radius=1.0, method=name),
        environment={name: name, "packages": {name: name}},
        notes=(name,),
        tool_version=name,
        created=name,
    )


def check_hostile(name: str) -> None:
    report = hostile(name)
    page = render(report)
    tree = parsed(page)
    usual = render(hostile("plain"))
    tags = [found.tag for found in tree.iter()]
    assert len([tag for tag in tags if tag in ("script", "style", "img", "iframe", "object", "link")]) == 4  # ours
    assert {found.tag for found in tree.iter()} == {found.tag for found in parsed(usual).iter()}
    for found in tree.iter():
        assert not any(str(key).lower().startswith("on") for key in found.attrib)
        assert "style" not in found.attrib
    rows = [printable("".join(row.itertext())) for row in tree.iterfind(".//table[@id='layer-table']/tbody/tr/th")]
    assert rows == [printable(row.name) for row in report.layers]
    data = next(s for s in tree.iter("script") if s.get("type") == "application/json").text or ""
    assert AuditReport.from_json(data) == AuditReport.from_json(
        report.to_json()
    )  # a pair of surrogates is one character


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_no_name_leaves_its_place(name: str) -> None:
    check_hostile(name)


@settings(max_examples=25, deadline=None)
@given(st.text(alphabet=st.one_of(st.sampled_from("<>&\"'/=-! \n\0"), st.characters()), min_size=1, max_size=30))
def test_no_text_at_all_leaves_its_place(name: str) -> None:
    check_hostile(name)


def test_the_page_forbids_itself_everything_from_elsewhere() -> None:
    tree = parsed(render(fakes.report()))
    (policy,) = [m.get("content", "") for m in tree.iter("meta") if m.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    script = next(s.text or "" for s in tree.iter("script") if s.get("type") is None)
    style = next(s.text or "" for s in tree.iter("style"))
    assert rules == {
        "default-src": "'none'",
        "style-src": f"'sha256-{digest(style)}'",
        "script-src": f"'sha256-{digest(script)}'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_the_page_names_no_address() -> None:
    page = render(saved("digits_vit"))
    assert re.findall(r"(?:src|href)=\"(?!#|data:,)[^\"]*", page) == []
    assert re.findall(r"https?://|@import|url\((?!#)", page) == []


def chain(count: int) -> tuple[LayerRecord, ...]:
    """A residual network of many rows: every third reads all ends of blocks before it."""
    ends: list[str] = ["input"]
    rows: list[LayerRecord] = []
    for i in range(count):
        name = f"body.stage{i // 90}.block{i // 3}.conv{i % 3}"
        inputs: tuple[str, ...] = tuple(ends) if i % 3 == 0 else (rows[-1].name,)
        rows.append(
            fakes.layer(
                name, 1.1 + (i % 7) / 3, inputs=inputs, share=1 / count, weight_shape=(256, 256, 3, 3), note="torus"
            )
        )
        if i % 3 == 2:
            ends.append(name)
    return tuple(rows)


def test_five_hundred_rows_stay_below_two_megabytes() -> None:
    page = render(fakes.report(chain(510)))
    assert len(page.encode()) < 2_000_000
    assert len(parsed(page).findall(".//table[@id='layer-table']/tbody/tr")) == 510


def test_a_saved_report_becomes_a_page_without_torch() -> None:
    code = (
        "import sys\nfrom lipaudit import AuditReport\nfrom lipaudit.formats.html.page import render\n"
        "render(AuditReport.from_json(sys.stdin.read()))\nsys.exit('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=fakes.report().to_json(), text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0
