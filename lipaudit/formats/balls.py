"""The table of the bounds over several balls."""

from __future__ import annotations

from collections.abc import Sequence

from lipaudit.formats.grid import Column, Grid
from lipaudit.records.report import BallRecord
from lipaudit.text.balls import BALL_HEAD, ball_cells


def ball_grid(balls: Sequence[BallRecord]) -> Grid:
    """One row per ball."""
    columns = (
        Column(BALL_HEAD[0], cut="middle", floor=12, repeated=True),
        *(Column(head, numeric=True) for head in BALL_HEAD[1:]),
    )
    return Grid(columns, tuple(map(ball_cells, balls))).without_empty_columns()
