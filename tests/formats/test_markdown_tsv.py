from __future__ import annotations

import csv
import io
import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from lipaudit.formats import (
    markdown,
    tsv,
)
from lipaudit.formats.options import Audits, Options
from tests.records import (
    fakes,
)


def test_markdown_has_the_summary_and_a_github_table() -> None:
    lines = markdown.render(fakes.unsupported()).splitlines()
    rule = lines.index("|---|---|---|---|---|---:|---:|---:|---|")
    assert lines[0].startswith(
        "## Lipschitz audit of resnet50 (torchvision, weights IMAGENET1K\\_V2), input 1x3x224x224"
    )
    assert any(line.startswith("- NOT AVAILABLE") for line in lines)
    assert len(lines) - rule - 1 == len(fakes.unsupported().layers)
    assert lines[rule + 1] == "| conv1 | conv2d | 64x3x7x7 | 224x224 | s2 p3 | 4.747 | 4.752 | 1.001 |  |"


def test_markdown_announces_estimates_in_its_first_line() -> None:
    text = markdown.render(fakes.estimate("ryu2019"))
    assert text.startswith("**ESTIMATE (ryu2019): ")
    assert "| layer | op | weight | input | geometry | lower | figure |" in text
    assert " at most " not in text.split("| layer |")[0]
    assert "~4.751" in text


def test_markdown_of_a_network_without_rows() -> None:
    assert markdown.render(fakes.report(())).endswith("No operation of this network can stretch a perturbation.")


def test_markdown_columns_and_depth() -> None:
    lines = markdown.render(fakes.report(), columns=("layer", "share"), depth=1).splitlines()
    assert "| layer1 (10 layers) | 28.7% |" in lines


@given(st.text(min_size=1, max_size=40))
def test_names_cannot_break_the_markdown_table(name: str) -> None:
    lines = markdown.render(fakes.report((replace(fakes.layer("conv", share=1.0), name=name),))).splitlines()
    assert lines[-1].replace("\\\\", "").replace("\\|", "").count("|") == lines[-2].count("|") == 7
    assert "<" not in lines[-1]


def test_tsv_holds_raw_numbers() -> None:
    report = fakes.unsupported()
    rows = list(csv.DictReader(io.StringIO(tsv.render_audits(Audits([report]), Options())), delimiter="\t"))
    assert len(rows) == len(report.layers)
    assert float(rows[0]["upper_bound"]) == report.layers[0].upper_bound
    assert rows[0]["model"] == "resnet50"
    assert rows[0]["weight_shape"] == "64x3x7x7"
    assert rows[0]["folded"] == "bn1"
    assert rows[-1]["upper_bound"] == ""
    assert rows[-1]["status"] == "unsupported"


def test_tsv_of_an_estimate_has_no_upper_bound() -> None:
    rows = list(csv.DictReader(io.StringIO(tsv.render_audits(Audits([fakes.estimate()]), Options())), delimiter="\t"))
    first, pool = rows[:2]
    assert (first["upper_bound"], first["log10_upper_bound"], first["rigor"]) == ("", "", "estimate")
    assert float(first["estimate"]) == 4.7512
    assert (pool["estimate"], pool["upper_bound"]) == ("", "2.0")


def test_tsv_of_several_reports_has_one_header() -> None:
    lines = tsv.render_audits(Audits([fakes.report(), fakes.unsupported()]), Options()).splitlines()
    assert sum(line.startswith("model\t") for line in lines) == 1
    assert len(lines) == 1 + 34 + 37


@given(st.text(max_size=40))
def test_names_cannot_break_the_tsv_rows(name: str) -> None:
    text = tsv.render_audits(Audits([fakes.report((replace(fakes.layer("conv"), name=name),))]), Options())
    assert len(text.split("\n")) == 2
    assert text.split("\n")[1].count("\t") == len(tsv.HEADER) - 1


def test_the_domain_is_in_every_row_of_the_tsv_and_in_the_markdown() -> None:
    rows = list(csv.DictReader(io.StringIO(tsv.render_audits(Audits([fakes.on_pixels()]), Options())), delimiter="\t"))
    assert {row["domain"] for row in rows} == {
        "all images with pixels in [0, 1], normalised by mean 0.485, 0.456, 0.406 and std 0.229, 0.224, 0.225"
    }
    text = markdown.render(fakes.around_a_cat())
    assert "all inputs within 0.5 (l2, in pixels in \\[0, 1\\]) of cat.png" in text


@given(st.text(max_size=40))
def test_cells_of_the_tsv_do_not_drive_a_terminal_and_are_read_back(name: str) -> None:
    report = fakes.report((replace(fakes.layer("conv"), name="\x1b[2J\u202e\\n" + name),))
    cell = tsv.render_audits(Audits([report]), Options()).split("\n")[1].split("\t")[1]
    assert cell.isprintable()
    assert cell.startswith("\\x1b[2J\\u202e\\\\n")
    # printable characters are themselves, everything else is an escape of Python's
    read = re.sub(r"\\(?:x..|u....|U........|.)", lambda m: m[0].encode("ascii").decode("unicode_escape"), cell)
    assert read == report.layers[0].name
