"""Functions of one variable far from zero: for all t >= m, or all m <= t <= n, a term is t^p e^E(t) times a number of an interval.

E is a sum of powers of t with exact coefficients and positive exponents. So x / sqrt(1 + x^2) is t^0 times a number close to 1, and
e^-t / (1 + e^-t)^2 is e^-t times a number close to 1, which interval arithmetic on values, infinity by infinity, could not say.

Products and powers add p and E. In a sum the term that grows fastest is taken out, and the quotients of the others by it, t^q e^F with
q and F of lower order, are bounded by their values at the ends, where they fall. All that is checked, not assumed: a function that is
not of this kind, or an m that is too small, raises.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from lipaudit.graph.functions.expression import Tape
from lipaudit.graph.functions.terms import NotElementaryError, Term
from lipaudit.spectral.interval import Interval

Polynomial = Mapping[Fraction, Fraction]  # exponents of t to coefficients


class _UnknownError(NotElementaryError):
    """This function, or this m, is not covered."""


@dataclass(frozen=True)
class Growth:
    """t^``power`` e^``exponent``(t) times a number of ``factor``; ``exact`` is the term itself where it is a sum of powers."""

    power: Fraction
    exponent: tuple[tuple[Fraction, Fraction], ...]  # (exponent of t, coefficient), highest first
    factor: Interval
    exact: Polynomial | None = field(default=None, compare=False)

    @property
    def order(self) -> tuple[tuple[tuple[Fraction, Fraction], ...], Fraction]:
        """What decides which of two grows faster."""
        return self.exponent, self.power


@dataclass(frozen=True)
class Window:
    """All t with ``low`` <= t <= ``high``; ``high`` may be infinite."""

    low: float
    high: float

    def growths(self, tape: Tape, roots: Iterable[int], side: int) -> dict[int, Growth]:
        """How terms grow at x = ``side`` t."""
        growths: dict[int, Growth] = {}
        for number in tape.needed(roots):
            term = tape.terms[number]
            growths[number] = self._growth(term, [growths[t] for t in term.reads], side)
        return growths

    def _growth(self, term: Term, reads: list[Growth], side: int) -> Growth:
        match term.kind:
            case "x":
                return self.polynomial({Fraction(1): Fraction(side)})
            case "constant":
                low, high = term.numbers
                if low == high:
                    return self.polynomial({Fraction(0): low})
                return Growth(Fraction(0), (), Interval(Interval.of(low).low, Interval.of(high).high))
            case "sum":
                return self._sum(term, reads)
            case "product":
                return self._product(term, reads)
            case "exp":
                return self._exp(reads[0])
            case "log":
                return self._log(reads[0])
            case "sigmoid":
                return self._sigmoid(reads[0])
            case "softplus":
                return self._softplus(reads[0])
            case "absolute" | "maximum" | "step" | "select":
                return self._choice(term, reads)
            case kind:
                return self._bounded(kind, reads[0])

    def polynomial(self, exact: Polynomial) -> Growth:
        """A sum of powers of t."""
        kept = {p: c for p, c in exact.items() if c}
        if not kept:
            return Growth(Fraction(0), (), Interval(0.0, 0.0), {})
        top = max(kept)
        factor = Interval(0.0, 0.0)
        for p, c in kept.items():
            factor = factor + Interval.of(c) * self.ratio(p - top, ())
        return Growth(top, (), factor, kept)

    def ratio(self, power: Fraction, exponent: tuple[tuple[Fraction, Fraction], ...]) -> Interval:
        """The values of t^power e^exponent on the window, where that is monotone."""
        if not exponent and power == 0:
            return Interval(1.0, 1.0)
        falls = (exponent[0][1] if exponent else power) < 0
        # t (power log t + E)' = power + sum_j r_j c_j t^(r_j); the leading term outweighs the others of the other sign for t >= low
        leading, others = Interval(0.0, 0.0), Interval(0.0, 0.0)
        if exponent:
            r, c = exponent[0]
            leading = Interval.of(abs(r * c))
            for other, coefficient in exponent[1:]:
                if (coefficient < 0) != falls:
                    others = others + Interval.of(abs(other * coefficient)) * self._at(self.low, other - r)
            if (power < 0) != falls:
                others = others + Interval.of(abs(power)) * self._at(self.low, -r)
            if not others.high <= leading.low:
                raise _UnknownError("not yet monotone")
        start, end = (self._value(t, power, exponent, falls) for t in (self.low, self.high))
        return Interval(end.low, start.high) if falls else Interval(start.low, end.high)

    def _value(
        self, t: float, power: Fraction, exponent: tuple[tuple[Fraction, Fraction], ...], falls: bool
    ) -> Interval:
        if math.isinf(t):
            return Interval(0.0, 0.0) if falls else Interval(math.inf, math.inf)
        total = Interval(0.0, 0.0)
        for p, c in exponent:
            total = total + Interval.of(c) * self._at(t, p)
        return self._at(t, power) * total.exp()

    @staticmethod
    def _at(t: float, power: Fraction) -> Interval:
        p = float(power)
        value = Interval.point(t) ** p
        if Fraction(p) == power:
            return value
        return value.union(Interval.point(t) ** math.nextafter(p, -math.inf)).union(
            Interval.point(t) ** math.nextafter(p, math.inf)
        )

    def interval(self, growth: Growth) -> Interval:
        """All values of a term on the window."""
        return growth.factor * self.ratio(growth.power, growth.exponent)

    def _sum(self, term: Term, reads: list[Growth]) -> Growth:
        constant, *weights = term.numbers
        exact: dict[Fraction, Fraction] | None = {Fraction(0): constant}
        for weight, read in zip(weights, reads, strict=True):
            if read.exact is None or exact is None:
                exact = None
                break
            for p, c in read.exact.items():
                exact[p] = exact.get(p, Fraction(0)) + weight * c
        if exact is not None:
            return self.polynomial(exact)
        parts = [(Interval.of(w), read) for w, read in zip(weights, reads, strict=True)]
        if constant:
            parts.append((Interval.of(constant), Growth(Fraction(0), (), Interval(1.0, 1.0))))
        return self._total(parts)

    def _total(self, parts: list[tuple[Interval, Growth]]) -> Growth:
        top = parts[0][1]
        for _, part in parts[1:]:
            if _faster(part, top):
                top = part
        factor = Interval(0.0, 0.0)
        for weight, part in parts:
            factor = factor + weight * part.factor * self.ratio(*_quotient(part, top))
        return Growth(top.power, top.exponent, factor)

    def _product(self, term: Term, reads: list[Growth]) -> Growth:
        power, exponent, factor = Fraction(0), dict[Fraction, Fraction](), Interval(1.0, 1.0)
        exact: Polynomial | None = {Fraction(0): Fraction(1)}
        for p, read in zip(term.numbers, reads, strict=True):
            if p.denominator != 1 and read.factor.low < 0:
                raise _UnknownError("a root of what may be negative")
            if p < 0 and read.factor.holds(0.0):
                raise _UnknownError("a division by what may be zero")
            power += p * read.power
            for q, c in read.exponent:
                exponent[q] = exponent.get(q, Fraction(0)) + p * c
            factor = factor * (read.factor if p == 1 else self._raised(read.factor, p))
            exact = _raised_polynomial(exact, read.exact, p)
        if exact is not None:
            return self.polynomial(exact)
        return Growth(power, _sorted(exponent), factor)

    @staticmethod
    def _raised(base: Interval, p: Fraction) -> Interval:
        value = float(p)
        power = base**value
        if Fraction(value) == p:
            return power
        return power.union(base ** math.nextafter(value, -math.inf)).union(base ** math.nextafter(value, math.inf))

    def _exp(self, inner: Growth) -> Growth:
        if inner.exact is not None:
            rest = Interval(0.0, 0.0)
            for p, c in inner.exact.items():
                if p <= 0:
                    rest = rest + Interval.of(c) * self.ratio(p, ())
            growing = {p: c for p, c in inner.exact.items() if p > 0}
            return Growth(Fraction(0), _sorted(growing), rest.exp())
        if not _grows(inner):
            return Growth(Fraction(0), (), self.interval(inner).exp())
        if inner.factor.high < 0:
            return self._vanishing(inner)
        raise _UnknownError("an exponential of what is not a sum of powers")

    def _vanishing(self, inner: Growth) -> Growth:
        """e^u for u -> -infinity: at most e^(-a t^r), where -u >= a t^r on the window."""
        rate = Fraction(1) if inner.exponent else min(inner.power, Fraction(1))
        at_least = (Interval.point(-inner.factor.high) * self.ratio(inner.power - rate, inner.exponent)).low
        if not 0 < at_least < math.inf:
            raise _UnknownError("too slow")
        return Growth(Fraction(0), ((rate, Fraction(-at_least)),), Interval(0.0, 1.0))

    def _log(self, inner: Growth) -> Growth:
        if not inner.factor.low > 0:
            raise _UnknownError("a logarithm of what may be zero")
        parts = [(Interval(1.0, 1.0), Growth(Fraction(0), (), inner.factor.log()))]
        if inner.exponent:
            parts.append((Interval(1.0, 1.0), self.polynomial(dict(inner.exponent))))
        if inner.power:
            # log t = t^(1/4) times what falls for t > e^4
            if self.low < 64:
                raise _UnknownError("not yet monotone")
            quotients = [
                Interval.point(t).log() / self._at(t, Fraction(1, 4)) for t in (self.low, min(self.high, 1e300))
            ]
            low = 0.0 if math.isinf(self.high) else quotients[1].low
            parts.append((Interval.of(inner.power), Growth(Fraction(1, 4), (), Interval(low, quotients[0].high))))
        return self._total(parts)

    def _sigmoid(self, inner: Growth) -> Growth:
        if not _grows(inner):
            return Growth(Fraction(0), (), self.interval(inner).sigmoid())
        values = self.interval(inner)
        if inner.factor.low > 0:
            return Growth(Fraction(0), (), Interval(values.low, values.low).sigmoid().union(Interval(1.0, 1.0)))
        if inner.factor.high < 0:  # e^u / (1 + e^u)
            below = 1.0 / (1.0 + Interval(values.high, values.high).exp())
            exponential = self._exp(inner)
            return Growth(exponential.power, exponential.exponent, exponential.factor * Interval(below.low, 1.0))
        raise _UnknownError("a sign that is not known")

    def _softplus(self, inner: Growth) -> Growth:
        if not _grows(inner):
            return Growth(Fraction(0), (), self.interval(inner).softplus())
        values = self.interval(inner)
        if inner.factor.low > 0:  # u + log(1 + e^-u)
            rest = Interval(0.0, (-Interval(values.low, values.low)).exp().high)
            one = Interval(1.0, 1.0)
            return self._total([(one, inner), (one, Growth(Fraction(0), (), rest))])
        if inner.factor.high < 0:  # e^u times a number between 1 / (1 + e^u) and 1
            below = 1.0 / (1.0 + Interval(values.high, values.high).exp())
            exponential = self._exp(inner)
            return Growth(exponential.power, exponential.exponent, exponential.factor * Interval(below.low, 1.0))
        raise _UnknownError("a sign that is not known")

    def _choice(self, term: Term, reads: list[Growth]) -> Growth:
        first = reads[0]
        if term.kind == "absolute":
            return Growth(first.power, first.exponent, abs(first.factor))
        if term.kind == "maximum":
            one, minus = Interval(1.0, 1.0), Interval(-1.0, -1.0)
            difference = self._total([(one, reads[0]), (minus, reads[1])])
            reads = [difference, *reads]
            first = difference
        if first.factor.low > 0:
            return reads[1] if term.kind != "step" else self.polynomial({Fraction(0): Fraction(1)})
        if first.factor.high < 0:
            return reads[2] if term.kind != "step" else self.polynomial({})
        raise _UnknownError("a choice by a sign that is not known")

    def _bounded(self, kind: str, inner: Growth) -> Growth:
        if kind == "asinh" and _grows(inner):
            raise _UnknownError("asinh of what grows")
        values = self.interval(inner)
        return Growth(Fraction(0), (), getattr(values, kind)())


def _sorted(exponent: Mapping[Fraction, Fraction]) -> tuple[tuple[Fraction, Fraction], ...]:
    return tuple(sorted(((p, c) for p, c in exponent.items() if c), reverse=True))


def _quotient(a: Growth, b: Growth) -> tuple[Fraction, tuple[tuple[Fraction, Fraction], ...]]:
    difference = dict(a.exponent)
    for p, c in b.exponent:
        difference[p] = difference.get(p, Fraction(0)) - c
    return a.power - b.power, _sorted(difference)


def _faster(a: Growth, b: Growth) -> bool:
    power, exponent = _quotient(a, b)
    return (exponent[0][1] if exponent else power) > 0


def _grows(growth: Growth) -> bool:
    return (growth.exponent[0][1] if growth.exponent else growth.power) > 0


def grows(growth: Growth) -> bool:
    """Whether a term exceeds every bound as t goes to infinity."""
    return _grows(growth) and not growth.factor.holds(0.0)


def _raised_polynomial(total: Polynomial | None, base: Polynomial | None, p: Fraction) -> Polynomial | None:
    if total is None or base is None:
        return None
    if len(base) == 1 and p.denominator == 1 and 0 not in base.values():
        ((q, c),) = base.items()
        return {r + q * p: d * c**p.numerator for r, d in total.items()}
    if p.denominator != 1 or not 0 <= p <= 8:
        return None
    result = dict(total)
    for _ in range(p.numerator):
        product: dict[Fraction, Fraction] = {}
        for q, c in result.items():
            for r, d in base.items():
                product[q + r] = product.get(q + r, Fraction(0)) + c * d
        result = product
    return result
