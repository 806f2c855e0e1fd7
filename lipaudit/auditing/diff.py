"""The diff of two audits, for Python and the command line; torch is not imported."""

from __future__ import annotations

from lipaudit.records.diff import ReportDiff, diff_reports
from lipaudit.records.report import AuditReport
from lipaudit.version import __version__


def diff(before: AuditReport, after: AuditReport) -> ReportDiff:
    """What changed from one audit to another: the network's bound, and row by row which moved out of its bracket.

    ``print(diff)`` shows what ``lipaudit diff`` prints.

    Raises:
        UsageError: where the figures cannot be compared: over other inputs or with an input held at another value, in another
            norm, by another method, or without figures (``structure``).
    """
    return diff_reports(before, after, tool_version=__version__)
