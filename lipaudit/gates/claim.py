"""A claimed Lipschitz constant against a report: proved, refuted or open."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from lipaudit.errors import InvalidValueError
from lipaudit.records.report import AuditReport
from lipaudit.text.domain import place

TOLERANCE = 1e-3
"""By how much the constant may be above a claim, relative to it, unless something else is asked for."""


class Verdict(StrEnum):
    """What a report says of a claim."""

    PROVED = "proved"
    REFUTED = "refuted"
    OPEN = "open"


@dataclass(frozen=True)
class ClaimVerdict:
    """The answer, with both ends of what is known of the constant in plain units; None where there is no such end.

    Attributes:
        verdict: ``proved`` where the upper bound is at most ``limit`` (1 + ``tolerance``), ``refuted`` where two inputs were found
            between which the network stretches by more than that, else ``open``.
        limit, tolerance: the claim.
        upper, lower: the upper bound, and the largest quotient that was measured.
        text: one sentence that gives the reason.
    """

    verdict: Verdict
    limit: float
    tolerance: float
    upper: float | None
    lower: float | None
    text: str


def claim(report: AuditReport, limit: float = 1.0, tolerance: float = TOLERANCE) -> ClaimVerdict:
    """Whether a report proves that its network has a Lipschitz constant of at most ``limit`` over its domain.

    Args:
        report: of an audit; with ``lower_bound=True`` a claim can be refuted, without it is proved or open.
        limit: the claimed constant.
        tolerance: how far the constant may be above the claim, relative to it. Weights that are orthogonal by construction are so up
            to rounding: with 0 nothing is allowed, and the rounding of float32 refutes most of them.

    Raises:
        InvalidValueError: if the limit is no finite number above 0, or the tolerance none from 0.

    >>> import lipaudit
    >>> from torch import nn
    >>> net = nn.Sequential(nn.Flatten(), nn.ReLU())
    >>> claim(lipaudit.audit(net, input_shape=(1, 4))).verdict
    <Verdict.PROVED: 'proved'>
    """
    if not (_is_finite(limit) and limit > 0):
        raise InvalidValueError("limit", "a finite number above 0", limit)
    if not (_is_finite(tolerance) and tolerance >= 0):
        raise InvalidValueError("tolerance", "a finite number from 0", tolerance)
    network = report.network
    allowed = Fraction(limit) * (1 + Fraction(tolerance))
    upper = network.upper_bound if network.status == "finite" and network.has_bound else None
    lower = network.lower_bound
    over = "" if network.domain == "global" else f" over {place(report.settings, network.domain)}"
    within = f" (tolerance {tolerance:g})" if tolerance else ""
    if upper is not None and Fraction(upper) <= allowed:
        rounding = ", up to rounding" if network.rigor == "numerical" else ""
        verdict, text = Verdict.PROVED, f"the upper bound{over} is {upper!r}{rounding}"
    elif lower is not None and Fraction(lower) > allowed:
        verdict, text = Verdict.REFUTED, f"two inputs were found{over} between which the network stretches by {lower!r}"
    else:
        known = f"the upper bound{over} is {upper!r}" if upper is not None else _missing(report, over)
        found = (
            f"the largest stretch found is {lower!r}"
            if lower is not None
            else "no stretch was searched for (--lower-bound)"
        )
        verdict, text = Verdict.OPEN, f"{known}, {found}"
    how = " within the tolerance" if verdict is Verdict.PROVED and upper is not None and upper > limit else ""
    return ClaimVerdict(verdict, limit, tolerance, upper, lower, f"{verdict}{how}: at most {limit!r}{within}: {text}")


def _missing(report: AuditReport, over: str) -> str:
    if report.settings.structure:
        return "the structure alone was audited"
    if report.network.status != "finite":
        return f"the network is {report.network.status}{over}"
    if report.network.rigor == "estimate":
        return f"the network's figure is an estimate ({report.settings.method}), which is no bound"
    return f"the upper bound{over} fits no float"


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
