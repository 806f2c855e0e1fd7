"""Which file imports which: no circle between files, and what the packages at the ends know nothing of.

``lint-imports`` checks the direction between packages. Imports inside functions and those for types only count here as well.
"""

from __future__ import annotations

from collections.abc import Iterable

import grimp
import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("lipaudit", cache_dir=None)


def circles(imports: Iterable[tuple[str, str]]) -> list[set[str]]:
    """The sets of files each of which reaches every other one by imports (strongly connected components of two or more)."""
    pairs = list(imports)
    names = sorted({name for pair in pairs for name in pair})
    place = {name: i for i, name in enumerate(names)}
    rows, columns = ([place[pair[end]] for pair in pairs] for end in (0, 1))
    matrix = coo_array((np.ones(len(pairs)), (rows, columns)), shape=(len(names), len(names)))
    count, labels = connected_components(matrix, directed=True, connection="strong")
    components = [{name for name, label in zip(names, labels, strict=True) if label == i} for i in range(count)]
    return [component for component in components if len(component) > 1]


def imports(graph: grimp.ImportGraph) -> list[tuple[str, str]]:
    return [(name, other) for name in graph.modules for other in graph.find_modules_directly_imported_by(name)]


def test_there_is_no_circle_between_files(graph: grimp.ImportGraph) -> None:
    assert circles(imports(graph)) == []


def test_a_circle_is_found() -> None:
    assert circles([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e")]) == [{"a", "b", "c"}]


@pytest.mark.parametrize("part", ["graph", "rules", "network", "spectral"])
def test_frontends_reach_nothing_that_computes(graph: grimp.ImportGraph, part: str) -> None:
    assert graph.find_shortest_chains("lipaudit.frontends", f"lipaudit.{part}", as_packages=True) == set()


def test_what_frontends_reach_can_be_seen(graph: grimp.ImportGraph) -> None:
    assert graph.find_shortest_chains("lipaudit.auditing", "lipaudit.graph", as_packages=True)
