"""One option, two spellings: ``--input 3x224x224`` on the command line is ``input_shape=(3, 224, 224)`` in Python.

Errors spell options as whoever asked would write them: :func:`spell` is called where a message is built.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

_COMMAND_LINE = ContextVar("command_line", default=False)
_POSITIONAL: ContextVar[frozenset[str]] = ContextVar("positional", default=frozenset())
# arguments whose option is not their own name with dashes
_OPTIONS = {"input_shape": "--input"}
_NOTHING = object()
_PLACEHOLDER = re.compile(r"[A-Z][A-Z_.|]*[a-z.]*")


@contextmanager
def command_line(asks: bool = True) -> Iterator[None]:
    """Errors that are built inside spell options as the command line does, or where it does not ask, as Python."""
    token = _COMMAND_LINE.set(asks)
    try:
        yield
    finally:
        _COMMAND_LINE.reset(token)


@contextmanager
def positional(*arguments: str) -> Iterator[None]:
    """Errors that are built inside spell these arguments as the command line does that takes them without an option in front.

    >>> with command_line(), positional("images"):
    ...     spell("images", "cats"), spell("images")
    ('IMAGES cats', 'IMAGES')
    """
    token = _POSITIONAL.set(frozenset(arguments))
    try:
        yield
    finally:
        _POSITIONAL.reset(token)


def spell(argument: str, value: object = _NOTHING) -> str:
    """The argument, with its value where one is given, in the words of whoever asked.

    A text in capitals stands for something that the reader puts in its place. A mapping is from inputs to shapes or values.

    >>> spell("max_memory"), spell("domain", "pixels"), spell("mean", (0.5, 0.5)), spell("radius", "R")
    ('max_memory', "domain='pixels'", 'mean=(0.5, 0.5)', 'radius=R')
    >>> spell("input_shape", (3, 224, 224)), spell("input_shape", {"x": (1, "C")}), spell("fix", {"ids": "VALUE"})
    ('input_shape=(3, 224, 224)', "input_shape={'x': (1, C)}", "fix={'ids': VALUE}")
    >>> with command_line():
    ...     spell("max_memory"), spell("domain", "pixels"), spell("mean", (0.5, 0.5)), spell("structure", True)
    ...     spell("input_shape", (3, 224, 224)), spell("input_shape", {"x": (1, "C")}), spell("fix", {"ids": "VALUE"})
    ('--max-memory', '--domain pixels', '--mean 0.5,0.5', '--structure')
    ('--input 3x224x224', '--input x:1,C', '--fix ids=VALUE')
    """
    if not _COMMAND_LINE.get():
        return argument if value is _NOTHING else f"{argument}={_in_python(value)}"
    option = _OPTIONS.get(argument, "--" + argument.replace("_", "-"))
    if argument in _POSITIONAL.get():
        option = argument.upper()
    if value is _NOTHING or value is True:
        return option
    if isinstance(value, Mapping):
        equals = "=" if argument == "fix" else ":"
        return " ".join(f"{option} {name}{equals}{_typed(entry, ',')}" for name, entry in value.items())
    separator = "x" if argument == "input_shape" else ","
    return f"{option} {_typed(value, separator)}"


def _typed(value: object, separator: str) -> str:
    return separator.join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def _in_python(value: object) -> str:
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name!r}: {_in_python(entry)}' for name, entry in value.items())}}}"
    if isinstance(value, tuple | list):
        entries = ", ".join(map(_in_python, value))
        return f"({entries},)" if len(value) == 1 else f"({entries})"
    return value if isinstance(value, str) and _PLACEHOLDER.fullmatch(value) else repr(value)
