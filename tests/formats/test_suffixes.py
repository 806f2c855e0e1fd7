"""Which form a file asks for by its name, and that no other name gets a table."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lipaudit.errors import UsageError
from lipaudit.formats.suffixes import FORMS, form_of_file, suffixes


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.json", "json"),
        ("a.MD", "markdown"),
        ("a.tsv", "tsv"),
        ("a.csv", "csv"),
        ("a.html", "html"),
        ("a.txt", "table"),
        ("a", "table"),
    ],
)
def test_a_suffix_says_the_form(name: str, form: str) -> None:
    assert form_of_file(Path(name), [*FORMS, "html"]) == form


@pytest.mark.parametrize("name", ["r.png", "r.pdf", "r.sarif", "r.xml", "r.yaml", "r.jsno", "r.html", "model.onnx"])
def test_any_other_suffix_is_refused(name: str) -> None:
    with pytest.raises(
        UsageError, match=f"nothing here is written as {Path(name).suffix}: .*choose a name that ends in .txt, .json"
    ):
        form_of_file(Path(name), FORMS)


def test_the_refusal_says_which_command_writes_it() -> None:
    with pytest.raises(UsageError, match=r"a picture is drawn by --plot r.png"):
        form_of_file(Path("r.png"), FORMS, of_audit=True)
    with pytest.raises(UsageError, match=r"--to sarif -o r.sarif"):
        form_of_file(Path("r.sarif"), FORMS, of_audit=True)
    with pytest.raises(UsageError, match=r"write r.html and print it"):
        form_of_file(Path("r.pdf"), [*FORMS, "html"])


@pytest.mark.parametrize("name", ["r.png", "r.svg", "r.sarif", "r.xml", "r.pdf"])
def test_a_diff_or_a_comparison_is_not_sent_to_commands_for_audits(name: str) -> None:
    with pytest.raises(UsageError, match=f"written as {Path(name).suffix}: choose a name"):
        form_of_file(Path(name), FORMS)


def test_a_pipe_takes_a_table_whatever_its_name(tmp_path: Path) -> None:
    pipe = tmp_path / "out.xyz"
    os.mkfifo(pipe)
    assert form_of_file(pipe, FORMS) == "table"


def test_every_form_has_one_usual_suffix() -> None:
    assert suffixes([*FORMS, "html", "jsonl"]) == [".txt", ".json", ".md", ".tsv", ".csv", ".html", ".jsonl"]
