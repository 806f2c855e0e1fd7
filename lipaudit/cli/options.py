"""The options of the command line: what each takes, what it refuses, and its help."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from lipaudit.cli.terminal import import_frameworks
from lipaudit.errors import UsageError

Command = Callable[..., Any]
# as in lipaudit.frontends.methods, which imports torch
ITERATIONS = click.IntRange(1, 1_000_000)


@dataclass
class State:
    """What is asked of the whole command line."""

    debug: bool = False


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
        raise click.BadParameter(f"{value!r} is no list of numbers such as 0.485,0.456,0.406") from None


def listed(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """Names separated by commas."""
    return None if value is None else tuple(part.strip() for part in value.split(","))


input_option = click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="SIZE",
    help="Input shape: H or CxHxW for image models by name or file, CxHxW for your own image models, else "
    "NAME:FULL,SHAPE with a batch axis of 1 (once per input). Default: the model's own.",
)
weights_option = click.option(
    "--weights",
    metavar="TAG|FILE|random",
    help="Weights to load; 'random' for those that a training would start from, without a download.",
)
arch_option = click.option("--arch", metavar="NAME", help="Architecture that a file of weights belongs to.")


def device_choice(help_text: str) -> Callable[[Command], Command]:
    """``--device``; what ``auto`` means differs between commands."""
    return click.option(
        "--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True, help=help_text
    )


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


def input_shape(texts: tuple[str, ...]) -> tuple[int, ...] | dict[str, tuple[int, ...]] | None:
    """What ``--input`` says, once or several times."""
    if not texts:
        return None
    import_frameworks()
    from lipaudit.frontends.spec import parse_input

    shapes = [parse_input(text) for text in texts]
    if len(shapes) == 1 and not shapes[0][0]:
        return shapes[0][1]
    names = [name for name, _ in shapes]
    if not all(names) or len(set(names)) < len(names):
        raise UsageError("several inputs need a name each: --input left:1,3,64,64 --input right:1,3,64,64")
    return dict(shapes)
