"""The JSON array that an audit of several models writes: reports, and the models that have none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from lipaudit.errors import UsageError
from lipaudit.records.codec import decode
from lipaudit.records.document import check_kind, parse
from lipaudit.records.failure import FAILURE, Failure
from lipaudit.records.report import AuditReport
from lipaudit.records.schema import SCHEMA_VERSION


def to_json_array(reports: Sequence[AuditReport], failures: Sequence[Failure] = (), indent: int | None = 2) -> str:
    """Several reports, and the models that have none, as one JSON array (:mod:`lipaudit.records.schema` describes it)."""
    entries = [report.to_dict() for report in reports] + [_failure(entry) for entry in failures]
    return json.dumps(entries, indent=indent, allow_nan=False)


def outcomes_from_json(text: str | bytes) -> tuple[AuditReport | Failure, ...]:
    """What a document holds: one report, or an array of reports and failures as an audit of several models writes it.

    Raises :class:`~lipaudit.errors.UsageError` as :meth:`AuditReport.from_json` does, saying which entry of the array is wrong.
    """
    document = parse(text, "lipaudit report")
    if not isinstance(document, list):
        return (AuditReport.from_document(document),)
    if not document:
        raise UsageError("the array holds no report; use a file written by `lipaudit --format json`")
    outcomes = []
    for number, entry in enumerate(document, start=1):
        try:
            outcomes.append(_outcome(entry))
        except UsageError as error:
            raise UsageError(f"report {number} of {len(document)}: {error}") from None
    return tuple(outcomes)


def _failure(failure: Failure) -> dict[str, Any]:
    return {
        "kind": FAILURE,
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "lipaudit"},
        "model": {"spec": failure.model},
        "error": failure.error,
        "exit_code": failure.exit_code,
    }


def _outcome(entry: Any) -> AuditReport | Failure:
    if not isinstance(entry, dict) or entry.get("kind") != FAILURE:
        return AuditReport.from_document(entry)
    check_kind(entry, FAILURE, "audit", SCHEMA_VERSION)
    model = entry.get("model")
    return decode(Failure, {**entry, "model": model.get("spec") if isinstance(model, dict) else model}, "failure")
