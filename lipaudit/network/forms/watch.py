"""Who follows a search for multipliers, and may end it before its work is used up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Watch:
    """Counts the evaluations of a search, and lets it run; :meth:`end` lets it prove what it has reached.

    Attributes:
        ended: whether searches are to end.
        evaluations: of value and gradient in the search that runs.
        operations: that these took, by formula.
        interruption: when a search was ended, in words; empty where none was.

    >>> watch = Watch()
    >>> with watch.searching(5e10):
    ...     watch.evaluated(2e9, 1.5)
    ...     watch.end()
    >>> watch.interruption
    'interrupted after 1 evaluations with 2e+09 of 5e+10 operations'
    """

    def __init__(self) -> None:
        self.ended, self.evaluations, self.operations, self.interruption = False, 0, 0.0, ""

    @contextmanager
    def searching(self, work: float) -> Iterator[None]:
        """A search that may take ``work`` operations runs within the block, and so does its proof."""
        self.evaluations, self.operations = 0, 0.0
        yield
        if self.ended and not self.interruption:
            used = f"{self.evaluations} evaluations with {self.operations:.3g} of {work:g} operations"
            self.interruption = f"interrupted after {used}"

    def evaluated(self, operations: float, log_upper: float) -> None:  # noqa: ARG002
        """One more evaluation was made, at a point where log L is about ``log_upper``; nothing is proved of it yet."""
        self.evaluations += 1
        self.operations += operations

    def end(self) -> None:
        """Let this search, and those after it, end with what they have reached."""
        self.ended = True
