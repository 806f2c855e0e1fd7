"""Two audits beside each other, as a plain record: which rows are the same operation, and how far their bounds moved.

Its JSON is a format of its own, with a version of its own beside those of reports and comparisons: the record, field by field, below keys
that say what it is. Within a major version keys are only added, and a reader ignores those that it does not know. What is not known is
null; NaN and infinity are never written and never read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from lipaudit.errors import UsageError
from lipaudit.records.codec import decode, encode
from lipaudit.records.contradictions import ContradictionError, Part, part_contradiction
from lipaudit.records.document import check_kind, parse
from lipaudit.records.rendering import render
from lipaudit.records.report import DomainRecord, LayerRecord, NetworkRecord
from lipaudit.records.schema import upgrade_network
from lipaudit.records.settings import ModelRecord, SettingsRecord

LOST, GAINED, STATUS, MISSING = "lost", "gained", "status", "missing"
GREW, SHRANK, WITHIN = "grew", "shrank", "within brackets"
ROSE, FELL, SAME = "rose", "fell", "same"
SCHEMA_VERSION = "1.1"
_KIND = "diff"
_VERDICTS = (LOST, GAINED, STATUS, MISSING, GREW, SHRANK, WITHIN, ROSE, FELL, SAME)
# which of the two reports a row must be in
_SIDES = {"name": (True, True), "shape": (True, True), "changed": (True, True)}
_SIDES |= {"added": (False, True), "removed": (True, False)}
# without a bracket, figures this close (in log10) are the same: rounding alone moves them that far
ROUNDING = 1e-9


@dataclass(frozen=True)
class Subject:
    """One of the two reports, without its rows."""

    model: ModelRecord
    settings: SettingsRecord
    network: NetworkRecord
    tool_version: str
    created: str


@dataclass(frozen=True)
class Move:
    """From one figure to another.

    ``verdict`` is ``lost`` (a proven bound before, none after), ``gained``, ``status`` (no proven bound before or after, but for
    another reason), ``missing`` (the same reason), ``grew``, ``shrank``, ``within brackets``, or where there are no brackets ``rose``,
    ``fell`` and ``same``. ``log10_factor`` is the decimal logarithm of the figure after over the one before, None where one of them
    is missing or 0; ``factor`` is the quotient itself where it fits a float.
    """

    verdict: str
    factor: float | None = None
    log10_factor: float | None = None


@dataclass(frozen=True)
class LayerChange:
    """A row of either report or of both.

    ``match`` is ``name``, ``shape`` (the names differ, the sequences of operations and shapes are equal), ``changed`` (the same name,
    another operation or weight shape), ``added`` or ``removed``; ``move`` is None for the last two. ``contribution`` is the row's part
    of the network's log10 factor, to first order: the change of the row's log10 figure (an absent row counts as 1) times the mean
    elasticity of the network's figure in it, None where that is not known.
    """

    match: str
    before: LayerRecord | None
    after: LayerRecord | None
    move: Move | None
    contribution: float | None = None

    @property
    def record(self) -> LayerRecord:
        """The row after, or the removed one."""
        row = self.after or self.before
        assert row is not None
        return row


@dataclass(frozen=True)
class DomainChange:
    """The network over a domain that both reports show beside the one in force; ``move`` is None where only one does."""

    domain: str
    before: DomainRecord | None
    after: DomainRecord | None
    move: Move | None


@dataclass(frozen=True)
class ReportDiff:
    """What ``lipaudit diff`` found. ``layers`` are in the order of the second report, removed rows where they stood.

    ``notes`` are plain sentences about what else differs between the reports.
    """

    before: Subject
    after: Subject
    network: Move
    other_domains: tuple[DomainChange, ...]
    layers: tuple[LayerChange, ...]
    notes: tuple[str, ...]
    tool_version: str

    def __str__(self) -> str:
        """The table that the command line prints."""
        return render(self, "table")

    def to_json(self, indent: int | None = 2) -> str:
        """The record as JSON text (ASCII, no trailing newline); two equal diffs give the same text.

        ``ReportDiff.from_json`` reads it back to an equal record.
        """
        body = encode(self)
        tool = {"name": "lipaudit", "version": body.pop("tool_version")}
        head = {"kind": _KIND, "schema_version": SCHEMA_VERSION, "tool": tool}
        return json.dumps({**head, **body}, indent=indent, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> ReportDiff:
        """The record that ``to_json`` wrote, in this version of the layout or an earlier one of the same major version.

        Raises :class:`~lipaudit.errors.UsageError` for a document that is no diff, that has another major version, or that lacks or
        contradicts what it must say; the message names the place.
        """
        document = parse(text, _KIND)
        check_kind(document, _KIND, "diff", SCHEMA_VERSION)
        diff = decode(cls, {**_upgrade(document), "tool_version": document["tool"].get("version")}, "diff")
        _check_words(diff)
        _check_figures(document)
        return diff


def _upgrade(document: dict[str, Any]) -> dict[str, Any]:
    """The document with what later versions of reports added to their networks."""
    sides = {side: document[side] for side in ("before", "after") if isinstance(document.get(side), dict)}
    return document | {
        side: {**entry, "network": upgrade_network(entry["network"])}
        for side, entry in sides.items()
        if isinstance(entry.get("network"), dict)
    }


def _check_words(diff: ReportDiff) -> None:
    """Refuse words that no diff has, and rows that are not where their match says: they would be shown as something else."""
    places: list[tuple[str, Any]] = [("diff.network", diff.network)]
    places += [(f"diff.other_domains[{i}].move", other.move) for i, other in enumerate(diff.other_domains)]
    places += [(f"diff.layers[{i}].move", layer.move) for i, layer in enumerate(diff.layers)]
    for place, move in places:
        if move is not None and move.verdict not in _VERDICTS:
            raise UsageError(f"{place}.verdict is {move.verdict!r}, none of {_VERDICTS}")
    for i, layer in enumerate(diff.layers):
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
            raise ContradictionError("diff", problem)
