"""Pages that a program writes are what it writes today, and every page of the documentation has one place in the index."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import click
import pytest

from docs import make_cli, make_report
from lipaudit.cli import cli
from lipaudit.records.schema import load_schema
from tests.docs.commands import ROOT

DOCS = ROOT / "docs"


def test_the_page_on_the_command_line_is_what_its_generator_writes() -> None:
    assert make_cli.PAGE.read_text(encoding="utf-8") == make_cli.render(), "python -m docs.make_cli"


def test_the_page_on_reports_is_what_its_generator_writes() -> None:
    assert make_report.PAGE.read_text(encoding="utf-8") == make_report.render(), "python -m docs.make_report"


def test_every_option_of_every_verb_is_on_the_page_and_explained() -> None:
    sections = re.split(r"^## lipaudit (\w+)$", make_cli.render(), flags=re.MULTILINE)
    found = dict(zip(sections[1::2], sections[2::2], strict=True))
    assert list(found) == list(cli.commands)
    for name, command in cli.commands.items():
        for option in command.params:
            if isinstance(option, click.Option) and option.name != "debug":
                assert option.help, f"{name} {option.opts}"
                assert re.search(rf"^`[^`]*{re.escape(option.opts[-1])}\b[^`]*`\n: \S", found[name], re.MULTILINE)


def properties(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field of an object that the schema describes, not those that a condition repeats."""
    described = [("", schema), *((name, part) for name, part in schema["$defs"].items() if part.get("type"))]
    described += [(name, schema["properties"][name]) for name in ("tool", "environment")]
    for place, part in described:
        for name, field in part["properties"].items():
            yield f"{place}.{name}", field


def test_every_field_of_the_schema_is_described() -> None:
    fields = dict(properties(load_schema()))
    assert {".network", "layer.upper_bound", "settings.radius_in", "tool.version"} <= set(fields)
    assert [name for name, field in fields.items() if not field.get("description")] == []


def test_every_field_of_a_report_is_on_the_page() -> None:
    page = make_report.render()
    rows = Counter(re.findall(r"^\| `([$\w]+)` \|", page, re.MULTILINE))
    expected = Counter(name.rpartition(".")[2] for name, _ in properties(load_schema()))
    assert rows == expected


def entries(text: str) -> list[str]:
    """What the tables of contents of a page name."""
    return [
        line
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        for line in block.splitlines()
        if line and not line.startswith(":")
    ]


def test_every_page_is_in_exactly_one_table_of_contents() -> None:
    named = entries((DOCS / "index.md").read_text(encoding="utf-8"))
    pages = {path.stem for path in DOCS.glob("*.md")} - {"index"}
    assert sorted(named) == sorted(pages)
    assert [path for path in pages if entries((DOCS / f"{path}.md").read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(("text", "found"), [("```{toctree}\n:caption: A\n\na\nb\n```\n", ["a", "b"]), ("a", [])])
def test_entries_of_a_table_of_contents(text: str, found: list[str]) -> None:
    assert entries(text) == found
