"""Whether a JSON value is the report of one audit, and what it is where it is not."""

from __future__ import annotations

from typing import Any

from lipaudit.errors import UsageError
from lipaudit.records.document import check_version, is_ours
from lipaudit.records.schema import SCHEMA_IDS, SCHEMA_VERSION

# what else lipaudit writes as JSON, by its kind
_OTHERS = {
    "certification": "a certification of images, no report of an audit: read it with Certification.from_json",
    "comparison": "a comparison of methods, no report of an audit: read it with Comparison.from_json",
    "diff": "a diff of two reports, no report of an audit: read it with ReportDiff.from_json",
    "fleet": "the first line of a fleet's record, no report of an audit: `lipaudit export` and `lipaudit diff` read the whole record",
    "fleet summary": "the summary of a fleet, which has no reports: use the record of the fleet (-o FILE.jsonl)",
}


def check_identity(document: Any) -> None:
    """Raise :class:`~lipaudit.errors.UsageError` for what is no report, or one in a major version that is not read."""
    if isinstance(document, dict) and document.get("$id") in SCHEMA_IDS:
        raise UsageError(
            "this JSON is the schema of reports, no report: use a file written by `lipaudit --format json`"
        )
    if isinstance(document, list) and any(map(is_ours, document)):
        raise UsageError(
            f"this JSON holds several reports, an array of {len(document)}: take one of its entries, "
            "AuditReport.from_json(json.dumps(entries[0]))"
        )
    if not isinstance(document, dict) or not isinstance(document.get("schema_version"), str):
        raise UsageError(
            "this JSON is no lipaudit report: it has no schema_version; use a file written by `lipaudit --format json`"
        )
    if not is_ours(document):
        raise UsageError("this JSON is no lipaudit report: its tool.name is not lipaudit")
    kind = document.get("kind")
    if isinstance(kind, str) and kind in _OTHERS:
        raise UsageError(f"this JSON is {_OTHERS[kind]}")
    check_version(document["schema_version"], SCHEMA_VERSION, "report")
