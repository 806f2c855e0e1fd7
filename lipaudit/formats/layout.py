"""How a report is laid out for people: the room there is, which rows and columns, and what belongs to a terminal only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from lipaudit.errors import UsageError
from lipaudit.formats.columns import parse_columns
from lipaudit.text.lines import LEAST_WIDTH

Order = Literal["share", "factor", "depth", "name"]
ORDERS: tuple[Order, ...] = ("share", "factor", "depth", "name")
FILE_WIDTH = 100
_SHAPED = ("table", "markdown")  # the formats whose rows and columns can be chosen


@dataclass(frozen=True)
class Layout:
    """What a table for people shows, and in how much room.

    Args:
        width: characters in a line; tables are narrowed and sentences broken to it.
        height: lines of the first screen, which decide how many rows it has; None for every row.
        every_row: every row by itself, in the order of the network unless ``order`` says otherwise.
        top: how many rows, instead of what ``height`` has room for.
        order: by which the rows are sorted; None for the largest share first, or that of the network with ``every_row``.
        verbose: all columns and all sentences.
        quiet: the answer alone, in one line.
        columns: keys of :data:`~lipaudit.formats.columns.COLUMNS`, instead of those that are chosen for the report.
        depth: rows deeper than that many path components are shown as one.
        wide: chosen columns take the room that their texts need, whatever the ``width``.
        colour: bold and coloured text.
        bars: the shares as bars.
        gated: the bound has a limit already (``--max-log10-bound``, ``--claim``), so that none is advised.
        claim: the constant that is claimed and its tolerance, of which the answer says whether it is proved; None where none is.
        typed: the command that led to the report, to which the next steps add; empty where there was none, which has no such steps.
    """

    width: int = LEAST_WIDTH
    height: int | None = 24
    every_row: bool = False
    top: int | None = None
    order: Order | None = None
    verbose: bool = False
    quiet: bool = False
    columns: tuple[str, ...] | None = None
    depth: int | None = None
    wide: bool = False
    colour: bool = False
    bars: bool = False
    gated: bool = False
    claim: tuple[float, float] | None = None
    typed: str = ""

    def of_file(self, every_row: bool = True) -> Layout:
        """The same in a file, which holds everything and nothing of a terminal."""
        return replace(
            self,
            width=FILE_WIDTH,
            height=None,
            every_row=every_row and self.top is None,
            verbose=True,
            quiet=False,
            wide=True,
            colour=False,
            bars=False,
        )


WHOLE = Layout().of_file()


def chosen_columns(form: str, columns: str | None, depth: int | None) -> tuple[str, ...] | None:
    """The columns that a user asked for; a :class:`~lipaudit.errors.UsageError` says what does not go together."""
    if form not in _SHAPED and (columns is not None or depth is not None):
        raise UsageError(f"--columns and --depth shape the table and the Markdown; --format {form} is always whole")
    return None if columns is None else parse_columns(columns)
