"""The worked example shows the report that it links to, and its numbers are those of that report."""

from __future__ import annotations

import re
from pathlib import Path

from lipaudit import AuditReport
from tests.docs.commands import blocks
from tests.places import DOCS

PAGE = DOCS / "mobilenet_v2.md"
SHOWN = (DOCS / "reports" / "mobilenet_v2.txt").read_text(encoding="utf-8")


def test_the_text_is_that_of_the_report(tmp_path: Path) -> None:
    report = AuditReport.load(DOCS / "reports" / "mobilenet_v2.json")
    report.save(tmp_path / "shown.txt")
    shown = (tmp_path / "shown.txt").read_text(encoding="utf-8")
    without_time = [re.sub(r"^(Time +).*", r"\1", text, flags=re.MULTILINE) for text in (shown, SHOWN)]
    assert without_time[0] == without_time[1]


def test_the_row_and_the_numbers_of_the_page_are_in_it() -> None:
    (row,) = blocks(PAGE, "text")
    assert row in SHOWN
    for number in re.findall(
        r"^- \*\*(?:[A-Z][a-z ]+:? )?([0-9][0-9.e+-]*)", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    ):
        assert number in SHOWN
