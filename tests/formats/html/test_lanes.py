"""The drawing of a network: what its lines say is what the report says, and no two of them lie on each other."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lipaudit.formats.html.lanes import Item, arrange
from lipaudit.records.report import LayerRecord


def row(name: str, *inputs: str) -> LayerRecord:
    return LayerRecord(name, "conv2d", "convolution", inputs, "finite")


def read_by(items: Sequence[Item], position: int) -> set[str]:
    """The rows and inputs that are reached upwards, through points only."""
    found: set[str] = set()
    for source in items[position].reads:
        found |= read_by(items, source) if items[source].kind == "join" else {items[source].name}
    return found


def check(rows: Sequence[LayerRecord], items: Sequence[Item]) -> None:
    assert [item.index for item in items if item.kind == "row"] == list(range(len(rows)))
    held: dict[int, int] = {}  # the last line on which a lane is taken
    for position, item in enumerate(items):
        assert all(source < position for source in item.reads)
        assert all(items[source].last >= position for source in item.reads)
        assert held.get(item.lane, -1) <= position
        assert item.last == max((i for i, other in enumerate(items) if position in other.reads), default=position)
        if held.get(item.lane) == position:  # the lane goes on with what ends here
            assert any(items[source].lane == item.lane and items[source].last == position for source in item.reads)
        held[item.lane] = item.last
        if item.kind == "row":
            assert read_by(items, position) == set(rows[item.index].inputs)
        if item.kind == "join":
            assert sum(position in other.reads for other in items) > 1


networks = st.lists(st.sets(st.integers(0, 11), max_size=5), min_size=1, max_size=12)


@settings(deadline=None, max_examples=300)
@given(networks)
def test_any_network_is_drawn_as_it_is(reads: list[set[int]]) -> None:
    rows = [row(f"r{i}", *(f"r{j}" if j < i else f"x{j}" for j in sorted(read))) for i, read in enumerate(reads)]
    check(rows, arrange(rows))


def lanes(items: Sequence[Item]) -> list[tuple[str, int]]:
    return [(item.name or item.kind, item.lane) for item in items]


def test_a_chain_is_one_lane() -> None:
    items = arrange([row("a", "x"), row("b", "a"), row("c", "b")])
    assert lanes(items) == [("x", 0), ("a", 0), ("b", 0), ("c", 0)]


def test_residual_blocks_are_two_lanes_and_their_sums_points_in_the_first() -> None:
    ends, rows = ["stem"], [row("stem", "x")]
    for i in range(20):
        rows += [row(f"{i}.a", *ends), row(f"{i}.b", f"{i}.a")]
        ends.append(f"{i}.b")
    rows.append(row("head", *ends))
    items = arrange(rows)
    check(rows, items)
    assert max(item.lane for item in items) == 1
    joins = [item for item in items if item.kind == "join"]
    assert len(joins) == 19  # the last sum has one reader, to which its lines go
    assert {item.lane for item in joins} == {0}
    assert all(len(item.reads) == 2 for item in joins)


def test_a_u_shape_is_drawn_as_one() -> None:
    rows = [
        row("down1", "x"),
        row("down2", "down1"),
        row("bottom", "down2"),
        row("up2", "bottom", "down2"),
        row("up1", "up2", "down1"),
    ]
    assert lanes(arrange(rows)) == [("x", 0), ("down1", 0), ("down2", 1), ("bottom", 2), ("up2", 1), ("up1", 0)]


def test_what_is_read_by_nobody_and_what_reads_nothing() -> None:
    assert lanes(arrange([row("a"), row("b"), row("c", "b")])) == [("a", 0), ("b", 0), ("c", 0)]
    assert arrange([]) == ()


def test_a_name_that_no_row_before_has_is_an_input() -> None:
    items = arrange([row("a", "later", "a"), row("later", "a")])
    assert [(item.kind, item.name) for item in items[:2]] == [("input", "later"), ("input", "a")]


@pytest.mark.parametrize("count", [400])
def test_dense_connections_stay_narrow(count: int) -> None:
    names = ["x"]
    rows = []
    for i in range(count):
        rows.append(row(f"r{i}", *names))
        names.append(f"r{i}")
    items = arrange(rows)
    assert max(item.lane for item in items) == 1
