"""Floating-point operations that computations share, counted by formulas and not by a clock: results do not depend on the machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Work:
    """Operations that are left.

    >>> work = Work(3.0)
    >>> work.take(2.0), work.take(2.0), work.left
    (True, False, 1.0)
    """

    left: float

    def take(self, operations: float) -> bool:
        """Spend so many operations; False, and nothing is spent, where fewer are left."""
        if operations > self.left:
            return False
        self.left -= operations
        return True

    def allow(self, operations: float) -> None:
        """Allow so many operations more."""
        self.left += operations
