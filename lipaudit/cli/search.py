"""The search for a tighter bound, as a terminal shows it and Ctrl-C ends it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from lipaudit.cli.terminal import Progress
from lipaudit.fleet.interrupts import first_ends
from lipaudit.network.forms.watch import Watch

_SECONDS = 0.2  # between two lines


class ShownSearch(Watch):
    """Shows how the bound falls. The first Ctrl-C ends the search, which then proves what it has reached; a second one ends the command."""

    def __init__(self, progress: Progress | None) -> None:
        super().__init__()
        self._progress, self._least, self._next = progress, math.inf, 0.0

    @contextmanager
    def searching(self, work: float) -> Iterator[None]:
        """Ctrl-C ends the search, and not the command, within the block."""
        self._least = math.inf
        with first_ends(self.end), super().searching(work):
            yield

    def evaluated(self, operations: float, log_upper: float) -> None:
        """Show the least value so far; it is near to a bound, and proved at the end."""
        super().evaluated(operations, log_upper)
        self._least = min(self._least, log_upper)
        now = time.monotonic()
        if self._progress is None or (now < self._next and not self.ended):
            return
        self._next = now + _SECONDS
        reached = f"about 10^{self._least / math.log(10):.3f} after {self.evaluations} evaluations"
        self._progress.say(f"interrupted, proving {reached}" if self.ended else f"searching, {reached}")
