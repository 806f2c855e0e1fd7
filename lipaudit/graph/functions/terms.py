"""Terms of functions of one real variable: numbered, without repetition, each after those that it reads.

A term is known by its number. Beside the list of terms there is what can be said of one by itself: the number that it is, its sign,
and whether it is defined for every x.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from lipaudit.errors import GraphError
from lipaudit.spectral.interval import Interval

HALF = Fraction(1, 2)
ONE = Fraction(1)
# Numbers beyond that make no function that a float could hold; so do more terms than any activation has.
LARGEST = Fraction(10) ** 150
_MAX_TERMS = 2000


class NotElementaryError(GraphError):
    """A function that cannot be written as a term, or not be decided at some number."""


@dataclass(frozen=True)
class Term:
    """One operation of a tape: its kind, the numbers of the terms it reads, and exact numbers (coefficients, exponents, ends)."""

    kind: str
    reads: tuple[int, ...] = ()
    numbers: tuple[Fraction, ...] = ()


class Terms:
    """Terms in an order in which each comes after those that it reads; equal terms have the same number."""

    def __init__(self) -> None:
        self.terms: list[Term] = []
        self._numbers: dict[Term, int] = {}
        self.derivatives: dict[int, int] = {}  # of terms whose derivative was asked for
        self._signs: dict[int, int | None] = {}
        self._total: dict[int, bool] = {}

    def _number(self, kind: str, reads: tuple[int, ...] = (), numbers: tuple[Fraction, ...] = ()) -> int:
        term = Term(kind, reads, numbers)
        number = self._numbers.get(term)
        if number is None:
            if len(self.terms) >= _MAX_TERMS:
                raise NotElementaryError("a function of too many operations")
            number = self._numbers[term] = len(self.terms)
            self.terms.append(term)
        return number

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

    def needed(self, roots: Iterable[int]) -> list[int]:
        """The terms that the given ones are computed from, themselves included, in order."""
        waiting, needed = list(roots), set[int]()
        while waiting:
            term = waiting.pop()
            if term not in needed:
                needed.add(term)
                waiting += self.terms[term].reads
        return sorted(needed)

    def variable(self) -> int:
        """x."""
        return self._number("x")

    def constant(self, low: Fraction | int, high: Fraction | int | None = None) -> int:
        """A number, or one between two others."""
        ends = Fraction(low), Fraction(low if high is None else high)
        if max(map(abs, ends)) > LARGEST:
            raise NotElementaryError("a constant too large")
        return self._number("constant", (), ends)

    def between(self, interval: Interval) -> int:
        """The constant that lies in an interval of floats."""
        if not interval.largest < math.inf:
            raise NotElementaryError("a constant that is not finite")
        return self.constant(Fraction(interval.low), Fraction(interval.high))

    def exact(self, term: int) -> Fraction | None:
        """The number that a term is exactly, None for any other."""
        own = self.terms[term]
        return own.numbers[0] if own.kind == "constant" and own.numbers[0] == own.numbers[1] else None

    def interval(self, term: int) -> Interval:
        """The interval that holds a constant term."""
        own = self.terms[term]
        if own.kind != "constant":
            raise NotElementaryError("not a constant")
        low, high = (Interval.of(n) for n in own.numbers)
        return Interval(low.low, high.high)

    def is_constant(self, term: int) -> bool:
        """Whether a term does not depend on x."""
        return self.terms[term].kind == "constant"

    def sign(self, a: int) -> int:
        """The sign of a constant."""
        low, high = self.terms[a].numbers
        if low > 0 or high < 0 or low == high:
            return (low > 0) - (high < 0)
        raise NotElementaryError("a sign that its rounding hides")

    def total(self, term: int) -> bool:
        """Whether a term is surely defined for every x: no division by zero in it, no root or logarithm of what may be negative."""
        if term not in self._total:
            self._total[term] = self._own_total(term) and all(map(self.total, self.terms[term].reads))
        return self._total[term]

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
