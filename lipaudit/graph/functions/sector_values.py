"""What a tensor can be in a function of two numbers x and y that is linear on sectors (:mod:`lipaudit.graph.functions.sectors`).

Besides forms p x + q y, numbers and truth values there are angles: atan2(y, x), or atan(y / x) with half a turn added or taken where x is
negative, reduced to a full turn as a remainder or as a - 2 pi floor(a / (2 pi)).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch

from lipaudit.graph.node import Constant, Node


class NotOnSectorsError(Exception):
    """Some operations are no function that is linear on sectors; the message says which."""


@dataclass(frozen=True)
class Form:
    """p x + q y for every function and direction, arrays (functions, directions); ``chosen`` where p and q depend on the direction."""

    p: torch.Tensor
    q: torch.Tensor
    chosen: bool = False


@dataclass(frozen=True)
class Number:
    """A number, or a truth value, for every function and direction."""

    value: torch.Tensor
    chosen: bool = False


@dataclass(frozen=True)
class Angle:
    """The angle of (x, y) in (-pi, pi] plus a number that is the same in every direction, reduced to [0, 2 pi) where ``reduced``.

    ``half_turns`` are whole numbers of pi that come on top, which may depend on the direction.
    """

    shift: torch.Tensor
    half_turns: torch.Tensor
    reduced: bool = False

    def where(self, condition: torch.Tensor, other: Angle, tolerance: float) -> Angle:
        """This angle where the condition holds, the other one elsewhere: they may differ by half turns.

        Raises:
            NotOnSectorsError: if they differ by other angles.
        """
        between = (self.shift - other.shift) / math.pi
        if self.reduced or other.reduced or bool(((between - between.round()).abs() > tolerance).any()):
            raise NotOnSectorsError("a choice between angles that are not half turns apart")
        return replace(other, half_turns=torch.where(condition, self.half_turns + between.round(), other.half_turns))


@dataclass(frozen=True)
class Quotient:
    """y / x, infinite with the sign of y where x is 0."""


@dataclass(frozen=True)
class Turns:
    """An angle over 2 pi, ``whole`` where it is rounded down, and then times 2 pi where it is in ``radians``."""

    angle: Angle
    whole: bool = False
    radians: bool = False

    def rounded_down(self) -> Turns:
        """The largest whole number below."""
        if self.radians:
            raise NotOnSectorsError("a rounded angle")
        return replace(self, whole=True)

    def in_radians(self, factor: torch.Tensor, tolerance: float) -> Turns:
        """Whole turns times 2 pi."""
        if not self.whole or self.radians or not near(factor, 2 * math.pi, tolerance):
            raise NotOnSectorsError("a multiple of an angle")
        return replace(self, radians=True)

    def are_whole_of(self, angle: Angle) -> bool:
        """Whether the angle less this is what is left of it in its last turn."""
        return self.radians and self.angle is angle


Value: TypeAlias = Form | Number | Angle | Quotient | Turns


def near(values: torch.Tensor, number: float, tolerance: float) -> bool:
    """Whether all values are a number, up to a relative tolerance."""
    return bool(((values - number).abs() <= tolerance * abs(number)).all())


@dataclass(frozen=True)
class Constants:
    """Every different set of the constants of some nodes: by their identity a column (functions, 1)."""

    values: Mapping[int, torch.Tensor]
    number: int


def constants_of(nodes: tuple[Node, ...]) -> Constants:
    """The constants of nodes that act entry by entry, one set for each different column of entries.

    Raises:
        NotOnSectorsError: if one is not known, complex, or not broadcast with the others.
    """
    constants = {id(a): a for node in nodes for a in node.arguments.values() if isinstance(a, Constant)}
    if any(not c.known or c.value.is_meta or c.value.is_complex() or not c.value.numel() for c in constants.values()):
        raise NotOnSectorsError("a constant is not known")
    if not constants:
        return Constants({}, 1)
    try:
        wide = torch.broadcast_tensors(*[c.value.detach().to("cpu", torch.float64) for c in constants.values()])  # type: ignore[no-untyped-call]
    except RuntimeError:
        raise NotOnSectorsError("its constants do not fit each other") from None
    columns = torch.unique(torch.stack([t.flatten() for t in wide]), dim=1)
    return Constants({key: row[:, None] for key, row in zip(constants, columns, strict=True)}, columns.shape[1])
