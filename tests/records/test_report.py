"""The report as an object in Python: rows by name, dictionaries, data frames, files, and what a notebook shows."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import replace
from pathlib import Path

import html5lib
import pytest

from lipaudit import AuditReport
from lipaudit.errors import UsageError
from lipaudit.formats import table
from lipaudit.formats.layout import WHOLE
from lipaudit.records.report import LAYER_COLUMNS
from tests.records import (
    fakes,
)


def test_rows_by_name_and_by_module() -> None:
    report = fakes.report()
    row = report.layers[3]
    assert report[row.name] is row
    twice = replace(report, layers=(replace(row, name="se", module="se"), replace(row, name="se#2", module="se")))
    assert twice["se#2"] is twice.layers[1]
    assert twice["se"] is twice.layers[0]
    renamed = replace(report, layers=(replace(row, name="/a/Conv", module="a.conv"),))
    assert renamed["a.conv"] is renamed.layers[0]


def test_an_unknown_row_names_close_ones_and_an_ambiguous_module_its_rows() -> None:
    report = fakes.report()
    with pytest.raises(KeyError, match="did you mean maxpool, "):
        report[report.layers[1].name + "x"]
    row = report.layers[0]
    two = replace(report, layers=(replace(row, name="a#1", module="a"), replace(row, name="a#2", module="a")))
    with pytest.raises(KeyError, match="'a' has 2 rows: a#1, a#2"):
        two["a"]


def test_the_dictionary_is_the_document() -> None:
    report = fakes.report()
    assert report.to_dict() == json.loads(report.to_json())


def test_a_data_frame_has_a_line_per_row_and_the_figures_themselves() -> None:
    report = fakes.unsupported()
    frame = report.to_pandas()
    assert list(frame.index) == [layer.name for layer in report.layers]
    for layer in report.layers:
        value = frame.loc[layer.name, "upper_bound"]
        assert (value == layer.upper_bound) if layer.upper_bound is not None else value != value or value is None


def test_without_pandas_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="pip install pandas"):
        fakes.report().to_pandas()


def test_a_saved_report_is_loaded_back(tmp_path: Path) -> None:
    report = fakes.on_pixels()
    report.save(tmp_path / "r.json")
    assert AuditReport.load(tmp_path / "r.json") == report
    assert AuditReport.load(str(tmp_path / "r.json")) == report


def test_every_suffix_holds_what_it_says(tmp_path: Path) -> None:
    report = fakes.report()
    for name in ("r.html", "r.csv", "r.md", "r.tsv", "r.txt"):
        report.save(tmp_path / name)
    assert (tmp_path / "r.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    whole = (tmp_path / "r.txt").read_text(encoding="utf-8")
    assert whole == f"{table.render(report, WHOLE)}\n"
    assert whole.splitlines()[:5] == str(report).splitlines()[:5]
    with (tmp_path / "r.csv").open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert [float(line["upper_bound"]) for line in lines] == [layer.upper_bound for layer in report.layers]
    report.save(tmp_path / "r.svg")
    assert "</svg>" in (tmp_path / "r.svg").read_text(encoding="utf-8")
    with pytest.raises(UsageError, match=r"nothing here is written as .yaml"):
        report.save(tmp_path / "r.yaml")
    assert not (tmp_path / "r.yaml").exists()


@pytest.mark.parametrize("content", [b"", b"{}", b"\x80\x03", b"[]"])
def test_what_is_no_report_is_refused_by_name(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"r.json: "):
        AuditReport.load(path)
    with pytest.raises(UsageError, match=r"cannot read the report .*nowhere.json"):
        AuditReport.load(tmp_path / "nowhere.json")


def test_a_notebook_shows_the_rows_and_nothing_that_runs() -> None:
    hostile = replace(fakes.report(), layers=(fakes.layer("<script>alert(1)</script>|<img src=x onerror=alert(1)>"),))
    shown = hostile._repr_html_()
    tree = html5lib.parse(shown, namespaceHTMLElements=False)
    assert tree.find(".//table") is not None
    assert tree.find(".//script") is None
    assert tree.find(".//img") is None
    assert "alert(1)" in "".join(tree.itertext())


def test_the_columns_of_a_row_are_its_keys_in_json() -> None:
    assert sorted(LAYER_COLUMNS) == sorted(fakes.report().to_dict()["layers"][0])
