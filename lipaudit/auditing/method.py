"""The method by which norms are to be found, as a user names it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from lipaudit.errors import UsageError
from lipaudit.graph.node import Graph
from lipaudit.graph.weights import weights
from lipaudit.spectral.cache import NormStore
from lipaudit.spectral.oracle import Norms, PublishedNorms
from lipaudit.spectral.precompute import KnownNorms, Progress
from lipaudit.spectral.published.registry import Method, Options, all_methods

OURS = "gram"
MOST_ITERATIONS = 1_000_000


def method_names() -> tuple[str, ...]:
    """Every name that a user may give, lipaudit's own first."""
    return (OURS, *(method.name for method in all_methods() if method.name != OURS))


def find_requested(name: str, iterations: int | None = None) -> Method | None:
    """The published method of that name, None for lipaudit's own norms.

    Raises:
        UsageError: if there is none, or ``iterations`` are out of range or given to a method that has none.

    >>> find_requested("gram") is None, find_requested("sedghi2019").title
    (True, 'Sedghi 2019')
    """
    if name not in method_names():
        raise UsageError(f"there is no method {name!r}; choose from {', '.join(method_names())}")
    check_iterations(iterations)
    method = None if name == OURS else next(method for method in all_methods() if method.name == name)
    if iterations is not None and (method is None or method.iterations is None):
        raise UsageError(f"{name} has no iterations or samples to choose: leave out iterations (--iterations)")
    return method


def check_iterations(iterations: int | None) -> None:
    """Refuse what is no number of iterations, or one that no method ends with."""
    if iterations is None:
        return
    whole = isinstance(iterations, int) and not isinstance(iterations, bool)
    if not whole or iterations < 1:
        raise UsageError(f"iterations (--iterations) are a whole number of at least 1, not {iterations!r}")
    if iterations > MOST_ITERATIONS:
        raise UsageError(f"iterations (--iterations) are at most {MOST_ITERATIONS:,}, not {iterations:,}")


def find_compared(names: str | Sequence[str] | None, iterations: int | None = None) -> tuple[Method, ...]:
    """The registered methods of those names, in their order; every one for None. A text has names separated by commas.

    Raises:
        UsageError: if a name is unknown or occurs twice, there is none, or ``iterations`` are given and no method has any; and for
            names in anything but a text, a list or a tuple.

    >>> [method.name for method in find_compared("ryu2019")]
    ['ryu2019']
    """
    check_iterations(iterations)
    known = {method.name: method for method in all_methods()}
    if isinstance(names, str):
        names = [name.strip() for name in names.split(",")]
    if not isinstance(names, list | tuple | None):
        raise UsageError(
            f"methods are a text, or a list or tuple of names such as {next(iter(known))!r}, not {type(names).__name__}"
        )
    for name in names or ():
        if not isinstance(name, str) or name not in known:
            raise UsageError(f"there is no method {name!r}; choose from {', '.join(known)}")
    if names is not None and not names:
        raise UsageError(
            f"methods (--methods) is empty: leave it out for every method, or choose from {', '.join(known)}"
        )
    if names is not None and len(set(names)) < len(names):
        raise UsageError(f"methods (--methods) takes each name once, not {','.join(names)!r}")
    chosen = tuple(known.values() if names is None else (known[name] for name in names))
    if iterations is not None and all(method.iterations is None for method in chosen):
        raise UsageError("none of the methods has iterations or samples to choose: leave out iterations (--iterations)")
    return chosen


def requested_norms(
    method: Method | None,
    iterations: int | None,
    tolerance: float,
    seed: int,
    graph: Graph,
    device: torch.device,
    store: NormStore | None = None,
    progress: Progress | None = None,
) -> Norms:
    """How the rules are to find norms for a simplified graph; lipaudit's own are computed in advance."""
    if method is not None:
        return PublishedNorms(method, Options(iterations=iterations, seed=seed, tolerance=tolerance))
    linear_maps = [(weight.name, linear_map) for weight in weights(graph) for linear_map in weight.linear_maps()]
    return KnownNorms(linear_maps, tolerance, device, store, progress)
