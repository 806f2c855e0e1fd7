"""Quadratic forms on a ball or a box: a linearisation at the centre, with multipliers for what its derivatives can move by."""

from __future__ import annotations

import math

import torch

from lipaudit.network.bound import NetworkBound, NotApplicable, Problem, Result
from lipaudit.network.forms.bound import limits_for
from lipaudit.network.forms.chain import Chain
from lipaudit.network.forms.cost import cost
from lipaudit.network.forms.elimination import InfeasibleError
from lipaudit.network.forms.program import NoProgramError
from lipaudit.network.forms.result import NAME
from lipaudit.network.forms.segment import Segment
from lipaudit.network.forms.spaces import DenseSpace
from lipaudit.network.forms.tighten import tighten
from lipaudit.network.local.bound import linearise
from lipaudit.network.local.linearise import NotLinearisableError
from lipaudit.network.local.program import local_program
from lipaudit.network.propagate import Value
from lipaudit.rules.effect import Status
from lipaudit.spectral.bracket import Rigor


def forms_on_domain(problem: Problem) -> Result:
    """One dense form of the whole network on a domain; numerical, because derivatives at the centre are rounded."""
    if not problem.graph.outputs:
        return NotApplicable(NAME, "The outputs do not depend on the input.")
    if problem.work <= 0:
        return NotApplicable(NAME, "No work is allowed beyond the product of the operations' constants.")
    try:
        lines = linearise(problem)
        program = local_program(lines, lines.graph.outputs)
        space, limits = DenseSpace(), limits_for(problem.work)
        if max(t.size for t in program.tensors) > limits.entries or cost(program, space) > limits.work:
            return NotApplicable(NAME, "Dense forms on the domain take more operations than the work allows.")
        with torch.no_grad(), problem.watch.searching(problem.work):
            tightened = tighten(Chain([Segment(program, space)]), problem.work, watch=problem.watch)
    except (NotLinearisableError, NoProgramError) as error:
        return NotApplicable(NAME, f"The network has no forms on the domain: {error}.")
    except InfeasibleError as error:
        return NotApplicable(NAME, f"No multipliers were found that prove a bound, at {error}.")
    if not math.isfinite(tightened.log_upper):
        return NotApplicable(NAME, "The bound that was found is not finite.")
    value = Value(Status.FINITE, tightened.log_upper, Rigor.NUMERICAL)
    outputs = dict.fromkeys(problem.graph.outputs, value)
    sizes = f"{tightened.chain.unknowns} multipliers, {tightened.evaluations} evaluations"
    note = "; ".join(filter(None, (sizes, f"{problem.work:g} operations allowed", problem.watch.interruption)))
    return NetworkBound(NAME, value, outputs, note=note, interrupted=bool(problem.watch.interruption))
