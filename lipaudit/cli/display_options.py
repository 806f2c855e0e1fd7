"""The options that say how much of a result is shown, and what the terminal offers: its size, colour and bars."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from lipaudit.cli.options import Count, with_options
from lipaudit.errors import ConflictError
from lipaudit.errors.commands import FleetTableError, WholeFormatError
from lipaudit.formats.layout import ORDERS, Layout, chosen_columns
from lipaudit.text.lines import LEAST_WIDTH

_SENTENCE_WIDTH = 100  # longer lines are hard to read
_NAMES = ("every_row", "top", "order", "columns", "depth", "verbose")
all_option = click.option(
    "--all", "every_row", is_flag=True, help="Show every row, equal ones of repeated blocks one by one."
)
verbose_option = click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Show all columns, how the figures were found, what to do, and the time taken.",
)


def quiet_option(help_text: str) -> Any:
    """``-q``, which leaves different things of different commands."""
    return click.option("-q", "--quiet", is_flag=True, help=help_text)


display_options = with_options(
    all_option,
    click.option(
        "--top",
        type=Count(),
        metavar="N",
        help="Show N rows instead of as many as the screen has room for.",
    ),
    click.option(
        "--sort",
        "order",
        type=click.Choice(ORDERS),
        help="Order of the rows: largest share, largest factor, depth (the order of computation), or name. Default: share; depth "
        "with --all.",
    ),
    click.option(
        "--columns",
        metavar="A,B,...",
        help="Columns of the table: layer, op, weight, input, geometry, factor, lower, upper, log10, tightness, share, rule, rigor, "
        "status, note, reads, folded, block. In a file or a pipe the table is as wide as they need.",
    ),
    click.option(
        "--depth",
        type=Count(),
        metavar="N",
        help="Show everything below a module path of N components (between '.' or '/') as one row.",
    ),
    verbose_option,
    quiet_option(
        "Print the answer alone, in one line (-o FILE and other formats stay whole); nothing on stderr but errors, failed gates and "
        "what --strict finds."
    ),
)


def take_layout(options: dict[str, Any], form: str, file: Path | None, quiet: bool) -> Layout:
    """The layout that the display options ask for, taken out of those of every audit.

    Raises :class:`~lipaudit.errors.UsageError` for what does not go together.
    """
    every_row, top, order, columns, depth, verbose = (options.pop(name) for name in _NAMES)
    keys = chosen_columns(form, columns, depth)
    if form != "table" and (top is not None or order is not None):
        raise WholeFormatError(["--top", "--sort"], form)
    if every_row and top is not None:
        raise ConflictError("--all", "--top", "one shows every row, the other some of them")
    if verbose and quiet:
        raise ConflictError("--verbose", "--quiet", "one shows more, the other less")
    layout = replace(
        screen(), every_row=every_row, top=top, order=order, columns=keys, depth=depth, verbose=verbose, quiet=quiet
    )
    return layout.of_file() if file is not None else layout


def check_no_layout(options: dict[str, Any]) -> None:
    """Refuse display options where a fleet has one summary; take them out of the options."""
    asked = [name for name in _NAMES if name != "verbose" and options.pop(name) not in (None, False)]
    options.pop("verbose")
    if asked:
        raise FleetTableError([{"every_row": "--all", "order": "--sort"}.get(name, f"--{name}") for name in asked])


def screen() -> Layout:
    """What there is to write on: the terminal's size, or 80 by 24 characters where stdout is none.

    The variables COLUMNS and LINES go first. Colour and bars are for terminals; NO_COLOR and FORCE_COLOR are obeyed.
    """
    size = shutil.get_terminal_size((LEAST_WIDTH, 24))
    terminal = sys.stdout.isatty()
    colour = has_colour()
    # a terminal keeps its last line for the prompt
    height = max(size.lines - 1 if terminal else size.lines, 10)
    return Layout(width=max(size.columns, LEAST_WIDTH), height=height, colour=colour, bars=terminal, wide=not terminal)


def has_colour() -> bool:
    """Whether stdout gets colour: it is a terminal and NO_COLOR is not set, or FORCE_COLOR is set."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (sys.stdout.isatty() and os.environ.get("TERM") != "dumb")


def text_width() -> int:
    """The width at which sentences are broken."""
    return min(max(shutil.get_terminal_size((LEAST_WIDTH, 24)).columns, LEAST_WIDTH), _SENTENCE_WIDTH)


def typed_for(words: Sequence[str], models: Sequence[str], spec: str) -> str:
    """The command that was typed, for one of its models.

    >>> typed_for(["a.onnx", "b.onnx", "--tol", "0.1"], ["a.onnx", "b.onnx"], "b.onnx")
    'lipaudit b.onnx --tol 0.1'
    """
    first = next((i for i, word in enumerate(words) if word in models), len(words))
    others = [word for word in words[first:] if word not in models]
    return shlex.join(["lipaudit", *words[:first], spec, *others])
