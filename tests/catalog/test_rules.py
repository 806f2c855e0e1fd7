from __future__ import annotations

import json

import pytest

from lipaudit.catalog.rules import FORMATS, find_rules, render
from lipaudit.errors import UsageError
from lipaudit.rules.rule import all_rules
from tests.places import DOCS

PAGE = DOCS / "rules.md"


def test_the_page_of_the_documentation_is_the_output_of_the_command() -> None:
    assert PAGE.read_text() == render(find_rules(), "markdown") + "\n", "docs/rules.md is stale: python -m docs.make"


def test_every_operation_is_listed_once() -> None:
    entries = json.loads(render(find_rules(), "json"))
    operations = [op for entry in entries for op in entry["operations"]]
    assert sorted(operations) == sorted(all_rules())
    assert len({entry["rule"] for entry in entries}) == len(entries) < len(operations)


@pytest.mark.parametrize(
    ("pattern", "rules"),
    [
        ("SiLU", ["silu"]),
        ("aten.softmax.int", ["softmax"]),
        ("mul.*", ["multiply"]),
        ("?an_to_num", ["nan_to_num"]),
        ("dot_product", ["attention"]),
    ],
)
def test_patterns_find_rules_and_operations(pattern: str, rules: list[str]) -> None:
    assert [rule.rule for rule in find_rules(pattern)] == rules


def test_a_pattern_that_finds_nothing_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"no rule and no operation matches 'linalg_eigh'"):
        find_rules("linalg_eigh")


def test_marks_say_what_is_exact_and_what_needs_bounds() -> None:
    entries = {entry["rule"]: entry for entry in json.loads(render(find_rules(), "json"))}
    flags = {
        name: (entries[name]["exact"], entries[name]["needs_bounded_operands"])
        for name in ("silu", "multiply", "attention", "layer_norm")
    }
    assert flags == {
        "silu": (True, False),
        "multiply": (True, True),
        "attention": (False, True),
        "layer_norm": (False, False),
    }
    table = render(find_rules(), "table").splitlines()
    assert {"silu [exact] [norms]", "multiply [exact] [bounded] [norms]", "attention [bounded]", "layer_norm"} <= set(
        table
    )


def test_the_table_fits_a_terminal_and_every_format_names_the_constant() -> None:
    assert max(map(len, render(find_rules()).splitlines())) <= 100
    for form in FORMATS:
        assert "1.09984" in render(find_rules("silu"), form)


def test_no_formula_breaks_the_markdown_table() -> None:
    rows = [line for line in render(find_rules(), "markdown").splitlines() if line.startswith("| `")]
    assert {row.replace("\\|", "").count("|") for row in rows} == {6}
