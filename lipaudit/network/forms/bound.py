"""The bound of a network by quadratic forms: planned, searched for within a budget of work, and proved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import torch

from lipaudit.network.bound import NotApplicable, Problem, Result
from lipaudit.network.efforts import EFFORTS
from lipaudit.network.forms.attained import is_attained
from lipaudit.network.forms.chain import Chain, Scalar
from lipaudit.network.forms.elimination import InfeasibleError
from lipaudit.network.forms.part_constant import log_constant
from lipaudit.network.forms.plan import Limits, plan
from lipaudit.network.forms.program import NoProgramError, program_of
from lipaudit.network.forms.result import NAME, bound_by_forms, refusal
from lipaudit.network.forms.segment import Segment
from lipaudit.network.forms.steps import Program
from lipaudit.network.forms.tighten import SHARPNESS, Tightened, tighten
from lipaudit.network.forms.units import Units, balanced_units
from lipaudit.network.forms.warm_start import WarmStart, warm_start

# The part of the work for a chain with all cuts, and the evaluations that the rest must allow for one with fewer.
_FIRST, _LEAST_EVALUATIONS = 0.25, 30
# What those looks and the proof take, and as much again, in evaluations of all frequencies.
_EVALUATIONS = 6.0
STAGES = tuple(work for work in EFFORTS.values() if work)
"""Operations of the searches that come before one with more, which is then never worse than these: those of the lesser efforts."""
# A search with so few operations takes seconds on one thread, and finds the same on every number of threads.
_ON_ONE_THREAD = EFFORTS["quick"]


def quadratic_forms(problem: Problem) -> Result:
    """The least product of the segments' factors that was found and proved within ``problem.work`` operations."""
    if reason := refusal(problem):
        return NotApplicable(NAME, reason)
    if problem.work <= 0:
        return NotApplicable(NAME, "No work is allowed beyond the product of the operations' constants.")
    try:
        program = program_of(problem.graph, problem.propagation)
        if problem.warm_start is None and is_attained(program, problem.propagation):
            return NotApplicable(
                NAME, "The product of the operations' constants is attained for some slopes of the activations."
            )
        units = balanced_units(problem)
        if units.scales:
            program = program_of(units.problem.graph, units.problem.propagation)
        start = warm_start(units.problem, program)
        with problem.watch.searching(problem.work):
            tightened = _least(program, units, start)
        if tightened is None:
            return NotApplicable(NAME, "No part of the network has forms of the size that the work allows.")
    except NoProgramError as error:
        return NotApplicable(NAME, f"It has no forms for this network: {error}.")
    except InfeasibleError as error:
        return NotApplicable(NAME, f"No multipliers were found that prove a bound, at {error}.")
    if tightened.log_upper >= problem.propagation.network.log_upper:
        return NotApplicable(NAME, "The search found nothing below the product of the operations' constants.")
    chain = tightened.chain
    sizes = (
        f"{len(chain.parts)} segments, {chain.unknowns} multipliers and weights, {tightened.evaluations} evaluations"
    )
    scaled = f"channels of {len(units.scales)} operations rescaled" if units.scales else ""
    begun = "started at a certificate" if start is not None else ""
    allowed = f"{problem.work:g} operations allowed"
    note = "; ".join(filter(None, (sizes, scaled, allowed, begun, problem.watch.interruption)))
    parts, proof = chain.proof_parts(), replace(chain.certificate(tightened.logs), scales=units.scales)
    return bound_by_forms(problem, program.numerical, tightened.log_upper, parts, tightened.terms, proof, note)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Linear algebra on one thread: sums in another order would lead a search to another point."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _least(program: Program, units: Units, start: WarmStart | None) -> Tightened | None:
    """The best of searches with more and more work, up to what is allowed; None where no part of the network has forms.

    Larger forms have fewer cuts, but fewer evaluations: what they find can be worse. Only the last search starts at a certificate.
    In other units the product of the constants is a bound of its own, and each search has less work by what these took.
    """
    problem = units.problem
    results = [_product(program, problem)] if units.scales else []
    infeasible: InfeasibleError | None = None
    for allowed in (*(stage for stage in STAGES if stage < problem.work), problem.work):
        work = allowed - units.spent
        if work <= 0:
            continue
        stage = replace(problem, work=work)
        chain = plan(program, problem.propagation, limits_for(work))
        if chain is None:
            continue
        with _one_thread() if allowed <= _ON_ONE_THREAD else nullcontext():
            try:
                results.append(_tightened(program, stage, chain, start if allowed == problem.work else None))
            except InfeasibleError as error:
                infeasible = error
                continue
        if problem.watch.ended:
            break
    if not results and infeasible is not None:
        raise infeasible
    return min(results, key=lambda each: each.log_upper, default=None)


def _product(program: Program, problem: Problem) -> Tightened:
    """The product of the constants: one part without forms."""
    chain = Chain([Scalar(program, log_constant(program, problem.propagation))])
    logs = chain.start("norm")
    log_upper, terms = chain.certified(logs)
    return Tightened(chain, logs, log_upper, terms, 0)


def _tightened(program: Program, problem: Problem, chain: Chain, start: WarmStart | None) -> Tightened:
    """The better of two chains: with cuts at the changes of resolution, then with as few of these as the work allows.

    The chain of a certificate stands in the place of the first, and of both where it has forms wherever the second has some and no
    more cuts.
    """
    work, propagation = problem.work, problem.propagation
    limits = Limits(limits_for(work).entries, work * (1 - _FIRST) / _LEAST_EVALUATIONS)
    joined = plan(program, propagation, limits, across=True)
    last = joined if joined is not None and len(joined.parts) < len(chain.parts) and _covers(joined, chain) else chain
    logs, sharpness = None, list(SHARPNESS)
    if start is not None:
        chain, logs, work, sharpness = start.chain, start.logs, work - start.spent, list(SHARPNESS[1:])
    if chain is last or (len(chain.parts) <= len(last.parts) and _covers(chain, last)):
        return tighten(chain, work, logs, problem.watch, sharpness)
    first = tighten(chain, work * _FIRST, logs, problem.watch, sharpness)
    if problem.watch.ended:
        return first
    absolute = chain.absolute(first.logs, [2 * term for term in first.terms])
    try:
        second = tighten(last, work * (1 - _FIRST), last.taken_over(chain, absolute), problem.watch)
    except InfeasibleError:
        return first
    return min(first, second, key=lambda each: each.log_upper)


def _covers(joined: Chain, chain: Chain) -> bool:
    """Whether a chain has no constant where another one has forms."""
    constants = [{s.output.name for s in part.program.steps} for part in joined.parts if isinstance(part, Scalar)]
    forms = {s.output.name for part in chain.parts if isinstance(part, Segment) for s in part.program.steps}
    return not any(names & forms for names in constants)


def limits_for(work: float) -> Limits:
    """The sizes of forms for which a start, some looks at all frequencies, a search on some and a proof fit into an amount of work."""
    return Limits(entries=int((work / 60) ** (1 / 3)), work=work / _EVALUATIONS)
