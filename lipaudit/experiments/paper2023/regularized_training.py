"""Training with a regularizer, and what a training step costs: the work behind ``reproduce regularization``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from lipaudit.api import audit
from lipaudit.device import now
from lipaudit.errors import LipauditError
from lipaudit.experiments.harness.images import Images
from lipaudit.experiments.harness.statistics import median
from lipaudit.experiments.paper2023.regularizers import Bound, PublishedRegularizer, araujo, ryu, singla
from lipaudit.experiments.paper2023.residual_networks import ResidualNetwork, without_batch_norms
from lipaudit.records.report import AuditReport
from lipaudit.training import LipschitzRegularizer, Schedule

TARGETS = {"head": None, "*": 1.0}  # of all convolutions; the dense layer is free, as in [P]
ITERATIONS = 10  # of the published methods; samples of Araujo's

Regularizer = Callable[[], torch.Tensor]


@dataclass(frozen=True)
class Recipe:
    """How networks are trained: SGD with momentum 0.9 and a cosine schedule; ``weight`` is mu, ``decay`` that of weight decay."""

    network: Callable[[], ResidualNetwork]
    epochs: int
    batch: int
    rate: float = 0.1
    weight: float = 0.1
    decay: float = 5e-3

    def steps(self, images: Images) -> int:
        """Of the whole training; what is left over of an epoch is left out."""
        return self.epochs * (len(images.train) // self.batch)


@dataclass(frozen=True)
class Method:
    """A way to hold the norms of convolutions: none (the baseline), weight decay, a published bound, or lipaudit's every so many steps."""

    name: str
    decays: bool = False
    bound: Bound | None = None
    every: int = 0

    def regularizer(
        self, model: nn.Module, shape: tuple[int, ...], recipe: Recipe, steps: int, seed: int
    ) -> Regularizer | None:
        """Its term of the loss, None where it has none."""
        if self.bound is not None:
            return PublishedRegularizer(model, shape, TARGETS, recipe.weight, self.bound, ITERATIONS, seed)
        if self.every:
            options: dict[str, Any] = {"every": self.every, "batch_norms": "separate"}  # the kernels alone, as [P] does
            return LipschitzRegularizer(model, shape, TARGETS, recipe.weight, Schedule(steps), **options)
        return None


BASELINE = Method("baseline")
OURS, OURS_LAZY = Method("ours", every=1), Method("ours, every 8th step", every=8)
PUBLISHED = (Method("Ryu 2019", bound=ryu), Method("Araujo 2021", bound=araujo), Method("Singla 2021", bound=singla))
METHODS = (BASELINE, Method("weight decay", decays=True), *PUBLISHED, OURS, OURS_LAZY)


@dataclass(frozen=True)
class Trained:
    """A trained network: test accuracy in per cent, the certified norm of each convolution by its name, the certified log10 bound of
    the network with its batch norms."""

    method: str
    seed: int
    accuracy: float
    norms: dict[str, float]
    log10_bound: float


class Run:
    """One network in training."""

    def __init__(self, method: Method, recipe: Recipe, images: Images, seed: int, device: torch.device) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.model = recipe.network().to(device).train()
        self.images, self.recipe = images, recipe
        self.generator = torch.Generator().manual_seed(seed)
        self.steps = recipe.steps(images)
        self.regularizer = method.regularizer(self.model, images.shape, recipe, self.steps, seed)
        kernels = [p for p in self.model.parameters() if p.dim() == 4]
        others = [p for p in self.model.parameters() if p.dim() != 4]
        decay = recipe.decay if method.decays else 0.0
        groups: list[dict[str, Any]] = [{"params": kernels, "weight_decay": decay}, {"params": others}]
        self.optimizer = torch.optim.SGD(groups, lr=recipe.rate, momentum=0.9)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, self.steps)

    def step(self, index: torch.Tensor) -> None:
        """One step on the training images with these numbers."""
        x, classes = self.images.batch(index, self.generator)
        loss = functional.cross_entropy(self.model(x), classes)
        if self.regularizer is not None:
            loss = loss + self.regularizer()
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        self.optimizer.step()
        self.schedule.step()

    def epoch(self) -> None:
        """All steps of an epoch."""
        order = torch.randperm(len(self.images.train), generator=self.generator).to(self.images.train.device)
        for index in torch.split(order, self.recipe.batch):
            if len(index) == self.recipe.batch:
                self.step(index)


def train(method: Method, recipe: Recipe, images: Images, seed: int, device: torch.device) -> Trained:
    """Train a network and audit it."""
    run = Run(method, recipe, images, seed, device)
    for _ in range(recipe.epochs):
        run.epoch()
    model = run.model.eval()
    with torch.no_grad():
        parts = zip(torch.split(images.test, 1000), torch.split(images.test_classes, 1000), strict=True)
        right = sum(int((model(x).argmax(1) == classes).sum()) for x, classes in parts)
    look = partial(audit, input_shape=images.shape, device="cpu")
    return Trained(
        method.name,
        seed,
        100 * right / len(images.test),
        certified_norms(look(without_batch_norms(model))),
        _log10(look(model)),
    )


def certified_norms(report: AuditReport) -> dict[str, float]:
    """The upper bound of every convolution of an audit, by name.

    Raises:
        LipauditError: where one has none.
    """
    norms = {}
    for layer in report.layers:
        if layer.op == "conv2d":
            if layer.upper_bound is None:
                raise LipauditError(f"the audit has no bound of {layer.name}: {layer.reason or layer.status}")
            norms[layer.name] = layer.upper_bound
    return norms


def _log10(report: AuditReport) -> float:
    if report.network.log10_upper_bound is None:
        raise LipauditError(f"the audit has no bound of the trained network: it is {report.network.status}")
    return report.network.log10_upper_bound


def step_seconds(
    methods: Sequence[Method], recipe: Recipe, images: Images, rounds: int, device: torch.device, seed: int
) -> dict[str, float]:
    """Seconds of a training step with each method: the median over rounds, in each of which every method does some steps in turn.

    A round has as many steps as the laziest method needs until every layer has had its turn.
    """
    runs = {method.name: Run(method, recipe, images, seed, device) for method in methods}
    length = max(1, *(method.every for method in methods))
    index = torch.arange(recipe.batch, device=images.train.device)
    by_method: dict[str, list[float]] = {method.name: [] for method in methods}
    for number in range(rounds + 1):
        for name, run in runs.items():
            start = now(device)
            for _ in range(length):
                run.step(index)
            if number:  # the first round warms up
                by_method[name].append((now(device) - start) / length)
    return {name: median(seconds) for name, seconds in by_method.items()}
