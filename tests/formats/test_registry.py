"""The table of formats: what each takes, which file asks for it, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lipaudit.auditing.diff import diff as diff_reports
from lipaudit.errors import UsageError
from lipaudit.formats.markdown import render
from lipaudit.formats.options import Audits, FleetRecord, Options
from lipaudit.formats.registry import (
    FORMATS,
    Format,
    check_ending,
    format_names,
    format_of_file,
    usual_suffixes,
)
from lipaudit.gates.report import Gates
from lipaudit.records.comparison import Comparison
from lipaudit.records.diff import ReportDiff
from lipaudit.records.failure import Failure
from tests.formats.test_comparison import comparison, figure, layer, method
from tests.places import ROOT
from tests.records import (
    fakes,
)

DOCUMENTS = {
    Audits: Audits([fakes.report()]),
    ReportDiff: diff_reports(fakes.report(), fakes.report()),
    Comparison: comparison((layer("conv", figure("a")),), (method("a"),)),
}


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for kind in DOCUMENTS for name in format_names(kind)])
def test_every_format_renders_what_it_takes(name: str, kind: type) -> None:
    content = FORMATS[name].render(DOCUMENTS[kind])  # type: ignore[arg-type]
    assert content
    assert isinstance(content, bytes) == FORMATS[name].binary
    assert isinstance(content, bytes) or not content.endswith("\n")
    assert content == FORMATS[name].render(DOCUMENTS[kind], Options())  # type: ignore[arg-type]


@pytest.mark.parametrize("name", format_names(Audits))
def test_several_reports_where_the_format_takes_them(name: str) -> None:
    if FORMATS[name].several:
        text = FORMATS[name].render(Audits([fakes.report(), fakes.estimate()]))
        assert isinstance(text, str)
        assert "resnet50" in text or name == "table"
        assert text != FORMATS[name].render(Audits([fakes.report()]))
    else:
        with pytest.raises(UsageError, match=f"{name} describes one model, and there are 2: pick one by --model SPEC"):
            FORMATS[name].render(Audits([fakes.report(), fakes.report()]))


@pytest.mark.parametrize("name", ["json", "markdown", "html", "sarif", "junit"])
def test_a_model_that_failed_is_named(name: str) -> None:
    audits = Audits([fakes.report()], [Failure("broken.onnx", "the file is cut off")])
    assert "the file is cut off" in str(FORMATS[name].render(audits)).replace("\\", "")


@pytest.mark.parametrize("name", format_names(Audits))
def test_gates_show_where_the_format_says_so(name: str) -> None:
    plain, judged = (
        FORMATS[name].render(Audits([fakes.report()]), Options(gates=gates))
        for gates in (Gates(), Gates(max_layer=1.0))
    )
    assert (plain != judged) == FORMATS[name].gates


def test_markdown_is_that_of_an_audit() -> None:
    assert FORMATS["markdown"].render(Audits([fakes.report()])) == render(fakes.report())


def test_json_of_several_reports_is_an_array() -> None:
    both = FORMATS["json"].render(Audits([fakes.report(), fakes.estimate()]))
    assert [report["model"]["spec"] for report in json.loads(both)] == ["resnet50", fakes.estimate().model.spec]
    assert json.loads(FORMATS["json"].render(Audits([fakes.report()])))["model"]["spec"] == "resnet50"


def test_no_report_and_one_that_failed_are_refused() -> None:
    with pytest.raises(UsageError, match="no report to export"):
        FORMATS["junit"].render(Audits([]))
    with pytest.raises(UsageError, match=r"a\.onnx could not be audited, so there is no report of it: cut off"):
        FORMATS["cyclonedx"].render(Audits([], [Failure("a.onnx", "cut off")]))


def test_a_format_that_the_machine_lacks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lipaudit.formats.matplotlib_.plot_problem", lambda: "matplotlib is not installed")
    with pytest.raises(UsageError, match="png cannot be written here: matplotlib is not installed"):
        FORMATS["png"].check_available()
    FORMATS["sarif"].check_available()


def test_no_picture_is_printed() -> None:
    with pytest.raises(UsageError, match=r"png is a picture and no text: name a file for it, -o FILE\.png"):
        FORMATS["png"].check_output(None)
    FORMATS["png"].check_output(Path("a.png"))
    FORMATS["svg"].check_output(None)


def test_no_format_imports_torch() -> None:
    code = (
        "import sys; from lipaudit.formats.options import Audits; from lipaudit.formats.registry import FORMATS, format_names;"
        "from tests.records import fakes;"
        "[FORMATS[n].render(Audits([r])) for n in format_names(Audits) for r in (fakes.gated(), fakes.estimate())];"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


ENDINGS = {
    "a.json": "json",
    "a.MD": "markdown",
    "a.tsv": "tsv",
    "a.csv": "csv",
    "a.html": "html",
    "a.htm": "html",
    "a.txt": "table",
    "a.log": "table",
    "a": "table",
    "a.sarif": "sarif",
    "a.sarif.json": "sarif",
    "a.cdx.json": "cyclonedx",
    "a.xml": "junit",
    "a.png": "png",
    "a.SVG": "svg",
}


@pytest.mark.parametrize("name", ENDINGS)
def test_the_ending_of_a_file_says_the_format(name: str) -> None:
    assert format_of_file(Path(name), Audits) == ENDINGS[name]
    check_ending(Path(name), ENDINGS[name])


@pytest.mark.parametrize("name", ["r.pdf", "r.yaml", "r.jsno", "model.onnx", "r.jsonl"])
def test_any_other_ending_is_refused(name: str) -> None:
    said = f"nothing here is written as {Path(name).suffix}: .*choose a name that ends in .txt, .json"
    with pytest.raises(UsageError, match=said):
        format_of_file(Path(name), Audits)


@pytest.mark.parametrize("name", ["r.png", "r.svg", "r.sarif", "r.xml", "r.pdf"])
def test_a_diff_is_written_in_its_own_formats(name: str) -> None:
    with pytest.raises(UsageError, match=f"written as {Path(name).suffix}: .*choose a name that ends in .txt, .json"):
        format_of_file(Path(name), ReportDiff)


def test_the_refusal_of_pdf_says_what_to_do() -> None:
    with pytest.raises(UsageError, match=r"write r\.html and print it from a browser; or choose"):
        format_of_file(Path("r.pdf"), Audits)
    with pytest.raises(UsageError, match=r"written as \.pdf: choose"):
        format_of_file(Path("r.pdf"), Comparison)


def test_a_pipe_takes_a_table_whatever_its_name(tmp_path: Path) -> None:
    pipe = tmp_path / "out.xyz"
    os.mkfifo(pipe)
    assert format_of_file(pipe, Audits) == "table"
    check_ending(pipe, "html")


@pytest.mark.parametrize(
    ("file", "name"), [("r.csv", "html"), ("r.json", "markdown"), ("r.pdf", "html"), ("r.jsonl", "json")]
)
def test_a_file_named_like_another_format_is_refused(file: str, name: str) -> None:
    with pytest.raises(UsageError, match=rf"{name} is not written as \{Path(file).suffix}: choose a name that ends in"):
        check_ending(Path(file), name)


@pytest.mark.parametrize(
    ("file", "name"), [("r.json", "sarif"), ("r.json", "cyclonedx"), ("r.md", "huggingface"), ("r", "html")]
)
def test_a_file_may_have_any_ending_of_its_format(file: str, name: str) -> None:
    check_ending(Path(file), name)


def test_every_format_has_a_usual_suffix() -> None:
    assert usual_suffixes(format_names(Audits, FleetRecord))[:6] == [".txt", ".json", ".md", ".tsv", ".csv", ".html"]
    assert all(FORMATS[name].name == name and FORMATS[name].suffixes for name in FORMATS)


def test_a_format_is_one_line_of_the_table() -> None:
    """What docs/adding_a_format.md relies on: nothing but the entry knows a format."""
    entry = Format("spare", (".spare",), {Audits: "markdown:render_audits"})
    assert entry.render(Audits([fakes.report()])) == render(fakes.report())
