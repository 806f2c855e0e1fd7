"""``lipaudit certify MODEL IMAGES``: radii within which single decisions hold, and what an attack leaves of them."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from lipaudit.cli.completion import complete_model
from lipaudit.cli.display_options import all_option, quiet_option, screen
from lipaudit.cli.options import (
    Count,
    TakesFiles,
    arch_option,
    channels,
    debug_option,
    device_option,
    fix_option,
    folder,
    format_of,
    format_option,
    input_option,
    memory_option,
    seed_option,
    tolerance_option,
    weights_option,
    with_options,
)
from lipaudit.cli.terminal import Progress, deliver, say, shielded
from lipaudit.errors.commands import ReplacedInputError
from lipaudit.fleet.interrupts import delayed
from lipaudit.formats.options import Options
from lipaudit.formats.registry import FORMATS
from lipaudit.frontends.input_files import read_where
from lipaudit.gates.certification import MIN_CERTIFIED_ACCURACY, AccuracyGate, gate_problem, parse_gate, parse_radius
from lipaudit.network.efforts import EFFORTS
from lipaudit.option_names import positional
from lipaudit.records.certification import Certification

UNITS = ("auto", "pixels", "input")
_GATE_FAILED = 1


def _radii(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[float, ...]:
    """Radii separated by commas, each a number or a quotient."""
    if value is None:
        return ()
    try:
        return tuple(parse_radius(part.strip()) for part in value.split(","))
    except (ValueError, ZeroDivisionError):
        raise click.BadParameter(f"{value!r} is not a list of radii such as 0.25,72/255") from None


def _gate(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> AccuracyGate | None:
    return None if value is None else parse_gate(value)


_OPTIONS = with_options(
    click.option(
        "--labels",
        metavar="FILE",
        help="The right classes: lines FILE,LABEL with numbers from 0 (.csv), or one class per image in their order (.csv, .npy, .pt). "
        "Default: the class folders, or y of an array file; without any, decisions are certified and no accuracy is known.",
    ),
    click.option(
        "--max-images",
        type=Count(),
        metavar="N",
        help="Read at most so many images, drawn with --seed where there are more. Default: all.",
    ),
    click.option(
        "--radii",
        metavar="A,B,...",
        callback=_radii,
        help="Radii of the table of accuracies, such as 0.25,72/255, beside 36/255, 72/255, 108/255 and 1.",
    ),
    click.option(
        "--units",
        type=click.Choice(UNITS),
        default="auto",
        show_default=True,
        help="What radii are measured in: pixels in [0, 1], before the normalisation; or the network's own input. auto: pixels for image "
        "files and bytes (uint8), the input for arrays of floats.",
    ),
    click.option(
        "--mean",
        metavar="A,B,C",
        callback=channels,
        help="Normalisation of the pixels, (pixel - mean) / std, one number per channel or one for all. Default: the model's own, "
        "where it is known; an ONNX file has none.",
    ),
    click.option("--std", metavar="A,B,C", callback=channels, help="See --mean."),
    input_option,
    fix_option,
    weights_option,
    arch_option,
    memory_option,
    device_option,
    tolerance_option("Relative tolerance of the norms of weights."),
    click.option(
        "--effort",
        type=click.Choice(tuple(EFFORTS)),
        help="How long to search for tighter bounds over all inputs, of the logits and of every pair of classes (of at most 64 pairs): "
        "not at all, or with at most 5e10, 5e11 or 2e13 operations in all. Default: quick.",
    ),
    click.option(
        "--local-steps",
        type=click.IntRange(0, 1000),
        default=0,
        show_default=True,
        metavar="N",
        help="Try N balls around every image for bounds that hold on them alone; the larger radius counts.",
    ),
    click.option(
        "--attack-steps",
        type=click.IntRange(0, 100_000),
        default=60,
        show_default=True,
        metavar="N",
        help="Gradient steps of every start of the attack; 0 for no attack.",
    ),
    click.option(
        "--attack-starts",
        type=Count(),
        default=4,
        show_default=True,
        metavar="N",
        help="Starts of the attack per image: towards the nearest classes to first order, then in random directions.",
    ),
    seed_option,
    click.option(
        "--workers",
        type=Count(),
        default=1,
        show_default=True,
        metavar="N",
        help="Processes that share the images and the cores.",
    ),
    click.option(
        "--state",
        metavar="FILE",
        help="Keep what is done in this file, from which the same command continues after an interruption.",
    ),
    click.option(
        "--min-certified-accuracy",
        "gate",
        metavar="SHARE@RADIUS",
        callback=_gate,
        help="A gate: exit code 1 unless this share of all images is decided as labelled and certified at the radius, as 0.8@36/255.",
    ),
    format_option("JSON has every image; TSV and CSV are one row per image.", Certification),
    click.option(
        "-o", "--output", type=click.Path(path_type=Path), help="Write the result to this file, whole or not at all."
    ),
    click.option(
        "--cache",
        callback=folder,
        envvar="LIPAUDIT_CACHE",
        show_envvar=True,
        metavar="DIR",
        help="Keep certified norms of weights in this folder, as an audit does.",
    ),
    all_option,
    click.option(
        "--top", type=Count(), metavar="N", help="Show N images instead of as many as the screen has room for."
    ),
    quiet_option(
        "Print the answer alone, in one line (-o FILE and other formats stay whole); nothing on stderr but errors and a failed gate."
    ),
)


@click.command(cls=TakesFiles)
@click.argument("model", shell_complete=complete_model)
@click.argument("images", type=click.Path())
@_OPTIONS
@debug_option
@click.pass_context
def certify(
    ctx: click.Context,
    /,
    model: str,
    images: str,
    form: str | None,
    output: Path | None,
    gate: AccuracyGate | None,
    every_row: bool,
    top: int | None,
    quiet: bool,
    **values: Any,
) -> int:
    """Certify the decisions of a classifier at images: within the printed radius no input is decided otherwise.

    IMAGES is an image file, a folder of them or of one folder per class, or a file of arrays: .npy, or .npz or .pt with the images as x or
    images and their classes as y or labels. Beside every certified radius stands the distance at which an attack succeeds.
    """
    from lipaudit.certification.request import certify_request
    from lipaudit.files import check_no_model, check_writable

    debug: bool = ctx.find_root().obj.debug
    ctx.with_resource(positional("images"))
    shape = format_of(form, output, Certification)
    radii = values.pop("radii") + (() if gate is None else (gate.radius,))
    request = certify_request(model, images, radii=radii, **values)
    needed_for = None if gate is None else f"--{MIN_CERTIFIED_ACCURACY}"
    file = None if output == Path("-") else output
    layout = replace(screen(), quiet=quiet)
    layout = layout if file is None else layout.of_file()
    layout = replace(layout, every_row=every_row or layout.every_row, top=top)
    if file:
        check_writable(file)
        check_no_model(file, [*read_where(file, model, request.audit.files()), *request.files()], "certification")
        if request.state is not None and Path(request.state).resolve() == file.resolve():
            raise ReplacedInputError("-o", file, request.state, "certification")
    progress = Progress(model) if not quiet and sys.stderr.isatty() else None
    try:
        with shielded(debug, quiet):
            with delayed():
                from lipaudit.certification.run import run_certification

            found = run_certification(request, progress, needed_for)
            text = FORMATS[shape].render(found, Options(layout))
    except KeyboardInterrupt:
        if request.state is not None:
            say(f"lipaudit: what is done is kept in {request.state}; run the same command to continue")
        raise
    finally:
        if progress:
            progress.finish()
    deliver(text, file, "certification", quiet)
    return _judge(found, gate, quiet)


def _judge(found: Certification, gate: AccuracyGate | None, quiet: bool) -> int:
    """The exit code that a gate asks for; said on stderr."""
    if gate is None:
        return 0
    if problem := gate_problem(found, gate):
        say(f"lipaudit: gate exceeded: {found.model.spec}: {problem} (--min-certified-accuracy {gate.text})")
        return _GATE_FAILED
    if not quiet:
        say(f"lipaudit: gate passed: {found.model.spec}: --min-certified-accuracy {gate.text}")
    return 0
