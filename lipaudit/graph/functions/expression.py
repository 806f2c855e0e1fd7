"""Functions of one real variable as expressions that share their parts.

A :class:`Tape` builds the terms of such functions (:mod:`lipaudit.graph.functions.terms`) in a normal form, so that many spellings of a
function are one:

- ``x``, and constants: an exact fraction, or two fractions around a number such as log 2;
- sums c + sum_i c_i t_i with exact coefficients, products prod_i t_i^(p_i) with exact exponents. What is not defined everywhere stays
  with the coefficient 0 where it cancels: sqrt(x) - sqrt(x) is 0 for x >= 0, and nothing for x < 0;
- exp, log, sigmoid, softplus (log(1 + e^x)), erf, sin, cos, atan, asinh of a term;
- the absolute value, the larger of two terms, ``step`` (1 where a term is positive, 0 where it is negative), and ``select``: one of two
  terms according to the sign of a third one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from lipaudit.graph.functions.terms import HALF, LARGEST, ONE, NotElementaryError, Term, Terms
from lipaudit.spectral.interval import Interval


class Tape(Terms):
    """Sums, products, powers and functions of terms.

    >>> tape = Tape()
    >>> x = tape.variable()
    >>> softsign = tape.divide(x, tape.sum([(ONE, tape.absolute(x))], ONE))
    >>> tape.program(softsign)[0]
    Term(kind='x', reads=(), numbers=())
    """

    # sums

    def parts(self, term: int) -> tuple[Fraction, dict[int, Fraction]]:
        """A term as a number and coefficients of terms that are no sums."""
        own = self.terms[term]
        if own.kind == "sum":
            return own.numbers[0], dict(zip(own.reads, own.numbers[1:], strict=True))
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
        if max(abs(total), *map(abs, kept.values())) > LARGEST:
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

    def affine(self, root: int) -> tuple[Fraction, Fraction] | None:
        """k and d of a function k x + d, None for any other."""
        shift, parts = self.parts(root)
        if not parts:
            return Fraction(0), shift
        if len(parts) > 1 or self.terms[next(iter(parts))].kind != "x":
            return None
        return next(iter(parts.values())), shift

    # products

    def factors(self, term: int) -> tuple[Fraction, dict[int, Fraction]]:
        """A term as a number and exponents of terms that are no products."""
        shift, parts = self.parts(term)
        if not parts:
            return shift, {}
        if shift == 0 and len(parts) == 1:
            ((inner, c),) = parts.items()
            own = self.terms[inner]
            if own.kind == "product":
                return c, dict(zip(own.reads, own.numbers, strict=True))
            return c, {inner: ONE}
        return ONE, {term: ONE}

    def multiply(self, a: int, b: int, *, anywhere: bool = True) -> int:
        """a b.

        With ``anywhere`` the result is defined wherever a and b are, and nowhere else: t and 1/t do not cancel, and sqrt(t) sqrt(t) is
        only t where t is known not to be negative.
        """
        c, left = self.factors(a)
        d, right = self.factors(b)
        merged = dict(left)
        for base, exponent in right.items():
            old = merged.get(base, Fraction(0))
            if anywhere and (old * exponent < 0 or self._widens(base, old, old + exponent)):
                a, b = self.product(left), self.product(right)
                return self.scale(c * d, self.product({a: Fraction(2)} if a == b else {a: ONE, b: ONE}))
            merged[base] = old + exponent
        return self.scale(c * d, self.product(merged), anywhere=anywhere)

    def _widens(self, base: int, old: Fraction, new: Fraction) -> bool:
        """Whether t^new is defined where t^old is not: an integer power of a negative number, whose root was taken."""
        return old.denominator != 1 and new.denominator == 1 and not self.nonnegative(base)

    def product(self, exponents: dict[int, Fraction]) -> int:
        """prod_i t_i^(p_i)."""
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
            return self.multiply(factor, self.product(kept)) if kept else factor
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
            rest = self.product({t: p for t, p in exponents.items() if t not in exponentials})
            return self.multiply(self.function("exp", argument), rest)
        for t in [t for t in exponents if self.terms[t].kind == "sin"]:
            other = self._numbers.get(Term("cos", self.terms[t].reads))
            if other in exponents and exponents[t] == exponents[other] == 1:
                rest = self.product({u: p for u, p in exponents.items() if u not in (t, other)})
                double = self.scale(HALF, self.function("sin", self.scale(2, self.terms[t].reads[0])))
                return self.multiply(double, rest)
        return None

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
            return self.between(self.interval(a) ** float(p)) if Fraction(float(p)) == p else self.product({a: p})
        logistic = self._one_plus_exp(a)
        if logistic is not None and p == -1:
            c, u = logistic
            return self.scale(1 / c, self.function("sigmoid", self.scale(-1, u)))
        c, factors = self.factors(a)
        if p.denominator == 1 and (c or p > 0):
            same = p > 0 or all(e > 0 for e in factors.values())
            if not anywhere or (same and not any(self._widens(t, e, e * p) for t, e in factors.items())):
                return self.scale(
                    c**p.numerator, self.product({t: e * p for t, e in factors.items()}), anywhere=anywhere
                )
        elif p == HALF and len(factors) == 1 and list(factors.values()) == [2] and c > 0:
            root = self._power_of(c, HALF)
            return self.multiply(root, self.absolute(next(iter(factors))))
        return self.product({a: p})

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
        base, exponent = Interval.of(value), float(p)
        power = base**exponent
        if Fraction(exponent) != p:
            below, above = math.nextafter(exponent, -math.inf), math.nextafter(exponent, math.inf)
            power = power.union(base**below).union(base**above)
        return self.between(power)

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
        c, factors = self.factors(a)
        if c < 0 or c not in (0, 1):
            return self.scale(abs(c), self.absolute(self.product(factors)))
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


_AT_ZERO = {
    "exp": ONE, "sigmoid": HALF, "erf": Fraction(0), "sin": Fraction(0), "cos": ONE, "atan": Fraction(0), "asinh": Fraction(0)
}  # fmt: skip
