"""A fleet in a few figures per model: one row for each, in the order of the request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lipaudit.fleet.entry import FAILED, Entry
from lipaudit.records.report import AuditReport
from lipaudit.records.stretching import costs
from lipaudit.text.numbers import count_text

_ORDER = ("finite", "estimate", "unbounded", "unsupported", FAILED)


@dataclass(frozen=True)
class Row:
    """What became of one model.

    ``status`` is that of the network (``finite``, ``unbounded``, ``unsupported``), or ``failed`` where there is no report. The
    figures are those of the report, over its domain. ``layers`` is the number of the report's rows, ``costliest`` the one with the
    largest ``share`` of all that stretches. ``problem`` says why there is no report or no finite figure. ``gates`` are those that the
    model does not meet, None where there is no report or no gate was asked for.
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
    gates: list[str] | None = None


def row_of(entry: Entry, report: AuditReport | None, gates: list[str] | None = None) -> Row:
    """The row of an entry, whose report is given as a record, and the ``gates`` that it does not meet."""
    if report is None:
        return Row(entry.spec, entry.options, problem=entry.error or "")
    network = report.network
    first = next(iter(costs(report)), None)
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
        gates=gates,
    )


def counts(rows: Sequence[Row]) -> str:
    """How many models ended how, in one sentence.

    >>> counts([Row("a", status="finite"), Row("b", status="finite"), Row("c")])
    '3 models: 2 with a finite bound, 1 failed.'
    >>> counts([Row("a", status="finite", gates=["max-layer"]), Row("b", status="finite", gates=[])])
    '2 models: 2 with a finite bound; 1 exceeds a gate.'
    """
    words = {"finite": "with a finite bound", "estimate": "with an estimate, which is no bound"}
    numbers = Counter("estimate" if row.rigor == "estimate" else row.status for row in rows)
    parts = [f"{numbers[kind]} {words.get(kind, kind)}" for kind in _ORDER if numbers[kind]]
    return f"{count_text(len(rows), 'model')}: {', '.join(parts)}{_exceeded(rows)}."


def _exceeded(rows: Sequence[Row]) -> str:
    """How many models exceed a gate; empty where none was judged."""
    if all(row.gates is None for row in rows):
        return ""
    count = sum(bool(row.gates) for row in rows)
    return f"; {count or 'none'} {'exceed' if count > 1 else 'exceeds'} a gate"


def _problem(reasons: Sequence[str]) -> str:
    more = f" and {len(reasons) - 1} more" if len(reasons) > 1 else ""
    return f"{reasons[0]}{more}" if reasons else ""
