"""Derivatives of functions of one real variable, and a bound of their slopes operation by operation."""

from __future__ import annotations

import math
from fractions import Fraction

from lipaudit.graph.functions.expression import Tape
from lipaudit.graph.functions.terms import HALF, ONE, NotElementaryError, Term
from lipaudit.spectral.interval import Interval

# sup of |f'| over the real numbers
_SLOPES = {
    "absolute": ONE, "sigmoid": Fraction(1, 4), "softplus": ONE, "erf": Fraction(2.0 / math.sqrt(math.pi)) * (1 + Fraction(1, 2**50)),
    "sin": ONE, "cos": ONE, "atan": ONE, "asinh": ONE,
}  # fmt: skip


def derivative(tape: Tape, root: int) -> int:
    """The derivative of a function, wherever it has one; steps count as constants. It may be defined where the function is not."""
    for term in tape.needed([root]):
        if term not in tape.derivatives:
            tape.derivatives[term] = _collected(tape, _derivative(tape, tape.terms[term], term))
    return tape.derivatives[root]


def _derivative(tape: Tape, term: Term, number: int) -> int:
    inner = [tape.derivatives[t] for t in term.reads]
    first = term.reads[0] if term.reads else -1
    match term.kind:
        case "x":
            return tape.constant(1)
        case "constant" | "step":
            return tape.constant(0)
        case "sum":
            return tape.sum(zip(term.numbers[1:], inner, strict=True), anywhere=False)
        case "product":
            return _product_rule(tape, term, inner)
        case "absolute":
            return tape.select(first, inner[0], tape.scale(-1, inner[0]))
        case "maximum":
            return tape.select(tape.subtract(*term.reads), *inner)
        case "select":
            return tape.select(first, *inner[1:])
        case "exp":
            outer = number
        case "log":
            outer = tape.power(first, -1)
        case "sigmoid":
            outer = tape.multiply(number, tape.function("sigmoid", tape.scale(-1, first)))
        case "softplus":
            outer = tape.function("sigmoid", first)
        case "erf":
            bell = tape.function("exp", tape.scale(-1, tape.power(first, 2)))
            outer = tape.multiply(tape.between(2.0 / Interval(math.pi, math.nextafter(math.pi, 4)).sqrt()), bell)
        case "sin":
            outer = tape.function("cos", first)
        case "cos":
            outer = tape.scale(-1, tape.function("sin", first))
        case "atan":
            outer = tape.power(tape.sum([(ONE, tape.power(first, 2))], 1), -1)
        case "asinh":
            outer = tape.power(tape.sum([(ONE, tape.power(first, 2))], 1), -HALF)
        case kind:
            raise NotElementaryError(f"the derivative of {kind} is not known")
    return tape.multiply(outer, inner[0], anywhere=False)


def _product_rule(tape: Tape, term: Term, inner: list[int]) -> int:
    total = []
    for i, (base, exponent, slope) in enumerate(zip(term.reads, term.numbers, inner, strict=True)):
        outer = tape.power(base, exponent - 1, anywhere=False)
        product = tape.multiply(outer, slope, anywhere=False)
        for j, (other, p) in enumerate(zip(term.reads, term.numbers, strict=True)):
            if j != i:
                product = tape.multiply(product, tape.power(other, p), anywhere=False)
        total.append((exponent, product))
    return tape.sum(total, anywhere=False)


def _collected(tape: Tape, root: int) -> int:
    """A sum of products with powers of one sum b taken out of them: b^-1 - x b^-2 = (b - x) b^-2, where b - x may be simple.

    The same function where all of its terms are defined; the sum itself where that does not make it shorter.
    """
    term = tape.terms[root]
    if term.kind != "sum" or len(term.reads) > 12:
        return root
    summands = [(c, *tape.factors(t)) for c, t in zip(term.numbers[1:], term.reads, strict=True)]
    summands += [(term.numbers[0], ONE, dict[int, Fraction]())] if term.numbers[0] else []
    bases = {t for _, _, factors in summands for t, p in factors.items() if tape.terms[t].kind == "sum" and p < 0}
    for base in sorted(bases, reverse=True):
        lowest = min(factors.get(base, Fraction(0)) for _, _, factors in summands)
        raised = [factors.get(base, Fraction(0)) - lowest for _, _, factors in summands]
        if any(p.denominator != 1 or p > 3 for p in raised):
            continue
        inner = []
        for (c, d, factors), p in zip(summands, raised, strict=True):
            rest = tape.product({t: q for t, q in factors.items() if t != base and not _expandable(tape, t, q)})
            for t, q in ((base, p), *((t, q) for t, q in factors.items() if t != base and _expandable(tape, t, q))):
                for _ in range(q.numerator):
                    rest = _expanded(tape, t, rest)
            inner.append((c * d, rest))
        total = tape.sum(inner, anywhere=False)
        shift, parts = tape.parts(total)
        if len(parts) + bool(shift) < len(summands):
            return tape.multiply(tape.product({base: lowest}), _collected(tape, total), anywhere=False)
    return root


def _expandable(tape: Tape, term: int, exponent: Fraction) -> bool:
    """Whether a factor is a low power of a sum."""
    return tape.terms[term].kind == "sum" and exponent.denominator == 1 and 0 < exponent <= 3


def _expanded(tape: Tape, base: int, rest: int) -> int:
    """The product of two sums, multiplied out."""
    (shift, parts), (other_shift, others) = tape.parts(base), tape.parts(rest)
    total = [(c * d, tape.multiply(t, u, anywhere=False)) for t, c in parts.items() for u, d in others.items()]
    total += [(c * other_shift, t) for t, c in parts.items()] + [(shift * d, u) for u, d in others.items()]
    return tape.sum(total, shift * other_shift, anywhere=False)


def slope_by_parts(tape: Tape, root: int) -> Fraction | None:
    """A bound of sup |g'|: what the operations of a function stretch by, one after the other; None where one has no bound."""
    bounds: dict[int, Fraction | None] = {}
    for number in tape.needed([root]):
        term = tape.terms[number]
        inner = [bounds[t] for t in term.reads]
        before = [c for c in inner if c is not None]
        own = _SLOPES.get(term.kind)
        if term.kind == "x":
            bounds[number] = ONE
        elif term.kind == "constant":
            bounds[number] = Fraction(0)
        elif len(before) < len(inner):
            bounds[number] = None
        elif term.kind == "sum":
            bounds[number] = sum((abs(c) * b for c, b in zip(term.numbers[1:], before, strict=True)), Fraction(0))
        elif term.kind == "maximum":
            bounds[number] = max(before)
        else:
            bounds[number] = None if own is None else own * before[0]
    return bounds[root]
