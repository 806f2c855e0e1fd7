"""The options of the command line: what each takes, what it refuses, and its help."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from lipaudit.errors import UsageError

Command = Callable[..., Any]
# as in lipaudit.frontends.methods, which imports torch
_ITERATIONS = click.IntRange(1, 1_000_000)


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


def _finite(_ctx: click.Context, _parameter: click.Parameter, value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number")
    return value


def _positive(ctx: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    _finite(ctx, parameter, value)
    if value is not None and value <= 0:
        raise click.BadParameter(f"{value} is not above 0")
    return value


def _folder(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> Path | None:
    if value == "":
        raise click.BadParameter("an empty text names no folder; . is the current one")
    return None if value is None else Path(value)


def _channels(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[float, ...] | None:
    """Numbers separated by commas, one per channel."""
    if value is None:
        return None
    try:
        return tuple(float(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter(f"{value!r} is no list of numbers such as 0.485,0.456,0.406") from None


def _listed(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
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
device_option = click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True)
seed_option = click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    show_default=True,
    help="Seed of searches and of methods that start at random; random weights are always the same.",
)
experiment_weights_option = click.option(
    "--weights",
    metavar="TAG|FILE|random",
    help="Weights for resnet18-layers and network-ratios, the experiments that read any: a tag of torchvision, a state dict, or "
    "random ones without a download.  [default: IMAGENET1K_V1, the paper's]",
)


folder_option = click.option(
    "-o",
    "--output",
    "folder",
    default="lipaudit-reproduce",
    show_default=True,
    metavar="DIR",
    callback=_folder,
    help="Folder for the tables as CSV and the plots as PNG; created where it is missing.",
)


_AUDIT = (
    input_option,
    weights_option,
    arch_option,
    device_option,
    click.option(
        "--tol",
        type=float,
        default=1e-3,
        show_default=True,
        callback=_positive,
        help="Relative tolerance of each row's matrix norm or maximum over frequencies. The border of zero-padded "
        "convolutions may leave a larger ratio.",
    ),
    click.option(
        "--structure",
        is_flag=True,
        help="Only say which operations and whether the network have a finite bound, in seconds and without weights.",
    ),
    click.option(
        "--domain",
        type=click.Choice(["global", "pixels", "ball"]),
        default="global",
        show_default=True,
        help="The inputs over which the bound holds: all of them; images with pixels in [0, 1]; a ball around one input. "
        "Gating and attention often have a bound on the last two only.",
    ),
    click.option(
        "--around",
        metavar="IMAGE",
        help="Centre of the ball: a PNG or JPEG file, resized to the network's input; or a tensor (.npy, .pt) that the "
        "network reads as it is.",
    ),
    click.option(
        "--radius",
        type=float,
        metavar="R",
        callback=_positive,
        help="Radius of the ball (l2): in pixels in [0, 1] around an image, in the network's own input around a tensor.",
    ),
    click.option(
        "--mean",
        metavar="A,B,C",
        callback=_channels,
        help="Normalisation of the pixels, (pixel - mean) / std, one number per channel or one for all. Default: the model's "
        "own, where it is known; an ONNX file has none.",
    ),
    click.option("--std", metavar="A,B,C", callback=_channels, help="See --mean."),
    click.option(
        "--method",
        metavar="NAME",
        default="gram",
        show_default=True,
        help="How the norms of convolutions and matrices are found: gram is certified; a published method (sedghi2019, ...) "
        "gives at best bounds without a margin for rounding, and often estimates, which are marked and fail --max-log10-bound "
        "and --strict. `lipaudit methods` lists them.",
    ),
    click.option(
        "--iterations",
        type=_ITERATIONS,
        metavar="N",
        help="Iterations or samples of a published method that has any. Default: see `lipaudit methods`.",
    ),
    click.option(
        "--lower-bound", is_flag=True, help="Also search the network's Jacobian for an empirical lower bound."
    ),
    seed_option,
    click.option(
        "--format",
        "form",
        type=click.Choice(["table", "json", "markdown", "tsv"]),
        default="table",
        show_default=True,
        help="JSON is one object, or an array for several models.",
    ),
    click.option(
        "-o", "--output", type=click.Path(path_type=Path), help="Write the report to this file, whole or not at all."
    ),
    click.option(
        "--columns",
        metavar="A,B,...",
        help="Columns of the table: layer, op, weight, input, geometry, lower, upper, log10, "
        "ratio, share, rule, rigor, status, note, reads, folded. At a terminal they must fit 100 characters; in a file or "
        "a pipe the table is as wide as they need.",
    ),
    click.option(
        "--depth",
        type=click.IntRange(min=1),
        help="Sum rows deeper than this many path components (between '.' or '/') into one.",
    ),
    click.option(
        "--cache",
        callback=_folder,
        envvar="LIPAUDIT_CACHE",
        show_envvar=True,
        metavar="DIR",
        help="Keep certified norms in this folder, by the content of the weights: what an earlier audit has found is not "
        "computed again.",
    ),
    click.option("--quiet", is_flag=True, help="Nothing on stderr but errors, failed gates and what --strict finds."),
    click.option(
        "--strict",
        is_flag=True,
        help="End with 4 if anything is unsupported or unbounded over the domain, or an estimate (see --method).",
    ),
    click.option(
        "--max-log10-bound",
        "gate",
        type=float,
        callback=_finite,
        metavar="X",
        help="End with 1 unless the network's bound over the domain is finite and at most 10^X.",
    ),
)

_COMPARE = (
    click.option(
        "--methods",
        metavar="A,B,...",
        callback=_listed,
        help="Methods to compare, by name (`lipaudit methods` lists them). Default: every method.",
    ),
    input_option,
    weights_option,
    arch_option,
    device_option,
    click.option(
        "--tol",
        type=float,
        default=1e-3,
        show_default=True,
        callback=_positive,
        help="Relative tolerance of the certified bounds that the figures are judged by.",
    ),
    seed_option,
    click.option(
        "--iterations",
        type=_ITERATIONS,
        metavar="N",
        help="Iterations or samples of the methods that have any. Default: see `lipaudit methods`.",
    ),
    click.option(
        "--time-limit",
        type=float,
        default=60.0,
        show_default=True,
        metavar="SECONDS",
        callback=_positive,
        help="A method that has used up its seconds measures nothing more; a measurement that has begun is finished.",
    ),
    click.option(
        "--format",
        "form",
        type=click.Choice(["table", "json", "markdown", "tsv"]),
        default="table",
        show_default=True,
    ),
    click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        help="Write the comparison to this file, whole or not at all.",
    ),
    click.option("--quiet", is_flag=True, help="Nothing on stderr but errors."),
)


def audit_options(function: Command) -> Command:
    """Every option of ``lipaudit audit``."""
    return _all(_AUDIT, function)


def compare_options(function: Command) -> Command:
    """Every option of ``lipaudit compare``."""
    return _all(_COMPARE, function)


def _all(options: tuple[Callable[[Command], Command], ...], function: Command) -> Command:
    for option in reversed(options):
        function = option(function)
    return function


def check_domain(options: dict[str, Any]) -> None:
    """Refuse what does not go together before any model is loaded."""
    if options["domain"] == "global" and all(options[key] is None for key in ("around", "radius", "mean", "std")):
        return
    from lipaudit.frontends.domains import DomainRequest, check_normalisation

    DomainRequest(options["domain"], options["around"], options["radius"])
    check_normalisation(options["mean"], options["std"])


def check_method(options: dict[str, Any]) -> None:
    """Refuse an unknown method, or what does not go with it, before any model is loaded."""
    if options["method"] == "gram" and options["iterations"] is None:
        return
    if options["structure"]:
        raise UsageError("--structure computes no norms: leave out --method and --iterations")
    from lipaudit.frontends.methods import find_requested

    find_requested(options["method"], options["iterations"])


def input_shape(texts: tuple[str, ...]) -> tuple[int, ...] | dict[str, tuple[int, ...]] | None:
    """What ``--input`` says, once or several times."""
    if not texts:
        return None
    from lipaudit.frontends.spec import parse_input

    shapes = [parse_input(text) for text in texts]
    if len(shapes) == 1 and not shapes[0][0]:
        return shapes[0][1]
    names = [name for name, _ in shapes]
    if not all(names) or len(set(names)) < len(names):
        raise UsageError("several inputs need a name each: --input left:1,3,64,64 --input right:1,3,64,64")
    return dict(shapes)
