"""The diff of two audits: which rows are the same operation, and how far their bounds moved. Torch is not imported."""

from __future__ import annotations

from collections.abc import Sequence

from lipaudit.auditing.diff_contributions import contribution, elasticities
from lipaudit.auditing.diff_match import Match, match_layers
from lipaudit.auditing.diff_scope import check_comparable, differences
from lipaudit.auditing.diff_verdict import move
from lipaudit.errors import InvalidValueError
from lipaudit.records.diff import DomainChange, LayerChange, ReportDiff, Subject
from lipaudit.records.report import AuditReport, LayerRecord
from lipaudit.version import __version__


def diff(before: AuditReport, after: AuditReport) -> ReportDiff:
    """What changed from one audit to another: the network's bound, and row by row which moved out of its bracket.

    ``print(diff)`` shows what ``lipaudit diff`` prints.

    Raises:
        UsageError: where the figures cannot be compared: over other inputs or with an input held at another value, in another
            norm, by another method, or without figures (``structure``).

    >>> from lipaudit.records.figure import Figure
    >>> from lipaudit.records.report import NetworkRecord
    >>> from lipaudit.records.settings import ModelRecord, SettingsRecord
    >>> model = ModelRecord("net", "module", "as given", (1, 2), 6, None)
    >>> networks = [NetworkRecord("finite", figure=Figure.of(bound)) for bound in (2.0, 3.0)]
    >>> change = diff(*(AuditReport(model, SettingsRecord(), network, (), "0.1.0", "") for network in networks))
    >>> change.network.verdict, round(change.network.factor, 3)
    ('rose', 1.5)
    """
    for report in (before, after):
        if not isinstance(report, AuditReport):
            raise InvalidValueError("a report to compare", "an AuditReport", report, "AuditReport.load reads a file")
    check_comparable(before, after)
    pairs = match_layers(before.layers, after.layers)
    return ReportDiff(
        before=_subject(before),
        after=_subject(after),
        network=move(before.network, after.network, bracketed=False),
        other_domains=tuple(_domain_changes(before, after)),
        layers=_layer_changes(before.layers, after.layers, pairs),
        notes=tuple(differences(before, after)),
        tool_version=__version__,
    )


def _subject(report: AuditReport) -> Subject:
    return Subject(report.model, report.settings, report.network, report.tool_version, report.created)


def _domain_changes(before: AuditReport, after: AuditReport) -> list[DomainChange]:
    """Further domains in the order of the reports; over images they are the same only with the same normalisation."""
    known = [{other.domain: other for other in report.network.other_domains} for report in (before, after)]
    changes = []
    for domain in dict.fromkeys((*known[0], *known[1])):
        first, second = known[0].get(domain), known[1].get(domain)
        same = domain != "pixels" or before.model.preprocessing == after.model.preprocessing
        both = first is not None and second is not None and same
        moved = move(first, second, bracketed=False) if both and first and second else None
        changes.append(DomainChange(domain, first, second, moved))
    return changes


def _layer_changes(
    before: Sequence[LayerRecord], after: Sequence[LayerRecord], pairs: Sequence[Match]
) -> tuple[LayerChange, ...]:
    weights = elasticities(before), elasticities(after)
    changes = []
    for pair in pairs:
        first = None if pair.before is None else before[pair.before]
        second = None if pair.after is None else after[pair.after]
        moved = move(first, second) if first is not None and second is not None else None
        known = [w[i] for w, i in zip(weights, (pair.before, pair.after), strict=True) if i is not None and i in w]
        part = contribution(first, second, known) if all(weights) else None
        changes.append(LayerChange(pair.kind, first, second, moved, part))
    return tuple(changes)
