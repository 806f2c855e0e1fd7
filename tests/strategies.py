"""Hypothesis strategies: geometries of pooling, resizing, padding and indexing, small enough for explicit operators."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import assume
from hypothesis import strategies as st


@dataclass(frozen=True)
class Pooling:
    """One axis of a pooling operation; torch wants padding <= kernel / 2 and at least one window."""

    size: int
    kernel: int
    stride: int
    padding: int
    dilation: int
    ceil_mode: bool


@dataclass(frozen=True)
class Resizing:
    """One axis of a resizing operation; ``scale`` is the factor that the kernel is given, if any."""

    size: int
    outputs: int
    scale: float | None


@st.composite
def poolings(draw: st.DrawFn, dilated: bool = True) -> Pooling:
    kernel = draw(st.integers(1, 5))
    padding = draw(st.integers(0, kernel // 2))
    dilation = draw(st.integers(1, 3)) if dilated else 1
    size = draw(st.integers(1, 9))
    assume(size + 2 * padding >= dilation * (kernel - 1) + 1)
    return Pooling(size, kernel, draw(st.integers(1, 4)), padding, dilation, draw(st.booleans()))


@st.composite
def resizings(draw: st.DrawFn) -> Resizing:
    size = draw(st.integers(1, 9))
    if draw(st.booleans()):
        return Resizing(size, draw(st.integers(1, 12)), None)
    scale = draw(st.floats(0.3, 3.0))
    assume(int(size * scale) >= 1)
    return Resizing(size, int(size * scale), scale)


@st.composite
def paddings(draw: st.DrawFn, mode: str) -> tuple[int, tuple[int, int]]:
    """A size and the amounts before and after that the mode allows."""
    size = draw(st.integers(1, 8))
    limit = {"reflect": size - 1, "circular": size}.get(mode, 5)
    return size, (draw(st.integers(0, limit)), draw(st.integers(0, limit)))


@st.composite
def broadcastable(draw: st.DrawFn, axes: int = 3) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes that broadcast to each other."""
    shape = [draw(st.integers(1, 4)) for _ in range(axes)]

    def thinned() -> tuple[int, ...]:
        kept = [n if draw(st.booleans()) else 1 for n in shape]
        return tuple(kept[draw(st.integers(0, axes)) :])

    return thinned(), thinned()
