"""Conditions that a build puts on a report, and what in a report does not meet them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lipaudit.gates.claim import TOLERANCE, Verdict, claim
from lipaudit.records.report import AuditReport, LayerRecord
from lipaudit.text.domain import estimated_elsewhere, finite_elsewhere, may_be_finite_on_images, place
from lipaudit.text.method import has_estimates
from lipaudit.text.numbers import count_text, names_text

MAX_LOG10_BOUND, MAX_LAYER, NO_UNBOUNDED, STRICT = "max-log10-bound", "max-layer", "no-unbounded", "strict"
CLAIM = "claim"
NETWORK = ""  # the place of a problem that the network has as a whole
_STRUCTURE = "the structure alone was audited, and a gate needs a number"


@dataclass(frozen=True)
class Gates:
    """What a build asks of a report; by default nothing.

    ``max_log10_bound``: the network's bound is at most 10 to that power. ``max_layer``: the upper bound of every row is at
    most that (plain units). ``no_unbounded``: every row and the network have a finite bound. ``strict`` asks the same of the
    report as a whole, with an exit code of its own. ``claim``: the network's constant is proved to be at most that, times 1 +
    ``claim_tolerance`` (:mod:`lipaudit.gates.claim`).
    """

    max_log10_bound: float | None = None
    max_layer: float | None = None
    no_unbounded: bool = False
    strict: bool = False
    claim: float | None = None
    claim_tolerance: float = TOLERANCE


@dataclass(frozen=True)
class GateProblem:
    """Why a gate is not met: the gate's name, the row's name (or :data:`NETWORK`), the reason, and the row's number (or None).

    Rows of one report may have one name, and any name; only the number tells them apart.
    """

    gate: str
    place: str
    text: str
    row: int | None = None


def gate_problems(report: AuditReport, gates: Gates) -> tuple[GateProblem, ...]:
    """Everything that does not meet the gates, gate by gate, rows in the order of the report; empty where all are met."""
    problems: list[GateProblem] = []
    if gates.max_log10_bound is not None and (text := gate_problem(report, gates.max_log10_bound)):
        problems.append(GateProblem(MAX_LOG10_BOUND, NETWORK, text))
    if gates.claim is not None:
        verdict = claim(report, gates.claim, gates.claim_tolerance)
        if verdict.verdict is not Verdict.PROVED:
            problems.append(GateProblem(CLAIM, NETWORK, f"{verdict.text}{_hint(report)}"))
    if gates.max_layer is not None:
        limit = gates.max_layer
        problems += _at_layers(report, MAX_LAYER, lambda layer: layer_problem(report, layer, limit))
    if gates.no_unbounded:
        problems += _at_layers(report, NO_UNBOUNDED, lambda layer: missing_bound(report, layer))
    if gates.strict and (text := strict_problem(report)):
        problems.append(GateProblem(STRICT, NETWORK, text))
    return tuple(problems)


def gate_problem(report: AuditReport, max_log10: float) -> str:
    """Why the network is not shown to stretch by at most 10^max_log10; empty where it is.

    Judges the domain in force, and the exact figure, not the rounded one that a table shows. Without a finite, proven
    bound over that domain the gate fails, and says where there is one.
    """
    network = report.network
    if network.status != "finite":
        return f"the network's bound is {network.status}{_over(report)}, and a gate needs a number{_hint(report)}"
    if report.settings.structure:
        return _STRUCTURE
    if network.figure is None:
        return "the report has no upper bound of the network"
    if not network.has_bound:
        return f"the network's figure is an estimate ({report.settings.method}), and an estimate is no bound"
    if network.figure.log10 > max_log10:
        return f"the log10 upper bound {network.figure.log10!r}{_over(report)} is above {max_log10!r}"
    return ""


def layer_problem(report: AuditReport, layer: LayerRecord, limit: float) -> str:
    """Why a row is not shown to stretch by at most ``limit``; empty where it is.

    Judges the exact figure. A row without a bound (unbounded, unsupported, an estimate, no weights read) is not shown to.
    """
    if report.settings.structure and layer.status == "finite":
        return _STRUCTURE
    if missing := missing_bound(report, layer):
        return f"{missing}; a gate needs a bound"
    if layer.figure is None:
        return "the report has no upper bound of it"
    if not layer.figure.exceeds(limit):
        return ""
    value = f"10^{layer.figure.log10!r}" if layer.figure.value is None else repr(layer.figure.value)
    return f"the upper bound {value}{_over(report)} is above {limit!r}"


def missing_bound(report: AuditReport, layer: LayerRecord) -> str:
    """Why a row has no finite bound over the domain in force; empty where it has one."""
    if layer.status != "finite":
        return f"{layer.status}{_over(report)}" + (f": {layer.reason}" if layer.reason else "")
    return _estimate(report) if layer.rigor == "estimate" else ""


def network_missing_bound(report: AuditReport) -> str:
    """Why the network has no finite bound over the domain in force; empty where it has one."""
    if report.network.status != "finite":
        return f"the network is {report.network.status}{_over(report)}{_hint(report)}"
    return f"the network's figure is {_estimate(report)}" if report.network.rigor == "estimate" else ""


def strict_problem(report: AuditReport) -> str:
    """Which operations have no bound over the domain in force, with their places; empty where every figure is a finite bound."""
    gaps = [f"{layer.name} ({layer.status})" for layer in report.layers if layer.status != "finite"]
    problems = []
    if gaps or report.network.status != "finite":
        problem = f"the network is {report.network.status}{_over(report)}"
        problems.append(problem + (f"; without a bound: {names_text(gaps)}" if gaps else "") + _hint(report))
    if has_estimates(report):
        problems.append(_estimates(report))
    return "; ".join(problems)


def exceeded(report: AuditReport, gates: Gates) -> Iterable[tuple[str, str]]:
    """The gates that are not met, each with one sentence for a terminal: the places, first and counted."""
    problems = gate_problems(report, gates)
    for gate in dict.fromkeys(problem.gate for problem in problems):
        missed = [problem for problem in problems if problem.gate == gate]
        places = [f"{problem.place}: {problem.text}" for problem in missed if problem.row is not None]
        whole = [problem.text for problem in missed if problem.row is None]
        if places:
            rows = f"{count_text(len(places), 'row')} of {len(report.layers)}"
            what = f"above {gates.max_layer!r} or without a bound" if gate == MAX_LAYER else "without a finite bound"
            whole.append(
                f"{rows} {what} ({'; '.join(places[:3])}{'; ...' if len(places) > 3 else ''}){_hint(report, 'the network')}"
            )
        yield gate, "; ".join(whole)


def _at_layers(report: AuditReport, gate: str, problem: Callable[[LayerRecord], str]) -> list[GateProblem]:
    texts = map(problem, report.layers)
    problems = [
        GateProblem(gate, layer.name, text, row)
        for row, (layer, text) in enumerate(zip(report.layers, texts, strict=True))
        if text
    ]
    if not _is_explained(report) and (text := network_missing_bound(report)):
        problems.append(GateProblem(gate, NETWORK, text))
    return problems


def _is_explained(report: AuditReport) -> bool:
    """Whether rows say why the network has no bound: one without a status of ``finite`` where it has none, else an estimate."""
    if report.network.status != "finite":
        return any(layer.status != "finite" for layer in report.layers)
    return any(missing_bound(report, layer) for layer in report.layers)


def _estimate(report: AuditReport) -> str:
    return f"an estimate ({report.settings.method}), which is no bound"


def _estimates(report: AuditReport) -> str:
    rows = [layer.name for layer in report.layers if layer.rigor == "estimate"]
    whose = "the network's figure is an estimate" if report.network.rigor == "estimate" else "figures are estimates"
    places = f": {names_text(rows)}" if rows else ""
    return f"{whose} ({report.settings.method}){places}; an estimate is no bound: choose --method gram"


def _over(report: AuditReport) -> str:
    domain = report.network.domain
    return "" if domain == "global" else f" over {place(report.settings, domain)}"


def _hint(report: AuditReport, whose: str = "it") -> str:
    """Which option would give a figure."""
    other = finite_elsewhere(report)
    if other is not None:
        return f"; over {place(report.settings, other.domain)} {whose} has one: --domain {other.domain}"
    guess = estimated_elsewhere(report)
    if guess is not None:
        return (
            f"; over {place(report.settings, guess.domain)} {whose} has an estimate by {report.settings.method}, which is no bound: "
            f"--method gram with --domain {guess.domain} may give one"
        )
    if may_be_finite_on_images(report):
        return "; if the inputs are images, --domain pixels with --mean and --std may give one"
    return ""
