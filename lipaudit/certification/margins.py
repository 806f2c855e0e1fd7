"""Margins of decisions, with what rounding may move them taken off.

The logits are evaluated in float64 on the captured graph. Two allowances are subtracted from a difference f_i(x) - f_j(x):

* for the evaluation itself: values are moved by up to one rounding of float64 (and by the errors of constants) at every node,
  twice at random, and 64 times the largest move of a logit and its own rounding counts (:mod:`lipaudit.graph.capture.rounding_noise`);
* for the model as it is deployed, which rounds to its own precision: the same with one rounding of the dtype of every node.

Both are measured, not proved: it is assumed that rounding moves a logit of the deployed model by no more than that, at the image and at the
points around it. Constants that the network computes by operations of which no error is known are taken to be right to 2^-40; where
one is the rest of a sum that cancelled, no margin is above its allowance. A margin that is not above its allowance is a tie.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from lipaudit.certification.classifier import Classifier
from lipaudit.graph.capture.rounding_noise import FACTOR, Change, perturbations, unit_of
from lipaudit.graph.evaluate import interpret
from lipaudit.graph.node import Graph, Node


@dataclass(frozen=True, eq=False)
class Margins:
    """What decides at one image.

    ``decision`` is the class of the largest logit, None where a logit is no number. ``margins`` are f_i - f_j for every class j in
    float64, ``allowances`` what rounding may take off each; ``exact`` is the part of them for this evaluation alone.
    """

    logits: torch.Tensor
    decision: int | None
    margins: torch.Tensor
    allowances: torch.Tensor
    exact: torch.Tensor

    @property
    def others(self) -> list[int]:
        """The classes that were not decided for."""
        return [j for j in range(len(self.logits)) if j != self.decision]

    def sure(self, other: int) -> float:
        """The margin against a class, less its allowance; never below 0."""
        return max(0.0, float(self.margins[other]) - float(self.allowances[other]))


class MarginMeter:
    """Measures margins of one classifier."""

    def __init__(self, classifier: Classifier) -> None:
        self._graph, self._input = classifier.values, classifier.input
        self._last = next(node for node in self._graph if node.name == self._graph.outputs[0])
        self._unit = unit_of(self._graph)

    def logits(self, image: torch.Tensor, change: Change | None = None) -> torch.Tensor:
        """The logits (K,) at an image (1, ...) in float64."""
        return evaluate(self._graph, {self._input: image}, torch.float64, change)[0]

    def measure(self, image: torch.Tensor) -> Margins:
        """The decision at an image and its margins."""
        logits = self.logits(image)
        if not bool(torch.isfinite(logits).all()):
            nothing = torch.zeros_like(logits)
            return Margins(logits, None, nothing, nothing, nothing)
        exact = self._noise(image, logits, lambda _: self._unit)
        deployed = self._noise(image, logits, _deployed)
        decision = int(logits.argmax())
        both = exact + deployed
        return Margins(logits, decision, logits[decision] - logits, both[decision] + both, exact[decision] + exact)

    def _noise(self, image: torch.Tensor, logits: torch.Tensor, unit: Callable[[Node], float]) -> torch.Tensor:
        """How far rounding may move every logit; infinite where a moved value is no number."""
        moved = [(self.logits(image, change) - logits).abs() for change in perturbations([image.device], unit)]
        largest = torch.stack(moved).amax(0) + unit(self._last) * logits.abs()
        return FACTOR * torch.nan_to_num(largest, nan=torch.inf, posinf=torch.inf)


def _deployed(node: Node) -> float:
    dtype = node.outputs[0].dtype
    return torch.finfo(dtype).eps / 2 if dtype.is_floating_point else 0.0


def evaluate(
    graph: Graph, inputs: Mapping[str, torch.Tensor], dtype: torch.dtype, change: Change | None = None
) -> torch.Tensor:
    """The logits of a classifier's graph, (1, K)."""
    with torch.no_grad():
        value = interpret(graph, inputs, None, dtype, change)[graph.outputs[0]]
    assert isinstance(value, torch.Tensor)
    return value
