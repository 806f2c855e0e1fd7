"""The colours of factors: from dark violet to yellow, lighter with every step, so that the order shows without any hue."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from lipaudit.formats.html.rows import log10_figure
from lipaudit.records.report import LayerRecord

_STOPS = (
    (58, 23, 94),
    (62, 52, 128),
    (51, 85, 145),
    (38, 115, 146),
    (33, 143, 139),
    (56, 170, 121),
    (109, 193, 90),
    (176, 211, 60),
    (245, 226, 75),
)


@dataclass(frozen=True)
class Scale:
    """Decimal logarithms from ``low`` to ``high`` (tenths of a decade) and their colours."""

    low: float
    high: float

    @classmethod
    def of(cls, rows: Iterable[LayerRecord]) -> Scale | None:
        """The scale that holds every figure of the rows; None where there is none."""
        logs = [log for row in rows if (log := log10_figure(row)) is not None and log > -math.inf]
        if not logs:
            return None
        low, high = math.floor(min(logs) * 10) / 10, math.ceil(max(logs) * 10) / 10
        return cls(low, high if high > low else low + 0.1)

    def place(self, log10: float) -> float:
        """Where a figure lies, from 0 to 1; the factor 0 (minus infinity) at 0.

        >>> Scale(-1.0, 3.0).place(0.0)
        0.25
        """
        return min(1.0, max(0.0, (log10 - self.low) / (self.high - self.low)))

    def colour(self, log10: float) -> str:
        """The colour of a figure.

        >>> Scale(0.0, 1.0).colour(0.0)
        '#3a175e'
        """
        return colour(self.place(log10))


def colour(place: float) -> str:
    """The colour at a place from 0 to 1."""
    position = place * (len(_STOPS) - 1)
    before = min(int(position), len(_STOPS) - 2)
    part = position - before
    mixed = (round(a + (b - a) * part) for a, b in zip(_STOPS[before], _STOPS[before + 1], strict=True))
    return "#" + "".join(f"{channel:02x}" for channel in mixed)
