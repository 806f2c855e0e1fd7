"""Gates on the command line: their options, the project's defaults for them, and the exit code that a report deserves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from lipaudit.cli.config import find_config
from lipaudit.cli.options import finite, not_negative, positive, with_options
from lipaudit.cli.terminal import say, worst
from lipaudit.errors import ConflictError, RequirementError

if TYPE_CHECKING:
    from lipaudit.gates.report import Gates
    from lipaudit.records.report import AuditReport

_FILE = "lipaudit.config"  # where the context remembers the file


def _read_config(ctx: click.Context, _parameter: click.Parameter, ignored: bool) -> None:
    """Make the project's values the defaults of the options that follow."""
    if ignored or ctx.resilient_parsing:
        return
    try:
        folder = Path.cwd()
    except FileNotFoundError:  # the folder has been deleted
        return
    config = find_config(folder)
    if config is not None:
        ctx.default_map = config.values
        ctx.meta[_FILE] = config.file


gate_options = with_options(
    click.option(
        "--strict",
        is_flag=True,
        help="End with 4 if anything is unsupported or unbounded over the domain, or an estimate (see --method).",
    ),
    click.option(
        "--max-log10-bound",
        type=float,
        callback=finite,
        metavar="X",
        help="End with 1 unless the network's bound over the domain is finite and at most 10^X: 2 for a limit of 100.",
    ),
    click.option(
        "--max-layer",
        type=float,
        callback=positive,
        metavar="X",
        help="End with 1 unless every row has an upper bound over the domain that is at most X (plain units); "
        "estimates and rows without a bound fail.",
    ),
    click.option(
        "--claim",
        type=float,
        callback=positive,
        metavar="X",
        help="End with 1 unless the network's Lipschitz constant over the domain is proved to be at most X (plain units): proved, refuted "
        "by two inputs that stretch more (--lower-bound is implied, --save-pair keeps them), or open.",
    ),
    click.option(
        "--claim-tolerance",
        type=float,
        callback=not_negative,
        default=1e-3,
        show_default=True,
        metavar="T",
        help="A claim X holds up to X (1 + T); 0 allows nothing, not even the rounding of the weights.",
    ),
    click.option(
        "--no-unbounded",
        is_flag=True,
        help="End with 1 unless every row has a finite bound over the domain: what --strict asks, as a gate like the others.",
    ),
    click.option(
        "--no-config",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_read_config,
        help="Leave aside the gates, domain, effort, tol, mean and std in [tool.lipaudit] of the project's pyproject.toml.",
    ),
)


@dataclass(frozen=True)
class ChosenGates:
    """The gates in force; ``sources`` says of each where it was asked for: an option, or a key of a file."""

    gates: Gates
    sources: dict[str, str]

    def judge(self, report: AuditReport, say_passed: bool = False) -> int:
        """The exit code that a report deserves, explained on stderr; with ``say_passed`` also which gates are met."""
        from lipaudit.gates.report import CLAIM, STRICT, exceeded

        codes = [0]
        problems = list(exceeded(report, self.gates))
        failed = {STRICT, *(gate for gate, _ in problems)}
        for gate, source in self.sources.items():
            if say_passed and gate not in failed:
                why = f" ({self._claim(report)})" if gate == CLAIM else ""
                say(f"lipaudit: gate passed: {report.model.spec}: {source}{why}")
        for gate, text in problems:
            if gate == STRICT:
                say(f"lipaudit: strict: {report.model.spec}: {text}")
                codes.append(4)
            elif gate == CLAIM:
                say(f"lipaudit: claim {report.model.spec}: {text} ({self.sources[gate]})")
                codes.append(1)
            else:
                say(f"lipaudit: gate exceeded: {report.model.spec}: {text} ({self.sources[gate]})")
                codes.append(1)
        return worst(codes)

    def _claim(self, report: AuditReport) -> str:
        from lipaudit.gates.claim import claim

        assert self.gates.claim is not None
        return claim(report, self.gates.claim, self.gates.claim_tolerance).text

    def unmet(self, report: AuditReport) -> list[str] | None:
        """The names of the gates that a report does not meet; None where there are none."""
        from lipaudit.gates.report import exceeded

        return [gate for gate, _ in exceeded(report, self.gates)] if self.sources else None

    def refuse_structure(self) -> None:
        """Raise :class:`~lipaudit.errors.UsageError` where an option asks for a figure, which an audit of the structure has not."""
        for gate, source in self._of_figures():
            if source.startswith("--"):
                raise ConflictError(f"--{gate}", "--structure", "an audit of the structure computes no figures")

    def say_without_figures(self) -> None:
        """Say which gates of the project's file do not apply to a structure, for it has no figures."""
        left = [source for _, source in self._of_figures() if not source.startswith("--")]
        if left:
            say(f"lipaudit: {' and '.join(left)}: not judged, for the structure alone has no figures")

    def of_structures(self) -> ChosenGates:
        """What holds of a structure: without the gates of the project's file that need a figure."""
        left = {gate for gate, source in self._of_figures() if not source.startswith("--")}
        none: dict[str, Any] = {gate.replace("-", "_"): None for gate in left}
        gates = replace(self.gates, **none)
        return ChosenGates(gates, {gate: source for gate, source in self.sources.items() if gate not in left})

    def _of_figures(self) -> list[tuple[str, str]]:
        """The gates in force that need a figure, with their sources."""
        from lipaudit.gates.report import CLAIM, MAX_LAYER, MAX_LOG10_BOUND

        return [(gate, self.sources[gate]) for gate in (MAX_LOG10_BOUND, MAX_LAYER, CLAIM) if gate in self.sources]


def chosen_gates(ctx: click.Context, options: dict[str, Any], quiet: bool = False) -> ChosenGates:
    """The gates among the options, which are taken out of them; a line on stderr says what comes from a file."""
    from lipaudit.gates.report import Gates

    values = {name: options.pop(name) for name in Gates.__dataclass_fields__}
    sources, defaults = {}, []
    if values["claim"] is None and ctx.get_parameter_source("claim_tolerance") is ParameterSource.COMMANDLINE:
        raise RequirementError("--claim-tolerance", "--claim", "it says how far the constant may be above the claim")
    for name, value in values.items():
        key = name.replace("_", "-")
        if value is None or value is False:
            continue
        text = key if value is True else f"{key} {value!r}"
        if from_file(ctx, name):
            defaults.append(text)
        if name != "claim_tolerance":  # no gate by itself
            sources[key] = f"{text} in {ctx.meta[_FILE]}" if from_file(ctx, name) else f"--{text}"
    others = [name for name in ("domain", "effort", "tol", "mean", "std") if options.get(name) is not None]
    defaults += [f"{name} {_shown(options[name])}" for name in others if from_file(ctx, name)]
    if defaults and not quiet:
        say(f"lipaudit: {', '.join(defaults)} from [tool.lipaudit] in {ctx.meta[_FILE]} (--no-config leaves it aside)")
    return ChosenGates(Gates(**values), sources)


def _shown(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def given_gates(ctx: click.Context) -> list[str]:
    """The options of gates that were typed."""
    from lipaudit.gates.report import Gates

    typed = [n for n in Gates.__dataclass_fields__ if ctx.get_parameter_source(n) is ParameterSource.COMMANDLINE]
    return [f"--{name.replace('_', '-')}" for name in typed]


def from_file(ctx: click.Context, name: str) -> bool:
    """Whether an option has its value from the project's file."""
    return ctx.get_parameter_source(name) is ParameterSource.DEFAULT_MAP
