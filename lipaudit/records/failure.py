"""A model of a fleet that could not be audited, as exports name it beside the reports."""

from __future__ import annotations

from dataclasses import dataclass

FAILURE = "failure"  # the kind of such an entry in JSON


@dataclass(frozen=True)
class Failure:
    """``model`` is what was asked for, ``error`` why there is no report, and ``exit_code`` that of an audit of this model alone."""

    model: str
    error: str
    exit_code: int = 3
