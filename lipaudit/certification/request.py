"""What is asked of a certification: one validated request for Python and the command line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lipaudit.auditing.request import AuditRequest
from lipaudit.auditing.values import is_tensor, plain_number
from lipaudit.errors import EmptyListError, InvalidValueError, UnknownChoiceError
from lipaudit.errors.certification import UnitsError
from lipaudit.option_names import spell

if TYPE_CHECKING:
    from lipaudit.frontends.images import ImageSet

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
    images: tuple[Any, ...]
    labels: Any = None
    radii: tuple[float, ...] = ()
    units: str = "auto"
    local_steps: int = 4
    attack_steps: int = 60
    attack_starts: int = 4
    workers: int = 1
    state: str | None = None

    def __post_init__(self) -> None:
        if not self.images:
            raise EmptyListError(spell("images"))
        if self.units not in UNITS:
            raise UnknownChoiceError("units", self.units, UNITS)
        object.__setattr__(self, "radii", checked_radii(self.radii))
        for name, least in (("local_steps", 0), ("attack_steps", 0), ("attack_starts", 1), ("workers", 1)):
            value: Any = plain_number(getattr(self, name))
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _MOST_STEPS:
                raise InvalidValueError(spell(name), f"an integer from {least} to {_MOST_STEPS:,}", getattr(self, name))
            object.__setattr__(self, name, value)

    def files(self) -> list[str]:
        """The files and folders that are named."""
        named = [*self.images, self.labels]
        return [*self.audit.files(), *(value for value in named if isinstance(value, str))]

    @property
    def images_text(self) -> str:
        """The images as a report names them: the last parts of their paths."""
        names = [Path(image).name if isinstance(image, str) else "an array" for image in self.images]
        return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"

    @property
    def labels_text(self) -> str | None:
        """Where labels come from, as a report names it; None for those of class folders or arrays."""
        if self.labels is None:
            return None
        return Path(self.labels).name if isinstance(self.labels, str) else "an array"


def certify_request(model: Any, images: Any, **options: Any) -> CertifyRequest:
    """A request from the arguments of :func:`lipaudit.certify`."""
    own = {name: options.pop(name) for name in CertifyRequest.__dataclass_fields__ if name in options}
    several = isinstance(images, Sequence) and not isinstance(images, str)
    listed = tuple(images) if several else (images,)
    texts = tuple(image if is_tensor(image) or hasattr(image, "shape") else str(image) for image in listed)
    for name in ("labels", "state"):
        if isinstance(own.get(name), Path):
            own[name] = str(own[name])
    return CertifyRequest(audit=AuditRequest(model=model, **options), images=texts, **own)


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


def chosen_units(request: CertifyRequest, images: ImageSet) -> str:
    """In which units images and radii count: pixels for image files, bytes and wherever a normalisation is given, else the input.

    Raises :class:`~lipaudit.errors.certification.UnitsError` for a normalisation beside the network's own input.
    """
    given = request.audit.mean is not None
    if request.units == "input" and given and not images.are_pixels:
        advice = f"leave out one of them, or choose {spell('units', 'pixels')}"
        problem = f"{spell('mean')} and {spell('std')} are for pixels, and {spell('units', 'input')} says that the images are none"
        raise UnitsError(problem, advice)
    if request.units != "auto":
        return request.units
    return "pixels" if images.are_pixels or given else "input"
