"""Errors in the words of whoever asked: options of the command line there, arguments of the function in Python."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

from lipaudit.errors import LipauditError

P = ParamSpec("P")
T = TypeVar("T")
_COMMAND_LINE = ContextVar("command_line", default=False)
# options whose argument in Python has another name
_RENAMED = {"input": "input_shape"}
_NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_SIZE = r"(?:\d+|[A-Z]+)"
_VALUES = "|".join(
    (
        r"[\w.]+:\w+(?:[,.×]\w+)*",  # NAME:1,3 and timm:resnet18
        rf"{_SIZE}(?:x{_SIZE})+",  # 3x224x224
        r"-?\d\w*(?:[.,+-]-?\w+)*",  # 1e-3 and 0.5,0.5
        r"[a-z][a-z_]*\d[\w.]*",  # resnet50
        r"[A-Z][A-Z|]*|random|global|pixels|ball|gram|cpu|cuda",
    )
)
# a number in front of what it counts ("3 numbers") is none
_VALUE = rf"(?: (?P<value>{_VALUES})(?![\w-])(?!(?<=\d) numbers))?"
_HELD = re.compile(r"--fix ([^\s=]+)=([^\s:;,)]+)")
_OPTION = re.compile(r"(?P<open>\()?--(?P<name>[a-z][a-z0-9-]*[a-z0-9])(?(open)\)|" + _VALUE + ")")


@contextmanager
def command_line() -> Iterator[None]:
    """Errors raised inside keep the names of options."""
    token = _COMMAND_LINE.set(True)
    try:
        yield
    finally:
        _COMMAND_LINE.reset(token)


def names_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """Let the errors of a public function speak of its own arguments, unless the command line has called it."""
    known = inspect.signature(function).parameters

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except LipauditError as error:
            if not _COMMAND_LINE.get() and error.args:
                error.args = (with_arguments(str(error), known), *error.args[1:])
            raise

    return call


def with_arguments(message: str, known: Collection[str]) -> str:
    """The message with options written as arguments where the function has one; others stay.

    >>> with_arguments("the tolerance (--tol) is a number; give it with --input, as in --input 3x224x224.", ["tol", "input_shape"])
    'the tolerance (tol) is a number; give it with input_shape, as in input_shape=(3, 224, 224).'
    >>> with_arguments("methods (--methods) is empty: use --domain pixels or --jobs 4", ["methods", "domain"])
    "methods is empty: use domain='pixels' or --jobs 4"
    >>> with_arguments("--mean has 2 and --std 3 numbers, --std 0,1: none may be 0", ["mean", "std"])
    'mean has 2 and std 3 numbers, std=[0, 1]: none may be 0'
    >>> with_arguments("--around IMAGE --radius R, --radius 0.5 or --input x:1,C", ["around", "radius", "input_shape"])
    "around=IMAGE radius=R, radius=0.5 or input_shape={'x': (1, C)}"
    >>> with_arguments("for example --arch resnet50, --arch timm:resnet18", ["arch"])
    "for example arch='resnet50', arch='timm:resnet18'"
    >>> with_arguments("hold it with --fix ids=VALUE (a number)", ["fix"])
    "hold it with fix={'ids': VALUE} (a number)"
    """

    def replaced(match: re.Match[str]) -> str:
        name = _RENAMED.get(match["name"], match["name"].replace("-", "_"))
        if name not in known:
            return match[0]
        if match["open"]:
            return f"({name})"
        return f"{name}={_written(name, match['value'])}" if match["value"] else name

    if "fix" in known:
        message = _HELD.sub(r"fix={'\1': \2}", message)
    return re.sub(r"\b(\w+) \(\1\)", r"\1", _OPTION.sub(replaced, message))


def _written(argument: str, value: str) -> str:
    """A value as Python has it: sizes in a tuple, numbers as they are, what stands for something (FILE) as it is, else a text."""
    if argument == "input_shape":
        name, colon, sizes = value.rpartition(":")
        parts = re.split("[,x×]", sizes)
        shape = parts[0] if len(parts) == 1 else f"({', '.join(parts)})"
        return f"{{{name!r}: {shape}}}" if colon else shape
    if re.fullmatch(rf"{_NUMBER}|[A-Z|]+", value):
        return value
    if re.fullmatch(rf"{_NUMBER}(,{_NUMBER})+", value):
        return f"[{value.replace(',', ', ')}]"
    return repr(value)
