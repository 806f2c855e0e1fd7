"""From a proof by forms to the bound of a network, and the networks that have none."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from lipaudit.network.bound import NetworkBound, Problem, SegmentFactor
from lipaudit.network.domain import GLOBAL
from lipaudit.network.forms.certificate import Certificate
from lipaudit.network.forms.part_constant import log_constant
from lipaudit.network.forms.proof import Part
from lipaudit.network.propagate import Propagation, Value
from lipaudit.rules.effect import Status
from lipaudit.spectral.bracket import Rigor

NAME = "forms"


def refusal(problem: Problem) -> str:
    """Why there can be no bound by forms, empty where there can."""
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
    return ""


def bound_by_forms(
    problem: Problem,
    numerical: bool,
    log_upper: float,
    parts: Sequence[Part],
    terms: Sequence[float],
    proof: Certificate,
    note: str,
) -> NetworkBound:
    """The bound of all outputs together, which holds of each of them.

    Args:
        problem: the network.
        numerical: whether a constant that the proof rests on is known up to rounding only.
        log_upper: log of what was proved.
        parts: the parts of the network, from the inputs to the outputs.
        terms: the logarithm of every part's factor.
        proof: the numbers that prove it.
        note: a remark for the report.
    """
    rigor = Rigor.NUMERICAL if numerical else problem.propagation.network.rigor
    value = Value(Status.FINITE, log_upper, rigor)
    outputs = {
        name: value if value.log_upper < each.log_upper else each for name, each in problem.propagation.outputs.items()
    }
    segments = tuple(_segments(parts, terms, problem.propagation))
    interrupted = bool(problem.watch.interruption)
    return NetworkBound(NAME, value, outputs, note, segments=segments, proof=proof, interrupted=interrupted)


def _segments(parts: Sequence[Part], terms: Sequence[float], propagation: Propagation) -> Iterator[SegmentFactor]:
    """The factor of every part, and what the product of constants gives the same part."""
    for part, term in zip(parts, terms, strict=True):
        nodes = {step.node.name for step in part.program.steps}
        inputs = tuple(tensor.name for tensor in part.program.inputs)
        (*_, last) = part.program.outputs
        form = "constant" if part.space is None else "frequencies" if part.space.extends_by_zero else "entries"
        product = part.log_constant if part.space is None else log_constant(part.program, propagation)
        yield SegmentFactor(inputs, last.name, len(nodes), form, term, product)
