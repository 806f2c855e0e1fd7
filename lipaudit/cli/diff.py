"""``lipaudit diff BEFORE AFTER``: what changed from one report to another, and gates on growth."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lipaudit.cli.display_options import quiet_option, screen
from lipaudit.cli.options import debug_option, format_of, format_option, with_options
from lipaudit.cli.saved import only_report, read_saved
from lipaudit.cli.terminal import deliver, say
from lipaudit.errors.commands import ModelCountError
from lipaudit.formats.options import Options
from lipaudit.formats.registry import FORMATS
from lipaudit.records.diff import ReportDiff

if TYPE_CHECKING:
    from lipaudit.records.report import AuditReport


def _growth(_ctx: click.Context, _parameter: click.Parameter, value: float | None) -> float | None:
    """Refuse what is no factor by which something may grow."""
    if value is not None and not (math.isfinite(value) and value >= 1):
        raise click.BadParameter(f"{value} is not a factor of 1 or more: 1 allows no growth, 1.05 allows 5 %")
    return value


_OPTIONS = with_options(
    click.option(
        "--model",
        "models",
        multiple=True,
        metavar="SPEC",
        help="The model to compare where a file has several; once for both files, or once for BEFORE and then for AFTER.",
    ),
    click.option(
        "--max-growth",
        type=float,
        callback=_growth,
        metavar="X",
        help="End with 1 unless the network's upper bound after is finite, proven and at most X times the one before.",
    ),
    click.option(
        "--max-layer-growth",
        type=float,
        callback=_growth,
        metavar="X",
        help="The same of every row that both reports have. Rows without a counterpart are named and not judged.",
    ),
    click.option("--all", "every_row", is_flag=True, help="Also list the rows of which no move is proven."),
    format_option("JSON, TSV and CSV always have every row.", ReportDiff),
    click.option(
        "-o", "--output", type=click.Path(path_type=Path), help="Write the diff to this file, whole or not at all."
    ),
    quiet_option("Print what became of the network, in one sentence; nothing on stderr but errors and failed gates."),
)


@click.command()
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@_OPTIONS
@debug_option
def diff(
    *,
    before: Path,
    after: Path,
    models: tuple[str, ...],
    max_growth: float | None,
    max_layer_growth: float | None,
    every_row: bool,
    form: str | None,
    output: Path | None,
    quiet: bool,
) -> int:
    """Compare two reports: which layers moved from BEFORE to AFTER, and by how much.

    BEFORE and AFTER are files that `lipaudit MODEL --format json -o FILE` wrote, or records of fleets (-o FILE.jsonl), of which
    --model picks a report.
    """
    from lipaudit.auditing.diff import diff as diff_reports
    from lipaudit.files import check_no_model, check_writable

    shape = format_of(form, output, ReportDiff)
    file = None if output == Path("-") else output
    layout = replace(screen(), every_row=every_row, quiet=quiet)
    if file:
        layout = layout.of_file(every_row)
        check_writable(file)
        check_no_model(file, [str(before), str(after)], reader="diff")
    if len(models) > 2:
        raise ModelCountError
    wanted = (models[0], models[-1]) if models else (None, None)
    change = diff_reports(_read(before, wanted[0], quiet), _read(after, wanted[1], quiet))
    text = FORMATS[shape].render(change, Options(layout))
    deliver(text, file, "diff", quiet)
    return _judge(change, after, max_growth, max_layer_growth, quiet)


def _read(path: Path, wanted: str | None, quiet: bool) -> AuditReport:
    """The report in a file; of several the one that ``--model`` names."""
    models = read_saved(str(path), quiet)
    return only_report(models, wanted if len(models) > 1 else None, str(path))


def _judge(change: ReportDiff, after: Path, network: float | None, layers: float | None, quiet: bool) -> int:
    """The exit code that a diff deserves, explained on stderr."""
    from lipaudit.gates.diff import growth_problem, growth_remark, layer_growth_problem, unjudged
    from lipaudit.text.numbers import names_text

    code = 0
    if network is not None:
        if problem := growth_problem(change, network):
            say(f"lipaudit: gate exceeded: {after}: {problem} (--max-growth {network!r})")
            code = 1
        elif (remark := growth_remark(change)) and not quiet:
            say(f"lipaudit: {after}: {remark} (--max-growth {network!r})")
    if layers is not None:
        if problem := layer_growth_problem(change, layers):
            say(f"lipaudit: gate exceeded: {after}: {problem} (--max-layer-growth {layers!r})")
            code = 1
        if (rest := unjudged(change)) and not quiet:
            names = names_text([row.record.name for row in rest])
            say(
                f"lipaudit: {after}: not judged, because they have no counterpart: {names} (--max-layer-growth {layers!r})"
            )
    return code
