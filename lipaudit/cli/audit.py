"""``lipaudit audit MODEL...``: the audits one after another, and the gates."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lipaudit.auditing.request import AuditOptions, AuditRequest
from lipaudit.auditing.values import GRAM
from lipaudit.cli.audit_options import audit_options
from lipaudit.cli.completion import complete_model
from lipaudit.cli.display_options import check_no_layout, take_layout, typed_for
from lipaudit.cli.fleet_options import take_fleet
from lipaudit.cli.gates import chosen_gates, from_file
from lipaudit.cli.options import (
    TakesFiles,
    debug_option,
    format_of,
)
from lipaudit.cli.plot import PlotFile
from lipaudit.cli.terminal import (
    Progress,
    Waiting,
    complain,
    deliver,
    emit,
    import_frameworks,
    one_line,
    say,
    shielded,
    worst,
)
from lipaudit.errors.commands import OneModelError
from lipaudit.fleet.interrupts import delayed
from lipaudit.formats.options import Audits, FleetRecord, Options
from lipaudit.formats.registry import FORMATS, Format
from lipaudit.frontends.input_files import read_where
from lipaudit.frontends.spec import TENSOR_SUFFIXES
from lipaudit.records.failure import Failure
from lipaudit.text.answer import one_line as answer_line

if TYPE_CHECKING:
    from lipaudit.records.report import AuditReport


@click.command(cls=TakesFiles)
@click.argument("models", nargs=-1, metavar="MODEL...", shell_complete=complete_model)
@audit_options
@debug_option
@click.pass_context
def audit(
    ctx: click.Context,
    /,
    models: tuple[str, ...],
    form: str | None,
    output: Path | None,
    plot: PlotFile | None,
    quiet: bool,
    **values: Any,
) -> int:
    """Audit one or several models (the verb may be left out).

    --models-from, --jobs, --cluster or a record (-o FILE.jsonl) make it the audit of a fleet: models are audited side by side, a
    summary has one row for each, and one that fails, or crashes, stops none of the others.
    """
    from lipaudit.files import check_no_model, check_writable

    debug: bool = ctx.find_root().obj.debug
    form = format_of(form, output, Audits, FleetRecord)
    fleet = take_fleet(values)
    if not models and fleet.models_from is None:
        raise click.MissingParameter(ctx=ctx, param=next(p for p in ctx.command.params if p.name == "models"))
    _leave_out_unused(ctx, values)
    gates = chosen_gates(ctx, values, quiet)
    if gates.gates.claim is not None and not values["structure"]:
        values["lower_bound"] = True  # what refutes a claim
    if fleet.is_asked_for(output, form):
        from lipaudit.cli.fleet import audit_fleet

        check_no_layout(values)
        options = AuditOptions(**values)
        _check_one_model(options, several=True)
        shown = fleet.shown(form, output, quiet, plot is not None)
        return audit_fleet(ctx, models, options, fleet, shown, gates)
    file = None if output == Path("-") else output
    layout = take_layout(values, form, file, quiet)
    options = AuditOptions(**values)
    if options.structure:
        gates.refuse_structure()
        if not quiet:
            gates.say_without_figures()
        gates = gates.of_structures()
    shape = FORMATS[form]
    judged = gates.gates
    claimed = None if judged.claim is None else (judged.claim, judged.claim_tolerance)
    layout = replace(layout, gated=judged.max_log10_bound is not None or claimed is not None, claim=claimed)
    chosen = Options(layout, gates=gates.gates)
    if file:
        check_writable(file)
    if plot:
        plot.check(file, options.structure)
    requests, codes, failures = _expand_all(models, options, debug, quiet)
    if file:
        check_no_model(file, _files_read(file, requests))
    if plot:
        plot.check_models([str(request.model) for request in requests], _files_read(plot.path, requests))
    shape.check_number(
        [*(str(request.model) for request in requests), *(failure.model for failure in failures)],
        "audit them one by one",
    )
    several = len(models) > 1 or len(requests) > 1
    _check_one_model(options, several)
    streamed = shape.one_by_one and file is None
    reports: list[AuditReport] = []
    for request in requests:
        spec = str(request.model)
        try:
            report = _audit_one(request, debug, quiet)
            text = _shown(report, spec, shape, chosen, ctx, models) if streamed else ""
        except Exception as error:
            codes.append(complain(error, debug, spec if several else ""))
            failures.append(Failure(spec, one_line(str(error)) or type(error).__name__, codes[-1]))
            continue
        if streamed:
            emit(("" if not reports or quiet else "\n\n") + text, layout.colour)
        reports.append(report)
        if file and not quiet:
            say(answer_line(report))
        codes.append(gates.judge(report, say_passed=not quiet))
    if reports and not streamed:
        deliver(shape.render(Audits(reports, failures), chosen), file, "report", quiet)
    if plot and reports:
        plot.write(reports[0], debug, quiet)
    return worst(codes)


def _shown(
    report: AuditReport, spec: str, shape: Format, options: Options, ctx: click.Context, models: Sequence[str]
) -> str:
    """The text of one report, which also says what to type next."""
    typed = typed_for(ctx.find_root().obj.words, models, spec)
    return str(shape.render(Audits([report]), replace(options, layout=replace(options.layout, typed=typed))))


def _check_one_model(options: AuditOptions, several: bool) -> None:
    if several and options.save_pair is not None:
        raise OneModelError("--save-pair", "keeps the inputs of", "several")
    if several and options.certificate is not None:
        raise OneModelError("--certificate", "proves the bound of", "several")
    if several and options.warm_start is not None:
        raise OneModelError("--warm-start", "is the certificate of", "several")


def _expand_all(
    models: Sequence[str], options: AuditOptions, debug: bool, quiet: bool
) -> tuple[list[AuditRequest], list[int], list[Failure]]:
    """A request for every model that the specifications stand for, and the exit codes and errors of those that stand for none."""
    requests: list[AuditRequest] = []
    failures: list[Failure] = []
    codes = [0]
    waiting = Waiting("loading torch", quiet)
    for model in models:
        try:
            with shielded(debug, quiet):
                import_frameworks()
                waiting.over()
                from lipaudit.frontends.registry import expand

                requests += map(options.request, expand(model))
        except Exception as error:
            codes.append(complain(error, debug, model if len(models) > 1 else ""))
            failures.append(Failure(model, one_line(str(error)) or type(error).__name__, codes[-1]))
    return requests, codes, failures


def _files_read(output: Path, requests: Sequence[AuditRequest]) -> list[str]:
    """The files that the audits read and ``output`` must not replace."""
    return [name for request in requests for name in read_where(output, str(request.model), request.files())]


def _audit_one(request: AuditRequest, debug: bool, quiet: bool) -> AuditReport:
    progress = Progress(str(request.model)) if not quiet and sys.stderr.isatty() else None
    try:
        with shielded(debug, quiet):
            with delayed():
                from lipaudit.auditing.run import run_audit
                from lipaudit.cli.search import ShownSearch

            return run_audit(request, progress, watch=ShownSearch(progress))
    finally:
        if progress:
            progress.finish()


def _leave_out_unused(ctx: click.Context, values: dict[str, Any]) -> None:
    """Leave out the project's values that have no use here; those that were typed are refused later.

    Around a tensor there are no pixels for a normalisation, and without certified l2 norms there is nothing to search from.
    """
    if values["domain"] == "ball" and Path(values["around"] or "").suffix.lower() in TENSOR_SUFFIXES:
        values.update({name: None for name in ("mean", "std") if from_file(ctx, name)})
    if (values["structure"] or values["method"] != GRAM or values["norm"] != "l2") and from_file(ctx, "effort"):
        values["effort"] = None
