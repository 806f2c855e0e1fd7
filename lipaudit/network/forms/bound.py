"""The bound of a network by quadratic forms: planned, searched for within a budget of work, and proved."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from lipaudit.network.bound import NetworkBound, NotApplicable, Problem, Result, SegmentFactor
from lipaudit.network.domain import GLOBAL
from lipaudit.network.forms.attained import is_attained
from lipaudit.network.forms.chain import Chain
from lipaudit.network.forms.cost import cost
from lipaudit.network.forms.elimination import InfeasibleError
from lipaudit.network.forms.plan import Limits, log_constant, plan
from lipaudit.network.forms.program import NoProgramError, program_of
from lipaudit.network.forms.search import minimise
from lipaudit.network.forms.segment import Segment
from lipaudit.network.propagate import Propagation, Value
from lipaudit.rules.effect import Status
from lipaudit.spectral.bracket import Rigor

NAME = "forms"

# How closely the smoothed largest eigenvalue follows the largest one: the stages of the search.
_SHARPNESS = (10.0, 40.0, 160.0, 640.0, 5000.0, 40000.0)
# A stage is off by some 1 / sharpness. It ends where a step gains less than this part of that.
_CONVERGED = 0.01
# What multipliers are raised by, one after the other, where those that were found prove nothing or little.
_RAISED = (0.0, 2.0**-30, 2.0**-22, 2.0**-16)
_FAILURES = (InfeasibleError, torch.linalg.LinAlgError)  # type: ignore[attr-defined]
_STARTS = ("norm", "forward", "perron")
# What a start with its value, and a proof, cost in evaluations of value and gradient.
_START, _PROOF = 1.5, 3.0


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
        if is_attained(program, problem.propagation):
            return NotApplicable(
                NAME, "The product of the operations' constants is attained for some slopes of the activations."
            )
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
    note = f"{sizes}; {problem.work:g} operations allowed"
    return NetworkBound(NAME, value, outputs, note, segments=tuple(_segments(tightened, problem.propagation)))


def _segments(tightened: Tightened, propagation: Propagation) -> Iterator[SegmentFactor]:
    """The factor of every part of the chain, and what the product of constants gives the same part."""
    for part, term in zip(tightened.chain.parts, tightened.terms, strict=True):
        nodes = {step.node.name for step in part.program.steps}
        inputs = tuple(tensor.name for tensor in part.program.inputs)
        (*_, last) = part.program.outputs
        if isinstance(part, Segment):
            form = "frequencies" if part.space.extends_by_zero else "entries"
            yield SegmentFactor(inputs, last.name, len(nodes), form, term, log_constant(part.program, propagation))
        else:
            yield SegmentFactor(inputs, last.name, len(nodes), "constant", term, part.log_constant)


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
    """The sizes of forms for which a start and its proof fit into an amount of work."""
    return Limits(entries=int((work / 60) ** (1 / 3)), work=work / (_START + _PROOF))


def tighten(chain: Chain, work: float) -> Tightened:
    """Search from the best of the starts, then prove what was found.

    Raises:
        InfeasibleError: if no start is feasible, or nothing can be proved.
    """
    each = max(sum(cost(part.program, part.space) for part in chain.parts if isinstance(part, Segment)), 1.0)
    remaining = work / each - _PROOF
    logs, starts = _start(chain, remaining)
    remaining -= starts * _START
    used = 0
    for stage, sharpness in enumerate(_SHARPNESS):
        share = int(remaining) // (len(_SHARPNESS) - stage)
        if not chain.unknowns or share < 2:
            break

        def objective(x: torch.Tensor, sharpness: float = sharpness) -> tuple[float, torch.Tensor] | None:
            try:
                return chain.value(x, sharpness)
            except _FAILURES:
                return None

        logs, _, spent = minimise(objective, logs, share, _CONVERGED / sharpness)
        used += spent
        remaining -= spent
    return _proved(chain, logs, used)


def _start(chain: Chain, evaluations: float) -> tuple[torch.Tensor, int]:
    """The multipliers of the best start, and how many were tried: one at least, more where the evaluations allow some steps from them."""
    best: tuple[float, torch.Tensor] | None = None
    tried = 0
    for how in _STARTS:
        if best is not None and (tried + 1) * _START > evaluations / 4:
            break
        tried += 1
        try:
            logs = chain.start(how)
            value, _ = chain.value(logs, math.inf)
        except _FAILURES:
            continue
        if best is None or value < best[0]:
            best = value, logs
    if best is None:
        raise InfeasibleError("the start of the search")
    return best[1], tried


def _proved(chain: Chain, logs: torch.Tensor, used: int) -> Tightened:
    best: Tightened | None = None
    for raised in _raised(chain, logs):
        try:
            log_upper, terms = chain.certified(raised)
        except _FAILURES:
            continue
        if best is None or log_upper < best.log_upper:
            best = Tightened(chain, raised, log_upper, tuple(terms), used)
        value, _ = chain.value(raised, math.inf)
        if log_upper <= value / 2 + 2.0**-30:
            break
    if best is None:
        raise InfeasibleError("the proof of what was found")
    return best


def _raised(chain: Chain, logs: torch.Tensor) -> Iterator[torch.Tensor]:
    """The multipliers as they are, then all of them a little larger; the metrics stay."""
    mask = torch.ones_like(logs)
    for place in chain.places.values():
        mask[place] = 0.0
    for amount in _RAISED:
        yield logs + amount * mask
