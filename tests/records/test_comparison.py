"""The JSON of comparisons and back."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from lipaudit.errors import UsageError
from lipaudit.records.comparison import Comparison
from tests.formats.test_comparison import comparison, figure, layer, method


def found() -> Comparison:
    undefined = figure("b", outcome="undefined", figure=None, log10_figure=None, rigor=None, reason="no", seconds=0.0)
    below = figure("a", below_lower_bound=True, shortfall=1 / 6, seconds=0.125)
    record = comparison((layer("one", below, undefined),), (method("a", seconds=0.1), method("b", seconds=0.2)))
    return replace(record, environment={"threads": 2}, notes=("a note",))


def test_round_trip_gives_an_equal_comparison() -> None:
    assert Comparison.from_json(found().to_json()) == found()
    assert Comparison.from_json(found().to_json(None).encode()) == found()
    empty = replace(found(), layers=())
    assert Comparison.from_json(empty.to_json()) == empty


def test_seconds_stand_under_one_key_and_nothing_else_depends_on_them() -> None:
    document = json.loads(found().to_json())
    assert document["seconds"] == {
        "layers": [{"bounds": 0.5, "figures": {"a": 0.125, "b": 0.0}}],
        "methods": {"a": 0.1, "b": 0.2},
    }
    (one,) = found().layers
    slower = replace(one, seconds=9.0, figures=tuple(replace(f, seconds=8.0) for f in one.figures))
    methods = tuple(replace(m, seconds=7.0) for m in found().methods)
    other = json.loads(replace(found(), layers=(slower,), methods=methods).to_json())
    assert other.pop("seconds") != document.pop("seconds")
    assert other == document
    assert '"seconds"' not in json.dumps(document)


def changed(*path: str | int, value: Any) -> str:
    document = place = json.loads(found().to_json())
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps(document)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("[]", "its kind is not 'comparison'"),
        (changed("kind", value="report"), "its kind is not 'comparison'"),
        (changed("tool", value={"name": "other"}), "its kind is not 'comparison'"),
        (changed("schema_version", value="2.0"), "schema version 2.0, this lipaudit reads 1.x"),
        (changed("seconds", value={}), "do not fit its layers and methods"),
        (changed("seconds", "layers", value=[]), "do not fit its layers and methods"),
        (changed("layers", value=[]), "do not fit its layers and methods"),
        (changed("seconds", "methods", value={"a": 1.0}), "do not fit its layers and methods"),
        (changed("seconds", "methods", "a", value="1"), r"comparison.methods\[0\].seconds must be a number"),
        (changed("layers", 0, "upper_bound", value="4"), r"comparison.layers\[0\].upper_bound must be a number"),
        (changed("layers", 0, "figures", 0, "outcome", value="guessed"), "outcome of a for one is 'guessed'"),
        (changed("methods", 0, "network_status", value="fine"), "network_status of a is 'fine'"),
        (changed("layers", 0, "upper_bound", value=float("nan")), "holds NaN"),
        (changed("model", value=None), "comparison.model must be an object"),
    ],
)
def test_a_wrong_document_gives_one_clear_error(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Comparison.from_json(text)


def test_newer_minor_versions_with_unknown_keys_are_read() -> None:
    document = json.loads(changed("schema_version", value="1.7"))
    document["layers"][0]["colour"] = "blue"
    assert Comparison.from_json(json.dumps(document)) == found()
