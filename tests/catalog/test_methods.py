from __future__ import annotations

import json

import pytest

from lipaudit.catalog.methods import find_methods, render
from lipaudit.catalog.rules import FORMATS
from lipaudit.errors import UsageError
from lipaudit.spectral.published.registry import all_methods


def test_every_method_is_listed_once_with_what_the_registry_says() -> None:
    entries = json.loads(render(find_methods(), "json"))
    assert [entry["method"] for entry in entries] == [method.name for method in all_methods()]
    for entry, method in zip(entries, all_methods(), strict=True):
        assert (entry["computes"], entry["claim"], entry["reference"]) == (
            method.summary,
            method.claim,
            method.reference,
        )
        assert entry["default_iterations"] == method.iterations


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_has_name_what_it_computes_claim_and_default(form: str) -> None:
    (method,) = find_methods("singla2021")
    text = " ".join(render([method], form).split())
    for words in (method.method, method.computes, method.claim, "50"):
        assert words in text


def test_the_table_fits_a_terminal_and_names_the_default() -> None:
    lines = render(find_methods()).splitlines()
    assert max(map(len, lines)) <= 100
    assert [line for line in lines if line.endswith("[default]")] == ["gram [default]"]
    assert sum(line.startswith("  default ") for line in lines) == sum(m.iterations is not None for m in all_methods())


@pytest.mark.parametrize(
    ("pattern", "names"), [("RYU", ["ryu2019"]), ("*2021", ["araujo2021", "gouk2021", "singla2021"])]
)
def test_patterns_find_methods(pattern: str, names: list[str]) -> None:
    assert [method.method for method in find_methods(pattern)] == names


def test_a_pattern_that_finds_nothing_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"no method matches 'nobody'; `lipaudit methods` lists them"):
        find_methods("nobody")
