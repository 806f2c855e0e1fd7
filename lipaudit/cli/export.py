"""``lipaudit export REPORT --to FORMAT``: saved reports in the formats of other tools."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from lipaudit.cli.display_options import screen
from lipaudit.cli.gates import chosen_gates, gate_options, given_gates
from lipaudit.cli.options import debug_option, with_options
from lipaudit.cli.saved import picked, read_saved
from lipaudit.cli.terminal import deliver, say, say_failure, worst
from lipaudit.errors import ConflictError, UsageError
from lipaudit.errors.commands import (
    FormatOptionError,
    LocatedError,
    MissingFormatError,
    UnjudgedFormatError,
    UnreadableCardError,
)
from lipaudit.formats.layout import WHOLE
from lipaudit.formats.options import SPEC_VERSIONS, Audits, Options
from lipaudit.formats.registry import FORMATS, check_ending, format_names, format_of_file
from lipaudit.records.failure import Failure

_OPTIONS = with_options(
    click.option(
        "--to",
        "name",
        type=click.Choice(format_names(Audits)),
        metavar="FORMAT",
        help=f"The format: {', '.join(format_names(Audits))}. Default: what the name of the file after -o says.",
    ),
    click.option(
        "--model",
        metavar="SPEC",
        help="Only this model of a file of several, as its list of models or the summary of the fleet names it.",
    ),
    click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        help="Write to this file, whole or not at all. Default: stdout.",
    ),
    click.option(
        "--card",
        type=click.Path(path_type=Path),
        metavar="README.md",
        help="huggingface: put the report into this model card, in the place of an earlier one; what is not lipaudit's stays "
        "as it is. Where there is no such file a new card is made. Default: print what would be put there.",
    ),
    click.option(
        "--model-index",
        metavar="NAME",
        help="huggingface: also list the figures in the card's model-index, under the model of this name.",
    ),
    click.option("--spec-version", type=click.Choice(SPEC_VERSIONS), help="cyclonedx: its version.  [default: 1.6]"),
    click.option("--quiet", is_flag=True, help="Nothing on stderr but errors, failed gates and what --strict finds."),
    gate_options,
)
# options that one format alone has
_OWN = {"card": "huggingface", "model_index": "huggingface", "spec_version": "cyclonedx"}


@click.command()
@click.argument("report", metavar="REPORT")
@_OPTIONS
@debug_option
@click.pass_context
def export(
    ctx: click.Context,
    /,
    report: str,
    name: str | None,
    model: str | None,
    output: Path | None,
    card: Path | None,
    model_index: str | None,
    spec_version: str | None,
    quiet: bool,
    **options: Any,
) -> int:
    """Write REPORT, a file from --format json or the record of a fleet (- is stdin), in another FORMAT.

    huggingface, cyclonedx, png and svg take one report; of a file of several --model picks it. The others take several, and json,
    markdown, html, sarif and junit name the models of a fleet that failed. sarif and junit say which gates are met, and end with the exit
    code of an audit that has the same gates.
    """
    from lipaudit.files import check_no_model, check_writable, write_whole

    name = name or _named(output)
    given = {"card": card, "model_index": model_index, "spec_version": spec_version}
    _refuse(ctx, name, [key for key, value in given.items() if value is not None])
    if card is not None and output is not None:
        raise ConflictError("--card", "-o", "the card is updated in place")
    file = card or (None if output == Path("-") else output)
    if file is not None:
        check_writable(file)
        check_no_model(file, [report], "export", "-o" if card is None else "--card")
        if card is None:
            check_ending(file, name)
    shape = FORMATS[name]
    shape.check_available()
    shape.check_output(file)
    gates = chosen_gates(ctx, options, quiet or not shape.gates)
    saved = read_saved(report, quiet)
    if model is None:
        shape.check_number([entry.name for entry in saved])
    outcomes = [entry.outcome for entry in (saved if model is None else [picked(saved, model, report)])]
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    reports = [outcome for outcome in outcomes if not isinstance(outcome, Failure)]
    if reports and all(one.settings.structure for one in reports):
        if shape.gates and not quiet:
            gates.say_without_figures()
        gates = gates.of_structures()
    source = None if report == "-" else report
    chosen = Options(
        replace(screen(), every_row=True, verbose=True) if file is None and sys.stdout.isatty() else WHOLE,
        gates=gates.gates,
        report_file=source,
        spec_version=spec_version or "1.6",
        model_index=model_index,
    )
    audits = Audits(reports, failures)
    if card is None:
        deliver(shape.render(audits, chosen), file, "report", quiet)
    else:
        made = "" if card.exists() else "; there was no card of this name, so that a new one was made"
        write_whole(card, _updated(card, audits, model_index))
        if not quiet:
            say(f"lipaudit: report written to {card}{made}")
    return worst([*map(_complain, failures), *map(gates.judge, reports)]) if shape.gates else 0


def _named(output: Path | None) -> str:
    """The format without ``--to``: the one that the name of the file asks for."""
    if output is None or not output.suffix:
        raise MissingFormatError(format_names(Audits))
    return format_of_file(output, Audits)


def _complain(failure: Failure) -> int:
    """Say on stderr why a model has no report; its exit code."""
    say_failure(failure.model, failure.error)
    return failure.exit_code


def _refuse(ctx: click.Context, name: str, given: list[str]) -> None:
    """Refuse options that mean nothing to the format."""
    for key in given:
        if _OWN[key] != name:
            raise FormatOptionError(f"--{key.replace('_', '-')}", _OWN[key], name)
    if not FORMATS[name].gates and (typed := given_gates(ctx)):
        raise UnjudgedFormatError(name, typed[0], [entry.name for entry in FORMATS.values() if entry.gates])


def _updated(card: Path, audits: Audits, model_index: str | None) -> str:
    """The text of the card with the report in it."""
    from lipaudit.formats.huggingface import update_card

    FORMATS["huggingface"].check(audits)
    try:
        old = card.read_bytes().decode("utf-8") if card.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableCardError(card, error) from None
    try:
        return update_card(old, audits.reports[0], model_index)
    except UsageError as error:
        raise LocatedError(card, error) from None
