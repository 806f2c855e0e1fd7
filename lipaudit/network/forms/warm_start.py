"""Where a search starts that is given the certificate of an earlier checkpoint: its cuts, and its multipliers and weights.

Nothing is believed: the numbers are a point like any other, and what is found from them is proved for the network at hand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from lipaudit.network.bound import Problem
from lipaudit.network.forms.certificate import Certificate, CertificateError, fitted
from lipaudit.network.forms.chain import Chain, Scalar
from lipaudit.network.forms.cost import cost
from lipaudit.network.forms.proof import Part
from lipaudit.network.forms.segment import Segment
from lipaudit.network.forms.steps import Program
from lipaudit.network.forms.tighten import FAILURES, LOOK, START, START_AND_PROOF, graded
from lipaudit.network.propagate import Propagation

# By how much multipliers are raised, one after the other, until they prove something of the new weights: a little, to twice.
_RAISED = (0.0, 2.0**-12, 2.0**-9, 2.0**-6, 2.0**-4, 2.0**-2, 1.0)
_COLD = ("norm", "perron")


@dataclass(frozen=True, eq=False)
class WarmStart:
    """A chain, the logarithms of the multipliers and weights to start from (None: its own start), and the operations that were spent."""

    chain: Chain
    logs: torch.Tensor | None
    spent: float


def warm_start(problem: Problem, program: Program) -> WarmStart | None:
    """Where to start from with ``problem.warm_start``, None without one: the best of its numbers and of a cold start on its cuts.

    Raises:
        CertificateError: if it is that of another architecture, or needs more work than is allowed.
    """
    if problem.warm_start is None:
        return None
    chain, logs = chain_of(problem.warm_start, program, problem.propagation)
    segments = [part for part in chain.parts if isinstance(part, Segment)]
    each = sum(cost(part.program, part.space) for part in segments)
    if START_AND_PROOF * each > problem.work:
        raise CertificateError(
            f"a start and a proof with its {len(chain.parts)} segments take {START_AND_PROOF * each:.2g} operations, and the effort "
            f"allows {problem.work:g}"
        )
    best, spent = _known(chain, logs, problem.work / 4 / max(each, 1.0))
    for how in _COLD:
        if (spent + START) * each > problem.work / 4:
            break
        spent += START
        try:
            cold = chain.start(how)
            value = _value(chain, cold)
        except FAILURES:
            continue
        if value < best[0]:
            best = value, cold
    return WarmStart(chain, best[1], spent * each)


def chain_of(certificate: Certificate, program: Program, propagation: Propagation) -> tuple[Chain, torch.Tensor]:
    """The chain with the cuts of a certificate, and the logarithms of its multipliers and weights.

    Raises:
        CertificateError: if it is that of another architecture.
    """
    chain = Chain([_link(part) for part in fitted(certificate, program, propagation)])
    logs = torch.zeros(chain.unknowns, dtype=torch.float64)
    places = {name: place for part in chain.parts if isinstance(part, Segment) for name, place in part.places.items()}
    for kind, numbers, known in (
        ("multipliers of the operation", certificate.multipliers, places),
        ("weights of the cut", certificate.metrics, chain.places),
    ):
        for name, values in numbers.items():
            if name not in known:
                raise CertificateError(f"it has {kind} {name!r}, where this network has none")
            logs[known[name]] = values.log()
    return chain, logs


def _known(chain: Chain, logs: torch.Tensor, evaluations: float) -> tuple[tuple[float, torch.Tensor | None], float]:
    """The first of the raised points that proves something, with log L^2, and what it took in evaluations."""
    spent = 0.0
    for point in graded(chain, logs, _RAISED):
        if spent + LOOK > evaluations:
            break
        spent += LOOK
        value = _value(chain, point)
        if math.isfinite(value):
            return (value, point), spent
    return (math.inf, None), spent


def _value(chain: Chain, logs: torch.Tensor) -> float:
    """log of the bound of L^2 on all frequencies; infinite where the multipliers prove nothing."""
    try:
        return math.fsum(float(values.max()) for values in chain.by_frequency(logs))
    except FAILURES:
        return math.inf


def _link(part: Part) -> Segment | Scalar:
    if part.space is None:
        return Scalar(part.program, part.log_constant)
    return Segment(part.program, part.space)
