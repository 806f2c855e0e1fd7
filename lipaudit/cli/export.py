"""``lipaudit export REPORT --to FORMAT``: saved reports in the formats of other tools."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lipaudit.cli.gates import chosen_gates, gate_options, given_gates
from lipaudit.cli.options import debug_option, with_options
from lipaudit.cli.terminal import emit, say, worst
from lipaudit.errors import UsageError
from lipaudit.export.registry import FORMATS, export_reports, find_format
from lipaudit.export.settings import SPEC_VERSIONS, ExportSettings

if TYPE_CHECKING:
    from lipaudit.report.record import AuditReport

_OPTIONS = with_options(
    click.option("--to", "name", type=click.Choice(list(FORMATS)), required=True, help="The format."),
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
        "as it is. Default: print what would be put there.",
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
    name: str,
    output: Path | None,
    card: Path | None,
    model_index: str | None,
    spec_version: str | None,
    quiet: bool,
    **options: Any,
) -> int:
    """Write REPORT, a file from --format json (- is stdin), in another FORMAT.

    sarif, junit and markdown take a file of several reports. sarif and junit say which gates are met, and end with the exit
    code of an audit that has the same gates.
    """
    from lipaudit.report.write import check_no_model, check_writable, write_whole

    given = {"card": card, "model_index": model_index, "spec_version": spec_version}
    _refuse(ctx, name, [key for key, value in given.items() if value is not None])
    if card is not None and output is not None:
        raise UsageError("--card is updated in place: leave out -o, or the card")
    file = card or (None if output == Path("-") else output)
    if file is not None:
        check_writable(file)
        check_no_model(file, [report], "export", "-o" if card is None else "--card")
    gates = chosen_gates(ctx, options, quiet or not FORMATS[name].judges)
    reports = _read(report)
    settings = ExportSettings(gates.gates, None if report == "-" else report, spec_version or "1.6", model_index)
    if card is not None:
        write_whole(card, _updated(card, reports, settings))
    elif file is not None:
        write_whole(file, export_reports(reports, name, settings) + "\n")
    else:
        emit(export_reports(reports, name, settings))
    if file is not None and not quiet:
        say(f"lipaudit: report written to {file}")
    return worst([0, *map(gates.judge, reports)]) if FORMATS[name].judges else 0


def _refuse(ctx: click.Context, name: str, given: list[str]) -> None:
    """Refuse options that mean nothing to the format."""
    for key in given:
        if _OWN[key] != name:
            raise UsageError(f"--{key.replace('_', '-')} is for --to {_OWN[key]}, not for {name}")
    if not FORMATS[name].judges and (typed := given_gates(ctx)):
        judging = " and ".join(entry.name for entry in FORMATS.values() if entry.judges)
        raise UsageError(f"{name} has no place for gates: {typed[0]} is for {judging}")


def _read(report: str) -> tuple[AuditReport, ...]:
    from lipaudit.report.json import reports_from_json

    try:
        text = sys.stdin.buffer.read() if report == "-" else Path(report).read_bytes()
    except (OSError, ValueError, AttributeError) as error:  # a path with a NUL; a stdin that is closed
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"cannot read the report {report}: {reason}; name a file from `lipaudit --format json`"
        ) from None
    try:
        return reports_from_json(text)
    except UsageError as error:
        raise UsageError(f"{report}: {error}") from None


def _updated(card: Path, reports: tuple[AuditReport, ...], settings: ExportSettings) -> str:
    from lipaudit.export.huggingface import update_card

    find_format("huggingface", reports)
    try:
        old = card.read_bytes().decode("utf-8") if card.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the card {card}: {error}; it must be a text in UTF-8") from None
    try:
        return update_card(old, reports[0], settings.model_index)
    except UsageError as error:
        raise UsageError(f"{card}: {error}") from None
