"""The bounds over several balls, in words."""

from __future__ import annotations

from collections.abc import Sequence

from lipaudit.escaping import printable
from lipaudit.records.report import BallRecord
from lipaudit.text.numbers import estimate_text, lower_text, ratio_text, upper_bound_text

BALL_HEAD = ("centre", "bound", "Jacobian at centre", "ratio")


def largest_first(balls: Sequence[BallRecord]) -> list[BallRecord]:
    """The balls without a bound first, then those with larger bounds before those with smaller ones."""
    return sorted(balls, key=lambda ball: (ball.status == "finite", -ball.log10))


def balls_text(balls: Sequence[BallRecord]) -> str:
    """How the bounds of the balls are spread, and which is the largest.

    >>> from lipaudit.records.figure import Figure
    >>> balls_text([BallRecord(str(i), "finite", Figure.of(2.0 + i)) for i in range(5)])
    'from 2 to 6, half of them at most 4; largest around 4'
    """
    ordered = largest_first(balls)
    unbounded = [ball for ball in ordered if ball.status != "finite"]
    if unbounded:
        return (
            f"{len(unbounded)} of {len(balls)} balls without a bound, the first around {printable(unbounded[0].centre)}"
        )
    if ordered[0].figure is None:
        return f"{len(balls)} balls"
    if ordered[0].log10 == ordered[-1].log10 and len(balls) > 1:
        return f"{_bound(ordered[0])} for every one"
    middle = ordered[len(ordered) // 2]
    spread = f"from {_bound(ordered[-1])} to {_bound(ordered[0])}, half of them at most {_bound(middle)}"
    return f"{spread}; largest around {printable(ordered[0].centre)}"


def ball_cells(ball: BallRecord) -> tuple[str | None, ...]:
    """A row of a table: the centre, the bound, the norm of the Jacobian at the centre, and how many times that the bound is."""
    return (
        printable(ball.centre),
        _bound(ball) or ball.status,
        None if ball.jacobian_norm is None else lower_text(ball.jacobian_norm),
        None if ball.log10_ratio is None else ratio_text(ball.log10_ratio),
    )


def _bound(ball: BallRecord) -> str:
    if ball.figure is None:
        return ""
    if not ball.has_bound:
        return estimate_text(ball.estimate, ball.log10_estimate)
    return upper_bound_text(ball.upper_bound, ball.log10_upper_bound)
