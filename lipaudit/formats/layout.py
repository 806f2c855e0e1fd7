"""How the table of a report is laid out: which columns, which rows are summed, and how wide it may be."""

from __future__ import annotations

from dataclasses import dataclass

from lipaudit.errors import UsageError
from lipaudit.formats.columns import least_width, parse_columns
from lipaudit.text.shorten import WIDTH


@dataclass(frozen=True)
class Layout:
    """``columns`` are keys of :data:`~lipaudit.formats.columns.COLUMNS`, None for the usual ones; ``depth`` sums deeper rows.

    ``wide`` lets chosen columns make a table wider than a terminal.
    """

    columns: tuple[str, ...] | None = None
    depth: int | None = None
    wide: bool = False

    @classmethod
    def parse(cls, form: str, columns: str | None, depth: int | None, wide: bool = False) -> Layout:
        """The layout that a user asked for; a :class:`~lipaudit.errors.UsageError` says what does not go together."""
        if form not in ("table", "markdown") and (columns is not None or depth is not None):
            raise UsageError(f"--columns and --depth shape the table and the Markdown; --format {form} is always whole")
        keys = None if columns is None else parse_columns(columns)
        if keys and form == "table" and not wide and least_width(keys) > WIDTH:
            raise UsageError(
                f"{len(keys)} columns need up to {least_width(keys)} characters, a table on a terminal has {WIDTH}: "
                "choose fewer, or write to a file (-o FILE) or a pipe, where it may be wider"
            )
        return cls(keys, depth, wide)
