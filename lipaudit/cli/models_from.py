"""``--models-from FILE``: a model per line, with options of its own.

A line is what one would type behind ``lipaudit`` for this model alone, quoted as in a shell: ``MODEL [--input SIZE] ...``. Or it
is a JSON object with the same names: ``{"model": "net.onnx", "input": "3x224x224"}``, where ``null`` stands for the default, also
against an option of the command line, and ``"fix"`` may be an object (``{"mask": 1}``). Blank lines and lines that begin with ``#``
are skipped. Everything is read and checked before anything is audited.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from lipaudit.errors import (
    EmptyListError,
    InvalidValueError,
    LipauditError,
    RepeatedNameError,
    UnknownChoiceError,
)
from lipaudit.errors.commands import (
    EmptyModelListError,
    FleetWideOptionError,
    MissingModelKeyError,
    ModelLinesError,
    QuotingError,
    UnreadableListError,
)
from lipaudit.fleet.model import FleetModel, plain

# options of an audit that may differ from model to model
_OWN = (
    "input_shape",
    "fix",
    "weights",
    "arch",
    "structure",
    "domain",
    "around",
    "radius",
    "norm_domain",
    "mean",
    "std",
    "effort",
    "warm_start",
)
# keys of a line of JSON whose option has another name
_RENAMED = {"input": "input_shape"}
_REPEATED = ("input", "fix")
_DEFAULTS = {"structure": False, "domain": "global", "norm_domain": "l2"}  # of the others: None
_KEYS = ("input", *(name.replace("_", "-") for name in _OWN[1:]))
Check = Callable[[FleetModel], list[FleetModel]]


def read_models(source: str, audit: click.Command, check: Check) -> list[FleetModel]:
    """The models that the file names, ``-`` for stdin; ``audit`` is the command whose options a line may use.

    ``check`` refuses a model that cannot be right and expands its wildcards. Raises
    :class:`~lipaudit.errors.UsageError` with the file and the number of the first bad line.
    """
    name = "stdin" if source == "-" else source
    models: list[FleetModel] = []
    problems: list[tuple[int, str]] = []
    for number, line in _lines(source):
        try:
            models += check(_request(line, audit))
        except click.UsageError as error:
            problems.append((number, error.format_message()))
        except (LipauditError, ValueError, RecursionError) as error:
            problems.append((number, str(error)))
    if problems:
        raise ModelLinesError(name, problems)
    if not models:
        raise EmptyModelListError(name)
    return models


def _lines(source: str) -> Iterator[tuple[int, str]]:
    if source == "-" and sys.stdin is None:
        raise UnreadableListError("stdin", "it is closed", "name a file")
    try:
        data = sys.stdin.buffer.read() if source == "-" else Path(source).expanduser().read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UnreadableListError(source, reason) from None
    if b"\0" in data:
        raise UnreadableListError(source, "it holds null bytes, as UTF-16 does", "save it as UTF-8")
    text = os.fsdecode(data.removeprefix(b"\xef\xbb\xbf"))  # names of files need not be UTF-8
    for number, line in enumerate(text.split("\n"), start=1):
        bare = line.strip()
        if bare and not bare.startswith("#"):
            yield number, bare


def _request(line: str, audit: click.Command) -> FleetModel:
    if not line.startswith("{"):
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise QuotingError(error) from None
        return _parsed(words, audit)
    words, defaults = _words(json.loads(line, object_pairs_hook=_object))
    model = _parsed(words, audit)
    return FleetModel(model.spec, {**model.options, **defaults})


def _parsed(words: list[str], audit: click.Command) -> FleetModel:
    """A line as the command line would understand it."""
    own = [parameter for parameter in audit.params if parameter.name in _OWN]
    line = click.Command("line", params=[click.Argument(["model"]), *own], add_help_option=False)
    try:
        context = line.make_context("line", words)
    except click.NoSuchOption as error:
        if any(error.option_name in parameter.opts for parameter in audit.params):
            raise FleetWideOptionError(error.option_name) from None
        raise
    options = {
        name: value
        for name, value in context.params.items()
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE and name != "model"
    }
    return FleetModel(context.params["model"], plain(options))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise RepeatedNameError("the object", twice)
    return entries


def _words(value: Any) -> tuple[list[str], dict[str, Any]]:
    """The words of a command line that say what a JSON object says, and the options that it sets to their defaults."""
    if not isinstance(value.get("model"), str):
        raise MissingModelKeyError
    words: list[str] = []
    defaults: dict[str, Any] = {}
    for key, entry in value.items():
        if key == "model":
            continue
        if key not in _KEYS:
            raise UnknownChoiceError("key", key, ("model", *_KEYS))
        if entry is None or (key == "structure" and entry is False):
            name = _RENAMED.get(key, key.replace("-", "_"))
            defaults[name] = _DEFAULTS.get(name)
        elif key == "structure":
            if entry is not True:
                raise InvalidValueError('"structure"', "true or false", entry)
            words.append("--structure")
        elif key in ("input", "fix", "mean", "std") and entry == []:
            raise EmptyListError(json.dumps(key))
        elif key in _REPEATED and isinstance(entry, list):
            words += [f"--{key}={_text(key, part)}" for part in entry]
        elif key == "fix" and isinstance(entry, dict):
            words += [
                f"--fix={name}={value if isinstance(value, str) else json.dumps(value)}"
                for name, value in entry.items()
            ]
        elif key in ("mean", "std") and isinstance(entry, list):
            words.append(f"--{key}={','.join(_text(key, part) for part in entry)}")
        else:
            words.append(f"--{key}={_text(key, entry)}")
    return [*words, "--", value["model"]], defaults


def _text(key: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidValueError(json.dumps(key), "text or a number", value)
    return str(value)
