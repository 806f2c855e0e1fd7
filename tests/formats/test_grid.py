"""The one table: every cell's text is there, the width is obeyed, and no figure is cut."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lipaudit.formats.grid import GAP, Column, Grid
from lipaudit.text.shorten import ELLIPSIS

WORDS = st.text(alphabet="abc.017/_", min_size=1, max_size=60)
FIGURES = st.floats(min_value=1e-9, max_value=1e9).map(lambda x: f"{x:.4g}")


@st.composite
def grids(draw: st.DrawFn) -> Grid:
    texts = draw(st.lists(st.sampled_from(["middle", "end"]), min_size=1, max_size=4))
    figures = draw(st.integers(0, 12))
    columns = [Column("name", cut="middle", floor=12, repeated=True)]
    columns += [
        Column(f"text{i}", cut=cut, floor=draw(st.integers(1, 12)), order=draw(st.integers(0, 2)))  # type: ignore[arg-type]
        for i, cut in enumerate(texts)
    ]
    columns += [Column(f"figure{i}", numeric=True) for i in range(figures)]
    kinds = [FIGURES if column.numeric else WORDS for column in columns]
    rows = draw(st.lists(st.tuples(*kinds), min_size=1, max_size=6))
    return Grid(tuple(columns), tuple(rows))


def read_back(text: str) -> dict[str, list[str]]:
    """The cells of every column as a terminal shows them, by the dashes of each block."""
    columns: dict[str, list[str]] = {}
    for block in text.split("\n\n"):
        head, rule, *rows = block.splitlines()
        ends = [i for i in range(len(rule)) if rule[i] == "-" and rule[i + 1 : i + 2] != "-"]
        starts = [0, *(end + 1 + GAP for end in ends[:-1])]
        for start, end in zip(starts, ends, strict=True):
            columns[head[start : end + 1].strip()] = [row[start : end + 1].strip() for row in rows]
    return columns


def stands_for(shown: str, text: str) -> bool:
    """Whether a text is shown, whole, shortened, or numbered."""
    if shown == text:
        return True
    head, mark, tail = shown.partition(ELLIPSIS)
    return bool(mark) and text.startswith(head) and (text.endswith(tail) or tail.startswith("~"))


@given(grids(), st.integers(80, 160))
def test_every_cell_is_shown_and_the_width_obeyed(grid: Grid, width: int) -> None:
    text = grid.terminal(width)
    assert max(map(len, text.splitlines())) <= width
    shown = read_back(text)
    assert set(shown) == {column.heading for column in grid.columns}
    for number, column in enumerate(grid.columns):
        cells = [row[number] for row in grid.rows]
        if column.numeric:
            assert shown[column.heading] == cells
        assert all(map(stands_for, shown[column.heading], cells))
        if column.cut == "middle":
            assert len(set(shown[column.heading])) == len(set(cells))


@given(grids())
def test_values_are_whole_where_there_is_no_terminal(grid: Grid) -> None:
    rows = [list(row) for row in grid.rows]
    assert [line.split("\t") for line in grid.tsv().splitlines()[1:]] == rows
    assert list(csv.reader(io.StringIO(grid.csv())))[1:] == rows
    wide = read_back(grid.terminal(None))
    assert list(map(list, zip(*wide.values(), strict=True))) == rows


LONG = Grid(
    (Column("layer", cut="middle", floor=8, repeated=True), *(Column(f"m{i}", numeric=True) for i in range(9))),
    tuple((f"stage{r}.block.conv", *(f"{r}{i}.12345678" for i in range(9))) for r in range(2)),
)


def test_what_does_not_fit_stands_in_a_block_below_behind_the_repeated_columns() -> None:
    blocks = LONG.terminal(80).split("\n\n")
    assert [block.splitlines()[0].split() for block in blocks] == [
        ["layer", "m0", "m1", "m2", "m3", "m4"],
        ["layer", "m5", "m6", "m7", "m8"],
    ]
    assert all(len(line) <= 80 for block in blocks for line in block.splitlines())


def test_columns_of_a_higher_order_give_way_first() -> None:
    columns = (Column("a", cut="end", floor=5, order=1), Column("b", cut="end", floor=5))
    assert Grid(columns, (("x" * 20, "y" * 20),)).terminal(30).splitlines()[2] == "x" * 7 + ELLIPSIS + "  " + "y" * 20
    assert Grid(columns, (("x" * 20, "y" * 20),)).terminal(20).splitlines()[2] == "xxxx…  " + "y" * 12 + ELLIPSIS


def test_empty_columns_can_be_left_out() -> None:
    grid = Grid((Column("a"), Column("b"), Column("c")), (("1", None, "x"), ("2", "", None)))
    assert [column.heading for column in grid.without_empty_columns().columns] == ["a", "c"]
    assert Grid((), ()).terminal(80) == ""


def test_values_read_as_their_column_says_and_are_kept_in_files() -> None:
    grid = Grid((Column("time", numeric=True, unit="s", show=lambda x: f"{x:.1f}"),), ((0.125,), (None,)))
    assert grid.terminal(80).splitlines() == ["time (s)", "--------", "     0.1"]
    assert grid.tsv() == "time (s)\n0.125\n"
    assert grid.markdown() == "| time (s) |\n|---:|\n| 0.1 |\n|  |"


@pytest.mark.parametrize("text", ["a|b", "<b>", "a\x1b[2Jb", "*x*"])
def test_nothing_in_a_cell_drives_a_terminal_or_markdown(text: str) -> None:
    grid = Grid((Column("layer"),), ((text,),))
    assert grid.terminal(80).replace("\n", "").isprintable()
    assert text not in grid.markdown()


def test_colour_takes_no_room() -> None:
    plain = LONG.terminal(80)
    painted = LONG.terminal(80, lambda row, column, text: f"\x1b[1m{text}\x1b[0m")
    assert painted != plain
    assert painted.replace("\x1b[1m", "").replace("\x1b[0m", "") == plain
