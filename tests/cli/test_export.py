from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from lipaudit.cli import main
from lipaudit.formats.huggingface import update_card
from lipaudit.formats.layout import WHOLE
from lipaudit.formats.options import Audits, Options
from lipaudit.formats.registry import FORMATS, format_names
from lipaudit.records.report_array import to_json_array
from tests.places import ROOT
from tests.records import (
    fakes,
)

TEXTS = [name for name in format_names(Audits) if not FORMATS[name].binary]


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A project without a configuration, with reports."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.json").write_text(fakes.report().to_json(), encoding="utf-8")
    (tmp_path / "two.json").write_text(to_json_array([fakes.report(), fakes.gated()]), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("name", TEXTS)
def test_to_stdout_and_to_a_file(name: str, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    assert main(["export", "one.json", "--to", name]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    if name != "sarif":  # where the place of a report is that of the file
        assert out == f"{FORMATS[name].render(Audits([fakes.report()]), Options(WHOLE))}\n"
    assert main(["export", "one.json", "--to", name, "-o", "out"]) == 0
    assert capsys.readouterr() == ("", "lipaudit: report written to out\n")
    assert (folder / "out").read_text(encoding="utf-8") == out
    assert main(["export", "one.json", "--to", name, "-o", "-", "--quiet"]) == 0
    assert capsys.readouterr() == (out, "")


def test_from_stdin(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(fakes.gated().to_json().encode())))
    assert main(["export", "-", "--to", "sarif"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert len(run["results"]) == 2
    assert "physicalLocation" not in run["results"][0]["locations"][0]


def test_gates_are_judged_and_the_file_is_written(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    for name in ("sarif", "junit"):
        assert main(["export", "two.json", "--to", name, "--max-layer", "4.75", "-o", name, "--quiet"]) == 1
        assert "conv1" in (folder / name).read_text(encoding="utf-8")
        lines = capsys.readouterr().err.splitlines()
        assert [line.split(": ")[1:3] for line in lines] == [["gate exceeded", "resnet50"]] * 2
    assert main(["export", "two.json", "--to", "junit", "--strict"]) == 4
    assert main(["export", "one.json", "--to", "junit", "--strict", "--no-unbounded", "--max-log10-bound", "22"]) == 0


def test_gates_of_the_project_hold_where_a_format_shows_them(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[tool.lipaudit]\nmax-layer = 4.75\ndomain = 'pixels'\n", encoding="utf-8")
    assert main(["export", "one.json", "--to", "junit"]) == 1
    out, err = capsys.readouterr()
    assert "<failure " in out
    assert err.startswith("lipaudit: max-layer 4.75 from [tool.lipaudit] in ")
    assert main(["export", "one.json", "--to", "junit", "--no-config"]) == 0
    assert main(["export", "one.json", "--to", "junit", "--max-layer", "5"]) == 0
    capsys.readouterr()
    assert main(["export", "one.json", "--to", "markdown"]) == 0
    assert capsys.readouterr().err == ""


def test_a_card_is_updated_in_place(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    card = folder / "README.md"
    card.write_bytes(b"---\r\nlicense: mit # ours\r\n---\r\n# Net\r\n")
    command = ["export", "one.json", "--to", "huggingface", "--card", "README.md"]
    assert main(command) == 0
    assert capsys.readouterr() == ("", "lipaudit: report written to README.md\n")
    first = card.read_bytes()
    assert first.startswith(b"---\r\nlicense: mit # ours\r\nlipaudit:\r\n  version:")
    assert b"\n" not in first.replace(b"\r\n", b"")
    assert main([*command, "--quiet"]) == 0
    assert card.read_bytes() == first
    assert main([*command, "--model-index", "net"]) == 0
    assert ModelCard.load(card).data.model_name == "net"


def test_a_card_that_is_not_there_is_created_and_said_to_be(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    assert main(["export", "one.json", "--to", "huggingface", "--card", "new.md"]) == 0
    said = "lipaudit: report written to new.md; there was no card of this name, so that a new one was made\n"
    assert capsys.readouterr() == ("", said)
    assert main(["export", "one.json", "--to", "huggingface", "--card", "new.md"]) == 0
    assert capsys.readouterr() == ("", "lipaudit: report written to new.md\n")
    assert (folder / "new.md").read_text(encoding="utf-8") == update_card("", fakes.report())


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["one.json"], "the format is missing: give --to"),
        (["one.json", "-o", "r"], "the format is missing: give --to"),
        (["one.json", "--to", "html", "-o", "r.csv"], "html is not written as .csv: choose a name that ends in .html"),
        (["one.json", "--to", "spdx"], "'spdx' is not one of"),
        (["--to", "junit"], "Missing argument 'REPORT'"),
        (["none.json", "--to", "junit"], "cannot read the report none.json: No such file or directory"),
        ([".", "--to", "junit"], "cannot read the report .: Is a directory"),
        (["\0", "--to", "junit"], "cannot read the report"),
        (["card.md", "--to", "junit"], "card.md: this is not JSON, so it is no lipaudit report"),
        (["schema.json", "--to", "junit"], "schema.json: this JSON is no lipaudit report"),
        (
            ["two.json", "--to", "huggingface"],
            "huggingface describes one model, and there are 2: pick one by --model SPEC",
        ),
        (["two.json", "--to", "huggingface", "--card", "c.md"], "huggingface describes one model, and there are 2"),
        (["one.json", "--to", "junit", "--card", "c.md"], "--card is for --to huggingface, not for junit"),
        (["one.json", "--to", "sarif", "--model-index", "a"], "--model-index is for --to huggingface"),
        (["one.json", "--to", "huggingface", "--spec-version", "1.6"], "--spec-version is for --to cyclonedx"),
        (["one.json", "--to", "cyclonedx", "--spec-version", "1.4"], "'1.4' is not one of '1.5', '1.6', '1.7'"),
        (
            ["one.json", "--to", "cyclonedx", "--strict"],
            "cyclonedx has no place for gates: --strict is for sarif and junit",
        ),
        (["one.json", "--to", "markdown", "--max-layer", "3"], "--max-layer is for sarif and junit"),
        (["one.json", "--to", "huggingface", "--card", "c.md", "-o", "d.md"], "--card cannot be combined with -o"),
        (["one.json", "--to", "junit", "-o", "one.json"], "-o one.json would replace one.json, which the export reads"),
        (["one.json", "--to", "huggingface", "--card", "./one.json"], "--card one.json would replace one.json"),
        (["one.json", "--to", "junit", "-o", "no/such/file"], "there is no folder"),
        (
            ["one.json", "--to", "huggingface", "--card", "broken.md"],
            "broken.md: lipaudit cannot edit this card in place: its metadata is no valid YAML",
        ),
        (["one.json", "--to", "huggingface", "--card", "latin.md"], "cannot read the card latin.md"),
    ],
)
def test_a_wrong_request_is_one_line_and_changes_nothing(
    args: list[str], message: str, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    (folder / "card.md").write_text("# Net\n", encoding="utf-8")
    (folder / "schema.json").write_text("{}", encoding="utf-8")
    (folder / "broken.md").write_text("---\na: [\n---\n", encoding="utf-8")
    (folder / "latin.md").write_bytes(b"\xe9\n")
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert main(["export", *args]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("lipaudit: error: ")
    assert message in err
    assert err.count("\n") == 1
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_the_command_leaves_torch_alone(folder: Path) -> None:
    code = (
        "import sys; from lipaudit.cli import main; code = main(sys.argv[1:]); sys.exit(code or 'torch' in sys.modules)"
    )
    for name in TEXTS:
        args = ["export", str(folder / "one.json"), "--to", name]
        done = subprocess.run([sys.executable, "-c", code, *args], cwd=ROOT, capture_output=True, check=False)
        assert done.returncode == 0


def test_the_name_of_the_file_says_the_format(folder: Path) -> None:
    for file in ("r.html", "r.sarif", "r.xml", "r.cdx.json", "r.md", "r.svg"):
        assert main(["export", "one.json", "-o", file, "--quiet"]) == 0
    assert (folder / "r.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert json.loads((folder / "r.cdx.json").read_text(encoding="utf-8"))["bomFormat"] == "CycloneDX"
    assert "<testsuites" in (folder / "r.xml").read_text(encoding="utf-8")
