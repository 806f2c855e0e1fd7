"""The bound of a network by quadratic forms: planned, searched for within a budget of work, and proved."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from lipaudit.network.bound import NetworkBound, NotApplicable, Problem, Result
from lipaudit.network.domain import GLOBAL
from lipaudit.network.forms.chain import Chain
from lipaudit.network.forms.cost import cost
from lipaudit.network.forms.elimination import InfeasibleError
from lipaudit.network.forms.plan import Limits, plan
from lipaudit.network.forms.program import NoProgramError, program_of
from lipaudit.network.forms.search import minimise
from lipaudit.network.forms.segment import Segment
from lipaudit.network.propagate import Value
from lipaudit.rules.effect import Status
from lipaudit.spectral.bracket import Rigor

NAME = "forms"

# How closely the smoothed largest eigenvalue follows the largest one: the stages of the search.
_SHARPNESS = (10.0, 40.0, 160.0, 640.0, 5000.0, 40000.0)
_MOST_EVALUATIONS = 600
# What multipliers are raised by, one after the other, where those that were found prove nothing or little.
_RAISED = (0.0, 2.0**-30, 2.0**-22, 2.0**-16)
_FAILURES = (InfeasibleError, torch.linalg.LinAlgError)  # type: ignore[attr-defined]
_STARTS = ("norm", "forward", "perron")
# A proof costs about as much as so many evaluations.
_PROOF = 4.0


@dataclass(frozen=True)
class Tightened:
    """A proved bound by forms: the chain, the logarithms of its multipliers and metrics, and log L."""

    chain: Chain
    logs: torch.Tensor
    log_upper: float
    terms: tuple[float, ...]
    evaluations: int


def quadratic_forms(problem: Problem) -> Result:
    """The least product of the segments' factors that was found and proved within ``problem.work`` operations."""
    product = problem.propagation.network
    reason = _refusal(problem)
    if reason:
        return NotApplicable(NAME, reason)
    try:
        program = program_of(problem.graph, problem.propagation)
        chain = plan(program, problem.propagation, limits_for(problem.work))
        if chain is None:
            return NotApplicable(NAME, "No part of the network has forms of the size that the work allows.")
        tightened = tighten(chain, problem.work)
    except NoProgramError as error:
        return NotApplicable(NAME, f"It has no forms for this network: {error}.")
    except InfeasibleError as error:
        return NotApplicable(NAME, f"No multipliers were found that prove a bound, at {error}.")
    rigor = Rigor.NUMERICAL if program.numerical else product.rigor
    value = Value(Status.FINITE, tightened.log_upper, rigor)
    outputs = {
        name: value if value.log_upper < each.log_upper else each for name, each in problem.propagation.outputs.items()
    }
    sizes = (
        f"{len(chain.parts)} segments, {chain.unknowns} multipliers and weights, {tightened.evaluations} evaluations"
    )
    return NetworkBound(NAME, value, outputs, note=f"{sizes}; {problem.work:g} operations allowed")


def _refusal(problem: Problem) -> str:
    """Why the method does not begin, empty where it does."""
    product = problem.propagation.network
    if problem.domain is not GLOBAL:
        return "Forms bound a network over all inputs only."
    if product.status is not Status.FINITE:
        return "The product of the operations' constants, from which the search starts, is not finite."
    if product.rigor is Rigor.ESTIMATE:
        return "The product of the operations' constants, from which the search starts, is an estimate."
    if not problem.norms.weights_known:
        return "It needs the values of the weights."
    if product.log_upper == -math.inf:
        return "The output does not depend on the input."
    return "" if problem.work > 0 else "No work is allowed beyond the product of the operations' constants."


def limits_for(work: float) -> Limits:
    """The sizes of forms for which at least a start and its proof fit into an amount of work."""
    return Limits(entries=int((work / 60) ** (1 / 3)), work=work / (2 * _PROOF))


def tighten(chain: Chain, work: float) -> Tightened:
    """Search from the better of the starts, then prove what was found.

    Raises:
        InfeasibleError: if no start is feasible, or nothing can be proved.
    """
    each = sum(cost(part.program, part.space) for part in chain.parts if isinstance(part, Segment))
    allowed = int(max(work / max(each, 1.0) - 2 * _PROOF, 0))
    logs, used = _start(chain, allowed)
    remaining = min(max(allowed - used, 0), _MOST_EVALUATIONS)
    for sharpness in _SHARPNESS:
        share = remaining // len(_SHARPNESS)
        if not chain.unknowns or share < 2:
            break

        def objective(x: torch.Tensor, sharpness: float = sharpness) -> tuple[float, torch.Tensor] | None:
            try:
                return chain.value(x, sharpness)
            except _FAILURES:
                return None

        logs, _, spent = minimise(objective, logs, share)
        used += spent
    return _proved(chain, logs, used)


def _start(chain: Chain, allowed: int) -> tuple[torch.Tensor, int]:
    found: tuple[float, torch.Tensor] | None = None
    for how in _STARTS[: 1 if allowed < 12 else None]:
        try:
            logs = chain.start(how)
            value, _ = chain.value(logs, math.inf)
        except _FAILURES:
            continue
        if found is None or value < found[0]:
            found = value, logs
    if found is None:
        raise InfeasibleError("the start of the search")
    return found[1], 2 * len(_STARTS)


def _proved(chain: Chain, logs: torch.Tensor, used: int) -> Tightened:
    found: Tightened | None = None
    for raised in _raised(chain, logs):
        try:
            log_upper, terms = chain.certified(raised)
        except _FAILURES:
            continue
        if found is None or log_upper < found.log_upper:
            found = Tightened(chain, raised, log_upper, tuple(terms), used)
        value, _ = chain.value(raised, math.inf)
        if log_upper <= value / 2 + 2.0**-30:
            break
    if found is None:
        raise InfeasibleError("the proof of what was found")
    return found


def _raised(chain: Chain, logs: torch.Tensor) -> Iterator[torch.Tensor]:
    """The multipliers as they are, then all of them a little larger; the metrics stay."""
    mask = torch.ones_like(logs)
    for place in chain.places.values():
        mask[place] = 0.0
    for amount in _RAISED:
        yield logs + amount * mask
