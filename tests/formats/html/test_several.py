"""Pages of several reports and of diffs: every model and row is there, in HTML without an error, and nothing hostile gets in."""

from __future__ import annotations

from xml.etree import ElementTree

import html5lib
import pytest

from lipaudit.auditing.diff import diff
from lipaudit.formats.html.diff import render as render_diff
from lipaudit.formats.html.fleet import render_all
from lipaudit.formats.html.page import render
from lipaudit.records.failure import Failure
from lipaudit.text.numbers import log10_upper_text
from tests.formats.reports import hostile, structure
from tests.records import (
    fakes,
)


def tree_of(page: str) -> ElementTree.Element:
    page.encode("utf-8")
    tree: ElementTree.Element = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page)
    return tree


def cells(tree: ElementTree.Element) -> list[list[str]]:
    return [["".join(cell.itertext()) for cell in line] for line in tree.iterfind(".//tbody/tr")]


def test_one_report_has_its_own_page() -> None:
    assert render_all([fakes.report()]) == render(fakes.report())


def test_every_model_has_a_row_the_failed_ones_too() -> None:
    reports = [fakes.report(), fakes.unsupported(), fakes.gated(), fakes.estimate(), structure()]
    tree = tree_of(render_all(reports, [Failure("broken.onnx", "the file is truncated")]))
    rows = cells(tree)
    assert [row[1] for row in rows] == ["finite", "unsupported", "unbounded", "finite", "finite", "failed"]
    assert reports[0].network.log10_upper_bound is not None
    assert rows[0][3] == log10_upper_text(reports[0].network.log10_upper_bound)
    assert rows[3][2] == "estimate"
    assert rows[3][3].startswith("~") or rows[3][3] == ""
    assert rows[4][2] == rows[4][3] == ""
    assert rows[5][0] == "broken.onnx"
    assert rows[5][-1] == "the file is truncated"
    targets = {entry.get("href", "")[1:] for entry in tree.iterfind(".//td/a")} | {
        a.get("href", "")[1:] for a in tree.iterfind(".//th/a")
    }
    assert targets <= {entry.get("id") for entry in tree.iter()}
    assert len(targets) == len(reports)


def test_only_failures_make_a_page() -> None:
    assert cells(tree_of(render_all([], [Failure("a", "why")])))[0][0] == "a"


@pytest.mark.parametrize(
    "failures", [[], [Failure("</table><script>alert(1)</script>", "<img src=x onerror=alert(1)>")]]
)
def test_hostile_names_stay_text(failures: list[Failure]) -> None:
    tree = tree_of(render_all([hostile(), hostile()], failures))
    assert tree.find(".//script") is None
    assert tree.find(".//img") is None
    page = render_diff(diff(hostile(), hostile()))
    assert tree_of(page).find(".//script") is None


def test_a_diff_has_every_row_and_its_verdict() -> None:
    before = fakes.report()
    rows = tuple(fakes.layer(row.name, 3.0) if i == 1 else row for i, row in enumerate(before.layers))
    found = diff(before, fakes.report(rows))
    tree = tree_of(render_diff(found))
    assert [line[0] for line in cells(tree)] == [change.record.name for change in found.layers]
    assert cells(tree)[1][-1] != "within brackets"
    assert "Result" in "".join(tree.find(".//main").itertext())  # type: ignore[union-attr]
