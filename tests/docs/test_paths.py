"""Every file of the checkout that the documentation or a docstring names is there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.recipes import steps
from tests.places import ROOT

PAGES = (ROOT / "README.md", ROOT / "sample_models" / "README.md", *sorted((ROOT / "docs").glob("*.md")))
SOURCES = sorted(
    path
    for folder in ("lipaudit", "tests", "benchmarks", "docs", "sample_models")
    for path in (ROOT / folder).rglob("*.py")
)
_PATH = re.compile(r"(?<![\w/.-])(?:lipaudit|tests|docs|benchmarks|sample_models)/[\w./-]*\w(?:/|\b)")
_WRITTEN = ("docs/_build",)


def paths(text: str) -> list[str]:
    """The paths of the checkout that a text names; those with a placeholder or wildcard in them are none.

    >>> paths("`lipaudit/api.py`, docs/gates.md; not lipaudit/lipaudit.json of /x/docs/a.md, docs/*.md or tests/NAME.py")
    ['lipaudit/api.py', 'docs/gates.md', 'lipaudit/lipaudit.json']
    """
    found = (
        match[0] for match in _PATH.finditer(text) if text[match.end() : match.end() + 1] not in ("*", "{", "<", "…")
    )
    return [path for path in found if not re.search(r"[A-Z]{3}", path.replace("README", "")) and path not in _WRITTEN]


def docstrings(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)) if _PATH.search(text) else ():
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield ast.get_docstring(node) or ""


def missing(named: list[str]) -> list[str]:
    return sorted({path for path in named if not (ROOT / path).exists()})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_name_files_that_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    created = {step.path for step in steps(text) if step.kind == "create"}
    assert [path for path in missing(paths(text)) if path not in created] == []


def test_docstrings_name_files_that_exist() -> None:
    named = {path: missing([name for text in docstrings(path) for name in paths(text)]) for path in SOURCES}
    here = {Path(__file__), ROOT / "tests" / "docs" / "recipes.py"}  # whose examples are made up
    assert {str(path): names for path, names in named.items() if names and path not in here} == {}


def test_a_file_that_is_not_there_is_found() -> None:
    assert missing(paths("see `lipaudit/report/figure.py` and `lipaudit/api.py`")) == ["lipaudit/report/figure.py"]
