"""How much work the search for a tighter bound of the whole network may take, by the name of the effort."""

from __future__ import annotations

EFFORTS = {"none": 0.0, "quick": 5e10, "standard": 5e11, "thorough": 2e13}
"""Operations at most, by formula and not by time."""
DEFAULT_EFFORT = "quick"
