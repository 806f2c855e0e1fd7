"""The audit of a fleet: models in, one bar while it runs, the summary out."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from lipaudit.auditing.request import AuditOptions
from lipaudit.cli.display_options import screen
from lipaudit.cli.fleet_options import FleetOptions, Shown
from lipaudit.cli.gates import ChosenGates
from lipaudit.cli.models_from import read_models
from lipaudit.cli.terminal import deliver, emit, import_frameworks, say, say_failure, shielded, worst
from lipaudit.fleet.interrupts import delayed
from lipaudit.fleet.model import FleetModel, distinct
from lipaudit.formats.options import Audits, Options
from lipaudit.formats.registry import FORMATS
from lipaudit.frontends.input_files import read_where
from lipaudit.records.failure import Failure

if TYPE_CHECKING:
    from lipaudit.fleet.entry import Entry
    from lipaudit.fleet.journal import Journal
    from lipaudit.fleet.summary import Row
    from lipaudit.fleet.task import Task


def audit_fleet(
    ctx: click.Context,
    specs: tuple[str, ...],
    options: AuditOptions,
    fleet: FleetOptions,
    shown: Shown,
    gates: ChosenGates,
) -> int:
    """Audit the models of the command line and of the file, and return the worst exit code.

    ``options`` hold for every model that has none of its own, and every report is judged by the ``gates``.
    """
    debug: bool = ctx.find_root().obj.debug
    settings = options.to_json()
    with shielded(debug, shown.quiet):
        import_frameworks()
        from lipaudit.fleet.journal import opened
        from lipaudit.fleet.task import Task

        asked = _fleet_models(ctx, specs, options, fleet, gates)
        models = distinct(asked)
        _check_files(models, options, fleet, shown)
    if not shown.quiet and any(model.request(options).structure for model in models):
        gates.say_without_figures()
    if len(models) < len(asked) and not shown.quiet:
        say(f"lipaudit: {len(asked) - len(models)} of {len(asked)} models are named twice and audited once")
    with opened(shown.record, settings, fleet.restart) as journal:
        todo = _still_to_do(journal, models, shown.quiet)
        tasks = (Task(model.request(options), model.options, debug) for model in todo)
        if todo:
            with _running(tasks, fleet, debug) as entries:
                journal.begin()
                _collect(entries, journal, len(models), len(models) - len(todo), shown.quiet)
        rows, codes = _judged(journal, models, gates)
        journal.settle(models)
        _deliver(journal, models, rows, settings, shown, gates)
    if shown.record and not shown.quiet:
        say(f"lipaudit: every report is in {shown.record}")
    return worst(codes)


def _fleet_models(
    ctx: click.Context,
    specs: tuple[str, ...],
    options: AuditOptions,
    fleet: FleetOptions,
    gates: ChosenGates,
) -> list[FleetModel]:
    """Every model that is asked for, wildcards expanded."""
    from lipaudit.frontends.registry import expand

    def checked(model: FleetModel) -> list[FleetModel]:
        if model.request(options).structure:
            gates.refuse_structure()
        return [replace(model, spec=expanded) for expanded in expand(model.spec)]

    models = [model for spec in specs for model in checked(FleetModel(spec))]
    if fleet.models_from is not None:
        models += read_models(fleet.models_from, ctx.command, checked)
    return models


def _check_files(models: list[FleetModel], options: AuditOptions, fleet: FleetOptions, shown: Shown) -> None:
    """Refuse output that cannot be written, or that would replace what is read."""
    from lipaudit.files import check_no_model, check_writable

    file = shown.record or shown.file
    if file is None:
        return
    check_writable(file)
    read = {fleet.models_from or ""}
    for model in models:
        read.update(read_where(file, model.spec, model.request(options).files()))
    check_no_model(file, sorted(read))


def _still_to_do(journal: Journal, models: list[FleetModel], quiet: bool) -> list[FleetModel]:
    """The models whose outcome is not recorded yet, or no longer counts; said where the record had any."""
    states = {model.key: journal.state(model) for model in models}
    counts = Counter(states.values())
    if journal.torn and not quiet:
        say(f"lipaudit: the last line of {journal.path} was cut off and is dropped")
    if counts["new"] < len(models) and not quiet:
        again = [
            f"{counts[state]} that {what} are audited again"
            for state, what in (
                ("failed", "failed"),
                ("changed", "have other files or were audited by another lipaudit"),
            )
            if counts[state]
        ]
        done = f"{counts['done']} of {len(models)} models are done"
        say(f"lipaudit: {journal.path}: {'; '.join([done, *again])}")
    return [model for model in models if states[model.key] != "done"]


@contextmanager
def _running(tasks: Iterator[Task], fleet: FleetOptions, debug: bool) -> Iterator[Iterator[Entry]]:
    """The entries as they come; whatever ends the block ends the audits."""
    if fleet.cluster is None:
        from lipaudit.fleet.local import run_local

        with closing(run_local(tasks, fleet.jobs or 1, debug)) as entries:
            yield entries
        return
    from lipaudit.fleet.cluster import connected, run_on_cluster

    with (
        connected(fleet.cluster, debug) as client,
        closing(run_on_cluster(tasks, client, lambda text: say(f"lipaudit: {text}"))) as entries,
    ):
        yield entries


def _collect(entries: Iterator[Entry], journal: Journal, total: int, done: int, quiet: bool) -> None:
    bar = FleetProgress(total, done) if not quiet and sys.stderr.isatty() else None
    try:
        for entry in entries:
            with delayed():
                journal.append(entry)
                done += 1
                if bar:
                    bar.advance(entry)
            if entry.trace:
                say_trace(entry)
    except KeyboardInterrupt:
        if bar:
            bar.finish()
            bar = None
        if journal.path:
            journal.restore()
            say(f"lipaudit: {done} of {total} models are recorded in {journal.path}; run the same command to continue")
        raise
    finally:
        if bar:
            bar.finish()


def say_trace(entry: Entry) -> None:
    """A traceback from another process, line by line."""
    for line in entry.trace.splitlines():
        say(line)


def _judged(journal: Journal, models: list[FleetModel], gates: ChosenGates) -> tuple[list[Row], list[int]]:
    """The rows of the summary and the exit codes; errors, gates and what --strict finds are said on stderr."""
    from lipaudit.fleet.summary import row_of

    rows: list[Row] = []
    codes = [0]
    for entry, report in journal.outcomes(models):
        if report is None:
            say_failure(entry.spec, entry.error or "")
            rows.append(row_of(entry, None))
            codes.append(entry.exit_code)
            continue
        applied = gates.of_structures() if report.settings.structure else gates
        rows.append(row_of(entry, report, applied.unmet(report)))
        codes.append(applied.judge(report))
    return rows, codes


def _deliver(
    journal: Journal,
    models: list[FleetModel],
    rows: list[Row],
    settings: dict[str, Any],
    shown: Shown,
    gates: ChosenGates,
) -> None:
    """The record, the summary, or every report in a format of reports."""
    from lipaudit.fleet.render import SUMMARY_FORMATS, render

    width = None if shown.file is not None or not sys.stdout.isatty() else screen().width
    if shown.form == "jsonl":
        for line in journal.lines(models):
            emit(line)
    elif shown.form in SUMMARY_FORMATS:
        deliver(render(rows, settings, shown.form, width), shown.file, "summary", shown.quiet)
    else:
        outcomes = list(journal.outcomes(models))
        failures = [Failure(e.spec, e.error or "", e.exit_code) for e, report in outcomes if report is None]
        audits = Audits([report for _, report in outcomes if report is not None], failures)
        if all(report.settings.structure for report in audits.reports):
            gates = gates.of_structures()
        content = FORMATS[shown.form].render(audits, Options(gates=gates.gates))
        deliver(content, shown.file, "summary", shown.quiet)


class FleetProgress:
    """A bar on stderr: models done, how many of them failed, time left."""

    def __init__(self, total: int, done: int) -> None:
        from lipaudit.fleet.entry import FAILED

        self._failed_status, self._failed = FAILED, 0
        self._bar: Any = click.progressbar(
            length=total, label="models", file=sys.stderr, width=24, show_pos=True, item_show_func=lambda item: item
        )
        self._bar.update(done, "")

    def advance(self, entry: Entry) -> None:
        """One more model is done."""
        self._failed += entry.status == self._failed_status
        self._bar.update(1, f"{self._failed} failed" if self._failed else "")

    def finish(self) -> None:
        """Leave the bar as it is and go to the next line."""
        self._bar.render_finish()
