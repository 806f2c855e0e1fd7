"""Every format that something is written in: one line of :data:`FORMATS` each.

The same table serves ``-o FILE``, ``--format``, ``lipaudit export --to`` and ``AuditReport.save``. A format is a name, the endings of its
files, and for every type of document that it takes the function that renders it, as ``module:function`` below ``lipaudit.formats``, which
is imported when it is first used. The function takes the document and the :class:`~lipaudit.formats.options.Options` and returns a text,
or bytes where the format is ``binary``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from lipaudit.errors import UsageError
from lipaudit.formats.options import Audits, FleetRecord, Options
from lipaudit.records.certification import Certification
from lipaudit.records.comparison import Comparison
from lipaudit.records.diff import ReportDiff
from lipaudit.text.numbers import names_text


@dataclass(frozen=True)
class Format:
    """One format.

    ``suffixes``: endings of its files, the usual one first. ``renders``: the function for every type of document that it takes.
    ``several``: whether one document may hold several reports; ``one_by_one``: whether they are shown one after the other, each as soon
    as it is ready. ``gates``: whether it says which gates are met. ``binary``: whether it is bytes and no text. ``problem``: a function
    that says why the format cannot be written on this machine.
    """

    name: str
    suffixes: tuple[str, ...]
    renders: Mapping[type, str]
    several: bool = True
    one_by_one: bool = False
    gates: bool = False
    binary: bool = False
    problem: str = ""

    def render(
        self, document: Audits | ReportDiff | Comparison | Certification, options: Options | None = None
    ) -> str | bytes:
        """The document as a text without a newline at the end, or as bytes.

        Raises :class:`~lipaudit.errors.UsageError` for no report at all, and for several, or one that failed, where the format takes one.
        """
        if isinstance(document, Audits):
            self.check(document)
        content: str | bytes = _function(self.renders[type(document)])(document, options or Options())
        return content.rstrip("\n") if isinstance(content, str) else content

    def check_available(self) -> None:
        """Raise :class:`~lipaudit.errors.UsageError` where this machine lacks what the format needs."""
        if self.problem and (problem := _function(self.problem)()):
            raise UsageError(f"{self.name} cannot be written here: {problem}")

    def check(self, audits: Audits) -> None:
        """Raise :class:`~lipaudit.errors.UsageError` for reports that the format cannot hold."""
        models = [report.model.spec for report in audits.reports] + [failure.model for failure in audits.failures]
        if not models:
            raise UsageError("there is no report to export")
        self.check_number(models)
        if not audits.reports and not self.several:
            failure = audits.failures[0]
            raise UsageError(f"{failure.model} could not be audited, so there is no report of it: {failure.error}")

    def check_output(self, file: Path | None) -> None:
        """Raise :class:`~lipaudit.errors.UsageError` where bytes would be printed."""
        if self.binary and file is None:
            raise UsageError(f"{self.name} is a picture and no text: name a file for it, -o FILE{self.suffixes[0]}")

    def check_number(self, models: Sequence[str], instead: str = "pick one by --model SPEC") -> None:
        """Raise :class:`~lipaudit.errors.UsageError` for several models where the format takes one."""
        if len(models) > 1 and not self.several:
            count = len(models)
            raise UsageError(
                f"{self.name} describes one model, and there are {count}: {instead} ({names_text(models)})"
            )


def _function(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(f"lipaudit.formats.{module}"), name)


_ALL = (
    Format(
        "table",
        (".txt", ".text", ".log", ".out"),
        {
            Audits: "table:render_audits",
            ReportDiff: "diff:table",
            Comparison: "comparison:table",
            Certification: "certification:table",
        },
        one_by_one=True,
    ),
    Format(
        "json",
        (".json",),
        {
            Audits: "json_text:render_audits",
            ReportDiff: "json_text:render",
            Comparison: "json_text:render",
            Certification: "json_text:render",
        },
    ),
    Format(
        "markdown",
        (".md", ".markdown"),
        {
            Audits: "markdown:render_audits",
            ReportDiff: "diff:markdown",
            Comparison: "comparison:markdown",
            Certification: "certification:markdown",
        },
        one_by_one=True,
    ),
    Format(
        "tsv",
        (".tsv",),
        {
            Audits: "tsv:render_audits",
            ReportDiff: "diff:tsv",
            Comparison: "comparison:tsv",
            Certification: "certification:tsv",
        },
    ),
    Format(
        "csv",
        (".csv",),
        {
            Audits: "tsv:csv_of_audits",
            ReportDiff: "diff:csv",
            Comparison: "comparison:csv",
            Certification: "certification:csv",
        },
    ),
    Format(
        "html",
        (".html", ".htm"),
        {
            Audits: "html:render_audits",
            ReportDiff: "html:render_diff",
            Certification: "html:render_certification",
        },
    ),
    Format("huggingface", (".md", ".markdown"), {Audits: "huggingface:render"}, several=False),
    Format("cyclonedx", (".cdx.json", ".json"), {Audits: "cyclonedx:render"}, several=False),
    Format("sarif", (".sarif", ".sarif.json", ".json"), {Audits: "sarif:render"}, gates=True),
    Format("junit", (".xml",), {Audits: "junit:render"}, gates=True),
    Format(
        "png",
        (".png",),
        {Audits: "plot:png", Certification: "certification_plot:png"},
        several=False,
        binary=True,
        problem="matplotlib_:plot_problem",
    ),
    Format(
        "svg",
        (".svg",),
        {Audits: "plot:svg", Certification: "certification_plot:svg"},
        several=False,
        problem="matplotlib_:plot_problem",
    ),
    Format("jsonl", (".jsonl",), {FleetRecord: ""}),  # written model by model while a fleet runs
)
FORMATS = {entry.name: entry for entry in _ALL}
_INSTEAD = {".pdf": ("html", "write {stem}.html and print it from a browser")}


def format_names(*kinds: type) -> list[str]:
    """The names of the formats that take a document of one of the ``kinds``.

    >>> format_names(ReportDiff)
    ['table', 'json', 'markdown', 'tsv', 'csv', 'html']
    """
    return [entry.name for entry in _ALL if not entry.renders.keys().isdisjoint(kinds)]


def format_of_file(path: Path, *kinds: type) -> str:
    """The format that the name of a file asks for: the one with the longest ending, the first in the table where several have it.

    A name without an ending holds a table. Raises :class:`~lipaudit.errors.UsageError` for an ending that no format of the ``kinds`` has.

    >>> format_of_file(Path("a.CDX.json"), Audits), format_of_file(Path("a.md"), Audits), format_of_file(Path("a"), ReportDiff)
    ('cyclonedx', 'markdown', 'table')
    """
    if not path.suffix or (path.exists() and not path.is_file()):  # a pipe or a device, whose name says nothing
        return "table"
    names = format_names(*kinds)
    endings = [(len(suffix), name) for name in names for suffix in FORMATS[name].suffixes if _ends(path, suffix)]
    if not endings:
        raise FileEndingError(path, names)
    return max(endings, key=lambda entry: entry[0])[1]


def check_ending(path: Path, name: str) -> None:
    """Raise :class:`~lipaudit.errors.UsageError` where the ending of a file is that of another format than ``name``."""
    own = any(_ends(path, suffix) for suffix in FORMATS[name].suffixes)
    other = any(_ends(path, suffix) for entry in _ALL for suffix in entry.suffixes) or path.suffix.lower() in _INSTEAD
    if other and not own and not (path.exists() and not path.is_file()):
        suffix = path.suffix.lower()
        raise UsageError(
            f"{path}: {name} is not written as {suffix}: choose a name that ends in {FORMATS[name].suffixes[0]}"
        )


class FileEndingError(UsageError):
    """No format that could be written has the ending of this file."""

    def __init__(self, path: Path, names: list[str]) -> None:
        suffix = path.suffix.lower()
        name, hint = _INSTEAD.get(suffix, ("", ""))
        instead = hint.format(stem=path.stem) + "; or " if name in names else ""
        endings = ", ".join(usual_suffixes(names))
        super().__init__(
            f"{path}: nothing here is written as {suffix}: {instead}choose a name that ends in {endings}, or say the format by --format"
        )


def usual_suffixes(names: list[str]) -> list[str]:
    """The usual suffix of each format, without repetition.

    >>> usual_suffixes(["table", "markdown", "huggingface"])
    ['.txt', '.md']
    """
    return list(dict.fromkeys(FORMATS[name].suffixes[0] for name in names))


def _ends(path: Path, suffix: str) -> bool:
    return path.name.lower().endswith(suffix)
