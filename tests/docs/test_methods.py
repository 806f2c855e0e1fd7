"""The documentation of the methods is that of the registry."""

from __future__ import annotations

import re

import pytest
from markdown_it import MarkdownIt

from lipaudit.catalog.methods import find_methods, render
from lipaudit.spectral.published.registry import Method, all_methods
from lipaudit.text.published_methods import MethodEntry
from tests.places import DOCS

PAGE = DOCS / "methods.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_table_of_the_page_is_the_output_of_the_command() -> None:
    table, _ = render(find_methods(), "markdown").split("\n\n")
    assert f"\n\n{table}\n\n" in TEXT, "docs/methods.md is stale: python -m docs.make"


@pytest.mark.parametrize("method", all_methods(), ids=lambda method: method.name)
def test_every_method_is_defined_and_cited(method: Method) -> None:
    assert f"**`{method.name}`**" in TEXT
    if method.name != "gram":
        assert f"- `{method.name}`: {method.reference}." in TEXT


def tables(text: str) -> list[list[list[str]]]:
    """The cells of every table as a Markdown parser renders them."""
    parser = MarkdownIt("commonmark").enable("table")
    found: list[list[list[str]]] = []
    for token, following in zip(tokens := parser.parse(text), tokens[1:], strict=False):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append([])
        elif token.type in ("th_open", "td_open"):
            found[-1][-1].append(following.content)
    return found


def test_a_markdown_parser_reads_every_row_whole() -> None:
    methods, costs, parts = tables(TEXT)
    assert methods[0] == ["method", "computes", "the figure is", "default"]
    unescaped = [[re.sub(r"\\([\\`*_\[\]|~#])", r"\1", cell) for cell in row] for row in methods[1:]]
    assert unescaped == [[f"`{m.name}`", m.summary, m.claim, str(m.iterations or "")] for m in all_methods()]
    assert [row[0] for row in costs[1:]] == [f"`{m.name}`" for m in all_methods()]
    for row in (*costs, *parts):
        assert all(cell.count("$") % 2 == 0 for cell in row)
    assert all(row[1] for row in costs)  # a cell that was cut off would be empty or shift the others


def test_a_pipe_in_a_text_breaks_no_row() -> None:
    method = MethodEntry("pipe2030", "Pipe 2030", "the sum of |K x| / ||x||", "a | b", None, "A. Author")
    (table,) = tables(render([method], "markdown"))
    assert [len(row) for row in table] == [4, 4]
    assert table[1][1].replace("\\", "") == "the sum of |K x| / ||x||"


def test_formulas_outside_code_are_all_between_dollars() -> None:
    prose = re.sub(r"```.*?```|`[^`]*`", "", TEXT, flags=re.DOTALL)
    outside = re.sub(r"\$[^$]+\$", "", prose)
    assert "$" not in outside
    assert not re.search(r"sum_|\|\||[a-z]_(ij|out|in|h|w)\b|\\(sum|sup|omega)", outside)
    assert "f_{ij}" in prose


def test_the_defaults_of_the_page_are_those_of_the_registry() -> None:
    (said,) = re.findall(r"The defaults that are those of.*?(?=\n\n)", TEXT, flags=re.DOTALL)
    counts = {method.name: method.iterations for method in all_methods() if method.iterations is not None}
    assert set(re.findall(r"`(\w+\d{4})`", said)) == set(counts)
    paper, ours = said.split("The others are lipaudit's choice")
    for number, name in ((100, "ryu2019"), (50, "singla2021"), (50, "araujo2021"), (7, "delattre2023")):
        assert re.search(rf"{number} [a-zA-Z ]*for\s`{name}`", paper)
        assert counts[name] == number
    others = {name: counts[name] for name in re.findall(r"`(\w+\d{4})`", ours)}
    assert others.pop("delattre2024") == 6
    assert set(others.values()) == {100}


def test_the_example_runs_and_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)
    exec(compile(example, "docs/methods.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(all_methods())
    (comment,) = re.findall(r"# (gram: .*), \.\.\.", example)
    assert set(comment.split(", ")) <= set(lines)
