"""One registry of experiments. An experiment is a function of a request that returns a result; it neither prints nor writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import torch

from lipaudit.errors import InvalidValueError, RegistryError, UnknownChoiceError
from lipaudit.experiments.harness.result import Result

PAPER_NAME = "Delattre et al. 2023"  # "the paper" in every statement

Progress: TypeAlias = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Request:
    """What the user chose: the paper's sizes or reduced ones, where to compute, which weights, and the seed of all that is random.

    ``weights`` is None for the paper's (torchvision's IMAGENET1K_V1), a tag, a file, or ``random``; ``data`` is a folder of images, None
    for those that need none.
    """

    full: bool = False
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    weights: str | None = None
    seed: int = 0
    progress: Progress | None = None
    data: Path | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**63:
            raise InvalidValueError("the seed", "an integer from 0 to 2^63 − 1", self.seed)

    def report(self, done: int, total: int, what: str = "") -> None:
        """Tell the caller how far the experiment is."""
        if self.progress is not None:
            self.progress(done, total, what)

    def generator(self) -> torch.Generator:
        """A fresh generator on the CPU, so that every device sees the same numbers."""
        return torch.Generator().manual_seed(self.seed)


@dataclass(frozen=True)
class Experiment:
    """A registered experiment: ``reproduces`` names the table or figure, ``reduced`` and ``full`` the sizes in words.

    ``networks`` are those that it reads weights of, and ``full_networks`` those at the paper's sizes.
    ``full_data`` says in words which images the paper's sizes need from a folder.
    """

    name: str
    reproduces: str
    reduced: str
    full: str
    function: Callable[[Request], Result]
    networks: tuple[str, ...] = ()
    full_networks: tuple[str, ...] = ()
    full_data: str = ""

    @property
    def uses_weights(self) -> bool:
        """Whether it reads weights."""
        return bool(self.networks)


_EXPERIMENTS: dict[str, Experiment] = {}


def register(experiment: Experiment) -> Experiment:
    """Add an experiment; a name that is taken raises :class:`~lipaudit.errors.RegistryError`."""
    if experiment.name in _EXPERIMENTS:
        raise RegistryError(f"the experiment {experiment.name} is registered twice")
    _EXPERIMENTS[experiment.name] = experiment
    return experiment


def all_experiments() -> tuple[Experiment, ...]:
    """Every experiment, in the order of the paper."""
    return tuple(_EXPERIMENTS.values())


def find_experiments(names: Sequence[str]) -> tuple[Experiment, ...]:
    """The experiments of those names, each once; a :class:`~lipaudit.errors.UsageError` where one does not exist."""
    for name in names:
        if name not in _EXPERIMENTS:
            raise UnknownChoiceError("experiment", name, _EXPERIMENTS)
    return tuple(_EXPERIMENTS[name] for name in dict.fromkeys(names))
