"""One entry to every rendering: which format, which columns, one report or several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lipaudit.errors import UsageError
from lipaudit.formats import (
    comparison,
    diff,
    html,
    markdown,
    table,
    tsv,
)
from lipaudit.formats.columns import least_width, parse_columns
from lipaudit.formats.separated_values import as_csv
from lipaudit.formats.suffixes import FORMS, form_of_file
from lipaudit.records import (
    report_json,
)
from lipaudit.records.comparison import Comparison
from lipaudit.records.diff import ReportDiff
from lipaudit.records.failure import Failure
from lipaudit.records.report import AuditReport
from lipaudit.text.shorten import WIDTH


@dataclass(frozen=True)
class Layout:
    """How reports are to be shown: ``form`` is ``table``, ``json``, ``markdown``, ``tsv``, ``csv`` or ``html``.

    ``wide`` lets chosen columns make a table wider than a terminal.
    """

    form: str = "table"
    columns: tuple[str, ...] | None = None
    depth: int | None = None
    wide: bool = False

    @classmethod
    def parse(cls, form: str, columns: str | None, depth: int | None, wide: bool = False) -> Layout:
        """The layout that a user asked for; a :class:`~lipaudit.errors.UsageError` says what does not go together."""
        if form in ("json", "tsv", "csv", "html") and (columns is not None or depth is not None):
            raise UsageError(f"--columns and --depth shape the table and the Markdown; --format {form} is always whole")
        keys = None if columns is None else parse_columns(columns)
        if keys and form == "table" and not wide and least_width(keys) > WIDTH:
            raise UsageError(
                f"{len(keys)} columns need up to {least_width(keys)} characters, a table on a terminal has {WIDTH}: "
                "choose fewer, or write to a file (-o FILE) or a pipe, where it may be wider"
            )
        return cls(form, keys, depth, wide)

    @property
    def separable(self) -> bool:
        """Whether several reports are shown one after the other, each as soon as it is ready."""
        return self.form in ("table", "markdown")

    def render(self, reports: Sequence[AuditReport], several: bool = False, failures: Sequence[Failure] = ()) -> str:
        """The text of the reports; ``several`` makes JSON an array, which also names the ``failures``, as a page does."""
        if self.form == "json":
            return report_json.to_json_array(reports, failures) if several else report_json.to_json(reports[0])
        if self.form == "tsv":
            return tsv.render(reports)
        if self.form == "csv":
            return as_csv(tsv.render(reports))
        if self.form == "html":
            return html.render_all(reports, failures)
        if self.form == "table":
            return "\n\n\n".join(table.render(report, self.columns, self.depth, self.wide) for report in reports)
        return "\n\n\n".join(markdown.render(report, self.columns, self.depth) for report in reports)


def render_record(record: AuditReport | Comparison | ReportDiff, form: str) -> str:
    """What a record shows of itself in Python: a ``table``, and a report in a ``notebook`` as HTML.

    In a notebook every text from the report is escaped.
    """
    if isinstance(record, ReportDiff):
        return diff.table(record)
    if isinstance(record, Comparison):
        return comparison.table(record)
    if form == "notebook":
        from markdown_it import MarkdownIt

        return str(MarkdownIt("js-default").render(markdown.render(record)))
    return table.render(record)


def render_for_file(report: AuditReport, file: Path) -> str:
    """The text of a report in the format that the suffix of ``file`` asks for, without a newline at the end."""
    return Layout(form_of_file(file, [*FORMS, "html"], of_audit=True), wide=True).render([report])
