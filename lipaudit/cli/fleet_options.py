"""The options that make an audit that of a fleet, and what is to be shown and kept of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from lipaudit.cli.options import Count, with_options
from lipaudit.errors import ConflictError, RequirementError
from lipaudit.errors.commands import FleetFormatError, OneModelError
from lipaudit.formats.registry import FORMATS

fleet_options = with_options(
    click.option(
        "--models-from",
        metavar="FILE",
        help="Read models from this file, or from stdin with -: a model per line, and behind it options of its own.",
    ),
    click.option(
        "--jobs",
        type=Count(),
        metavar="N",
        help="Audit in N processes, which share the cores. Default for a fleet: 1.",
    ),
    click.option(
        "--cluster",
        metavar="ADDRESS",
        help="Audit on the workers of the Dask scheduler at this address (pip install 'lipaudit[cluster]').",
    ),
    click.option("--restart", is_flag=True, help="Forget what the record (-o FILE.jsonl) holds and begin anew."),
)


@dataclass(frozen=True)
class Shown:
    """Where results go: the record and the file of the summary, if any, and how the summary looks."""

    form: str
    record: Path | None
    file: Path | None
    quiet: bool


@dataclass(frozen=True)
class FleetOptions:
    """What the command line says about the fleet."""

    models_from: str | None
    jobs: int | None
    cluster: str | None
    restart: bool

    def is_asked_for(self, output: Path | None, form: str) -> bool:
        """Whether this is a fleet and not a few models one after the other."""
        if self.models_from is not None or self.jobs is not None or self.cluster is not None or form == "jsonl":
            return True
        if _is_record(output):
            return True
        if self.restart:
            raise RequirementError("--restart", "-o FILE.jsonl", "it starts the record of a fleet anew")
        return False

    def shown(self, form: str, output: Path | None, quiet: bool, plot: bool) -> Shown:
        """What goes where; a :class:`~lipaudit.errors.UsageError` says what does not go together."""
        if plot:
            raise OneModelError("--plot", "draws", "a fleet")
        if not FORMATS[form].several:
            raise FleetFormatError(form)
        if self.cluster is not None and self.jobs is not None:
            raise ConflictError(
                "--jobs", "--cluster", "one uses processes of this machine, the other those of a cluster"
            )
        file = None if output == Path("-") else output
        if file is not None and (form == "jsonl" or _is_record(file)):
            return Shown("table" if form == "jsonl" else form, file, None, quiet)
        if self.restart:
            raise RequirementError("--restart", "-o FILE.jsonl", "it starts the record of a fleet anew")
        return Shown(form, None, file, quiet)


def take_fleet(options: dict[str, Any]) -> FleetOptions:
    """The fleet's own options, taken out of those of every audit."""
    return FleetOptions(**{name: options.pop(name) for name in ("models_from", "jobs", "cluster", "restart")})


def _is_record(output: Path | None) -> bool:
    return output is not None and output.suffix.lower() == ".jsonl"
