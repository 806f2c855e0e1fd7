"""What a file holds, by the suffix of its name: never a text table under the name of something else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lipaudit.errors import UsageError

FORMS = ("table", "json", "markdown", "tsv", "csv")  # of every report, diff and comparison
_TEXT = ("", ".txt", ".text", ".log", ".out")
_FORMS = {
    ".json": "json",
    ".md": "markdown",
    ".markdown": "markdown",
    ".tsv": "tsv",
    ".csv": "csv",
    ".html": "html",
    ".htm": "html",
    ".jsonl": "jsonl",
    **dict.fromkeys(_TEXT, "table"),
}
# what other suffixes ask for, and which command writes an audit so
_OF_AUDITS = {
    **dict.fromkeys((".png", ".svg"), "a picture is drawn by --plot {path}"),
    ".sarif": "save the report as JSON, then `lipaudit export REPORT.json --to sarif -o {path}`",
    ".xml": "save the report as JSON, then `lipaudit export REPORT.json --to junit -o {path}`",
}
_OF_PAGES = {".pdf": "write {stem}.html and print it from a browser"}


def suffixes(known: Sequence[str]) -> list[str]:
    """The usual suffix of each form among ``known``, one per form.

    >>> suffixes(["table", "json"])
    ['.txt', '.json']
    """
    usual = {form: suffix for suffix, form in reversed(_FORMS.items()) if suffix} | {"table": ".txt"}
    return [usual[form] for form in known]


def form_of_file(path: Path, known: Sequence[str], of_audit: bool = False) -> str:
    """The form among ``known`` that the name of a file asks for; names without a suffix, and ``.txt``, hold a table.

    Raises :class:`~lipaudit.errors.UsageError` for any other suffix, with what to do instead; ``of_audit`` names the commands that take
    reports of audits only.

    >>> form_of_file(Path("a.JSON"), ["table", "json"]), form_of_file(Path("report"), ["table", "json"])
    ('json', 'table')
    """
    suffix = path.suffix.lower()
    if suffix not in _TEXT and path.exists() and not path.is_file():
        return "table"  # a pipe or a device, whose name says nothing
    form = _FORMS.get(suffix)
    if form in known:
        return str(form)
    offered = ", ".join(suffixes(known))
    elsewhere = (_OF_AUDITS if of_audit else {}) | (_OF_PAGES if "html" in known else {})
    hint = elsewhere.get(suffix, "").format(path=path, stem=path.stem)
    raise UsageError(
        f"{path}: nothing here is written as {suffix}: {f'{hint}; or ' if hint else ''}choose a name that ends in {offered}, or say the "
        "format by --format"
    )
