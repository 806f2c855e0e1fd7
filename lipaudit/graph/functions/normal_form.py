"""Element-wise functions of one tensor in a normal form: polynomials in x and in one function of x.

An activation arrives written out in many orders (0.5 * x * (1 + erf(x / 1.414)), x * (0.5 + 0.5 * erf(0.707 * x)) …).
All of them are the same polynomial sum_ij c_ij x^i h^j with h = h(q(x)), q a polynomial, and coefficients that are sums,
products and quotients of stored numbers. Floats are fractions, so that the coefficients are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch.nn import functional

from lipaudit.graph.node import Argument, Constant, Node, Ref

Powers = tuple[int, int]  # of x and of h
_MAX_DEGREE = 3  # of x; that of h is 1
# Coefficients outside these limits make no activation, and would not fit a float.
_SMALLEST, _LARGEST = Fraction(1, 10**100), Fraction(10**100)


@dataclass(frozen=True)
class Inner:
    """h(q(x)): ``function`` names h, ``argument`` holds the coefficients of q = q_0 + q_1 x + q_2 x^2 + q_3 x^3.

    ``low`` and ``high`` are the limits of a clamp (infinite where it has none).
    """

    function: str
    argument: tuple[Fraction, ...]
    low: Fraction | float = -math.inf
    high: Fraction | float = math.inf

    def evaluate(self, x: torch.Tensor) -> torch.Tensor:
        """h(q(x)) at every element of ``x``, in its dtype."""
        q = torch.zeros_like(x)
        for c in reversed(self.argument):
            q = q * x + float(c)
        match self.function:
            case "clamp":
                return torch.clamp(q, float(self.low), float(self.high))
            case "tanh_softplus":
                return torch.tanh(functional.softplus(q))
            case "softplus":
                return functional.softplus(q)
            case name:
                return getattr(torch, name)(q)  # type: ignore[no-any-return]

    @property
    def reflection(self) -> Fraction | None:
        """The number h(q(x)) + h(q(-x)) for every x, exactly; None where it is not known to be one.

        Where q is odd that is 1 for a sigmoid and 0 for tanh and erf; for a clamp low + high where q is odd around their middle.
        """
        if any(self.argument[2::2]):
            return None
        middle = self.argument[0] if self.argument else Fraction(0)
        if self.function == "clamp" and math.isfinite(self.low) and math.isfinite(self.high):
            return 2 * middle if 2 * middle == Fraction(self.low) + Fraction(self.high) else None
        sums = {"sigmoid": Fraction(1), "tanh": Fraction(0), "erf": Fraction(0)}
        return None if middle else sums.get(self.function)

    def __str__(self) -> str:
        limits = f", {float(self.low):.5g}, {float(self.high):.5g}" if self.function == "clamp" else ""
        argument = _text({(i, 0): c for i, c in enumerate(self.argument)}, "") + limits
        return f"tanh(softplus({argument}))" if self.function == "tanh_softplus" else f"{self.function}({argument})"


@dataclass(frozen=True)
class Expression:
    """sum_ij c_ij x^i h^j: ``terms`` maps (i, j) to a coefficient other than 0; ``inner`` is h where a term has j = 1.

    >>> x = Expression.variable()
    >>> print(x * (x * constant(2) + constant(1)))
    2 x^2 + x
    """

    terms: Mapping[Powers, Fraction]
    inner: Inner | None = None

    @classmethod
    def variable(cls) -> Expression:
        """The expression x."""
        return cls({(1, 0): Fraction(1)})

    def coefficient(self, of_x: int, of_h: int) -> Fraction:
        """c_ij, 0 where the term is absent."""
        return self.terms.get((of_x, of_h), Fraction(0))

    def evaluate(self, x: torch.Tensor) -> torch.Tensor:
        """The value at every element of ``x``, in its dtype."""
        inner = None if self.inner is None else self.inner.evaluate(x)
        result = torch.zeros_like(x)
        for (of_x, of_h), c in self.terms.items():
            term = torch.full_like(x, float(c)) if of_h == 0 or inner is None else float(c) * inner
            for _ in range(of_x):
                term = term * x
            result = result + term
        return result

    @property
    def reflection(self) -> Fraction | None:
        """The number s with f'(x) + f'(-x) = s for every x, exactly; None where it is not known to be one.

        >>> x = Expression.variable()
        >>> (x * constant(0.25)).reflection
        Fraction(1, 2)
        """
        if set(self.terms) - {(0, 0), (1, 0), (2, 0), (1, 1)}:
            return None
        inner = Fraction(0) if self.inner is None else self.inner.reflection
        return None if inner is None else 2 * self.coefficient(1, 0) + self.coefficient(1, 1) * inner

    def __add__(self, other: Expression) -> Expression | None:
        terms = dict(self.terms)
        for powers, c in other.terms.items():
            terms[powers] = terms.get(powers, Fraction(0)) + c
        return _expression(terms, self, other)

    def __mul__(self, other: Expression) -> Expression | None:
        terms: dict[Powers, Fraction] = {}
        for (i, j), c in self.terms.items():
            for (k, m), d in other.terms.items():
                terms[i + k, j + m] = terms.get((i + k, j + m), Fraction(0)) + c * d
        return _expression(terms, self, other)

    def __str__(self) -> str:
        return _text(self.terms, str(self.inner))


def constant(value: float | Fraction) -> Expression:
    """The expression of a number."""
    return Expression({(0, 0): Fraction(value)} if value else {})


def _expression(terms: Mapping[Powers, Fraction], *operands: Expression) -> Expression | None:
    """The sum of ``terms``, None if it leaves the normal form: two different h, or too high a degree."""
    inners = {e.inner for e in operands if e.inner is not None}
    kept = {powers: c for powers, c in terms.items() if c}
    if len(inners) > 1 or any(i > _MAX_DEGREE or j > 1 for i, j in kept):
        return None
    if not all(_SMALLEST <= abs(c) <= _LARGEST for c in kept.values()):
        return None
    return Expression(kept, next(iter(inners), None) if any(j for _, j in kept) else None)


def _text(terms: Mapping[Powers, Fraction], inner: str) -> str:
    parts = []
    for (i, j), c in sorted(terms.items(), key=lambda t: (t[0][1], -t[0][0])):
        factors = ([f"x^{i}" if i > 1 else "x"] if i else []) + ([inner] if j else [])
        number = f"{float(c):.5g}"
        if c:
            parts.append(" ".join(([] if number == "1" and factors else [number]) + factors))
    return " + ".join(parts).replace("+ -", "- ") or "0"


def apply(function: str, x: Expression) -> Expression | None:
    """h(x) for a polynomial x; tanh also of a softplus, log also of 1 + exp."""
    if function == "tanh" and x.inner is not None and x.inner.function == "softplus" and x.terms == _ONE_H:
        return Expression(_ONE_H, Inner("tanh_softplus", x.inner.argument))
    if function == "log" and x.inner is not None and x.inner.function == "exp" and x.terms == _ONE_PLUS_H:
        return Expression(_ONE_H, Inner("softplus", x.inner.argument))
    if x.inner is not None or function == "log":
        return None
    return Expression(_ONE_H, Inner(function, _coefficients(x)))


def _coefficients(x: Expression) -> tuple[Fraction, ...]:
    return tuple(x.coefficient(i, 0) for i in range(_MAX_DEGREE + 1))


_ONE_H = {(0, 1): Fraction(1)}
_ONE_PLUS_H = {(0, 0): Fraction(1), (0, 1): Fraction(1)}


def clamp(x: Expression, low: Fraction | float, high: Fraction | float) -> Expression | None:
    """min(max(x, low), high) of a polynomial x, or of a + b clamp(…) with b > 0."""
    if low >= high:
        return None
    if x.inner is None:
        return Expression(_ONE_H, Inner("clamp", _coefficients(x), low, high))
    shift, scale = x.coefficient(0, 0), x.coefficient(0, 1)
    if x.inner.function != "clamp" or scale <= 0 or set(x.terms) - {(0, 0), (0, 1)}:
        return None
    # clamp(a + b clamp(q, l, h), L, H) = a + b clamp(q, l', h'), l' and h' being l and h clamped to ((L - a)/b, (H - a)/b)
    lowest, highest = ((limit - shift) / scale for limit in (low, high))
    inner_low, inner_high = (min(max(limit, lowest), highest) for limit in (x.inner.low, x.inner.high))
    if inner_low >= inner_high:
        return None
    return Expression(x.terms, Inner("clamp", x.inner.argument, inner_low, inner_high))


def reciprocal(x: Expression) -> Expression | None:
    """1 / (c + c exp(q)) = sigmoid(-q) / c, and 1 / c."""
    c = x.coefficient(0, 0)
    if c == 0:
        return None
    if set(x.terms) == {(0, 0)}:
        return constant(1 / c)
    if x.inner is None or x.inner.function != "exp" or x.terms != {(0, 0): c, (0, 1): c}:
        return None
    return Expression({(0, 1): 1 / c}, Inner("sigmoid", tuple(-q for q in x.inner.argument)))


def number(argument: Argument) -> Fraction | None:
    """The finite number that a literal or a uniform constant tensor stands for, exactly; None for anything else."""
    if isinstance(argument, Constant):
        value = argument.value.detach()
        if value.is_meta or value.numel() == 0 or value.is_complex() or bool((value != value.flatten()[0]).any()):
            return None
        argument = value.flatten()[0].item()
    if isinstance(argument, bool) or not isinstance(argument, int | float) or not math.isfinite(argument):
        return None
    return Fraction(argument)


Operand = Callable[[str], Expression | None]


def express(node: Node, operand: Operand) -> Expression | None:
    """The expression of a node's output; ``operand`` gives that of an argument by name. None for any other operation."""
    rule = _OPERATIONS.get(node.op)
    return rule(node, operand) if rule is not None else None


def _sum(node: Node, operand: Operand) -> Expression | None:
    first, second, alpha = operand("self"), operand("other"), number(node.get("alpha", 1))
    if first is None or second is None or alpha is None:
        return None
    if node.op.startswith("aten.rsub"):
        first, second = second, first
    scaled = second * constant(alpha if node.op.startswith("aten.add") else -alpha)
    return scaled and first + scaled


def _product(node: Node, operand: Operand) -> Expression | None:
    first, second = operand("self"), operand("other")
    if second is not None and node.op.startswith("aten.div"):
        second = reciprocal(second)
    return first * second if first is not None and second is not None else None


def _power(node: Node, operand: Operand) -> Expression | None:
    base = operand("self")
    exponent = Fraction(2) if node.op == "aten.square.default" else number(node["exponent"])
    if base is None or exponent not in (1, 2, 3):
        return None
    result: Expression | None = base
    for _ in range(int(exponent) - 1):
        result = result and result * base
    return result


def _unary(node: Node, operand: Operand) -> Expression | None:
    x = operand("self")
    if x is None:
        return None
    match node.op.split(".")[1]:
        case "neg":
            return x * constant(-1)
        case "reciprocal":
            return reciprocal(x)
        case "log1p":
            shifted = x + constant(1)
            return shifted and apply("log", shifted)
        case "log_sigmoid":  # -softplus(-x)
            flipped = x * constant(-1)
            result = flipped and apply("softplus", flipped)
            return result and result * constant(-1)
        case "relu":
            return clamp(x, Fraction(0), math.inf)
        case "relu6":
            return clamp(x, Fraction(0), Fraction(6))
        case "hardsigmoid":  # relu6(x + 3) / 6
            shifted = x + constant(3)
            result = shifted and clamp(shifted, Fraction(0), Fraction(6))
            return result and result * constant(Fraction(1, 6))
        case name:
            return apply(name, x)


def _softplus(node: Node, operand: Operand) -> Expression | None:
    """With beta = 1; the switch to the identity above a threshold of 20 or more is a step below float32 rounding."""
    x, beta, threshold = operand("self"), number(node["beta"]), number(node["threshold"])
    if x is None or beta != 1 or threshold is None or threshold < 20:
        return None
    return apply("softplus", x)


def _clamp(node: Node, operand: Operand) -> Expression | None:
    x = operand("self")
    limits: list[Fraction | float] = []
    for names, absent in ((("min", "min_val"), -math.inf), (("max", "max_val"), math.inf)):
        argument = next((node[name] for name in names if node.get(name) is not None), None)
        limit = absent if argument is None else number(argument)
        if limit is None:
            return None
        limits.append(limit)
    return None if x is None else clamp(x, *limits)


_OPERATIONS: dict[str, Callable[[Node, Operand], Expression | None]] = {
    **{f"aten.{name}.{kind}": _sum for name in ("add", "sub", "rsub") for kind in ("Tensor", "Scalar")},
    **{f"aten.{name}.{kind}": _product for name in ("mul", "div") for kind in ("Tensor", "Scalar")},
    **{
        f"aten.{name}.default": _unary
        for name in ("neg", "reciprocal", "sigmoid", "tanh", "erf", "exp", "log", "log1p", "log_sigmoid")
    },
    **{f"aten.{name}.default": _unary for name in ("relu", "relu6", "hardsigmoid")},
    **{f"aten.{name}.default": _clamp for name in ("clamp", "clamp_min", "clamp_max", "hardtanh")},
    "aten.pow.Tensor_Scalar": _power,
    "aten.square.default": _power,
    "aten.softplus.default": _softplus,
}
PRODUCTS = {op for op, rule in _OPERATIONS.items() if rule is _product}


def operands(node: Node) -> tuple[Ref, ...]:
    """The data-dependent operands of a node that :func:`express` knows, none for any other operation."""
    return node.refs if node.op in _OPERATIONS else ()
