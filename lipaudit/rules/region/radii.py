"""How far a tensor may stray from its centre: bounds of the l2 norm of its slices.

A tensor v that depends on the network's input is described by a constant tensor c, its centre, and radii: for some
sets T of axes a bound of sup ||(v - c)_T||, the supremum over the inputs of the domain and over all slices that span
the axes T, the other axes held fixed. T empty bounds every entry, T = all axes the whole tensor, T = the last axis the
rows (tokens). One set bounds another: a slice over T is part of one over S | T, which consists of as many slices over
S as T has entries outside S, so that

    radius(T) <= min over S of radius(S) * sqrt(product of the sizes of T - S).

Source: Cauchy-Schwarz; bounds.md section 6 (max-abs, l2 and row norms are three of these sets).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lipaudit.spectral.bracket import Bracket, Rigor, round_up

Axes = frozenset[int]


@dataclass(frozen=True)
class Radii:
    """Radii of a tensor of ``shape``: natural logs of the bounds by set of axes (non-negative numbers).

    >>> rows = Radii.of((1, 4, 9), {(2,): 2.0})
    >>> rows.over((2,)).upper <= 2.001, rows.over((1, 2)).upper <= 4.001, rows.over(()).upper <= 2.001
    (True, True, True)
    """

    shape: tuple[int, ...]
    logs: Mapping[Axes, float] = field(default_factory=dict)

    @classmethod
    def of(cls, shape: tuple[int, ...], bounds: Mapping[tuple[int, ...], float | Bracket]) -> Radii:
        """Radii from bounds in plain units or brackets; negative axes count from the end."""
        logs: dict[Axes, float] = {}
        for axes, bound in bounds.items():
            bracket = bound if isinstance(bound, Bracket) else Bracket.at_most(bound)
            if bracket.log_upper < math.inf:
                logs[axes_of(axes, len(shape))] = bracket.log_upper
        return cls(shape, logs)

    @classmethod
    def zero(cls, shape: tuple[int, ...]) -> Radii:
        """A constant tensor."""
        return cls(shape, {frozenset(): -math.inf})

    @property
    def finite(self) -> bool:
        """Whether anything is known."""
        return bool(self.logs)

    @property
    def everything(self) -> Axes:
        """The set of all axes."""
        return frozenset(range(len(self.shape)))

    def over(self, axes: Iterable[int]) -> Bracket:
        """The best bound of the slices over ``axes`` that the known ones give."""
        wanted = axes_of(axes, len(self.shape))
        log = min(
            (_times_root(log, (self.shape[a] for a in wanted - known)) for known, log in self.logs.items()),
            default=math.inf,
        )
        return Bracket(-math.inf, log, Rigor.NUMERICAL)

    @property
    def total(self) -> Bracket:
        """The bound of the whole tensor."""
        return self.over(self.everything)

    def scaled(self, factor: Bracket) -> Radii:
        """The radii of a tensor whose every slice is at most ``factor`` times as large."""
        return Radii(self.shape, _finite({axes: _log(factor, log) for axes, log in self.logs.items()}))

    def sharpest(self) -> Radii:
        """Without the sets that others bound as well."""
        kept = dict(self.logs)
        for axes, log in self.logs.items():
            others = Radii(self.shape, {a: x for a, x in kept.items() if a != axes})
            if others.over(axes).log_upper <= log:  # one after the other: of two that bound each other one stays
                del kept[axes]
        return Radii(self.shape, kept)


def merged(radii: Radii, more: Mapping[Axes, float]) -> Radii:
    """The radii with further bounds of the same tensor, logs by set of axes; of two for one set the smaller counts."""
    logs = dict(radii.logs)
    for axes, log in more.items():
        if log < logs.get(axes, math.inf):
            logs[axes] = log
    return Radii(radii.shape, logs).sharpest()


def axes_of(axes: Iterable[int], rank: int) -> Axes:
    """Axes as non-negative numbers; torch lets a tensor without axes be asked for its axes 0 and -1."""
    return frozenset(a % rank for a in axes) if rank else frozenset()


def _log(factor: Bracket, log: float) -> float:
    return (factor * Bracket(-math.inf, log)).log_upper


def _finite(logs: Mapping[Axes, float]) -> dict[Axes, float]:
    return {axes: log for axes, log in logs.items() if log < math.inf}


def _times_root(log: float, sizes: Iterable[int]) -> float:
    count = math.prod(sizes)
    if count == 0 or log == -math.inf:
        return -math.inf
    return log if count == 1 else round_up(log + math.log(count) / 2)


def joined(shape: tuple[int, ...], parts: Iterable[tuple[Bracket, Radii]], power: int = 1) -> Radii:
    """Radii of a tensor whose every entry strays by at most the sum of factor times what its operands' entries do.

    ``parts`` are factors and the radii of operands that broadcast to ``shape``; ``power`` 2 takes the root of the sum of
    squares instead, for entries that pick one of the operands.
    """
    parts = list(parts)
    spread = [(factor, broadcast(radii, shape)) for factor, radii in parts]
    wanted = {frozenset(), frozenset(range(len(shape)))}.union(*(r.logs for _, r in spread))
    join = Bracket.sum if power == 1 else Bracket.root_sum_squares
    logs = {axes: join([f * r.over(axes) for f, r in spread]).log_upper for axes in wanted}
    return Radii(shape, _finite(logs)).sharpest()


def broadcast(radii: Radii, shape: tuple[int, ...]) -> Radii:
    """The radii of the tensor broadcast to ``shape``: a repeated entry counts as often as a slice meets it."""
    if radii.shape == shape:
        return radii
    new = len(shape) - len(radii.shape)
    repeated = {
        a + new
        for a, n in enumerate(radii.shape)
        if n == 1 and shape[a + new] > 1
    } | set(range(new))  # fmt: skip
    logs = {}
    for axes, log in radii.logs.items():
        # an axis of one entry may be left out of a set: the slice is the same
        logs[frozenset(a + new for a in axes) - repeated] = log
    return Radii(shape, logs)
