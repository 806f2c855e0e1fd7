"""Runs experiments one after another: what ``lipaudit reproduce`` does between its options and its output."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lipaudit.device import find_device, full_precision
from lipaudit.errors import ConflictError, InvalidValueError, RequirementError
from lipaudit.experiments.harness.models import check_weights
from lipaudit.experiments.harness.registry import Experiment, Progress, Request, find_experiments
from lipaudit.experiments.harness.result import Result
from lipaudit.formats.matplotlib_ import plot_problem


def choose(names: Sequence[str], weights: str | None, data: Path | None = None) -> tuple[Experiment, ...]:
    """The experiments of those names; weights or images that none of them reads are refused."""
    chosen = find_experiments(names)
    if weights is not None and not names:
        raise RequirementError("--weights", "the NAME of an experiment", "not every one reads weights")
    if weights is not None and not any(experiment.uses_weights for experiment in chosen):
        raise ConflictError("--weights", ", ".join(names), "no weights are read")
    if data is not None and not any(experiment.full_data for experiment in chosen):
        raise RequirementError("--data", "the NAME of an experiment", "only regularization reads images")
    return chosen


def check(
    experiments: Sequence[Experiment],
    *,
    full: bool,
    device: str,
    weights: str | None,
    seed: int,
    data: Path | None = None,
) -> None:
    """What can be known before anything is computed: the device, the seed, the weights and the folder of images.

    Raises:
        LipauditError: where one of them is not available.
    """
    Request(full, find_device(device), weights, seed)
    for experiment in experiments:
        check_weights(weights, experiment.full_networks if full else experiment.networks)
        if experiment.full_data:
            check_folder(experiment, full, data)


def check_folder(experiment: Experiment, full: bool, data: Path | None) -> None:
    """Images from a folder belong to the paper's sizes."""
    if full and data is None:
        raise RequirementError("--full", "--data DIR", f"{experiment.name} then reads {experiment.full_data}")
    if not full and data is not None:
        raise RequirementError("--data", "--full", f"without it {experiment.name} trains on digits")
    if data is not None and not data.is_dir():
        raise InvalidValueError("--data", f"a folder with {experiment.full_data}", str(data))


def run(
    experiment: Experiment,
    *,
    full: bool = False,
    device: str = "auto",
    weights: str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    data: Path | None = None,
) -> Result:
    """One experiment, with float32 products in full precision.

    Raises:
        LipauditError: where the device or the weights are not available.
    """
    if experiment.full_data:
        check_folder(experiment, full, data)
    with full_precision():
        return experiment.function(Request(full, find_device(device), weights, seed, progress, data))


def missing_plot(result: Result) -> str:
    """What to add to the list of files written where the plot could not be drawn."""
    problem = plot_problem() if result.plots else ""
    return f"; no plot was written: {problem}" if problem else ""
