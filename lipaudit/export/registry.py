"""The formats of ``lipaudit export``.

A format is one entry of :data:`FORMATS`: its name, the usual suffix of its files, and a function from reports and settings to
text, which imports what it needs when it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lipaudit.errors import UsageError
from lipaudit.export.settings import ExportSettings
from lipaudit.report.record import AuditReport

Render = Callable[[Sequence[AuditReport], ExportSettings], str]


@dataclass(frozen=True)
class Format:
    """``several``: whether one document may hold several reports. ``judges``: whether it says which gates are met."""

    name: str
    suffix: str
    render: Render
    several: bool = False
    judges: bool = False


def _huggingface(reports: Sequence[AuditReport], settings: ExportSettings) -> str:
    from lipaudit.export.huggingface import update_card

    return update_card("", reports[0], settings.model_index)


def _cyclonedx(reports: Sequence[AuditReport], settings: ExportSettings) -> str:
    from lipaudit.export.cyclonedx import render

    return render(reports[0], settings.spec_version)


def _sarif(reports: Sequence[AuditReport], settings: ExportSettings) -> str:
    from lipaudit.export.sarif import render

    return render(reports, settings.gates, settings.report_file)


def _junit(reports: Sequence[AuditReport], settings: ExportSettings) -> str:
    from lipaudit.export.junit import render

    return render(reports, settings.gates)


def _markdown(reports: Sequence[AuditReport], _settings: ExportSettings) -> str:
    from lipaudit.report.render import Layout

    return Layout("markdown").render(reports)


def _html(reports: Sequence[AuditReport], _settings: ExportSettings) -> str:
    from lipaudit.export.html import render

    return render(reports[0])


_ALL = (
    Format("huggingface", ".md", _huggingface),
    Format("cyclonedx", ".cdx.json", _cyclonedx),
    Format("sarif", ".sarif", _sarif, several=True, judges=True),
    Format("junit", ".xml", _junit, several=True, judges=True),
    Format("markdown", ".md", _markdown, several=True),
    Format("html", ".html", _html),
)
FORMATS = {entry.name: entry for entry in _ALL}


def find_format(name: str, reports: Sequence[AuditReport]) -> Format:
    """The format that the reports can be written in.

    Raises :class:`~lipaudit.errors.UsageError` for an unknown format, for no report, and for several where the format takes one.
    """
    if name not in FORMATS:
        raise UsageError(f"there is no format {name!r}; choose from {', '.join(FORMATS)}")
    if not reports:
        raise UsageError("there is no report to export")
    if len(reports) > 1 and not FORMATS[name].several:
        raise UsageError(f"{name} describes one model, and there are {len(reports)} reports: write one file per model")
    return FORMATS[name]


def export_reports(reports: Sequence[AuditReport], name: str, settings: ExportSettings | None = None) -> str:
    """The reports in the format ``name``, without a newline at the end; see :func:`find_format` for what is refused."""
    return find_format(name, reports).render(reports, settings or ExportSettings()).rstrip("\n")
