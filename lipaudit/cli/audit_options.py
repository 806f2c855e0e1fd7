"""The options of ``lipaudit audit``, in the order in which its help shows them."""

from __future__ import annotations

from pathlib import Path

import click

from lipaudit.auditing.values import BALL_NORMS, DOMAINS, MOST_IMAGES, NORMS
from lipaudit.cli.display_options import display_options
from lipaudit.cli.fleet_options import fleet_options
from lipaudit.cli.gates import gate_options
from lipaudit.cli.options import (
    ITERATIONS,
    Count,
    arch_option,
    channels,
    device_option,
    fix_option,
    folder,
    format_option,
    input_option,
    memory_option,
    positive,
    seed_option,
    tolerance_option,
    weights_option,
    with_options,
)
from lipaudit.cli.plot import plot_option
from lipaudit.formats.options import Audits, FleetRecord
from lipaudit.network.efforts import EFFORTS

audit_options = with_options(
    input_option,
    fix_option,
    weights_option,
    arch_option,
    memory_option,
    device_option,
    tolerance_option(
        "Relative tolerance of each row's matrix norm or maximum over frequencies. The border of zero-padded convolutions may "
        "leave a larger ratio."
    ),
    click.option(
        "--structure",
        is_flag=True,
        help="Only say which operations and whether the network have a finite bound, in seconds; a model by name is built without weights.",
    ),
    click.option(
        "--norm",
        type=click.Choice(NORMS),
        default="l2",
        show_default=True,
        help="Norm of inputs and outputs: l2, linf (the largest entry) or l1 (the sum of moduli). What has no rule in linf and l1 is "
        "unsupported there; both are for all inputs.",
    ),
    click.option(
        "--domain",
        type=click.Choice(DOMAINS),
        default="global",
        show_default=True,
        help="The inputs over which the bound holds: all of them; images with pixels in [0, 1]; a ball around one input. "
        "Gating and attention often have a bound on the last two only.",
    ),
    click.option(
        "--around",
        metavar="IMAGE",
        help="Centre of the ball: a PNG or JPEG file, resized to the network's input; or a tensor (.npy, .pt) that the "
        "network reads as it is. A folder of images or a batch of inputs: a ball around each, and the largest of their bounds.",
    ),
    click.option(
        "--radius",
        type=float,
        metavar="R",
        callback=positive,
        help="Radius of the ball: in pixels in [0, 1] around an image, in the network's own input around a tensor.",
    ),
    click.option(
        "--norm-domain",
        type=click.Choice(BALL_NORMS),
        default="l2",
        show_default=True,
        help="Norm in which the ball has its radius: l2, or linf, where every entry is within the radius. The bound itself is l2.",
    ),
    click.option(
        "--mean",
        metavar="A,B,C",
        callback=channels,
        help="Normalisation of the pixels, (pixel - mean) / std, one number per channel or one for all. Default: the model's "
        "own, where it is known; an ONNX file has none.",
    ),
    click.option("--std", metavar="A,B,C", callback=channels, help="See --mean."),
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
        type=ITERATIONS,
        metavar="N",
        help="Iterations or samples of a published method that has any. Default: see `lipaudit methods`.",
    ),
    click.option(
        "--effort",
        type=click.Choice(tuple(EFFORTS)),
        help="How long to search for a bound of the whole network over all inputs that is tighter than the product of layer norms: not at "
        "all, or with at most 5e10, 5e11 or 2e13 operations, which is some seconds, a minute or an hour on one core. The least bound is "
        "printed. Default: quick, and none with --structure or a published --method.",
    ),
    click.option(
        "--certificate",
        metavar="FILE.safetensors",
        help="Write the numbers that prove the tighter bound; `lipaudit verify REPORT MODEL FILE` computes it again from them. Of one "
        "model only.",
    ),
    click.option(
        "--warm-start",
        metavar="FILE.safetensors",
        help="Start the search for the tighter bound at the --certificate of an earlier checkpoint of the same architecture. The file is "
        "not believed: the bound is proved for this model. Of one model only.",
    ),
    click.option(
        "--lower-bound",
        is_flag=True,
        help="Also search for two inputs between which the network stretches much; what is measured is an empirical lower bound.",
    ),
    click.option(
        "--images",
        metavar="FOLDER|FILE",
        help="Also measure the norm of the network's Jacobian at these images, and start the search of --lower-bound there: an image file, "
        "a folder of images or of class folders, or a tensor (.npy, .npz, .pt) of 8-bit pixels or of inputs that the network reads as they "
        "are.",
    ),
    click.option(
        "--max-images",
        type=Count(),
        metavar="N",
        help=f"Read at most so many images, drawn with --seed where there are more. Default: {MOST_IMAGES}.",
    ),
    click.option(
        "--save-pair",
        metavar="FILE.npz",
        help="Write these two inputs, as arrays x.INPUT and y.INPUT of a numpy archive. Of one model only.",
    ),
    seed_option,
    click.option(
        "--freeze-random",
        type=click.IntRange(0, 2**63 - 1),
        metavar="SEED",
        help="Hold the random numbers that a network draws while it computes its weights at one draw; the report says so.",
    ),
    format_option(
        "JSON is one object, or an array for several models. Of a fleet: the summary; jsonl is its record with every report.",
        Audits,
        FleetRecord,
    ),
    click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        help="Write the report to this file, whole or not at all; FILE.jsonl is the record of a fleet, from which the same "
        "command continues.",
    ),
    plot_option,
    click.option(
        "--cache",
        callback=folder,
        envvar="LIPAUDIT_CACHE",
        show_envvar=True,
        metavar="DIR",
        help="Keep certified norms in this folder, by the content of the weights: what an earlier audit has found is not "
        "computed again.",
    ),
    click.option(
        "--absolute-paths",
        is_flag=True,
        help="Keep absolute paths of files in the report; without it one outside the working directory is cut to the file's name.",
    ),
    display_options,
    gate_options,
    fleet_options,
)
