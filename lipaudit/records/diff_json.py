"""A diff as JSON and back: a format of its own, with a version of its own beside those of reports and comparisons.

The document is the record, field by field, below keys that say what it is. Within a major version keys are only added, and
:func:`from_json` ignores those that it does not know. What is not known is null; NaN and infinity are never written and never read.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from lipaudit.errors import UsageError
from lipaudit.records.contradictions import Part, part_contradiction
from lipaudit.records.diff import FELL, GAINED, GREW, LOST, MISSING, ROSE, SAME, SHRANK, STATUS, WITHIN, ReportDiff
from lipaudit.records.report_json import check_kind, decoded, parsed

SCHEMA_VERSION = "1.0"
_KIND = "diff"
_VERDICTS = (LOST, GAINED, STATUS, MISSING, GREW, SHRANK, WITHIN, ROSE, FELL, SAME)
# which of the two reports a row must be in
_SIDES = {"name": (True, True), "shape": (True, True), "changed": (True, True)}
_SIDES |= {"added": (False, True), "removed": (True, False)}


def to_json(found: ReportDiff, indent: int | None = 2) -> str:
    """The diff as JSON text (ASCII, no trailing newline); two equal diffs give the same text."""
    body = asdict(found)
    tool = {"name": "lipaudit", "version": body.pop("tool_version")}
    return json.dumps(
        {"kind": _KIND, "schema_version": SCHEMA_VERSION, "tool": tool, **body}, indent=indent, allow_nan=False
    )


def from_json(text: str | bytes) -> ReportDiff:
    """The diff that :func:`to_json` wrote.

    Raises :class:`~lipaudit.errors.UsageError` for a document that is no diff, that has a newer major version, or that lacks or
    contradicts what it must say; the message names the place.
    """
    document = parsed(text, _KIND)
    check_kind(document, _KIND, "diff", SCHEMA_VERSION)
    found = decoded(ReportDiff, {**document, "tool_version": document["tool"].get("version")}, "diff")
    _check_words(found)
    _check_figures(document)
    return found


def _check_words(found: ReportDiff) -> None:
    """Refuse words that no diff has, and rows that are not where their match says: they would be shown as something else."""
    places: list[tuple[str, Any]] = [("diff.network", found.network)]
    places += [(f"diff.other_domains[{i}].move", other.move) for i, other in enumerate(found.other_domains)]
    places += [(f"diff.layers[{i}].move", layer.move) for i, layer in enumerate(found.layers)]
    for place, move in places:
        if move is not None and move.verdict not in _VERDICTS:
            raise UsageError(f"{place}.verdict is {move.verdict!r}, none of {_VERDICTS}")
    for i, layer in enumerate(found.layers):
        sides = layer.before is not None, layer.after is not None
        if _SIDES.get(layer.match) != sides or (layer.move is None) == all(sides):
            raise UsageError(f"diff.layers[{i}] does not fit its match {layer.match!r}")


def _check_figures(document: dict[str, Any]) -> None:
    """Refuse records that no report has: their figures contradict one another."""
    parts = [Part("network", f"diff.{side}.network", document[side]["network"]) for side in ("before", "after")]
    for i, layer in enumerate(document["layers"]):
        rows = ((side, layer.get(side)) for side in ("before", "after"))
        parts += [Part("layer", f"diff.layers[{i}].{side}", row) for side, row in rows if row is not None]
    for problem in map(part_contradiction, parts):
        if problem:
            raise UsageError(f"the diff contradicts itself: {problem}; write it again with this version of lipaudit")
