"""Functions of one real variable as expressions that share their parts: built, evaluated at numbers and differentiated.

A :class:`Tape` holds the terms of such functions; a term is known by its number. Equal terms have the same number. Terms are kept in
a normal form, so that many spellings of a function are one:

- ``x``, and constants: an exact fraction, or two fractions around a number such as log 2;
- sums c + sum_i c_i t_i with exact coefficients, products prod_i t_i^(p_i) with exact exponents. What is not defined everywhere stays
  with the coefficient 0 where it cancels: sqrt(x) - sqrt(x) is 0 for x >= 0, and nothing for x < 0;
- exp, log, sigmoid, softplus (log(1 + e^x)), erf, sin, cos, atan, asinh of a term;
- the absolute value, the larger of two terms, ``step`` (1 where a term is positive, 0 where it is negative), and ``select``: one of two
  terms according to the sign of a third one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

from lipaudit.errors import GraphError
from lipaudit.spectral.interval import Interval

HALF = Fraction(1, 2)
ONE = Fraction(1)
# Numbers beyond that make no function that a float could hold; so do more terms than any activation has.
_LARGEST = Fraction(10) ** 150
_MAX_TERMS = 2000


class NotElementaryError(GraphError):
    """A function that cannot be written as a term, or not be decided at some number."""


@dataclass(frozen=True)
class Term:
    """One operation of a tape: its kind, the numbers of the terms it reads, and exact numbers (coefficients, exponents, ends)."""

    kind: str
    reads: tuple[int, ...] = ()
    numbers: tuple[Fraction, ...] = ()


class Tape:
    """Terms of functions of one variable, in an order in which each comes after those that it reads.

    >>> tape = Tape()
    >>> x = tape.variable()
    >>> softsign = tape.divide(x, tape.sum([(ONE, tape.absolute(x))], ONE))
    >>> tape.interval(tape.at(softsign, Fraction(-3)))
    Interval(low=-0.75, high=-0.75)
    """

    def __init__(self) -> None:
        self.terms: list[Term] = []
        self._numbers: dict[Term, int] = {}
        self._derivatives: dict[int, int] = {}
        self._signs: dict[int, int | None] = {}
        self._total: dict[int, bool] = {}

    def _number(self, kind: str, reads: tuple[int, ...] = (), numbers: tuple[Fraction, ...] = ()) -> int:
        term = Term(kind, reads, numbers)
        found = self._numbers.get(term)
        if found is None:
            if len(self.terms) >= _MAX_TERMS:
                raise NotElementaryError("a function of too many operations")
            found = self._numbers[term] = len(self.terms)
            self.terms.append(term)
        return found

    def append(self, term: Term) -> int:
        """Add a term of a program as it is; what it reads has been added before."""
        return self._number(term.kind, term.reads, term.numbers)

    def program(self, root: int) -> tuple[Term, ...]:
        """The terms of a function, those that it reads first, numbered from 0."""
        needed = self.needed([root])
        place = {old: new for new, old in enumerate(needed)}
        return tuple(
            Term(t.kind, tuple(place[r] for r in t.reads), t.numbers) for t in (self.terms[old] for old in needed)
        )

    def variable(self) -> int:
        """x."""
        return self._number("x")

    def constant(self, low: Fraction | int, high: Fraction | int | None = None) -> int:
        """A number, or one between two others."""
        ends = Fraction(low), Fraction(low if high is None else high)
        if max(map(abs, ends)) > _LARGEST:
            raise NotElementaryError("a constant too large")
        return self._number("constant", (), ends)

    def between(self, interval: Interval) -> int:
        """The constant that lies in an interval of floats."""
        if not interval.largest < math.inf:
            raise NotElementaryError("a constant that is not finite")
        return self.constant(Fraction(interval.low), Fraction(interval.high))

    def exact(self, term: int) -> Fraction | None:
        """The number that a term is exactly, None for any other."""
        found = self.terms[term]
        return found.numbers[0] if found.kind == "constant" and found.numbers[0] == found.numbers[1] else None

    def interval(self, term: int) -> Interval:
        """The interval that holds a constant term."""
        found = self.terms[term]
        if found.kind != "constant":
            raise NotElementaryError("not a constant")
        low, high = (Interval.of(n) for n in found.numbers)
        return Interval(low.low, high.high)

    def is_constant(self, term: int) -> bool:
        """Whether a term does not depend on x."""
        return self.terms[term].kind == "constant"

    # where a term is defined

    def total(self, term: int) -> bool:
        """Whether a term is surely defined for every x: no division by zero in it, no root or logarithm of what may be negative."""
        found = self._total.get(term)
        if found is None:
            found = self._total[term] = self._own_total(term) and all(map(self.total, self.terms[term].reads))
        return found

    def _own_total(self, number: int) -> bool:
        term = self.terms[number]
        if term.kind == "log":
            return self._least_sign(term.reads[0]) == 1
        if term.kind != "product":
            return True
        return all(
            (p > 0 and (p.denominator == 1 or self.nonnegative(base))) or self._least_sign(base) == 1
            for base, p in zip(term.reads, term.numbers, strict=True)
        )

    def nonnegative(self, term: int) -> bool:
        """Whether a term is surely >= 0 wherever it is defined."""
        return self._least_sign(term) is not None

    def _least_sign(self, term: int) -> int | None:
        """1 where a term is surely positive wherever it is defined, 0 where it is surely not negative, else None."""
        if term not in self._signs:
            self._signs[term] = self._own_sign(self.terms[term])
        return self._signs[term]

    def _own_sign(self, term: Term) -> int | None:
        reads = [self._least_sign(t) for t in term.reads]
        match term.kind:
            case "constant":
                return None if term.numbers[0] < 0 else int(term.numbers[0] > 0)
            case "exp" | "sigmoid" | "softplus":
                return 1
            case "absolute" | "step":
                return 0
            case "maximum":
                return max((sign for sign in reads if sign is not None), default=None)
            case "select":
                return None if None in reads[1:] else min(sign for sign in reads[1:] if sign is not None)
            case "sum":
                if min(term.numbers) < 0 or None in reads:
                    return None
                kept = [s for c, s in zip(term.numbers[1:], reads, strict=True) if c and s is not None]
                return max([int(term.numbers[0] > 0), *kept])
            case "product":
                signs = [
                    (1 if s == 1 else 0) if s is not None or p.denominator != 1 or p.numerator % 2 == 0 else None
                    for s, p in zip(reads, term.numbers, strict=True)
                ]
                return None if None in signs else min(s for s in signs if s is not None)
        return None

    # sums

    def parts(self, term: int) -> tuple[Fraction, dict[int, Fraction]]:
        """A term as a number and coefficients of terms that are no sums."""
        found = self.terms[term]
        if found.kind == "sum":
            return found.numbers[0], dict(zip(found.reads, found.numbers[1:], strict=True))
        value = self.exact(term)
        return (value, {}) if value is not None else (Fraction(0), {term: ONE})

    def sum(
        self, weighted: Iterable[tuple[Fraction, int]], constant: Fraction | int = 0, *, anywhere: bool = True
    ) -> int:
        """constant + sum_i c_i t_i; with ``anywhere`` it is defined where all t_i are, and nowhere else."""
        total, coefficients = Fraction(constant), dict[int, Fraction]()
        for weight, term in weighted:
            shift, parts = self.parts(term)
            total += weight * shift
            for part, c in parts.items():
                coefficients[part] = coefficients.get(part, Fraction(0)) + weight * c
        kept = {t: c for t, c in sorted(coefficients.items()) if c or (anywhere and not self.total(t))}
        uncertain = [t for t in kept if self.is_constant(t)]
        if uncertain:
            low = high = total
            for t in uncertain:
                ends = [kept[t] * n for n in self.terms[t].numbers]
                low, high = low + min(ends), high + max(ends)
                del kept[t]
            if not kept:
                return self.constant(low, high)
            kept[self.constant(low, high)] = ONE
            total = Fraction(0)
        if not kept:
            return self.constant(total)
        if max(abs(total), *map(abs, kept.values())) > _LARGEST:
            raise NotElementaryError("a constant too large")
        if total == 0 and list(kept.values()) == [1]:
            return next(iter(kept))
        return self._number("sum", tuple(kept), (total, *kept.values()))

    def add(self, a: int, b: int) -> int:
        """a + b."""
        return self.sum([(ONE, a), (ONE, b)])

    def subtract(self, a: int, b: int) -> int:
        """a - b."""
        return self.sum([(ONE, a), (-ONE, b)])

    def scale(self, c: Fraction | int, a: int, *, anywhere: bool = True) -> int:
        """c a."""
        return self.sum([(Fraction(c), a)], anywhere=anywhere)

    # products

    def _factors(self, term: int) -> tuple[Fraction, dict[int, Fraction]]:
        """A term as a number and exponents of terms that are no products."""
        shift, parts = self.parts(term)
        if not parts:
            return shift, {}
        if shift == 0 and len(parts) == 1:
            ((inner, c),) = parts.items()
            found = self.terms[inner]
            if found.kind == "product":
                return c, dict(zip(found.reads, found.numbers, strict=True))
            return c, {inner: ONE}
        return ONE, {term: ONE}

    def multiply(self, a: int, b: int, *, anywhere: bool = True) -> int:
        """a b.

        With ``anywhere`` the result is defined wherever a and b are, and nowhere else: t and 1/t do not cancel, and sqrt(t) sqrt(t) is
        only t where t is known not to be negative.
        """
        c, left = self._factors(a)
        d, right = self._factors(b)
        merged = dict(left)
        for base, exponent in right.items():
            old = merged.get(base, Fraction(0))
            if anywhere and (old * exponent < 0 or self._widens(base, old, old + exponent)):
                a, b = self._product(left), self._product(right)
                return self.scale(c * d, self._product({a: Fraction(2)} if a == b else {a: ONE, b: ONE}))
            merged[base] = old + exponent
        return self.scale(c * d, self._product(merged), anywhere=anywhere)

    def _widens(self, base: int, old: Fraction, new: Fraction) -> bool:
        """Whether t^new is defined where t^old is not: an integer power of a negative number, whose root was taken."""
        return old.denominator != 1 and new.denominator == 1 and not self.nonnegative(base)

    def _product(self, exponents: dict[int, Fraction]) -> int:
        kept = {t: p for t, p in sorted(exponents.items()) if p}
        merged = self._merged(kept)
        if merged is not None:
            return merged
        uncertain = [t for t in kept if self.is_constant(t)]
        if len(uncertain) > 1 or (uncertain and len(kept) == 1 and kept[uncertain[0]] != 1):
            total = Interval(1.0, 1.0)
            for t in uncertain:
                total = total * self.interval(t) ** float(kept.pop(t))
            factor = self.between(total)
            return self.multiply(factor, self._product(kept)) if kept else factor
        if not kept:
            return self.constant(1)
        if list(kept.values()) == [1]:
            return next(iter(kept))
        if max(abs(p) for p in kept.values()) > 64:
            raise NotElementaryError("a power too high")
        return self._number("product", tuple(kept), tuple(kept.values()))

    def _merged(self, exponents: dict[int, Fraction]) -> int | None:
        """e^u e^v = e^(u + v), and sin u cos u = sin(2 u) / 2; None where there is nothing of the kind."""
        exponentials = [t for t in exponents if self.terms[t].kind == "exp"]
        if len(exponentials) > 1 or any(exponents[t] != 1 for t in exponentials):
            argument = self.sum((exponents[t], self.terms[t].reads[0]) for t in exponentials)
            rest = self._product({t: p for t, p in exponents.items() if t not in exponentials})
            return self.multiply(self.function("exp", argument), rest)
        for t in [t for t in exponents if self.terms[t].kind == "sin"]:
            other = self._numbers.get(Term("cos", self.terms[t].reads))
            if other in exponents and exponents[t] == exponents[other] == 1:
                rest = self._product({u: p for u, p in exponents.items() if u not in (t, other)})
                double = self.scale(HALF, self.function("sin", self.scale(2, self.terms[t].reads[0])))
                return self.multiply(double, rest)
        return None

    def collected(self, root: int) -> int:
        """A sum of products with powers of one sum b taken out of them: b^-1 - x b^-2 = (b - x) b^-2, where b - x may be simple.

        The same function where all of its terms are defined; the sum itself where that does not make it shorter.
        """
        term = self.terms[root]
        if term.kind != "sum" or len(term.reads) > 12:
            return root
        found = [(c, *self._factors(t)) for c, t in zip(term.numbers[1:], term.reads, strict=True)]
        found += [(term.numbers[0], ONE, dict[int, Fraction]())] if term.numbers[0] else []
        bases = {t for _, _, factors in found for t, p in factors.items() if self.terms[t].kind == "sum" and p < 0}
        for base in sorted(bases, reverse=True):
            lowest = min(factors.get(base, Fraction(0)) for _, _, factors in found)
            raised = [factors.get(base, Fraction(0)) - lowest for _, _, factors in found]
            if any(p.denominator != 1 or p > 3 for p in raised):
                continue
            inner = []
            for (c, d, factors), p in zip(found, raised, strict=True):
                rest = self._product({t: q for t, q in factors.items() if t != base and not self._expandable(t, q)})
                for t, q in ((base, p), *((t, q) for t, q in factors.items() if t != base and self._expandable(t, q))):
                    for _ in range(q.numerator):
                        rest = self._expanded(t, rest)
                inner.append((c * d, rest))
            total = self.sum(inner, anywhere=False)
            shift, parts = self.parts(total)
            if len(parts) + bool(shift) < len(found):
                return self.multiply(self._product({base: lowest}), self.collected(total), anywhere=False)
        return root

    def _expandable(self, term: int, exponent: Fraction) -> bool:
        """Whether a factor is a low power of a sum."""
        return self.terms[term].kind == "sum" and exponent.denominator == 1 and 0 < exponent <= 3

    def _expanded(self, base: int, rest: int) -> int:
        """The product of two sums, multiplied out."""
        (shift, parts), (other_shift, others) = self.parts(base), self.parts(rest)
        total = [(c * d, self.multiply(t, u, anywhere=False)) for t, c in parts.items() for u, d in others.items()]
        total += [(c * other_shift, t) for t, c in parts.items()] + [(shift * d, u) for u, d in others.items()]
        return self.sum(total, shift * other_shift, anywhere=False)

    def power(self, a: int, exponent: Fraction | int, *, anywhere: bool = True) -> int:
        """a^exponent; of a non-negative a where the exponent is no integer."""
        p = Fraction(exponent)
        value = self.exact(a)
        if self.terms[a].kind == "exp":
            return self.function("exp", self.scale(p, self.terms[a].reads[0]))
        if value is not None:
            return self._power_of(value, p)
        if p in (0, 1):
            return self.constant(1) if p == 0 else a
        if self.is_constant(a):
            return self.between(self.interval(a) ** float(p)) if Fraction(float(p)) == p else self._product({a: p})
        logistic = self._one_plus_exp(a)
        if logistic is not None and p == -1:
            c, u = logistic
            return self.scale(1 / c, self.function("sigmoid", self.scale(-1, u)))
        c, factors = self._factors(a)
        if p.denominator == 1 and (c or p > 0):
            same = p > 0 or all(e > 0 for e in factors.values())
            if not anywhere or (same and not any(self._widens(t, e, e * p) for t, e in factors.items())):
                return self.scale(
                    c**p.numerator, self._product({t: e * p for t, e in factors.items()}), anywhere=anywhere
                )
        elif p == HALF and len(factors) == 1 and list(factors.values()) == [2] and c > 0:
            root = self._power_of(c, HALF)
            return self.multiply(root, self.absolute(next(iter(factors))))
        return self._product({a: p})

    def _power_of(self, value: Fraction, p: Fraction) -> int:
        if p.denominator == 1:
            if value == 0 and p < 0:
                raise NotElementaryError("a division by zero")
            return self.constant(value**p.numerator)
        if value < 0 or (value == 0 and p < 0):
            raise NotElementaryError("a root of a negative number")
        if p == HALF:
            roots = math.isqrt(value.numerator), math.isqrt(value.denominator)
            if (roots[0] ** 2, roots[1] ** 2) == (value.numerator, value.denominator):
                return self.constant(Fraction(*roots))
        if value in (0, 1):
            return self.constant(value)
        # float(p) may be a rounded exponent: both neighbours bracket it
        base, ends = (
            Interval.of(value),
            [math.nextafter(float(p), -math.inf), float(p), math.nextafter(float(p), math.inf)],
        )
        found = base ** ends[1]
        if Fraction(ends[1]) != p:
            found = found.union(base ** ends[0]).union(base ** ends[2])
        return self.between(found)

    def divide(self, a: int, b: int) -> int:
        """a / b."""
        return self.multiply(a, self.power(b, -1))

    # functions

    def function(self, kind: str, a: int) -> int:
        """One of the functions exp, log, sigmoid, softplus, erf, sin, cos, atan, asinh of a term."""
        if self.is_constant(a):
            value = self.exact(a)
            if value == 0 and kind in _AT_ZERO:
                return self.constant(_AT_ZERO[kind])
            if value == 1 and kind == "log":
                return self.constant(0)
            if kind == "log" and self.terms[a].numbers[0] <= 0:
                raise NotElementaryError("a logarithm of a negative number")
            return self.between(getattr(self.interval(a), kind)())
        if kind == "log":
            logistic = self._one_plus_exp(a)
            if logistic is not None and logistic[0] == 1:
                return self.function("softplus", logistic[1])
            if self.terms[a].kind == "sigmoid":
                return self.scale(-1, self.function("softplus", self.scale(-1, self.terms[a].reads[0])))
        return self._number(kind, (a,))

    def _one_plus_exp(self, a: int) -> tuple[Fraction, int] | None:
        """c and u of c (1 + e^u)."""
        shift, parts = self.parts(a)
        if shift and list(parts.values()) == [shift] and self.terms[next(iter(parts))].kind == "exp":
            return shift, self.terms[next(iter(parts))].reads[0]
        return None

    def by_parts(self, root: int) -> Fraction | None:
        """A bound of sup |g'|: what the operations of a function stretch by, one after the other; None where one has no bound."""
        found: dict[int, Fraction | None] = {}
        for number in self.needed([root]):
            term = self.terms[number]
            inner = [found[t] for t in term.reads]
            before = [c for c in inner if c is not None]
            own = _SLOPES.get(term.kind)
            if term.kind == "x":
                found[number] = ONE
            elif term.kind == "constant":
                found[number] = Fraction(0)
            elif len(before) < len(inner):
                found[number] = None
            elif term.kind == "sum":
                found[number] = sum((abs(c) * b for c, b in zip(term.numbers[1:], before, strict=True)), Fraction(0))
            elif term.kind == "maximum":
                found[number] = max(before)
            else:
                found[number] = None if own is None else own * before[0]
        return found[root]

    def tanh(self, a: int) -> int:
        """tanh(a) = 2 sigmoid(2 a) - 1."""
        return self.sum([(Fraction(2), self.function("sigmoid", self.scale(2, a)))], -1)

    def absolute(self, a: int) -> int:
        """|a|."""
        value = self.exact(a)
        if value is not None:
            return self.constant(abs(value))
        if self.is_constant(a):
            return self.between(abs(self.interval(a)))
        c, factors = self._factors(a)
        if c < 0 or c not in (0, 1):
            return self.scale(abs(c), self.absolute(self._product(factors)))
        return self._number("absolute", (a,))

    def maximum(self, a: int, b: int) -> int:
        """max(a, b)."""
        if a == b:
            return a
        if self.is_constant(a) and self.is_constant(b):
            (low, high), (other_low, other_high) = self.terms[a].numbers, self.terms[b].numbers
            return self.constant(max(low, other_low), max(high, other_high))
        return self._number("maximum", (min(a, b), max(a, b)))

    def minimum(self, a: int, b: int) -> int:
        """min(a, b) = -max(-a, -b)."""
        return self.scale(-1, self.maximum(self.scale(-1, a), self.scale(-1, b)))

    def step(self, a: int, at_zero: Fraction | int) -> int:
        """1 where a > 0, 0 where a < 0, ``at_zero`` where a = 0."""
        if self.is_constant(a):
            return self.constant({1: ONE, -1: Fraction(0), 0: Fraction(at_zero)}[self.sign(a)])
        return self._number("step", (a,), (Fraction(at_zero),))

    def select(self, a: int, positive: int, negative: int) -> int:
        """``positive`` where a > 0, ``negative`` where a < 0; where a = 0 one of them."""
        if self.is_constant(a) and self.exact(a) != 0:
            return positive if self.sign(a) > 0 else negative
        return positive if positive == negative else self._number("select", (a, positive, negative))

    def sign(self, a: int) -> int:
        """The sign of a constant."""
        low, high = self.terms[a].numbers
        if low > 0 or high < 0 or low == high:
            return (low > 0) - (high < 0)
        raise NotElementaryError("a sign that its rounding hides")

    # what is done with whole functions

    def replaced(self, root: int, change: Callable[[int, Term], int | None]) -> int:
        """The function with terms changed, from x up; ``change`` sees each term after those that it reads, None keeps it."""
        new: dict[int, int] = {}
        for old in self.needed([root]):
            term = self.terms[old]
            rebuilt = self._rebuilt(old, term, new)
            changed = change(rebuilt, self.terms[rebuilt])
            new[old] = rebuilt if changed is None else changed
        return new[root]

    def _rebuilt(self, old: int, term: Term, new: dict[int, int]) -> int:
        reads = tuple(new[t] for t in term.reads)
        if reads == term.reads:
            return old
        match term.kind:
            case "sum":
                return self.sum(zip(term.numbers[1:], reads, strict=True), term.numbers[0])
            case "product":
                result = self.constant(1)
                for base, exponent in zip(reads, term.numbers, strict=True):
                    result = self.multiply(result, self.power(base, exponent))
                return result
            case "absolute":
                return self.absolute(*reads)
            case "maximum":
                return self.maximum(*reads)
            case "step":
                return self.step(reads[0], term.numbers[0])
            case "select":
                return self.select(*reads)
            case kind:
                return self.function(kind, *reads)

    def needed(self, roots: Iterable[int]) -> list[int]:
        """The terms that the given ones are computed from, themselves included, in order."""
        waiting, found = list(roots), set[int]()
        while waiting:
            term = waiting.pop()
            if term not in found:
                found.add(term)
                waiting += self.terms[term].reads
        return sorted(found)

    def at(self, root: int, value: Fraction) -> int:
        """The constant that a function is at a number.

        Raises:
            NotElementaryError: where it is not defined there, or rounding hides which branch it takes.
        """
        point = self.constant(value)
        return self.replaced(root, lambda _, term: point if term.kind == "x" else None)

    def affine(self, root: int) -> tuple[Fraction, Fraction] | None:
        """k and d of a function k x + d, None for any other."""
        shift, parts = self.parts(root)
        if not parts:
            return Fraction(0), shift
        if len(parts) > 1 or self.terms[next(iter(parts))].kind != "x":
            return None
        return next(iter(parts.values())), shift

    def derivative(self, root: int) -> int:
        """The derivative of a function, wherever it has one; steps count as constants. It may be defined where the function is not."""
        for term in self.needed([root]):
            if term not in self._derivatives:
                self._derivatives[term] = self.collected(self._derivative(self.terms[term], term))
        return self._derivatives[root]

    def _derivative(self, term: Term, number: int) -> int:
        inner = [self._derivatives[t] for t in term.reads]
        first = term.reads[0] if term.reads else -1
        match term.kind:
            case "x":
                return self.constant(1)
            case "constant" | "step":
                return self.constant(0)
            case "sum":
                return self.sum(zip(term.numbers[1:], inner, strict=True), anywhere=False)
            case "product":
                return self._product_rule(term, inner)
            case "absolute":
                return self.select(first, inner[0], self.scale(-1, inner[0]))
            case "maximum":
                return self.select(self.subtract(*term.reads), *inner)
            case "select":
                return self.select(first, *inner[1:])
            case "exp":
                outer = number
            case "log":
                outer = self.power(first, -1)
            case "sigmoid":
                outer = self.multiply(number, self.function("sigmoid", self.scale(-1, first)))
            case "softplus":
                outer = self.function("sigmoid", first)
            case "erf":
                bell = self.function("exp", self.scale(-1, self.power(first, 2)))
                outer = self.multiply(self.between(2.0 / Interval(math.pi, math.nextafter(math.pi, 4)).sqrt()), bell)
            case "sin":
                outer = self.function("cos", first)
            case "cos":
                outer = self.scale(-1, self.function("sin", first))
            case "atan":
                outer = self.power(self.sum([(ONE, self.power(first, 2))], 1), -1)
            case "asinh":
                outer = self.power(self.sum([(ONE, self.power(first, 2))], 1), -HALF)
            case kind:
                raise NotElementaryError(f"the derivative of {kind} is not known")
        return self.multiply(outer, inner[0], anywhere=False)

    def _product_rule(self, term: Term, inner: list[int]) -> int:
        total = []
        for i, (base, exponent, slope) in enumerate(zip(term.reads, term.numbers, inner, strict=True)):
            outer = self.power(base, exponent - 1, anywhere=False)
            product = self.multiply(outer, slope, anywhere=False)
            for j, (other, p) in enumerate(zip(term.reads, term.numbers, strict=True)):
                if j != i:
                    product = self.multiply(product, self.power(other, p), anywhere=False)
            total.append((exponent, product))
        return self.sum(total, anywhere=False)


# sup of |f'| over the real numbers
_SLOPES = {
    "absolute": ONE, "sigmoid": Fraction(1, 4), "softplus": ONE, "erf": Fraction(2.0 / math.sqrt(math.pi)) * (1 + Fraction(1, 2**50)),
    "sin": ONE, "cos": ONE, "atan": ONE, "asinh": ONE,
}  # fmt: skip
_AT_ZERO = {
    "exp": ONE, "sigmoid": HALF, "erf": Fraction(0), "sin": Fraction(0), "cos": ONE, "atan": Fraction(0), "asinh": Fraction(0)
}  # fmt: skip
