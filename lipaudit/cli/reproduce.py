"""``lipaudit reproduce NAME...``: the experiments of the paper."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from lipaudit.cli.options import debug_option, device_choice, folder, seed_option
from lipaudit.cli.terminal import Progress, complain, emit, say, shielded, worst
from lipaudit.errors import OutputError
from lipaudit.errors.commands import MissingExperimentError

if TYPE_CHECKING:
    from lipaudit.experiments.harness.result import Result

_weights_option = click.option(
    "--weights",
    metavar="TAG|FILE|random",
    help="Weights for resnet18-layers and network-ratios, the experiments that read any: a tag of torchvision, a state dict, or "
    "random ones without a download.  [default: IMAGENET1K_V1, the paper's]",
)


_folder_option = click.option(
    "-o",
    "--output",
    "folder",
    default="lipaudit-reproduce",
    show_default=True,
    metavar="DIR",
    callback=folder,
    help="Folder for the tables as CSV and the plots as PNG; created where it is missing.",
)

_data_option = click.option(
    "--data",
    metavar="DIR",
    callback=folder,
    help="Folder with CIFAR-10 (cifar-10-batches-py) for regularization --full, which trains on it; by default it trains on the digits "
    "of scikit-learn.",
)


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME...]")
@click.option("--full", is_flag=True, help="The paper's sizes, meant for a GPU, instead of reduced ones.")
@device_choice("Where the experiments compute; cuda is a GPU. auto: a GPU where there is one.")
@_weights_option
@_data_option
@seed_option
@_folder_option
@debug_option
@click.pass_context
def reproduce(ctx: click.Context, /, names: tuple[str, ...], folder: Path, weights: str | None, **options: Any) -> int:
    """Reproduce tables and figures of the paper on Gram iteration; without NAME, list them.

    The paper is Delattre, Barthélemy, Araujo and Allauzen, Efficient Bound of Lipschitz Constant for Convolutional Layers by
    Gram Iteration, ICML 2023. Of the experiments, resnet18-layers and network-ratios read --weights.
    """
    debug: bool = ctx.find_root().obj.debug
    with shielded(debug):
        from lipaudit.experiments.harness.registry import all_experiments
        from lipaudit.experiments.harness.render import listing
        from lipaudit.experiments.harness.run import check, choose, run
        from lipaudit.experiments.harness.write import output_folder

        chosen = choose(names, weights, options["data"])
    if not chosen:
        _refuse_options(ctx)
        emit(listing(all_experiments()))
        return 0
    with shielded(debug):
        check(chosen, weights=weights, **options)
    codes = [0]
    with output_folder(folder, [experiment.name for experiment in chosen]):
        for experiment in chosen:
            progress = Progress(experiment.name) if sys.stderr.isatty() else None
            try:
                with shielded(debug):
                    result = run(experiment, weights=weights, progress=progress, **options)
            except Exception as error:
                codes.append(complain(error, debug, experiment.name if len(chosen) > 1 else ""))
                continue
            finally:
                if progress:
                    progress.finish()
            _deliver(result, folder, "" if experiment is chosen[0] else "\n\n", debug)
    return worst(codes)


def _refuse_options(ctx: click.Context) -> None:
    """A list of experiments takes no options: one was meant for an experiment."""
    for parameter in ctx.command.params:
        source = ctx.get_parameter_source(parameter.name or "")
        if parameter.name not in ("names", "debug") and source is ParameterSource.COMMANDLINE:
            raise MissingExperimentError(parameter.opts[-1])


def _deliver(result: Result, folder: Path, before: str, debug: bool) -> None:
    """Files first, so that a stdout that takes nothing loses nothing; and the text where the files cannot be written."""
    from lipaudit.experiments.harness.render import render
    from lipaudit.experiments.harness.run import missing_plot
    from lipaudit.experiments.harness.write import write

    text = before + render(result)
    try:
        with shielded(debug):
            written, missing = write(result, folder), missing_plot(result)
    except OutputError:
        emit(text)
        raise
    try:
        emit(text)
    finally:
        say(f"lipaudit: written to {', '.join(map(str, written))}{missing}")
