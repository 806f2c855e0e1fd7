"""Reports that commands read back: a report, an array of several, or the record of a fleet with the models that failed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lipaudit.cli.terminal import say
from lipaudit.errors import UsageError
from lipaudit.errors.commands import (
    EmptyRecordError,
    LocatedError,
    ModelForReportError,
    NoReportError,
    RenderedReportError,
    RepeatedReportError,
    SeveralReportsError,
    UnknownReportError,
    UnreadableReportError,
)
from lipaudit.records.failure import Failure

if TYPE_CHECKING:
    from lipaudit.fleet.entry import Entry
    from lipaudit.records.report import AuditReport


@dataclass(frozen=True)
class SavedModel:
    """A model by the ``name`` that ``--model`` takes, and its ``outcome``."""

    name: str
    outcome: AuditReport | Failure


def read_saved(source: str, quiet: bool = False) -> tuple[SavedModel, ...]:
    """Every model in a file, or in stdin for ``-``; a last line that was cut off is said on stderr.

    Raises :class:`~lipaudit.errors.UsageError`, which names the file, where it cannot be read or holds no reports.
    """
    from lipaudit.fleet.reading import is_record
    from lipaudit.records.report_array import outcomes_from_json

    content = _content(source)
    try:
        if is_record(content):
            return _of_a_record(source, content, quiet)
        return tuple(SavedModel(_spec(outcome), outcome) for outcome in outcomes_from_json(content))
    except UsageError as error:
        _refuse_other_files(source)
        raise LocatedError(source, error) from None


def _spec(outcome: AuditReport | Failure) -> str:
    return outcome.model if isinstance(outcome, Failure) else outcome.model.spec


def picked(models: Sequence[SavedModel], wanted: str, source: str) -> SavedModel:
    """The model that ``--model`` names: by its name, or by its specification where that is there once."""
    matches = [model for model in models if model.name == wanted]
    if not matches:
        raise UnknownReportError(source, wanted, listed(models))
    if len(matches) > 1:
        raise RepeatedReportError(source, len(matches), wanted)
    return matches[0]


def only_report(models: Sequence[SavedModel], wanted: str | None, source: str) -> AuditReport:
    """The one report of a file, or the one that ``--model`` names; an error lists the models to choose from."""
    if len(models) > 1 and wanted is None:
        raise SeveralReportsError(source, len(models), listed(models))
    model = models[0] if wanted is None else picked(models, wanted, source)
    if isinstance(model.outcome, Failure):
        raise NoReportError(source, model.name, model.outcome.error)
    return model.outcome


def listed(models: Sequence[SavedModel]) -> str:
    """The first few names, and how many more there are."""
    from lipaudit.text.numbers import names_text

    return names_text([model.name for model in models])


def _content(source: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    except (OSError, ValueError, AttributeError) as error:  # a path with a NUL; a stdin that is closed
        reason = getattr(error, "strerror", None) or error
        raise UnreadableReportError(source, reason) from None


def _refuse_other_files(source: str) -> None:
    """Say of a file that holds no report what it is, where its name tells."""
    from lipaudit.frontends.spec import FILE_SUFFIXES

    suffix = Path(source).suffix.lower()
    report = Path(source).with_suffix(".json").name
    if suffix in FILE_SUFFIXES:
        raise ModelForReportError(source, report)
    if suffix in (".html", ".tsv", ".csv"):
        raise RenderedReportError(source, report)


def _of_a_record(source: str, content: bytes, quiet: bool) -> tuple[SavedModel, ...]:
    from lipaudit.fleet.command_text import names
    from lipaudit.fleet.reading import read_record

    record = read_record(content)
    if record.torn and not quiet:
        say(
            f"lipaudit: {source}: the last line was cut off and is left out; the command that wrote it continues from there"
        )
    if not record.entries:
        raise EmptyRecordError
    called = names([(entry.spec, entry.options) for entry in record.entries])
    return tuple(SavedModel(name, _outcome(entry, name)) for name, entry in zip(called, record.entries, strict=True))


def _outcome(entry: Entry, name: str) -> AuditReport | Failure:
    try:
        report = entry.audit_report()
    except UsageError as error:
        raise LocatedError(f"the report of {name}", error) from None
    return report if report is not None else Failure(name, entry.error or "", entry.exit_code)
