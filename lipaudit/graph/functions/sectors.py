"""Functions of two numbers that are linear on sectors of the plane: f(t x, t y) = t f(x, y) for t >= 0.

Operations that act on each entry of two tensors x and y by itself, with constants that differ from entry to entry at most: multiples,
sums, choices by the sign of a linear form s x + c y or by the angle atan2(y, x). The lines and angles of the choices are rays from the
origin; between two neighbouring rays f is one matrix M. If the matrices on both sides of every ray, and the value on the ray, agree
there, f is continuous, and its Lipschitz constant is the largest ||M|| (the segment between two points is cut at the rays). If they do not
agree, f jumps.

Directions are compared with a tolerance: rays that are closer are one, and a gap between values on a ray that is smaller is rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from lipaudit.graph.aliases import canonical
from lipaudit.graph.functions.real_arithmetic import has_real_arithmetic
from lipaudit.graph.functions.sector_values import (
    Angle,
    Constants,
    Form,
    NotOnSectorsError,
    Number,
    Quotient,
    Turns,
    Value,
    constants_of,
    near,
)
from lipaudit.graph.node import Argument, Constant, Node, Ref


@dataclass(frozen=True)
class Sectors:
    """The matrices of some functions, (functions, sectors, outputs, 2), and the largest gap on a ray.

    A gap of an output is relative to the largest entry of that output's rows of the matrices of that function.
    """

    matrices: torch.Tensor
    gap: float

    @property
    def constant(self) -> float:
        """The largest ||M||, rounded up."""
        gram = self.matrices.mT @ self.matrices
        a, b, d = gram[..., 0, 0], gram[..., 0, 1], gram[..., 1, 1]
        largest = (a + d) / 2 + torch.sqrt(((a - d) / 2) ** 2 + b**2)
        return math.sqrt(float(largest.max())) * (1 + 2.0**-40)

    @property
    def stretch_alike(self) -> bool:
        """Whether every output has the same largest slope, up to rounding."""
        rows = torch.linalg.vector_norm(self.matrices, dim=-1).amax((0, 1))
        return float(rows.max()) <= float(rows.min()) * (1 + 2.0**-40)

    @property
    def sums(self) -> tuple[float, float]:
        """The largest sum of moduli of a row and of a column: the constants in the l-infinity and l1 norm, rounded up."""
        moduli = self.matrices.abs()
        row, column = (float(moduli.sum(axis).max()) * (1 + 2.0**-40) for axis in (-1, -2))
        return row, column


def sectors(nodes: Iterable[Node], leaves: tuple[str, ...], outputs: tuple[str, ...], tolerance: float) -> Sectors:
    """The matrices of the functions that nodes compute from one or two leaves, entry by entry.

    Args:
        nodes: the operations between the leaves and the outputs, in topological order.
        leaves: the tensors x and y, or x alone.
        outputs: the tensors whose entries are the components of f.
        tolerance: how far apart rays must be to be two.

    Raises:
        NotOnSectorsError: if an operation makes no such function of them.
    """
    ordered = tuple(canonical(node) for node in nodes)
    constants = constants_of(ordered)
    rays: list[torch.Tensor] = []
    trial = torch.zeros(constants.number, 1, dtype=torch.float64)
    _Evaluation(constants, trial, tolerance, rays.append).run(ordered, leaves)
    if not rays:
        raise NotOnSectorsError("nothing is chosen")
    angles = torch.cat([ray.expand(constants.number, 1) for ray in rays], 1) % (2 * math.pi)
    angles = angles.sort(1).values
    widths = torch.diff(torch.cat([angles, angles[:, :1] + 2 * math.pi], 1), dim=1)
    within = 0.4 * tolerance  # less than a sector's middle is away from its rays
    matrices = _Evaluation(constants, angles + widths / 2, within).matrices(ordered, leaves, outputs)
    for _ in range(angles.shape[1]):  # what lies between two rays that are one belongs to the sector before
        matrices = torch.where((widths <= tolerance)[:, :, None, None], matrices.roll(1, 1), matrices)
    on_rays = _Evaluation(constants, angles, within).matrices(ordered, leaves, outputs)
    directions = torch.stack([angles.cos(), angles.sin()], -1)[..., None]
    values = [m @ directions for m in (matrices, matrices.roll(1, 1), on_rays)]
    gaps = torch.stack([(values[0] - values[i]).abs().amax((1, 3)) for i in (1, 2)]).amax(0)
    scales = matrices.abs().amax((1, 3)).clamp_min(1e-300)  # of every output of every function by itself
    gap = float((gaps / scales).max())
    if not math.isfinite(gap):
        raise NotOnSectorsError("its constants are not finite")
    return Sectors(matrices, gap)


class _Evaluation:
    """The values of nodes in some directions (functions, directions), choices made; ``on_ray`` is told the rays of every choice."""

    def __init__(
        self,
        constants: Constants,
        angles: torch.Tensor,
        tolerance: float,
        on_ray: Callable[[torch.Tensor], Any] = lambda _: None,
    ) -> None:
        self._constants, self._angles, self._tolerance, self._on_ray = constants, angles, tolerance, on_ray
        self._values: dict[str, Value] = {}

    def run(self, nodes: tuple[Node, ...], leaves: tuple[str, ...]) -> Mapping[str, Value]:
        """The value of every node."""
        one, zero = torch.ones_like(self._angles), torch.zeros_like(self._angles)
        for name, form in zip(leaves, (Form(one, zero), Form(zero, one)), strict=False):
            self._values[name] = form
        for node in nodes:
            self._values[node.name] = self._value(node)
        return self._values

    def matrices(self, nodes: tuple[Node, ...], leaves: tuple[str, ...], outputs: tuple[str, ...]) -> torch.Tensor:
        """(functions, directions, outputs, 2)."""
        values = self.run(nodes, leaves)
        rows = []
        for name in outputs:
            form = values[name]
            if not isinstance(form, Form):
                raise NotOnSectorsError("a part is no multiple of the tensors")
            rows.append(torch.stack(torch.broadcast_tensors(form.p, form.q, self._angles)[:2], -1))  # type: ignore[no-untyped-call]
        return torch.stack(rows, -2)

    def _operand(self, argument: Argument) -> Value:
        if isinstance(argument, Ref):
            return self._values[argument.name]
        if isinstance(argument, Constant):
            return Number(self._constants.values[id(argument)].expand_as(self._angles))
        if isinstance(argument, bool | int | float):
            return Number(torch.full_like(self._angles, float(argument)))
        raise NotOnSectorsError("an argument is no tensor")

    def _value(self, node: Node) -> Value:
        operation = _OPERATIONS.get(node.op)
        if operation is None:
            raise NotOnSectorsError(f"{node.op} is not linear on sectors")
        if node.op != _IS_UNDEFINED and not has_real_arithmetic(node):
            raise NotOnSectorsError(f"{node.op} has the arithmetic of other types than real numbers")
        return operation(self, node)

    def _pair(self, node: Node) -> tuple[Value, Value]:
        return self._operand(node["self"]), self._operand(node["other"])

    def product(self, node: Node) -> Value:
        """A number times a form or a number; whole turns in radians."""
        a, b = self._pair(node)
        if not isinstance(a, Number):
            a, b = b, a
        if isinstance(a, Number) and isinstance(b, Turns) and not a.chosen:
            return b.in_radians(a.value, self._tolerance)
        if not isinstance(a, Number) or isinstance(b, Angle):
            raise NotOnSectorsError("a product of two tensors")
        return self._times(a, b)

    def _times(self, number: Number, value: Value) -> Value:
        if not isinstance(value, Form | Number):
            raise NotOnSectorsError("a multiple of an angle")
        chosen = number.chosen or value.chosen
        if isinstance(value, Form):
            return Form(number.value * value.p, number.value * value.q, chosen)
        return Number(number.value * value.value, chosen)

    def quotient(self, node: Node) -> Value:
        """A form over a number, y / x, or an angle in turns."""
        a, b = self._pair(node)
        if node.get("rounding_mode") is not None:
            raise NotOnSectorsError("a rounded quotient")
        if isinstance(a, Form) and isinstance(b, Form) and self._are_pair(a, b):
            for quarter in (math.pi / 2, -math.pi / 2):
                self._on_ray(torch.full_like(self._angles[:, :1], quarter))
            return Quotient()
        if not isinstance(b, Number) or b.chosen:
            raise NotOnSectorsError("a quotient by a tensor")
        if isinstance(a, Angle) and not a.reduced and near(b.value, 2 * math.pi, self._tolerance):
            return Turns(a)
        return self._times(Number(1 / b.value), a)

    def arctangent(self, node: Node) -> Value:
        """atan(y / x): the angle of (x, y), less or more by half a turn where x is negative."""
        if not isinstance(self._operand(node["self"]), Quotient):
            raise NotOnSectorsError("an arctangent of other numbers than y / x")
        self._on_ray(torch.full_like(self._angles[:, :1], math.pi))
        x, y = self._angles.cos(), self._angles.sin()
        half_turns = torch.where(y >= -self._tolerance, -1.0, 1.0)
        return Angle(torch.zeros_like(x), torch.where(x < -self._tolerance, half_turns, 0.0))

    def whole(self, node: Node) -> Value:
        """The whole turns of an angle."""
        turns = self._operand(node["self"])
        if not isinstance(turns, Turns):
            raise NotOnSectorsError("a rounded number")
        return turns.rounded_down()

    def undefined(self, node: Node) -> Value:
        """Whether a value is NaN: never, but for x = y = 0, where every multiple of x and y is 0 whatever is chosen."""
        self._operand(node["self"])
        return Number(torch.zeros_like(self._angles), chosen=True)

    def total(self, node: Node) -> Value:
        """Forms or numbers, added; an angle plus a number."""
        a, b = self._pair(node)
        alpha = float(node.get("alpha", 1))  # type: ignore[arg-type]
        first, second = {"add": (1.0, alpha), "sub": (1.0, -alpha), "rsub": (-alpha, 1.0)}[node.op.split(".")[1]]
        if isinstance(a, Angle) and isinstance(b, Number) and first == 1.0 and not b.chosen and not a.reduced:
            return Angle(a.shift + second * b.value, a.half_turns)
        if isinstance(a, Angle) and isinstance(b, Turns) and (first, second) == (1.0, -1.0) and b.are_whole_of(a):
            return self._reduced(a)
        if isinstance(a, Angle) or isinstance(b, Angle):
            raise NotOnSectorsError("a sum of angles")
        x, y = (
            self._times(Number(torch.full_like(self._angles, first)), a),
            self._times(Number(torch.full_like(self._angles, second)), b),
        )
        return self._plus(x, y)

    def _plus(self, x: Value, y: Value) -> Value:
        x, y = self._alike(x, y)
        if isinstance(x, Form) and isinstance(y, Form):
            return Form(x.p + y.p, x.q + y.q, x.chosen or y.chosen)
        if isinstance(x, Number) and isinstance(y, Number):
            return Number(x.value + y.value, x.chosen or y.chosen)
        raise NotOnSectorsError("a sum of a tensor and a number")

    def _alike(self, x: Value, y: Value) -> tuple[Value, Value]:
        """The number 0 beside a form as the form 0."""
        if isinstance(x, Form) and isinstance(y, Number) and not bool(y.value.any()):
            return x, Form(y.value, y.value, y.chosen)
        if isinstance(y, Form) and isinstance(x, Number) and not bool(x.value.any()):
            return Form(x.value, x.value, x.chosen), y
        return x, y

    def negative(self, node: Node) -> Value:
        """Minus a form or a number."""
        return self._times(Number(torch.full_like(self._angles, -1.0)), self._operand(node["self"]))

    def cast(self, node: Node) -> Value:
        """The same value in another type."""
        return self._operand(node["self"])

    def angle(self, node: Node) -> Value:
        """atan2(y, x); it jumps by 2 pi at the angle pi."""
        if not self._are_pair(*self._pair(node)):
            raise NotOnSectorsError("an angle of other tensors")
        self._on_ray(torch.full_like(self._angles[:, :1], math.pi))
        return Angle(torch.zeros_like(self._angles), torch.zeros_like(self._angles))

    def _are_pair(self, y: Value, x: Value) -> bool:
        """Whether these are the second and the first leaf."""
        if not isinstance(x, Form) or not isinstance(y, Form) or x.chosen or y.chosen:
            return False
        return bool((x.p == 1).all() and (x.q == 0).all() and (y.p == 0).all() and (y.q == 1).all())

    def remainder(self, node: Node) -> Value:
        """An angle, reduced to a full turn."""
        a, b = self._pair(node)
        if not isinstance(a, Angle) or not isinstance(b, Number) or not near(b.value, 2 * math.pi, self._tolerance):
            raise NotOnSectorsError("a remainder of what is no angle")
        return self._reduced(a)

    def _reduced(self, angle: Angle) -> Angle:
        if bool((angle.half_turns % 2 != 0).any()):
            raise NotOnSectorsError("an angle that is half a turn off")
        self._on_ray(-angle.shift[:, :1])
        return Angle(angle.shift, torch.zeros_like(angle.half_turns), reduced=True)

    def comparison(self, node: Node) -> Value:
        """A truth value by the sign of the difference of two forms, or of an angle and a number."""
        a, b = self._alike(*self._pair(node))
        if isinstance(a, Number) and isinstance(b, Number) and not a.chosen and not b.chosen:
            difference = a.value - b.value
        elif isinstance(a, Form) and isinstance(b, Form) and not a.chosen and not b.chosen:
            difference = self._sign(a.p - b.p, a.q - b.q)
        elif isinstance(a, Angle) and isinstance(b, Number) and not b.chosen:
            difference = self._from_angle(a, b.value)
        elif isinstance(b, Angle) and isinstance(a, Number) and not a.chosen:
            difference = -self._from_angle(b, a.value)
        else:
            raise NotOnSectorsError("a comparison of what is not linear")
        compare = {"le": torch.le, "lt": torch.lt, "ge": torch.ge, "gt": torch.gt}[node.op.split(".")[1]]
        return Number(compare(difference, torch.zeros_like(difference)).to(torch.float64), chosen=True)

    def _sign(self, p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        """p x + q y in every direction, 0 on its rays."""
        along = torch.atan2(p, -q)[:, :1]  # p x + q y vanishes on (-q, p) and (q, -p)
        self._on_ray(along)
        self._on_ray(along + math.pi)
        value = p * self._angles.cos() + q * self._angles.sin()
        return torch.where(value.abs() <= self._tolerance * torch.hypot(p, q), 0.0, value)

    def _from_angle(self, angle: Angle, number: torch.Tensor) -> torch.Tensor:
        """An angle minus a number, 0 on its ray."""
        if bool(angle.half_turns.any()):
            raise NotOnSectorsError("an angle that is turns off")
        self._on_ray((number - angle.shift)[:, :1])
        turn = 2 * math.pi
        if angle.reduced:
            value = (self._angles + angle.shift) % turn
            value = torch.where(turn - value <= self._tolerance, 0.0, value)
        else:
            value = (self._angles + math.pi) % turn - math.pi  # of the two values at pi the lower one or the upper one
            value = torch.where(value <= -math.pi + self._tolerance, math.pi, value) + angle.shift
        difference = value - number
        return torch.where(difference.abs() <= self._tolerance, 0.0, difference)

    def choice(self, node: Node) -> Value:
        """One of two values."""
        condition = self._operand(node["condition"])
        if not isinstance(condition, Number):
            raise NotOnSectorsError("a condition that is no truth value")
        return self._choose(condition, *self._pair(node))

    def _choose(self, condition: Number, first: Value, second: Value) -> Value:
        if isinstance(second, Angle) and not bool(condition.value.any()):
            return second
        if isinstance(first, Angle) and isinstance(second, Angle):
            return first.where(condition.value != 0, second, self._tolerance)
        a = self._times(Number((condition.value != 0).to(torch.float64), condition.chosen), first)
        b = self._times(Number((condition.value == 0).to(torch.float64), condition.chosen), second)
        return self._plus(a, b)

    def truth(self, node: Node) -> Value:
        """and, or, not of truth values."""
        operands = [self._operand(node[key]) for key in ("self", "other") if node.get(key) is not None]
        if not all(isinstance(operand, Number) for operand in operands):
            raise NotOnSectorsError("a truth value of a tensor")
        values = [operand.value != 0 for operand in operands]  # type: ignore[union-attr]
        name = node.op.split(".")[1].strip("_").removeprefix("logical_").removeprefix("bitwise_")
        result = {"and": lambda: values[0] & values[1], "or": lambda: values[0] | values[1], "not": lambda: ~values[0]}
        return Number(result[name]().to(torch.float64), chosen=True)

    def positive_part(self, node: Node) -> Value:
        """max(s, 0) of a form s."""
        form = self._operand(node["self"])
        if not isinstance(form, Form) or form.chosen:
            raise NotOnSectorsError("the positive part of what is not linear")
        positive = Number((self._sign(form.p, form.q) > 0).to(torch.float64), chosen=True)
        return self._times(positive, form)

    def clamp(self, node: Node) -> Value:
        """max(s, 0) of a form s."""
        if node.get("min") != 0 or node.get("max") is not None:
            raise NotOnSectorsError("a clamp to other limits")
        return self.positive_part(node)

    def magnitude(self, node: Node) -> Value:
        """|s| of a form s."""
        form = self._operand(node["self"])
        if not isinstance(form, Form) or form.chosen:
            raise NotOnSectorsError("the absolute value of what is not linear")
        return self._times(Number(torch.sign(self._sign(form.p, form.q)), chosen=True), form)


_IS_UNDEFINED = "aten.isnan.default"
_OPERATIONS: dict[str, Callable[[_Evaluation, Node], Value]] = {
    "aten.mul.Tensor": _Evaluation.product,
    "aten.div.Tensor": _Evaluation.quotient,
    **dict.fromkeys(("aten.add.Tensor", "aten.sub.Tensor", "aten.rsub.Tensor"), _Evaluation.total),
    "aten.neg.default": _Evaluation.negative,
    "aten._to_copy.default": _Evaluation.cast,
    "aten.atan2.default": _Evaluation.angle,
    "aten.atan.default": _Evaluation.arctangent,
    "aten.floor.default": _Evaluation.whole,
    _IS_UNDEFINED: _Evaluation.undefined,
    **dict.fromkeys(("aten.remainder.Scalar", "aten.remainder.Tensor"), _Evaluation.remainder),
    **{f"aten.{name}.{kind}": _Evaluation.comparison for name in ("le", "lt", "ge", "gt") for kind in ("Tensor", "Scalar")},
    "aten.where.self": _Evaluation.choice,
    **{f"aten.logical_{name}.default": _Evaluation.truth for name in ("and", "or", "not")},
    **{f"aten.bitwise_{name}.{kind}": _Evaluation.truth for name, kind in (("and", "Tensor"), ("or", "Tensor"), ("not", "default"))},
    **{f"aten.__{name}__.Tensor": _Evaluation.truth for name in ("and", "or")},
    "aten.relu.default": _Evaluation.positive_part,
    "aten.clamp.default": _Evaluation.clamp,
    "aten.abs.default": _Evaluation.magnitude,
}  # fmt: skip
OPERATIONS = frozenset(_OPERATIONS)
"""Operations, by their canonical names, of which such functions are made."""
