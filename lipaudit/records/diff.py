"""Two audits beside each other, as a plain record: which rows are the same operation, and how far their bounds moved.

A verdict compares brackets [lower, upper] of one row's true constant. The row grew where the lower bound after is above the upper bound
before, and shrank where the upper bound after is below the lower bound before; otherwise the brackets overlap and the tolerance can
explain the difference. Without lower bounds, and for the network, no more can be said than that an upper bound rose or fell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lipaudit.errors import UsageError
from lipaudit.records.diff_match import Match, match_layers
from lipaudit.records.diff_scope import check_comparable, differences
from lipaudit.records.figure import Record, factor, has_bound, has_bracket, is_above, log10_figure
from lipaudit.records.report import AuditReport, DomainRecord, LayerRecord, ModelRecord, NetworkRecord, SettingsRecord

LOST, GAINED, STATUS, MISSING = "lost", "gained", "status", "missing"
GREW, SHRANK, WITHIN = "grew", "shrank", "within brackets"
ROSE, FELL, SAME = "rose", "fell", "same"
# without a bracket, figures this close (in log10) are the same: rounding alone moves them that far
ROUNDING = 1e-9
# the constant of a row this close to 1 (in log10) does not tell how much the network depends on it
_ONE = 1e-6


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
        found = self.after or self.before
        assert found is not None
        return found


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
        from lipaudit.formats.diff import table

        return table(self)

    def to_json(self, indent: int | None = 2) -> str:
        """The record as JSON text; ``ReportDiff.from_json`` reads it back to an equal record."""
        from lipaudit.records.diff_json import to_json

        return to_json(self, indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> ReportDiff:
        """The record that ``to_json`` wrote; a :class:`~lipaudit.errors.UsageError` says why a text is none."""
        from lipaudit.records.diff_json import from_json

        return from_json(text)


def diff_reports(before: AuditReport, after: AuditReport, tool_version: str = "") -> ReportDiff:
    """What changed from one audit to another, as ``tool_version`` of lipaudit sees it.

    Raises :class:`~lipaudit.errors.UsageError` where the figures of the two cannot be compared: over other inputs or with an input held at
    another value, in another norm, by another method, or without figures.

    >>> model = ModelRecord("net", "module", "as given", (1, 2), 6, None)
    >>> networks = [NetworkRecord("finite", "certified", upper_bound=bound) for bound in (2.0, 3.0)]
    >>> found = diff_reports(*(AuditReport(model, SettingsRecord(), network, (), "0.1.0", "") for network in networks))
    >>> found.network.verdict, round(found.network.factor, 3)
    ('rose', 1.5)
    """
    for report in (before, after):
        if not isinstance(report, AuditReport):
            raise UsageError(
                f"a diff is of two audit reports (AuditReport), not of {type(report).__name__}: AuditReport.load reads a file"
            )
    check_comparable(before, after)
    pairs = match_layers(before.layers, after.layers)
    return ReportDiff(
        before=_subject(before),
        after=_subject(after),
        network=move(before.network, after.network, bracketed=False),
        other_domains=tuple(_domain_changes(before, after)),
        layers=_layer_changes(before.layers, after.layers, pairs),
        notes=tuple(differences(before, after)),
        tool_version=tool_version,
    )


def move(before: Record, after: Record, bracketed: bool = True) -> Move:
    """The verdict on two figures of the same thing, and their factor.

    ``bracketed`` says whether lower bounds are proven ones; those of networks are not.
    """
    log10 = _log10_factor(before, after)
    return Move(_verdict(before, after, log10, bracketed), factor(before, after, log10), log10)


def _subject(report: AuditReport) -> Subject:
    return Subject(report.model, report.settings, report.network, report.tool_version, report.created)


def _log10_factor(before: Record, after: Record) -> float | None:
    logs = log10_figure(before), log10_figure(after)
    if None in logs:
        return None
    first, second = (float(log) for log in logs if log is not None)
    if first == second:
        return 0.0  # also where both figures are 0
    return None if -math.inf in (first, second) else second - first


def _verdict(before: Record, after: Record, log10: float | None, bracketed: bool) -> str:
    if has_bound(before) != has_bound(after):
        return GAINED if has_bound(after) else LOST
    figures = log10_figure(before), log10_figure(after)
    if (before.status, figures[0] is None) != (after.status, figures[1] is None):
        return STATUS
    if figures[0] is None or figures[1] is None:
        return MISSING
    if bracketed and isinstance(before, LayerRecord) and isinstance(after, LayerRecord):
        if is_above(after, before):
            return GREW
        if is_above(before, after):
            return SHRANK
        if has_bracket(before) and has_bracket(after):
            return WITHIN
    if log10 is not None and abs(log10) <= ROUNDING:
        return SAME
    return ROSE if figures[1] > figures[0] else FELL


def _domain_changes(before: AuditReport, after: AuditReport) -> list[DomainChange]:
    """Further domains in the order of the reports; over images they are the same only with the same normalisation."""
    known = [{other.domain: other for other in report.network.other_domains} for report in (before, after)]
    found = []
    for domain in dict.fromkeys((*known[0], *known[1])):
        sides = known[0].get(domain), known[1].get(domain)
        same = domain != "pixels" or before.model.preprocessing == after.model.preprocessing
        both = sides[0] is not None and sides[1] is not None and same
        moved = move(sides[0], sides[1], bracketed=False) if both and sides[0] and sides[1] else None
        found.append(DomainChange(domain, *sides, moved))
    return found


def _layer_changes(
    before: Sequence[LayerRecord], after: Sequence[LayerRecord], pairs: Sequence[Match]
) -> tuple[LayerChange, ...]:
    weights = _elasticities(before), _elasticities(after)
    changes = []
    for pair in pairs:
        first = None if pair.before is None else before[pair.before]
        second = None if pair.after is None else after[pair.after]
        moved = move(first, second) if first is not None and second is not None else None
        known = [w[i] for w, i in zip(weights, (pair.before, pair.after), strict=True) if i is not None and i in w]
        changes.append(LayerChange(pair.kind, first, second, moved, _contribution(first, second, known, all(weights))))
    return tuple(changes)


def _contribution(
    before: LayerRecord | None, after: LayerRecord | None, elasticities: list[float], known: bool
) -> float | None:
    """The mean elasticity times the change of the log figure."""
    logs = [0.0 if row is None else log10_figure(row) for row in (before, after)]
    if not known or not elasticities or logs[0] is None or logs[1] is None or -math.inf in logs:
        return None
    return math.fsum(elasticities) / len(elasticities) * (logs[1] - logs[0])


def _elasticities(layers: Sequence[LayerRecord]) -> dict[int, float]:
    """d log L / d log c of rows by their number, from the shares, each of which is elasticity times log c over one common sum.

    Elasticities are at most 1, and 1 at a row that every path passes: that fixes the common sum. Empty without shares.
    """
    raw = {}
    for i, row in enumerate(layers):
        log = log10_figure(row)
        if row.share is not None and log is not None and math.isfinite(log) and abs(log) > _ONE:
            raw[i] = row.share / log
    most = max(raw.values(), default=0.0)
    return {i: value / most for i, value in raw.items()} if most > 0 else {}
