"""The methods that find norms, by the names that a user gives."""

from __future__ import annotations

from collections.abc import Sequence

from lipaudit.auditing.values import GRAM
from lipaudit.errors import UsageError
from lipaudit.option_names import spell
from lipaudit.spectral.published.registry import Method, all_methods, find_method


class NoIterationsError(UsageError):
    """A number of iterations for what has none."""

    def __init__(self, method: str | None = None) -> None:
        who = "none of the methods has" if method is None else f"{method} has no"
        super().__init__(f"{who} iterations or samples to choose: leave out {spell('iterations')}")


def method_names() -> tuple[str, ...]:
    """Every name that a user may give, lipaudit's own first."""
    return (GRAM, *(method.name for method in all_methods() if method.name != GRAM))


def check_method(name: str, iterations: int | None) -> None:
    """Raise :class:`~lipaudit.errors.UsageError` for an unknown method, and for ``iterations`` of one that has none."""
    method = find_method(name)
    if iterations is not None and (name == GRAM or method.iterations is None):
        raise NoIterationsError(name)


def find_compared(names: Sequence[str] | None, iterations: int | None = None) -> tuple[Method, ...]:
    """The methods of those names, in their order; every one for None.

    Raises:
        UsageError: if a name is unknown, or ``iterations`` are given and no method has any.

    >>> [method.name for method in find_compared(["ryu2019"])]
    ['ryu2019']
    """
    chosen = all_methods() if names is None else tuple(map(find_method, names))
    if iterations is not None and all(method.iterations is None for method in chosen):
        raise NoIterationsError
    return chosen
