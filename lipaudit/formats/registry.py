"""The formats of ``lipaudit export``.

A format is one entry of :data:`FORMATS`: its name, the usual suffix of its files, and a function from reports and settings to
text, which imports what it needs when it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lipaudit.errors import UsageError
from lipaudit.formats.settings import ExportSettings
from lipaudit.records.failure import Failure
from lipaudit.records.report import AuditReport
from lipaudit.text.numbers import names_text

Render = Callable[[Sequence[AuditReport], Sequence[Failure], ExportSettings], str]


@dataclass(frozen=True)
class Format:
    """``several``: whether one document may hold several reports. ``judges``: whether it says which gates are met."""

    name: str
    suffix: str
    render: Render
    several: bool = False
    judges: bool = False


def _huggingface(reports: Sequence[AuditReport], _failures: Sequence[Failure], settings: ExportSettings) -> str:
    from lipaudit.formats.huggingface import update_card

    return update_card("", reports[0], settings.model_index)


def _cyclonedx(reports: Sequence[AuditReport], _failures: Sequence[Failure], settings: ExportSettings) -> str:
    from lipaudit.formats.cyclonedx import render

    return render(reports[0], settings.spec_version)


def _sarif(reports: Sequence[AuditReport], failures: Sequence[Failure], settings: ExportSettings) -> str:
    from lipaudit.formats.sarif import render

    return render(reports, settings.gates, settings.report_file, failures)


def _junit(reports: Sequence[AuditReport], failures: Sequence[Failure], settings: ExportSettings) -> str:
    from lipaudit.formats.junit import render

    return render(reports, settings.gates, failures)


def _markdown(reports: Sequence[AuditReport], failures: Sequence[Failure], _settings: ExportSettings) -> str:
    from lipaudit.formats.markdown import render_failures
    from lipaudit.formats.render import Layout

    return "\n\n\n".join(filter(None, (Layout("markdown").render(reports), render_failures(failures))))


def _html(reports: Sequence[AuditReport], failures: Sequence[Failure], _settings: ExportSettings) -> str:
    from lipaudit.formats.html import render_all

    return render_all(reports, failures)


_ALL = (
    Format("huggingface", ".md", _huggingface),
    Format("cyclonedx", ".cdx.json", _cyclonedx),
    Format("sarif", ".sarif", _sarif, several=True, judges=True),
    Format("junit", ".xml", _junit, several=True, judges=True),
    Format("markdown", ".md", _markdown, several=True),
    Format("html", ".html", _html, several=True),
)
FORMATS = {entry.name: entry for entry in _ALL}
# endings of files, and what else may be written to a file of that name
_ENDINGS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys((".csv", ".tsv", ".jsonl", ".png", ".svg", ".pdf"), ()),
    **dict.fromkeys((".md", ".markdown"), ("huggingface", "markdown")),
    **dict.fromkeys((".html", ".htm"), ("html",)),
    ".json": ("cyclonedx", "sarif"),
    ".sarif": ("sarif",),
    ".xml": ("junit",),
}


def format_for(path: Path) -> str | None:
    """The format that the name of a file asks for, None where it asks for none or leaves a choice.

    >>> format_for(Path("r.html")), format_for(Path("r.cdx.json")), format_for(Path("r.md")), format_for(Path("r"))
    ('html', 'cyclonedx', None, None)
    """
    found = [entry.name for entry in _ALL if path.name.lower().endswith(entry.suffix)]
    return found[0] if len(found) == 1 else None


def check_ending(path: Path, name: str) -> None:
    """Raise :class:`~lipaudit.errors.UsageError` where a file's name says that it holds something else than the format ``name``."""
    suffix = path.suffix.lower()
    if name in _ENDINGS.get(suffix, (name,)) or (path.exists() and not path.is_file()):
        return
    raise UsageError(f"{path}: {name} is not written as {suffix}: choose a name that ends in {FORMATS[name].suffix}")


def find_format(name: str, reports: Sequence[AuditReport], failures: Sequence[Failure] = ()) -> Format:
    """The format that the reports, and models without one, can be written in.

    Raises :class:`~lipaudit.errors.UsageError` for an unknown format, for nothing to write, and for several models, or one that failed,
    where the format takes one report.
    """
    if name not in FORMATS:
        raise UsageError(f"there is no format {name!r}; choose from {', '.join(FORMATS)}")
    models = [report.model.spec for report in reports] + [failure.model for failure in failures]
    if not models:
        raise UsageError("there is no report to export")
    if len(models) > 1 and not FORMATS[name].several:
        raise UsageError(
            f"{name} describes one model, and there are {len(models)}: pick one by --model SPEC ({names_text(models)})"
        )
    if not reports and not FORMATS[name].several:
        raise UsageError(f"{failures[0].model} could not be audited, so there is no report of it: {failures[0].error}")
    return FORMATS[name]


def export_reports(
    reports: Sequence[AuditReport],
    name: str,
    settings: ExportSettings | None = None,
    failures: Sequence[Failure] = (),
) -> str:
    """The reports, and the models that could not be audited, in the format ``name``, without a newline at the end.

    See :func:`find_format` for what is refused.
    """
    return find_format(name, reports, failures).render(reports, failures, settings or ExportSettings()).rstrip("\n")
