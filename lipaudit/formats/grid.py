"""One table, for a terminal of any width, Markdown, and tab- or comma-separated values.

A :class:`Grid` is columns and rows of cells. A cell is any value; its column says how it reads. Values that are not known are None and
read as an empty text. On a terminal, columns of text are shortened until the table fits, and columns that do not fit even then
stand in further blocks below, behind the columns that are ``repeated``. A figure is never shortened.

>>> grid = Grid((Column("layer", cut="middle", floor=5), Column("factor", numeric=True)), (("stage1.conv", "2.5"), ("fc", "1")))
>>> print(grid.terminal(80))
layer        factor
-----------  ------
stage1.conv     2.5
fc                1
>>> print(grid.markdown())
| layer | factor |
|---|---:|
| stage1.conv | 2.5 |
| fc | 1 |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from tabulate import tabulate

from lipaudit.escaping import escape_markdown, printable
from lipaudit.formats.separated_values import as_csv
from lipaudit.formats.separated_values import row as line
from lipaudit.text.shorten import shorten_end, shorten_paths

GAP = 2  # characters between two columns
Paint = Callable[[int, int, str], str]


def _as_text(value: Any) -> str:
    return str(value)


@dataclass(frozen=True)
class Column:
    """One column of a :class:`Grid`.

    Args:
        heading: what stands above it; a ``unit`` follows in parentheses.
        numeric: its cells stand to the right and are never shortened.
        cut: where its texts are shortened: at the ``end``, in the ``middle`` (different texts stay different), or ``never``.
        floor: the width in characters below which it is not narrowed; never below its heading.
        order: columns of a higher order are narrowed first, down to their floors.
        repeated: it stands in every block of a table that is too wide for one.
        show: the text of a value that is not None.
    """

    heading: str
    numeric: bool = False
    cut: Literal["end", "middle", "never"] = "never"
    floor: int = 0
    order: int = 0
    repeated: bool = False
    unit: str = ""
    show: Callable[[Any], str] = _as_text

    @property
    def title(self) -> str:
        """The heading with its unit."""
        return f"{self.heading} ({self.unit})" if self.unit else self.heading

    @property
    def least(self) -> int:
        """The width below which the column is not narrowed."""
        return max(len(self.title), self.floor)

    @property
    def can_be_cut(self) -> bool:
        """Whether its texts may be shortened."""
        return self.cut != "never" and not self.numeric

    def text(self, value: Any) -> str:
        """The text of one cell, with what could drive a terminal escaped."""
        return "" if value is None else printable(self.show(value))


@dataclass(frozen=True)
class Grid:
    """A table: ``columns``, and ``rows`` of as many cells each."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, headings: Iterable[str], rows: Iterable[Iterable[Any]]) -> Grid:
        """A table of plain columns, for values that are read by programs.

        >>> print(Grid.of(("layer", "factor"), [("fc", 0.5)]).csv())
        layer,factor
        fc,0.5
        """
        return cls(tuple(map(Column, headings)), tuple(map(tuple, rows)))

    def without_empty_columns(self) -> Grid:
        """The same table without the columns in which no row has a text."""
        kept = [i for i, column in enumerate(self.columns) if any(column.text(row[i]) for row in self.rows)]
        return Grid(tuple(self.columns[i] for i in kept), tuple(tuple(row[i] for i in kept) for row in self.rows))

    def terminal(self, width: int | None, paint: Paint | None = None) -> str:
        """The table in at most ``width`` characters, or as wide as its texts where there is no width.

        A column that may not be shortened and does not fit alone is the one exception. ``paint`` gives a cell a colour: it is called with
        the number of the row, that of the column and the text, and adds nothing that takes room.
        """
        if not self.columns:
            return ""
        return "\n\n".join(_block(block, width, paint) for block in self._blocks(width))

    def natural_width(self) -> int:
        """The width that the table takes when nothing is shortened."""
        return _total([_natural(column, texts) for column, texts in zip(self.columns, self._texts(), strict=True)])

    def least_width(self) -> int:
        """The width that the table takes on a terminal when its texts are as short as they may be."""
        return _total([_narrowest(column, texts) for column, texts in zip(self.columns, self._texts(), strict=True)])

    def markdown(self) -> str:
        """The table in GitHub-flavoured Markdown."""
        rule = "|".join("---:" if column.numeric else "---" for column in self.columns)
        lines = [_piped(escape_markdown(column.title) for column in self.columns), f"|{rule}|"]
        return "\n".join(lines + [_piped(map(escape_markdown, cells)) for cells in zip(*self._texts(), strict=True)])

    def tsv(self) -> str:
        """The values themselves, tab-separated: a line of headings, then one per row; see :func:`lipaudit.formats.separated_values.row`."""
        return "\n".join([line(column.title for column in self.columns), *map(line, self.rows)])

    def csv(self) -> str:
        """The values themselves, comma-separated."""
        return as_csv(self.tsv())

    def _texts(self) -> list[list[str]]:
        """The texts of every column."""
        return [[column.text(row[i]) for row in self.rows] for i, column in enumerate(self.columns)]

    def _blocks(self, width: int | None) -> Iterable[Grid]:
        """The table in as many parts as the width asks for; the columns that are repeated stand in each."""
        if width is None or self.least_width() <= width:
            yield self
            return
        needs = [_narrowest(column, texts) for column, texts in zip(self.columns, self._texts(), strict=True)]
        fixed = [i for i, column in enumerate(self.columns) if column.repeated]
        chosen: list[int] = []
        for i in range(len(self.columns)):
            if i in fixed:
                continue
            if chosen and _total([needs[j] for j in (*fixed, *chosen, i)]) > width:
                yield self._with_columns(sorted((*fixed, *chosen)))
                chosen = []
            chosen.append(i)
        yield self._with_columns(sorted((*fixed, *chosen)))

    def _with_columns(self, numbers: Sequence[int]) -> Grid:
        rows = tuple(tuple(row[i] for i in numbers) for row in self.rows)
        return replace(self, columns=tuple(self.columns[i] for i in numbers), rows=rows)


def _block(grid: Grid, width: int | None, paint: Paint | None) -> str:
    columns = grid.columns
    texts = grid._texts()
    widths = [_natural(column, cells) for column, cells in zip(columns, texts, strict=True)]
    if width is not None:
        _narrow(columns, widths, _total(widths) - width)
    fitted = [_fit(column, cells, room) for column, cells, room in zip(columns, texts, widths, strict=True)]
    rules = ["-" * _natural(column, cells) for column, cells in zip(columns, fitted, strict=True)]
    if paint is not None:
        fitted = [[paint(r, c, cell) for r, cell in enumerate(cells)] for c, cells in enumerate(fitted)]
    # tabulate widens a column to its heading plus two; as a row, the heading takes no more room than it needs
    text = tabulate(
        [[column.title for column in columns], rules, *zip(*fitted, strict=True)],
        tablefmt="plain",
        disable_numparse=True,
        preserve_whitespace=True,
        colalign=["right" if column.numeric else "left" for column in columns],
    )
    return "\n".join(line.rstrip() for line in text.splitlines())


def _piped(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _natural(column: Column, texts: Sequence[str]) -> int:
    return max(map(len, (column.title, *texts)))


def _narrowest(column: Column, texts: Sequence[str]) -> int:
    natural = _natural(column, texts)
    return min(natural, column.least) if column.can_be_cut else natural


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _narrow(columns: Sequence[Column], widths: list[int], excess: int) -> None:
    """Take ``excess`` characters from the columns that can be cut: by their order, and always from the one with most to spare."""
    for order in sorted({column.order for column in columns}, reverse=True):
        members = [i for i, column in enumerate(columns) if column.order == order and column.can_be_cut]
        while excess > 0 and members:
            widest = max(members, key=lambda i: widths[i] - columns[i].least)
            if widths[widest] <= columns[widest].least:
                break
            widths[widest] -= 1
            excess -= 1


def _fit(column: Column, texts: list[str], width: int) -> list[str]:
    if not column.can_be_cut:
        return texts
    if column.cut == "middle":
        return shorten_paths(texts, width)
    return [shorten_end(text, width) for text in texts]
