"""The certification of images as a plain record: every image with its radii, and how many decisions are certified at which radius.

Its JSON is a format of its own, with a version of its own beside that of reports: the record, field by field, below keys that say what it
is. Within a major version keys are only added, and a reader ignores those that it does not know. What is not known is null; NaN and
infinity are never written and never read.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lipaudit.files import write_whole
from lipaudit.records.codec import decode, encode
from lipaudit.records.document import check_kind, parse
from lipaudit.records.rendering import render, render_for_file
from lipaudit.records.settings import ModelRecord

SCHEMA_VERSION = "1.0"
_KIND = "certification"


@dataclass(frozen=True)
class ImageRecord:
    """One image.

    ``decision`` is the class of the largest logit, None where a logit is no number; ``label`` the class that it should have, where it is
    known. ``margin`` is the least f_i - f_j in float64, against ``runner_up``, ``allowance`` what rounding may take off it.
    ``radius`` is certified: every input nearer than it is decided as the image is; 0 where none is certified. ``limited_by`` is the class
    j of the pair that limits it, ``constant`` the bound of Lip(f_i - f_j) that it rests on, for a local radius r that of how far f_i - f_j
    falls within r, over r. ``global_radius`` rests on constants over all inputs, ``local_radius`` on bounds on a ball around the image,
    None where none was searched; ``radius`` is the larger one.
    ``attack_radius`` is the distance of the nearest input found that is decided otherwise (for ``attack_decision``), None where none was
    found or searched. ``jacobian_norm`` is the norm of the Jacobian of all logits at the image.
    """

    name: str
    label: int | None
    decision: int | None
    margin: float | None
    runner_up: int | None
    allowance: float | None
    radius: float
    global_radius: float
    local_radius: float | None
    limited_by: int | None
    constant: float | None
    attack_radius: float | None
    attack_decision: int | None
    jacobian_norm: float | None

    @property
    def is_right(self) -> bool | None:
        """Whether the decision is the label; None where that is not known."""
        return None if self.label is None else self.decision == self.label


@dataclass(frozen=True)
class RadiusRecord:
    """What holds at one radius, as shares of all images.

    ``certified`` are the decisions that are certified at it, ``certified_accuracy`` those of them that are right; ``attacked_accuracy`` the
    right decisions that no attack has changed within it. The true robust accuracy lies between the last two. None where labels, or the
    attack, are missing.
    """

    radius: float
    certified: float
    certified_accuracy: float | None
    attacked_accuracy: float | None


@dataclass(frozen=True)
class CertificationSettings:
    """Everything that the figures depend on beside the model and the images.

    ``units`` says what images and radii are measured in: ``pixels`` in [0, 1], which (pixel - ``mean``) / ``std`` turns into the network's
    input, or ``input``, the network's own. ``local_steps`` are the radii that are tried with constants of their own per image,
    ``attack_steps`` and ``attack_starts`` the gradient steps and starts of the attack; 0 for none.
    """

    images: str
    labels: str | None
    units: str
    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None
    effort: str
    tolerance: float
    local_steps: int
    attack_steps: int
    attack_starts: int
    seed: int
    device: str
    norm: str = "l2"


@dataclass(frozen=True)
class ConstantRecord:
    """The bound of all logits together over all inputs; ``upper_bound`` is None where there is none.

    ``rigor`` is the weakest among this one and those of the pairs of classes, ``pairs`` is how many pairs were bounded.
    """

    upper_bound: float | None
    rigor: str
    method: str
    pairs: int


@dataclass(frozen=True)
class Certification:
    """What ``lipaudit certify`` found."""

    model: ModelRecord
    settings: CertificationSettings
    constant: ConstantRecord
    accuracy: float | None
    radii: tuple[RadiusRecord, ...]
    curve: tuple[RadiusRecord, ...]
    images: tuple[ImageRecord, ...]
    tool_version: str
    created: str
    environment: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The table that the command line prints."""
        return render(self, "table")

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write it to a file in the format that its name asks for (``.json``, ``.csv``, ``.html``, ``.svg`` ...), whole or not at all."""
        content = render_for_file(self, Path(file))
        write_whole(Path(file), content)

    def to_json(self, indent: int | None = 2) -> str:
        """The record as JSON text (ASCII, no trailing newline); ``Certification.from_json`` reads it back to an equal record."""
        body = encode(self)
        tool = {"name": "lipaudit", "version": body.pop("tool_version")}
        head = {"kind": _KIND, "schema_version": SCHEMA_VERSION, "tool": tool, "created": body.pop("created")}
        return json.dumps({**head, **body}, indent=indent, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Certification:
        """The record that ``to_json`` wrote.

        Raises :class:`~lipaudit.errors.UsageError` for a document that is none, that has another major version, or that lacks what it must
        say; the message names the place.
        """
        document = parse(text, _KIND)
        check_kind(document, _KIND, "certify", SCHEMA_VERSION)
        return decode(cls, {**document, "tool_version": document["tool"].get("version")}, "certification")
