"""Whether a report's bounds were computed again, as plain data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Verification:
    """What ``lipaudit.verify`` found.

    ``problems`` are sentences about what does not hold; the report is verified where there are none. ``figures`` is how many upper bounds
    were compared, ``log10_upper_bound`` the decimal logarithm of the network's bound as it was computed again, None where it has none.
    """

    problems: tuple[str, ...]
    figures: int
    log10_upper_bound: float | None

    @property
    def verified(self) -> bool:
        """Whether every upper bound of the report was proved again."""
        return not self.problems
