"""The options of the command line: what each takes, what it refuses, and its help."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from lipaudit.auditing.values import DEVICES, MOST_ITERATIONS
from lipaudit.errors import RepeatedNameError
from lipaudit.errors.commands import UnnamedInputsError
from lipaudit.formats.registry import FORMATS, format_names, format_of_file, usual_suffixes
from lipaudit.frontends.spec import parse_fix, parse_input

Command = Callable[..., Any]
ITERATIONS = click.IntRange(1, MOST_ITERATIONS)


class Count(click.IntRange):
    """A whole number from 1; the error says so and names the option."""

    def __init__(self) -> None:
        super().__init__(min=1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            name = "The number" if param is None else max(param.opts, key=len)
            raise click.UsageError(f"{name} must be a whole number from 1, got {str(value)!r}", ctx) from None


@dataclass
class State:
    """What is asked of the whole command line."""

    debug: bool = False
    words: tuple[str, ...] = ()  # behind the program's name


class TakesFiles(click.Command):
    """A command that refuses a word which could be an option as well as a model's file, such as a shell or a hook may hand it.

    A file of a repository then never sets an option, gates among them; behind ``--`` every word is a model.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Look at the words up to the first ``--``, then read them as click does."""
        words = args[: args.index("--")] if "--" in args else args
        for word in words:
            if word.startswith("-") and os.path.lexists(word) and _has_a_model_suffix(word):
                raise click.UsageError(
                    f"{word!r} is a file here and also reads as an option: put -- before the models, or write ./{word}",
                    ctx,
                )
        return super().parse_args(ctx, args)


def _has_a_model_suffix(word: str) -> bool:
    from lipaudit.frontends.spec import FILE_SUFFIXES

    return word.lower().endswith(FILE_SUFFIXES)


def debug_option(function: Command) -> Command:
    """``--debug``, remembered in the context's :class:`State`."""

    def remember(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
        ctx.ensure_object(State).debug = value

    return click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=remember,
        help="Show tracebacks and the warnings of other packages.",
    )(function)


def finite(_ctx: click.Context, _parameter: click.Parameter, value: float | None) -> float | None:
    """Refuse infinities and NaN."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number")
    return value


def positive(ctx: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """Refuse what is no finite number above 0."""
    finite(ctx, parameter, value)
    if value is not None and value <= 0:
        raise click.BadParameter(f"{value} is not above 0")
    return value


def not_negative(ctx: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """Refuse what is no finite number from 0."""
    finite(ctx, parameter, value)
    if value is not None and value < 0:
        raise click.BadParameter(f"{value} is below 0")
    return value


def folder(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> Path | None:
    """The path of a folder."""
    if value == "":
        raise click.BadParameter("an empty text names no folder; . is the current one")
    return None if value is None else Path(value)


def channels(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[float, ...] | None:
    """Numbers separated by commas, one per channel."""
    if value is None:
        return None
    try:
        return tuple(float(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a list of numbers such as 0.485,0.456,0.406") from None


def listed(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """Names separated by commas."""
    return None if value is None else tuple(part.strip() for part in value.split(","))


def _fixed_inputs(_ctx: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, str] | None:
    """What ``--fix`` says, once or several times."""
    if not texts:
        return None
    pairs = [parse_fix(text) for text in texts]
    names = [name for name, _ in pairs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise RepeatedNameError("--fix", twice)
    return dict(pairs)


def _input_shape(
    _ctx: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]
) -> tuple[int, ...] | dict[str, tuple[int, ...]] | None:
    """What ``--input`` says, once or several times."""
    if not texts:
        return None
    shapes = [parse_input(text) for text in texts]
    if len(shapes) == 1 and not shapes[0][0]:
        return shapes[0][1]
    names = [name for name, _ in shapes]
    if not all(names) or len(set(names)) < len(names):
        raise UnnamedInputsError
    return dict(shapes)


input_option = click.option(
    "--input",
    "input_shape",
    multiple=True,
    callback=_input_shape,
    metavar="SIZE",
    help="Input shape: H, HxW or CxHxW for image models, N for a network that reads a vector, else "
    "NAME:FULL,SHAPE with a batch axis of 1 (once per input). Default: the model's own.",
)
fix_option = click.option(
    "--fix",
    "fix",
    multiple=True,
    callback=_fixed_inputs,
    metavar="NAME=VALUE|FILE",
    help="Hold an input at a value, as a constant of the audit (once per input): a number, which fills a tensor of the input's size, "
    "true, false, none, a list such as [[1,2,3]], or a tensor file (.npy, .pt). For masks, token ids, sampling rates, flags.",
)
weights_option = click.option(
    "--weights",
    metavar="TAG|FILE|random",
    help="Weights to load; 'random' for those that a training would start from, without a download.",
)
memory_option = click.option(
    "--max-memory",
    metavar="SIZE",
    help="How much memory the tensors that a model file describes may take, such as 16GB. Default: 4GB. A file that asks for more is "
    "refused before anything is computed.",
)
arch_option = click.option("--arch", metavar="NAME", help="Architecture that a file of weights belongs to.")


def tolerance_option(help_text: str) -> Callable[[Command], Command]:
    """``--tol``, which is a tolerance of something else for every command."""
    return click.option("--tol", type=float, default=1e-3, show_default=True, callback=positive, help=help_text)


def format_option(help_text: str, *kinds: type) -> Callable[[Command], Command]:
    """``--format``: the formats that take a document of one of these types; see :func:`format_of`."""
    names = format_names(*kinds)
    return click.option(
        "--format",
        "form",
        type=click.Choice(names),
        metavar="FORMAT",
        help=f"{', '.join(names[:-1])} or {names[-1]}. {help_text} Default: what the name of the file after -o says "
        f"({', '.join(usual_suffixes(names))}), else table.",
    )


def format_of(form: str | None, output: Path | None, *kinds: type) -> str:
    """The format that was asked for, or the one that belongs to the ending of the file.

    Raises :class:`~lipaudit.errors.UsageError` for other endings, and for a format that cannot be written on this machine or to this place.
    """
    file = None if output == Path("-") else output
    name = form or ("table" if file is None else format_of_file(file, *kinds))
    FORMATS[name].check_available()
    FORMATS[name].check_output(file)
    return name


def device_choice(help_text: str) -> Callable[[Command], Command]:
    """``--device``; what ``auto`` means differs between commands."""
    return click.option("--device", type=click.Choice(DEVICES), default="auto", show_default=True, help=help_text)


device_option = device_choice(
    "Where norms are found and the network runs; cuda is a GPU. auto: where the model is once it is loaded, the CPU unless a "
    "factory says otherwise."
)
seed_option = click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    show_default=True,
    help="Seed of searches and of methods that start at random; random weights are always the same.",
)


def with_options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """One decorator for many options, which help shows in this order."""

    def decorate(function: Command) -> Command:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate
