"""Everything that is found at one image: decision, margins, certified radii, attack, Jacobian."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from lipaudit.certification.attack import Attack, Attacked, Linearised
from lipaudit.certification.classifier import Classifier
from lipaudit.certification.constants import GlobalBounds, PairConstants, quotient
from lipaudit.certification.local import LocalRadius, least_radius, local_radius
from lipaudit.certification.margins import MarginMeter, Margins
from lipaudit.errors import GraphError
from lipaudit.records.certification import ImageRecord

# how far a certified radius may lie above the distance of an input that is decided otherwise: as far as rounding may move the figures
_ROUNDING = 1e-9
_ANY_RADIUS = 1e300


@dataclass(frozen=True, eq=False)
class Question:
    """An image to be certified: its name, its label where that is known, and its numbers in the units of the radii."""

    name: str
    label: int | None
    image: torch.Tensor


class ImageCertifier:
    """Certifies images of one classifier, several at a time.

    Args:
        classifier: the network.
        bounds: the bounds of pairs of classes over all inputs.
        attack: None where none is asked for.
        local: finds bounds on balls, of which ``local_steps`` are tried per image; None where none is asked for.
        local_steps: how many.
    """

    def __init__(
        self,
        classifier: Classifier,
        bounds: GlobalBounds,
        attack: Attack | None = None,
        local: PairConstants | None = None,
        local_steps: int = 0,
    ) -> None:
        self._bounds = bounds
        self._attack = attack
        self._local = local
        self._local_steps = local_steps
        self._meter = MarginMeter(classifier)

    def certify(self, questions: Sequence[Question]) -> list[ImageRecord]:
        """One record per image.

        Raises :class:`~lipaudit.errors.GraphError` where an attack succeeds within a certified radius: one of them is wrong.
        """
        measured = [self._meter.measure(question.image) for question in questions]
        sound = [n for n, margins in enumerate(measured) if margins.decision is not None]
        attacks: dict[int, tuple[Linearised, Attacked | None]] = {}
        if self._attack is not None and sound:
            images, margins = [questions[n].image for n in sound], [measured[n] for n in sound]
            at = [self._attack.linearise(x, m) for x, m in zip(images, margins, strict=True)]
            attacks = dict(zip(sound, zip(at, self._attack.search(images, margins, at), strict=True), strict=True))
        return [
            self._record(question, measured[n], *attacks.get(n, (None, None))) for n, question in enumerate(questions)
        ]

    def _record(
        self, question: Question, margins: Margins, at: Linearised | None, attacked: Attacked | None
    ) -> ImageRecord:
        if margins.decision is None:
            return ImageRecord(question.name, question.label, None, *(None,) * 3, 0.0, 0.0, *(None,) * 6)
        rival = min(margins.others, key=lambda j: float(margins.margins[j]))
        everywhere = self._everywhere(margins)
        local = self._around(question, margins, everywhere.radius, attacked)
        best = everywhere if local is None or local.radius <= everywhere.radius else local
        if attacked is not None and best.radius > attacked.radius * (1 + _ROUNDING):
            raise GraphError(_contradiction(question.name, best.radius, attacked.radius))
        return ImageRecord(
            name=question.name,
            label=question.label,
            decision=margins.decision,
            margin=float(margins.margins[rival]),
            runner_up=rival,
            allowance=min(float(margins.allowances[rival]), _ANY_RADIUS),
            radius=best.radius,
            global_radius=everywhere.radius,
            local_radius=None if local is None else local.radius,
            limited_by=best.limited_by if best.radius else None,
            constant=best.constant if best.radius else None,
            attack_radius=None if attacked is None else attacked.radius,
            attack_decision=None if attacked is None else attacked.decision,
            jacobian_norm=None if at is None or not math.isfinite(at.norm) else at.norm,
        )

    def _everywhere(self, margins: Margins) -> LocalRadius:
        assert margins.decision is not None
        bounds = [(j, self._bounds.of(margins.decision, j).upper) for j in margins.others]
        ratios = [(j, quotient(margins.sure(j), bound), bound) for j, bound in bounds]
        return least_radius(ratios, _ANY_RADIUS)

    def _around(
        self, question: Question, margins: Margins, known: float, attacked: Attacked | None
    ) -> LocalRadius | None:
        if self._local is None or any(margins.sure(j) == 0 for j in margins.others):
            return None
        limit = None if attacked is None else attacked.radius
        return local_radius(self._local, question.image, margins, known, limit, self._local_steps)


def _contradiction(name: str, certified: float, attacked: float) -> str:
    return (
        f"an input at the distance {attacked:.9g} of image {name} is decided otherwise, within the certified radius {certified:.9g}: "
        "lipaudit or the captured graph is wrong, and no figure of this run can be trusted; please report the model"
    )
