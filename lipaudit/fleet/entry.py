"""One line of a fleet's record: what became of one model."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from lipaudit.records.report import AuditReport

DONE = "done"
FAILED = "failed"


@dataclass(frozen=True)
class Entry:
    """The outcome for one model.

    ``options`` are the model's own keyword options of :func:`lipaudit.audit`. ``report`` is the report as JSON has it where
    ``status`` is ``done``, else ``error`` says why there is none and ``exit_code`` is that of an audit of this model alone.
    ``files`` maps the files that were read to their SHA-256. ``trace`` is a traceback for whoever asked for it; it is not
    recorded.
    """

    spec: str
    options: dict[str, Any]
    status: str
    error: str | None = None
    exit_code: int = 0
    files: dict[str, str] = field(default_factory=dict)
    report: dict[str, Any] | None = None
    trace: str = ""

    @classmethod
    def failed(cls, spec: str, options: dict[str, Any], error: str, exit_code: int, trace: str = "") -> Entry:
        """The entry of a model without a report."""
        return cls(spec, options, FAILED, error, exit_code, trace=trace)

    @property
    def version(self) -> str | None:
        """The version of lipaudit that made the report."""
        return None if self.report is None else self.report["tool"]["version"]

    def audit_report(self) -> AuditReport | None:
        """The report as a record."""
        return None if self.report is None else AuditReport.from_document(self.report)

    def to_line(self) -> str:
        """The entry as one line of ASCII, without its end.

        >>> Entry.failed("a.onnx", {}, "there is no file a.onnx", 3).to_line()[:59]
        '{"spec": "a.onnx", "options": {}, "status": "failed", "erro'
        """
        fields = ("spec", "options", "status", "error", "exit_code", "files", "report")
        return json.dumps({name: getattr(self, name) for name in fields}, allow_nan=False)

    @classmethod
    def from_json(cls, value: Any) -> Entry:
        """The entry of a parsed line; ValueError says what is wrong with it. Keys that are not known here are ignored."""
        if not isinstance(value, dict):
            raise ValueError("it is not an object")
        kinds = {"spec": str, "options": dict, "status": str, "exit_code": int, "files": dict}
        for name, kind in kinds.items():
            if not isinstance(value.get(name), kind):
                raise ValueError(f"{name} is missing or of another type")
        report, error = value.get("report"), value.get("error")
        if value["status"] == DONE:
            tool = report.get("tool") if isinstance(report, dict) else None
            if not isinstance(tool, dict) or not isinstance(tool.get("version"), str):
                raise ValueError("it is done but has no report")
        elif value["status"] != FAILED or not isinstance(error, str) or report is not None:
            raise ValueError("it is neither done nor failed with an error")
        return cls(error=error, report=report, **{name: value[name] for name in kinds})
