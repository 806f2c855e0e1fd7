"""``--plot FILE``: the picture of an audit, and what is checked before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lipaudit.cli.terminal import say, shielded
from lipaudit.errors import ConflictError, InvalidValueError
from lipaudit.errors.commands import MissingPackageError, OneModelError, SameFileError

if TYPE_CHECKING:
    from lipaudit.records.report import AuditReport


@dataclass(frozen=True)
class PlotFile:
    """The file of a picture; its suffix says which form it has."""

    path: Path

    @property
    def form(self) -> str:
        """The suffix without its dot."""
        return self.path.suffix[1:].lower()

    def check(self, report: Path | None, structure: bool) -> None:
        """Refuse what cannot be drawn or written, before any model is loaded; ``report`` is the file of the report."""
        from lipaudit.files import check_writable
        from lipaudit.formats.matplotlib_ import plot_problem
        from lipaudit.formats.plot import FORMS

        if self.form not in FORMS:
            endings = " or ".join(f".{form}" for form in FORMS)
            raise InvalidValueError("--plot", f"the name of a file that ends in {endings}", str(self.path))
        if structure:
            raise ConflictError("--plot", "--structure", "an audit of the structure computes no figures")
        if problem := plot_problem():
            raise MissingPackageError("--plot", problem, "plot")
        if report is not None and report.resolve() == self.path.resolve():
            raise SameFileError("-o", "--plot", self.path)
        check_writable(self.path)

    def check_models(self, models: Sequence[str], read: Sequence[str]) -> None:
        """Refuse more than one model, and a file that the audit reads."""
        from lipaudit.files import check_no_model

        if len(models) > 1:
            raise OneModelError("--plot", "draws", len(models))
        check_no_model(self.path, read, option="--plot")

    def write(self, report: AuditReport, debug: bool, quiet: bool) -> None:
        """Draw the report and write the file, whole or not at all."""
        from lipaudit.files import write_whole
        from lipaudit.formats.plot import draw

        with shielded(debug, quiet):
            content = draw(report, self.form)
        write_whole(self.path, content)
        if not quiet:
            say(f"lipaudit: plot written to {self.path}")


def _plot_file(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> PlotFile | None:
    if value == "":
        raise click.BadParameter("an empty text names no file")
    return None if value is None else PlotFile(Path(value))


plot_option = click.option(
    "--plot",
    metavar="FILE",
    callback=_plot_file,
    help="Also draw the bounds of the rows over depth, and how the network's figure builds up, to FILE.png or FILE.svg. One "
    "model at a time; needs matplotlib (the extra plot).",
)
