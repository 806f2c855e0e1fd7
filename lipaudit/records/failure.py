"""A model of a fleet that could not be audited, as exports name it beside the reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lipaudit.escaping import escape_markdown, printable

FAILURE = "failure"  # the kind of such an entry in JSON


@dataclass(frozen=True)
class Failure:
    """``model`` is what was asked for, ``error`` why there is no report, and ``exit_code`` that of an audit of this model alone."""

    model: str
    error: str
    exit_code: int = 3


def markdown(failures: Sequence[Failure]) -> str:
    """The models without a report, as a section of their own; empty where there are none."""
    if not failures:
        return ""
    lines = [
        f"- {escape_markdown(printable(failure.model))}: {escape_markdown(printable(failure.error))}"
        for failure in failures
    ]
    return "\n".join(["## Models that could not be audited", "", *lines])
