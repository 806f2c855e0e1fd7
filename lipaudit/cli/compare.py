"""``lipaudit compare MODEL``: published methods against certified bounds."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from lipaudit.auditing.request import CompareRequest
from lipaudit.cli.completion import complete_model
from lipaudit.cli.display_options import quiet_option, screen
from lipaudit.cli.options import (
    ITERATIONS,
    arch_option,
    debug_option,
    device_option,
    fix_option,
    format_of,
    format_option,
    input_option,
    listed,
    memory_option,
    positive,
    seed_option,
    tolerance_option,
    weights_option,
    with_options,
)
from lipaudit.cli.terminal import Progress, deliver, say, shielded
from lipaudit.fleet.interrupts import delayed
from lipaudit.formats.options import Options
from lipaudit.formats.registry import FORMATS
from lipaudit.frontends.input_files import read_where
from lipaudit.records.comparison import Comparison

# methods whose work grows with the number of frequencies times the cube of the channels, or with the square of the kernel's taps
SLOW = ("araujo2021", "bibi2019", "delattre2023", "delattre2024", "sedghi2019")

_OPTIONS = with_options(
    click.option(
        "--methods",
        metavar="A,B,...",
        callback=listed,
        help="Methods to compare, by name (`lipaudit methods` lists them). Default: every method.",
    ),
    input_option,
    fix_option,
    weights_option,
    arch_option,
    memory_option,
    device_option,
    tolerance_option("Relative tolerance of the certified bounds that the figures are judged by."),
    seed_option,
    click.option(
        "--iterations",
        type=ITERATIONS,
        metavar="N",
        help="Iterations or samples of the methods that have any. Default: see `lipaudit methods`.",
    ),
    click.option(
        "--time-limit",
        type=float,
        default=60.0,
        show_default=True,
        metavar="SECONDS",
        callback=positive,
        help="A method that has used up its seconds measures nothing more; a measurement that has begun is finished.",
    ),
    format_option("JSON, TSV and CSV have raw numbers.", Comparison),
    click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        help="Write the comparison to this file, whole or not at all.",
    ),
    quiet_option("Nothing on stderr but errors."),
)


@click.command()
@click.argument("model", shell_complete=complete_model)
@_OPTIONS
@debug_option
@click.pass_context
def compare(
    ctx: click.Context,
    /,
    model: str,
    form: str | None,
    output: Path | None,
    quiet: bool,
    **values: Any,
) -> int:
    """Compare published methods on every layer of MODEL with certified bounds of the layer's norm.

    `lipaudit methods` lists the methods.
    """
    from lipaudit.files import check_no_model, check_writable

    debug: bool = ctx.find_root().obj.debug
    shape = format_of(form, output, Comparison)
    request = CompareRequest(model=model, **values)
    file = None if output == Path("-") else output
    layout = screen() if file is None else screen().of_file()
    if file:
        check_writable(file)
        check_no_model(file, read_where(file, model, request.files()))
    if not quiet and sys.stderr.isatty():
        _say_what_takes_long(values["methods"], values["time_limit"])
    progress = Progress(model) if not quiet and sys.stderr.isatty() else None
    try:
        with shielded(debug, quiet):
            with delayed():
                from lipaudit.auditing.compare import run_comparison

            text = FORMATS[shape].render(run_comparison(request, progress), Options(layout))
    finally:
        if progress:
            progress.finish()
    deliver(text, file, "comparison", quiet)
    return 0


def _say_what_takes_long(methods: Sequence[str] | None, limit: float) -> None:
    """One line on a terminal that names the slow methods among those asked for; nothing where there is none."""
    slow = [name for name in SLOW if methods is None or name in methods]
    if slow:
        say(
            f"lipaudit: {', '.join(slow)} can take minutes on a large network; each method stops after {limit:g} s (--time-limit), and "
            "--methods chooses others"
        )
