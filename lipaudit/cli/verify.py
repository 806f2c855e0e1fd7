"""``lipaudit verify REPORT MODEL [CERTIFICATE]``: every upper bound of a report, computed again without a search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from lipaudit.cli.completion import complete_model
from lipaudit.cli.display_options import quiet_option
from lipaudit.cli.options import (
    TakesFiles,
    arch_option,
    debug_option,
    fix_option,
    memory_option,
    weights_option,
    with_options,
)
from lipaudit.cli.saved import only_report, read_saved
from lipaudit.cli.terminal import Waiting, emit, import_frameworks, say, shielded
from lipaudit.errors.commands import LocatedError
from lipaudit.records.contradictions import ContradictionError

_OPTIONS = with_options(
    fix_option,
    weights_option,
    arch_option,
    memory_option,
    quiet_option("Print nothing but what does not hold."),
)


@click.command(cls=TakesFiles)
@click.argument("report", type=click.Path(path_type=Path))
@click.argument("model", shell_complete=complete_model)
@click.argument("certificate", required=False)
@_OPTIONS
@debug_option
@click.pass_context
def verify(ctx: click.Context, /, report: Path, model: str, certificate: str | None, quiet: bool, **values: Any) -> int:
    """Compute every upper bound of REPORT again from MODEL, and end with 1 where one does not hold.

    REPORT is a file that `lipaudit MODEL --format json -o FILE` wrote, CERTIFICATE the file of its --certificate, which only a bound below
    the product of layer norms needs. The model is loaded and its layers are bounded anew; no search is made. An upper bound, a model or a
    certificate that was altered is refused with the exit code 1, and so is a report whose figures contradict each other; 2 says that a
    file cannot be read. What is measured, lower bounds and shares among it, is not verified,
    nor is what the report says in words, its names and notes.
    """
    debug: bool = ctx.find_root().obj.debug
    try:
        saved = only_report(read_saved(str(report), quiet), None, str(report))
    except LocatedError as error:
        if not isinstance(error.error, ContradictionError):
            raise
        say(f"lipaudit: refused: the report contradicts itself: {error.error.problem}.")
        return 1
    waiting = Waiting("loading torch", quiet)
    with shielded(debug, quiet):
        import_frameworks()
        waiting.over()
        from lipaudit.auditing.verify import verify as verify_report

        found = verify_report(saved, model, certificate, **values)
    for problem in found.problems:
        say(f"lipaudit: refused: {problem}")
    if found.verified and not quiet:
        bound = saved.network.log10_upper_bound
        network = "" if bound is None else f", the network's bound of 10^{bound!r} among them"
        emit(
            f"Verified: {found.figures} upper bounds were proved again{network}. Lower bounds, shares, names and notes were not "
            "compared."
        )
    return 0 if found.verified else 1
