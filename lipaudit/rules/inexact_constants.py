"""Operations that read constants which are not known to the last bit, and have no margin for that."""

from __future__ import annotations

from dataclasses import replace

from lipaudit.graph.linear import CONVOLUTION, DENSE, SCALE
from lipaudit.graph.node import Constant, Node, parts
from lipaudit.graph.ops import ALIASES
from lipaudit.rules.effect import Effect
from lipaudit.rules.region.magnitude import Magnitude
from lipaudit.spectral.bracket import Rigor

# Constants that are only added: no constant of the operation depends on them.
_ADDED = {"bias", "attn_mask", "running_mean"}
_ADDITIONS = {"aten.add.Tensor", "aten.sub.Tensor", "aten.cat.default", "aten.stack.default"}


def without_margin(node: Node) -> bool:
    """Whether the constant of an operation depends on numbers that are not known exactly, and its rule does not say how far."""
    if node.op in (CONVOLUTION, DENSE, SCALE) or ALIASES.get(node.op, node.op) in _ADDITIONS:
        return False
    read = (argument for key, argument in node.arguments.items() if key not in _ADDED)
    return any(constant.error for argument in read for constant in parts(argument, Constant))


def numerical(effect: Effect) -> Effect:
    """The effect with the rigor ``numerical`` at best."""
    factors = tuple(replace(f, rigor=Rigor.weakest((f.rigor, Rigor.NUMERICAL))) for f in effect.factors)
    given = effect.given

    def weaker(operands: tuple[Magnitude, ...]) -> Effect:
        assert given is not None
        return numerical(given(operands))

    return replace(effect, factors=factors, given=None if given is None else weaker)
