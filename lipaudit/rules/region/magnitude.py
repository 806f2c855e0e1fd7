"""What is known of the size of a tensor that depends on the input.

Products of two data-dependent tensors have no constant of their own: it depends on how large their factors become. A
:class:`Magnitude` bounds a tensor on the domain in force: by radii around a centre (``radii``) and by the interval that
holds every entry.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from lipaudit.rules.region.radii import Radii, axes_of
from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.interval import Interval

# Where there are no weights a bounded entry lies somewhere: an interval wide enough that no function can count on its
# entries staying away from where its slope is infinite, and narrow enough that exponentials and powers stay finite.
_SOMEWHERE = 100.0
# What float64 may have lost in computing a centre is far below this; figures that rest on it are ``numerical``.
_SLACK = 1 + 1e-9


@dataclass(frozen=True)
class Region:
    """Where the outputs of an operation lie: radii, one per output, around ``centre``.

    A number for a centre stands for the tensor filled with it.
    """

    radii: tuple[Radii, ...]
    centre: torch.Tensor | float


class Magnitude:
    """What is known of the size of one operand, on the domain in force.

    ``centre`` is only computed where a finite radius makes it worth something; where there are no weights (structure
    mode) there is none, and nothing but being bounded is known of a bounded entry.
    """

    def __init__(
        self,
        radii: Radii,
        interval: Interval,
        find_centre: Callable[[], torch.Tensor | None],
        find_error: Callable[[], torch.Tensor | None] = lambda: None,
    ) -> None:
        self.radii = radii
        self.interval = interval  # holds every entry for a certain reason; what the centre says is in around_centre
        self._find_centre = find_centre
        self._find_error = find_error

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor."""
        return self.radii.shape

    @cached_property
    def centre(self) -> torch.Tensor | None:
        """The centre in float64; None where there are no weights to compute it from."""
        return self._find_centre()

    def spread(self, axes: Iterable[int]) -> Bracket:
        """A bound of ||(v - centre)_T|| over all slices over the axes T, of the exact centre."""
        return self.radii.over(axes)

    def spread_from_computed(self, axes: Iterable[int]) -> Bracket:
        """The same of the centre that is computed, whose entries are off by up to their rounding errors."""
        wanted = axes_of(axes, len(self.shape))
        radius = self.spread(wanted)
        error = self._find_error() if radius.log_upper < math.inf else None
        if error is None or not bool((error != 0).any()):
            return radius
        return Bracket.sum([radius, computed_size(error, wanted)])

    def size(self, axes: Iterable[int]) -> Bracket:
        """A bound of ||v_T|| over all slices over the axes T.

        Follows from the centre and the radius, and from the interval that holds every entry.
        """
        wanted = axes_of(axes, len(self.shape))
        bounds = [Bracket(-math.inf, math.inf, Rigor.NUMERICAL)]
        if self.interval.largest < math.inf:
            bounds.append(Radii.of(self.shape, {(): self.interval.largest}).over(wanted))
        if (radius := self.spread_from_computed(wanted)).log_upper < math.inf:
            bounds.append(Bracket.sum([radius, self.centre_size(wanted)]))
        return min(bounds, key=lambda b: b.log_upper)

    def centre_size(self, axes: Iterable[int]) -> Bracket:
        """The largest ||centre_T|| over all slices over the axes T; 0 where there are no weights."""
        if self.centre is None or self.centre.numel() == 0:
            return Bracket.exact(0.0, Rigor.NUMERICAL)
        return computed_size(self.centre, axes)

    @cached_property
    def around_centre(self) -> Interval | None:
        """The interval that holds every entry by the centre and the radii; None where they say nothing."""
        around = self.spread_from_computed(())
        if around.log_upper > 700 or 0 in self.shape:
            return None
        if self.centre is None:  # bounded by an unknown number around an unknown one
            return Interval(-_SOMEWHERE, _SOMEWHERE)
        if not bool(torch.isfinite(self.centre).all()):
            return None
        ends = Interval(float(self.centre.min()), float(self.centre.max()))
        return (ends + Interval(-1.0, 1.0) * (ends.largest * (_SLACK - 1))) + Interval(-around.upper, around.upper)

    def least(self, bound: Callable[[Interval], Bracket]) -> Bracket:
        """The smallest of the bounds that follow from what is known of the entries, each from an interval that holds them.

        Where it rests on the centre it is ``numerical``: the centre is computed in float64, and its rounding error is bounded on
        assumptions (:mod:`lipaudit.network.rounding`).
        """
        certain = bound(self.interval)
        if self.around_centre is None:
            return certain
        both = self.interval.within(self.around_centre)
        if both.low > both.high:  # by the rounding of the centre
            return certain
        around = bound(both)
        return certain if certain.log_upper <= around.log_upper else replace(around, rigor=Rigor.NUMERICAL)

    @property
    def largest(self) -> Bracket:
        """A bound of max |entry|."""
        return self.size(())


def fixed(value: torch.Tensor | None) -> Magnitude:
    """The magnitude of a constant, which does not stray; of None nothing is known."""
    if value is None:
        return Magnitude(Radii(()), Interval(), lambda: None)
    return Magnitude(Radii.zero(tuple(value.shape)), Interval(), lambda: value)


def slice_norm(tensor: torch.Tensor, axes: Iterable[int]) -> float:
    """The largest l2 norm of the slices of a tensor over ``axes``."""
    dims = sorted(axes)
    if not dims or tensor.dim() == 0:
        return float(tensor.abs().max())
    return float(torch.linalg.vector_norm(tensor, dim=dims).max())


def computed_size(tensor: torch.Tensor, axes: Iterable[int]) -> Bracket:
    """The same norm as a bound, for a tensor that was computed in float64; of one that is not finite nothing is known."""
    if not bool(torch.isfinite(tensor).all()):
        return Bracket(-math.inf, math.inf, Rigor.NUMERICAL)
    return Bracket.at_most(slice_norm(tensor, axes) * _SLACK, Rigor.NUMERICAL)
