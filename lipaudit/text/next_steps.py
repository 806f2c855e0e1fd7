"""What to type next: up to three options or commands that suit a report."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from lipaudit.records.report import AuditReport
from lipaudit.text.advice import ASTRONOMICAL
from lipaudit.text.domain import finite_elsewhere, is_not_lowered_by_its_ball, may_be_finite_on_images
from lipaudit.text.method import has_estimates, is_undefined

MOST = 3
_NEAR_ONE = math.log10(1.01)


@dataclass(frozen=True)
class NextStep:
    """Options to ``add`` to the command that was typed, or another command to ``type``; and what it is good for."""

    why: str
    add: str = ""
    type: str = ""


def next_steps(report: AuditReport, gated: bool = False) -> tuple[NextStep, ...]:
    """The first few that suit the report, the most pressing first; ``gated`` says that the bound has a limit already."""
    return tuple(islice(_steps(report, gated), MOST))


def _steps(report: AuditReport, gated: bool) -> Iterable[NextStep]:
    network, settings = report.network, report.settings
    gaps = [layer for layer in report.layers if layer.status == "unsupported"]
    if any(is_undefined(report, layer) for layer in gaps) or network.rigor == "estimate" or has_estimates(report):
        yield NextStep("bounds instead of estimates", "--method gram")
    ops = sorted({layer.op for layer in gaps if not is_undefined(report, layer)})
    if ops:
        yield NextStep("what has a rule", type=f"lipaudit rules {ops[0].split('_')[0]}")
    other = finite_elsewhere(report)
    if other is not None:
        yield NextStep("the rows of that bound", f"--domain {other.domain}")
    elif may_be_finite_on_images(report):
        yield NextStep("if it reads pixels in [0, 1]", "--domain pixels --mean 0 --std 1")
    if (
        network.domain == "ball"
        and settings.radius
        and (network.status != "finite" or is_not_lowered_by_its_ball(report))
    ):
        yield NextStep("a smaller ball", f"--radius {settings.radius / 10:g}")
    if network.status != "finite":
        yield NextStep("why, and what to do", type="lipaudit explain status")
        return
    if settings.structure:
        return
    if _may_be_one_lipschitz(report) and not gated:
        yield NextStep("whether it is 1-Lipschitz", "--claim 1")
    elif network.lower is None and network.log10 > 0:
        yield NextStep("how far it does stretch", "--lower-bound")
    if network.rigor == "estimate":
        return
    if network.log10 > ASTRONOMICAL:
        if network.domain == "global":
            yield NextStep("near an image/.npy/.pt", "--domain ball --around FILE --radius R")
    elif network.log10 > -math.inf and not gated:
        yield NextStep("fail a build above it", f"--max-log10-bound {_gate(network.log10)}")
    topics = "bound share" if any(layer.share is not None for layer in report.layers) else "bound"
    yield NextStep("what the figures mean", type=f"lipaudit explain {topics}")


def _may_be_one_lipschitz(report: AuditReport) -> bool:
    """Whether the bound over all inputs is a little above 1, or 1."""
    return report.network.domain == "global" and 0 <= report.network.log10 < _NEAR_ONE


def _gate(log10: float) -> str:
    """A round number above the bound, for a gate that holds today.

    >>> _gate(4.312), _gate(-0.2)
    ('5', '0')
    """
    return f"{math.floor(log10) + 1:d}"
