"""Ways of passing radii on that many operations share.

Each bounds the deviation of the outputs from the image of the operands' centres by that of the operands:

- entry by entry: |f(x)_i - f(c)_i| <= k |x_i - c_i|, so that every radius is multiplied by the slope k;
- the whole tensor: multiplied by the constant of the operation;
- along the axes M (the rows of a dense layer, the entries under a softmax): :func:`lipaudit.rules.region.axes.along`.
"""

from __future__ import annotations

import math

from lipaudit.graph.node import Node
from lipaudit.rules.effect import Effect
from lipaudit.rules.operands import number
from lipaudit.rules.region.axes import along
from lipaudit.rules.region.magnitude import Magnitude
from lipaudit.rules.region.radii import Radii, joined
from lipaudit.spectral.bracket import Bracket

ONE = Bracket.exact(1.0)


def whole_tensor(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """The radius of the whole tensor only: the constants times those of the operands."""
    total = Bracket.sum([c * m.radii.total for c, m in zip(effect.factors, operands, strict=True)])
    return tuple(Radii.of(o.shape, {tuple(range(len(o.shape))): total}) for o in node.outputs)


def entrywise(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Functions of each entry by itself; the factor of the effect is the supremum of the slope.

    An operand with the factor 0 is read for its type or shape only, and may have any shape.
    """
    both = zip(effect.factors, operands, strict=True)
    parts = [(factor, operand.radii) for factor, operand in both if factor.log_upper != -math.inf]
    return tuple(joined(o.shape, parts) if parts else Radii.zero(o.shape) for o in node.outputs)


def picked_entries(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Every entry is one of the operands': its deviation is at most the largest of theirs."""
    read = [m.radii for m, factor in zip(operands, effect.factors, strict=True) if factor.log_upper != -math.inf]
    return (joined(node.output.shape, [(ONE, radii) for radii in read], power=2),)


def entries_and_whole(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Single entries are moved and stray as far as before, the whole tensor by the constant of the operation."""
    entries, total = operands[0].spread(()), effect.factors[0] * operands[0].radii.total
    return tuple(Radii.of(o.shape, {(): entries, tuple(range(len(o.shape))): total}).sharpest() for o in node.outputs)


def along_dim(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Every slice along the axis ``dim`` is mapped by itself."""
    axis = int(number(node, "dim"))
    return tuple(along(operands[0], effect.factors[0], (axis,), output.shape) for output in node.outputs)
