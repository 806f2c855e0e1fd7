"""What was done to the logits of an attention, from the product of queries and keys to the softmax, or backwards."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import torch

from lipaudit.graph.functions.normal_form import number
from lipaudit.graph.node import Argument, Constant, Node, Ref
from lipaudit.graph.ops import CASTS, VIEWS


@dataclass(frozen=True)
class Logits:
    """softmax's input = ``scale`` * ``factors`` * current + ``biases``, in the shape of the current tensor."""

    scale: Fraction = Fraction(1)
    factors: tuple[Constant, ...] = ()
    biases: tuple[Constant, ...] = ()

    def scaled(self, argument: Argument, divides: bool = False) -> Logits | None:
        """Another constant factor (or divisor) of the current tensor."""
        c = number(argument)
        if c is not None:
            return replace(self, scale=self.scale / c if divides else self.scale * c) if c else None
        if not isinstance(argument, Constant) or divides or not argument.value.is_floating_point():
            return None
        return replace(self, factors=(*self.factors, argument))

    def shifted(self, argument: Argument, sign: int = 1) -> Logits | None:
        """Another constant addend of the current tensor."""
        c = number(argument)
        if c is not None and not self.factors:
            return self  # softmax ignores a shift of all logits
        if not isinstance(argument, Constant) or argument.value.is_complex():
            return None
        first, *factors = in_float64((argument, *self.factors))
        value = math.prod(factors, start=first * (sign * float(self.scale)))
        read = (argument, *self.factors)
        names = tuple(name for constant in read for name in constant.names)
        return replace(self, biases=(*self.biases, Constant(value, names, all(c.known for c in read))))

    def masked(self, mask: Argument, kept: bool) -> Logits | None:
        """Minus infinity where ``mask`` is true, or with ``kept`` where it is false."""
        if not isinstance(mask, Constant) or mask.value.dtype is not torch.bool or self.factors or self.scale <= 0:
            return None
        away = ~mask.value if kept else mask.value
        bias = torch.zeros(away.shape, dtype=torch.float64, device=away.device).masked_fill(away, -math.inf)
        return replace(self, biases=(*self.biases, Constant(bias, mask.names, mask.known)))

    def viewed(self, before: tuple[int, ...], after: tuple[int, ...]) -> Logits | None:
        """In front of a view from the shape ``before`` to ``after`` that regroups leading axes."""
        if before[-2:] != after[-2:]:
            return None

        def moved(constant: Constant) -> Constant:
            value = constant.value.detach()
            value = value.reshape((1,) * (len(after) - value.dim()) + tuple(value.shape))
            page = value.shape[-2:]
            return replace(constant, value=value.expand(*after[:-2], *page).reshape(*before[:-2], *page))

        return replace(self, factors=tuple(map(moved, self.factors)), biases=tuple(map(moved, self.biases)))


def before_added_product(node: Node, state: Logits) -> Logits | None:
    """The logits in terms of the product in a baddbmm, beta * self + alpha * product; None for other beta."""
    alpha, beta, bias = node["alpha"], number(node["beta"]), node["self"]
    if beta is None or isinstance(bias, Ref):
        return None
    shifted = state.shifted(bias) if beta == 1 else state if beta == 0 else None
    return shifted and shifted.scaled(alpha)


def before_operation(node: Node, state: Logits) -> tuple[Argument, Logits] | None:
    """What a node did to the logits in front of it, None for what attention has no place for."""
    name = node.op.split(".")[1] if node.op.count(".") == 2 else ""
    after = node.output.shape
    result: Logits | None = None
    source: Argument = node.get("self")
    if name in ("mul", "div", "add", "sub") and node.get("rounding_mode") is None:
        constant: Argument = node["other"]
        if not isinstance(source, Ref) and name in ("mul", "add"):
            source, constant = constant, source
        if number(node.get("alpha", 1)) == 1 and not isinstance(constant, Ref):
            moves = name in ("mul", "div")
            result = (
                state.scaled(constant, name == "div") if moves else state.shifted(constant, -1 if name == "sub" else 1)
            )
    elif name == "masked_fill":
        result = state.masked(node["mask"], kept=False) if _is_minus_infinity(node["value"]) else None
    elif name == "where":
        if isinstance(source, Ref):
            result = state.masked(node["condition"], kept=True) if _is_minus_infinity(node["other"]) else None
        else:
            result = state.masked(node["condition"], kept=False) if _is_minus_infinity(source) else None
            source = node["other"]
    elif node.op in VIEWS and isinstance(source, Ref):
        result = state.viewed(source.info.shape, after)
    elif node.op in CASTS and node.output.dtype.is_floating_point:
        result = state
    if result is None or not isinstance(source, Ref) or (node.op not in VIEWS and source.info.shape != after):
        return None
    return source, result


def in_float64(constants: tuple[Constant, ...]) -> list[torch.Tensor]:
    """The tensors in float64; all of them without values where one of them has none."""
    tensors = [constant.value.detach().double() for constant in constants]
    return [t.to("meta") for t in tensors] if any(t.is_meta for t in tensors) else tensors


def _is_minus_infinity(argument: Argument) -> bool:
    if isinstance(argument, Constant):
        return not argument.value.is_meta and bool((argument.value == -math.inf).all())
    return argument == -math.inf
