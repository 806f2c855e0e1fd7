"""The entries that are shipped are those of the registries."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lipaudit.catalog import collect, entries
from lipaudit.rules.rule import all_rules
from lipaudit.text import published_methods

STALE = "stale: python -m docs.make"


def test_the_rules_are_those_of_the_registry() -> None:
    assert entries.rule_entries() == collect.collect_rules(), STALE


def test_the_methods_are_those_of_the_registry() -> None:
    assert published_methods.method_entries() == collect.collect_methods(), STALE


def test_the_files_are_as_they_are_written() -> None:
    assert entries.FILE.read_text(encoding="utf-8") == entries.as_json(entries.rule_entries()) + "\n", STALE
    methods = entries.as_json(published_methods.method_entries())
    assert published_methods.FILE.read_text(encoding="utf-8") == methods + "\n", STALE


def test_a_rule_that_has_changed_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = all_rules()
    silu = rules["aten.silu.default"]
    monkeypatch.setitem(rules, "aten.silu.default", replace(silu, formula="1"))
    monkeypatch.setattr("lipaudit.rules.rule.all_rules", lambda: rules)
    changed = [entry for entry in collect.collect_rules() if entry not in entries.rule_entries()]
    assert [(entry.rule, entry.constant) for entry in changed] == [("silu", "1")]
