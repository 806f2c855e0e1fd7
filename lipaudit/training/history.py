"""The history of a training run: one line per audited checkpoint, as tab-separated values."""

from __future__ import annotations

from pathlib import Path

from lipaudit.errors import OutputError, UsageError
from lipaudit.escaping import printable
from lipaudit.files import write_whole
from lipaudit.formats.separated_values import row
from lipaudit.records.report import AuditReport
from lipaudit.records.stretching import costs
from lipaudit.text.numbers import share_text

HEADER = (
    *("step", "report", "created", "status", "rigor", "domain"),
    *("log10_upper_bound", "log10_estimate", "costs_most", "reason"),
)
_LARGEST = 3


def report_line(step: int, name: str, report: AuditReport) -> str:
    """The line of a report in the file ``name``: its network's figure, and the rows that cost most with their shares."""
    network = report.network
    largest = "; ".join(
        cost.name if cost.share is None else f"{cost.name} {share_text(cost.share)}"
        for cost in costs(report)[:_LARGEST]
    )
    figures = (network.log10_upper_bound, network.log10_estimate)
    about = (report.created, network.status, network.rigor, network.domain)
    return row((step, name, *about, *figures, largest, "; ".join(network.reasons)))


def failure_line(step: int, error: Exception) -> str:
    """The line of a checkpoint that could not be audited."""
    return row((step, None, None, "failed", None, None, None, None, None, f"{type(error).__name__}: {error}"))


def add_line(path: Path, step: int, line: str, replace: bool = True) -> None:
    """Put a line into the history at ``path``, in the order of steps; the file is written whole.

    A line of the same step gives way, unless ``replace`` is off: then it stays. Raises :class:`~lipaudit.errors.UsageError` where the file
    holds something else.
    """
    lines = read_lines(path)
    if replace or step not in lines:
        lines[step] = line
    text = "\n".join(["\t".join(HEADER), *(lines[at] for at in sorted(lines))])
    write_whole(path, text + "\n")


def read_lines(path: Path) -> dict[int, str]:
    """The lines of a history by their steps; none where there is no file.

    Raises:
        UsageError: where the file is no history.
        OutputError: where it cannot be read.
    """
    if not path.exists():
        return {}
    try:
        head, *lines = path.read_bytes().decode("utf-8", "replace").rstrip("\n").split("\n")
    except OSError as error:
        raise OutputError(f"cannot read {printable(str(path))}: {error.strerror}; move it away") from None
    steps = [line.partition("\t")[0] for line in lines]
    if head.split("\t") != list(HEADER) or not all(step.isascii() and step.isdigit() for step in steps):
        raise UsageError(
            f"{printable(str(path))} is no history of audited checkpoints: move it away, or choose another folder"
        )
    return dict(zip(map(int, steps), lines, strict=True))
