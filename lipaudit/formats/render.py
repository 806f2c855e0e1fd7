"""What records show of themselves: as text in Python, as HTML in a notebook, and in a file by the ending of its name."""

from __future__ import annotations

from pathlib import Path

from lipaudit.formats.layout import WHOLE
from lipaudit.formats.markdown import render as markdown
from lipaudit.formats.options import Audits, Options
from lipaudit.formats.registry import FORMATS, format_of_file
from lipaudit.records.certification import Certification
from lipaudit.records.comparison import Comparison
from lipaudit.records.diff import ReportDiff
from lipaudit.records.report import AuditReport


def render_record(record: AuditReport | Comparison | ReportDiff | Certification, form: str) -> str:
    """What a record shows of itself in Python: a ``table``, and a report in a ``notebook`` as HTML.

    In a notebook every text from the report is escaped.
    """
    if isinstance(record, AuditReport) and form == "notebook":
        from markdown_it import MarkdownIt

        return str(MarkdownIt("js-default").render(markdown(record)))
    return str(FORMATS["table"].render(Audits([record]) if isinstance(record, AuditReport) else record))


def render_for_file(record: AuditReport | Certification, file: Path) -> str | bytes:
    """The content of a file with the record, in the format that the ending of its name asks for."""
    document = Audits([record]) if isinstance(record, AuditReport) else record
    shape = FORMATS[format_of_file(file, type(document))]
    shape.check_available()
    content = shape.render(document, Options(WHOLE))
    return content if isinstance(content, bytes) else content + "\n"
