"""Functions with some of their terms replaced, and their values at numbers."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from lipaudit.graph.functions.expression import Tape
from lipaudit.graph.functions.terms import Term


def replace_terms(tape: Tape, root: int, change: Callable[[int, Term], int | None]) -> int:
    """The function with terms changed, from x up; ``change`` sees each term after those that it reads, None keeps it."""
    new: dict[int, int] = {}
    for old in tape.needed([root]):
        term = tape.terms[old]
        rebuilt = _rebuilt(tape, old, term, new)
        changed = change(rebuilt, tape.terms[rebuilt])
        new[old] = rebuilt if changed is None else changed
    return new[root]


def _rebuilt(tape: Tape, old: int, term: Term, new: dict[int, int]) -> int:
    reads = tuple(new[t] for t in term.reads)
    if reads == term.reads:
        return old
    match term.kind:
        case "sum":
            return tape.sum(zip(term.numbers[1:], reads, strict=True), term.numbers[0])
        case "product":
            result = tape.constant(1)
            for base, exponent in zip(reads, term.numbers, strict=True):
                result = tape.multiply(result, tape.power(base, exponent))
            return result
        case "absolute":
            return tape.absolute(*reads)
        case "maximum":
            return tape.maximum(*reads)
        case "step":
            return tape.step(reads[0], term.numbers[0])
        case "select":
            return tape.select(*reads)
        case kind:
            return tape.function(kind, *reads)


def value_at(tape: Tape, root: int, value: Fraction) -> int:
    """The constant that a function is at a number.

    Raises:
        NotElementaryError: where it is not defined there, or rounding hides which branch it takes.

    >>> tape = Tape()
    >>> x = tape.variable()
    >>> softsign = tape.divide(x, tape.add(tape.constant(1), tape.absolute(x)))
    >>> tape.exact(value_at(tape, softsign, Fraction(-3)))
    Fraction(-3, 4)
    """
    point = tape.constant(value)
    return replace_terms(tape, root, lambda _, term: point if term.kind == "x" else None)
