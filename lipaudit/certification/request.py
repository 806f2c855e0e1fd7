"""What is asked of a certification: one validated request for Python and the command line."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lipaudit.auditing.request import AuditRequest
from lipaudit.auditing.values import is_tensor, plain_number
from lipaudit.errors import InvalidValueError, UnknownChoiceError
from lipaudit.option_names import spell

UNITS = ("auto", "pixels", "input")
RADII = (36 / 255, 72 / 255, 108 / 255, 1.0)
"""The radii at which published tables have certified accuracies: 36, 72 and 108 of 255 steps of a pixel, and 1."""
_MOST_STEPS = 100_000


@dataclass(frozen=True, kw_only=True, eq=False)
class CertifyRequest:
    """A model, images, and every option; what they mean stands at :func:`lipaudit.certify`.

    ``audit`` has the options of an audit that apply: the model and its weights, the normalisation, tolerance, effort, seed and device.
    Raises :class:`~lipaudit.errors.UsageError` for a value that an option does not take.
    """

    audit: AuditRequest
    images: Any
    labels: Any = None
    max_images: int | None = None
    radii: tuple[float, ...] = ()
    units: str = "auto"
    local_steps: int = 0
    attack_steps: int = 60
    attack_starts: int = 4
    workers: int = 1
    state: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.images, str) and not is_tensor(self.images):
            expected = "the name of a file or folder, or a tensor"
            raise InvalidValueError(spell("images"), expected, self.images)
        if self.units not in UNITS:
            raise UnknownChoiceError("units", self.units, UNITS)
        object.__setattr__(self, "radii", checked_radii(self.radii))
        limited = [] if self.max_images is None else [("max_images", 1)]
        for name, least in (
            *limited,
            ("local_steps", 0),
            ("attack_steps", 0),
            ("attack_starts", 1),
            ("workers", 1),
        ):
            value: Any = plain_number(getattr(self, name))
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _MOST_STEPS:
                raise InvalidValueError(spell(name), f"an integer from {least} to {_MOST_STEPS:,}", getattr(self, name))
            object.__setattr__(self, name, value)

    def files(self) -> list[str]:
        """The files and folders that are named."""
        return [*self.audit.files(), *(value for value in (self.images, self.labels) if isinstance(value, str))]

    @property
    def images_text(self) -> str:
        """The images as a report names them: the last part of their path."""
        return Path(self.images).name if isinstance(self.images, str) else "a tensor"


def certify_request(model: Any, images: Any, **options: Any) -> CertifyRequest:
    """A request from the arguments of :func:`lipaudit.certify`."""
    own = {name: options.pop(name) for name in CertifyRequest.__dataclass_fields__ if name in options}
    own |= {name: str(own[name]) for name in ("labels", "state") if isinstance(own.get(name), Path)}
    named = str(images) if isinstance(images, Path) else images
    return CertifyRequest(audit=AuditRequest(model=model, **options), images=named, **own)


def checked_radii(radii: Any) -> tuple[float, ...]:
    """The radii of a request, those of published tables among them, in ascending order.

    >>> checked_radii([0.5])[-2:]
    (0.5, 1.0)
    """
    values = radii if isinstance(radii, list | tuple) else [radii]
    numbers: list[Any] = [plain_number(value) for value in values]
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 < number < math.inf:
            raise InvalidValueError(spell("radii"), "numbers above 0, such as 0.5 or 36/255", number)
    return tuple(sorted({*map(float, numbers), *RADII}))
