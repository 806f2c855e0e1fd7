"""A fleet in a few figures per model: one row for each, in the order of the request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lipaudit.fleet.entry import FAILED, Entry
from lipaudit.report.display import count_text
from lipaudit.report.record import AuditReport
from lipaudit.report.stretching import stretching

_ORDER = ("finite", "estimate", "unbounded", "unsupported", FAILED)


@dataclass(frozen=True)
class Row:
    """What became of one model.

    ``status`` is that of the network (``finite``, ``unbounded``, ``unsupported``), or ``failed`` where there is no report. The
    figures are those of the report, over its domain. ``layers`` is the number of the report's rows, ``costliest`` the one with the
    largest ``share`` of all that stretches. ``problem`` says why there is no report or no finite figure.
    """

    spec: str
    options: dict[str, Any] = field(default_factory=dict)
    status: str = FAILED
    rigor: str | None = None
    domain: str | None = None
    structure: bool = False
    upper_bound: float | None = None
    log10_upper_bound: float | None = None
    estimate: float | None = None
    log10_estimate: float | None = None
    lower_bound: float | None = None
    layers: int | None = None
    costliest: str | None = None
    share: float | None = None
    problem: str = ""


def row_of(entry: Entry, report: AuditReport | None) -> Row:
    """The row of an entry, whose report is given as a record."""
    if report is None:
        return Row(entry.spec, entry.options, problem=entry.error or "")
    network = report.network
    first = next(iter(stretching(report)), None)
    return Row(
        entry.spec,
        entry.options,
        status=network.status,
        rigor=network.rigor,
        domain=network.domain,
        structure=report.settings.structure,
        upper_bound=network.upper_bound,
        log10_upper_bound=network.log10_upper_bound,
        estimate=network.estimate,
        log10_estimate=network.log10_estimate,
        lower_bound=network.lower_bound,
        layers=len(report.layers),
        costliest=first.name if first else None,
        share=first.share if first else None,
        problem=_problem(network.reasons) if network.status != "finite" else "",
    )


def counts(rows: Sequence[Row]) -> str:
    """How many models ended how, in one sentence.

    >>> counts([Row("a", status="finite"), Row("b", status="finite"), Row("c")])
    '3 models: 2 with a finite bound, 1 failed.'
    """
    words = {"finite": "with a finite bound", "estimate": "with an estimate, which is no bound"}
    found = Counter("estimate" if row.rigor == "estimate" else row.status for row in rows)
    parts = [f"{found[kind]} {words.get(kind, kind)}" for kind in _ORDER if found[kind]]
    return f"{count_text(len(rows), 'model')}: {', '.join(parts)}."


def _problem(reasons: Sequence[str]) -> str:
    more = f" and {len(reasons) - 1} more" if len(reasons) > 1 else ""
    return f"{reasons[0]}{more}" if reasons else ""
