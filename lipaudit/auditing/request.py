"""What is asked of an audit or a comparison: one validated request for Python, the command line and fleets.

A request is checked when it is made, before any model is loaded, and without importing torch. It can be sent to another process, and
what is common to the models of a fleet (:class:`AuditOptions`) has a form in JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lipaudit.auditing.values import GRAM, checked
from lipaudit.errors import ConflictError, InvalidValueError, RequirementError
from lipaudit.errors.inputs import IncompleteBallError, NormalisationRangeError, UnequalChannelsError
from lipaudit.errors.models import FactoryWeightsError
from lipaudit.frontends.input_files import named_files
from lipaudit.frontends.spec import TENSOR_SUFFIXES, Kind, parse_spec
from lipaudit.network.efforts import DEFAULT_EFFORT
from lipaudit.option_names import spell

if TYPE_CHECKING:
    import torch

    from lipaudit.frontends.module import Network

# a centre or a normalisation beyond this is none of an image, and its products leave the range of floats
LARGEST = 1e30
# options that change no figure of a report or are of one model only, and so do not belong to the options of a record
_NOT_RECORDED = ("model", "cache", "save_pair", "certificate", "warm_start")

# what Python callers may pass
InputShape = int | str | Sequence[int] | Mapping[str, Sequence[int]]


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadOptions:
    """What an audit and a comparison have in common: which weights are loaded, for which inputs, and how closely norms are found.

    Options have the meaning that :func:`lipaudit.audit` says. Values are brought into a plain form: sizes and channels are tuples,
    paths are text. Raises :class:`~lipaudit.errors.UsageError` for a value that an option does not take, and for options that
    exclude each other.
    """

    input_shape: int | tuple[int, ...] | dict[str, tuple[int, ...]] | None = None
    fix: dict[str, object] | None = None
    weights: str | None = None
    arch: str | None = None
    device: str = "auto"
    tol: float = 1e-3
    seed: int = 0
    iterations: int | None = None
    max_memory: int | str | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, checked(field.name, getattr(self, field.name)))
        self._check_together()

    def _check_together(self) -> None:
        """Raise :class:`~lipaudit.errors.UsageError` where options do not go together."""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]] | None:
        """The input shapes by the names of the inputs, ``""`` for the only input."""
        shape = self.input_shape
        if shape is None or isinstance(shape, dict):
            return shape
        return {"": (shape,) if isinstance(shape, int) else shape}

    def files(self) -> list[str]:
        """The files that the options name, the model's first; none for a network that was given itself."""
        model, around, images = (getattr(self, name, None) for name in ("model", "around", "images"))
        if not isinstance(model, str):
            return []
        around, images = (file if isinstance(file, str) else None for file in (around, images))
        start = getattr(self, "warm_start", None)
        return [*named_files(model, self.weights, around, self.fix, images), *([] if start is None else [start])]

    def values(self) -> dict[str, Any]:
        """The options by their names."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, kw_only=True, eq=False)
class AuditOptions(LoadOptions):
    """Every option of an audit but the model.

    >>> AuditOptions(domain="pixels", mean=0.5, std=0.25).request("net.onnx", seed=1).mean
    (0.5,)
    """

    structure: bool = False
    norm: str = "l2"
    domain: str = "global"
    around: str | torch.Tensor | None = None
    radius: float | None = None
    norm_domain: str = "l2"
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    method: str = GRAM
    effort: str | None = None
    certificate: str | None = None
    warm_start: str | None = None
    lower_bound: bool = False
    images: str | torch.Tensor | None = None
    max_images: int | None = None
    save_pair: str | None = None
    freeze_random: int | None = None
    cache: str | None = None
    absolute_paths: bool = False

    def request(self, model: Network | str, **own: Any) -> AuditRequest:
        """These options for one model, but for those of its ``own``."""
        return AuditRequest(model=model, **{**self.values(), **own})

    def to_json(self) -> dict[str, Any]:
        """The options that decide over the figures, as JSON gives them back; they must be text, numbers and sequences of them.

        >>> AuditOptions(input_shape=(3, 32, 32)).to_json()["input_shape"]
        [3, 32, 32]
        """
        kept = {name: value for name, value in self.values().items() if name not in _NOT_RECORDED}
        values: dict[str, Any] = json.loads(json.dumps(kept))
        return values

    @property
    def in_pixels(self) -> bool:
        """Whether centre and radius of the ball count in pixels in [0, 1]: the centre is an image file."""
        return isinstance(self.around, str) and Path(self.around).suffix.lower() not in TENSOR_SUFFIXES

    @property
    def is_published(self) -> bool:
        """Whether norms are those of a published method, not lipaudit's own."""
        return self.method != GRAM

    @property
    def search_effort(self) -> str:
        """The effort of the search for a tighter bound: the one asked for, else the default where there are norms to start from.

        >>> AuditOptions(effort="none").search_effort, AuditOptions(structure=True).search_effort
        ('none', 'none')
        """
        if self.effort is not None:
            return self.effort
        return "none" if self.structure or self.is_published or self.norm != "l2" else DEFAULT_EFFORT

    def _check_together(self) -> None:
        self._check_structure()
        self._check_norm()
        self._check_effort()
        self._check_domain()
        self._check_normalisation()
        if self.is_published or self.iterations is not None:
            from lipaudit.auditing.method import check_method

            check_method(self.method, self.iterations)
        self._check_images()
        if self.save_pair is not None:
            if not self.searches:
                reason = "it writes the two inputs which that search finds"
                required = f"{spell('lower_bound', True)} or {spell('images', 'FOLDER')}"
                raise RequirementError(spell("save_pair"), required, reason)
            if Path(self.save_pair).suffix.lower() != ".npz":
                raise InvalidValueError(spell("save_pair"), "the name of a numpy archive, FILE.npz", self.save_pair)

    @property
    def searches(self) -> bool:
        """Whether two inputs are searched that the network stretches much: by themselves, or starting from images."""
        return self.lower_bound or self.images is not None

    def _check_images(self) -> None:
        if self.images is None:
            if self.max_images is not None:
                raise RequirementError(spell("max_images"), spell("images", "FOLDER"), "it limits their number")
            return
        if self.structure:
            reason = "an audit of the structure evaluates no network"
            raise ConflictError(spell("images"), spell("structure"), reason)
        if self.domain == "ball":
            reason = "images lie outside of a ball around another input"
            raise ConflictError(spell("images"), spell("domain", "ball"), reason)

    def _check_structure(self) -> None:
        if not self.structure:
            return
        weights = "weights" if self.weights not in (None, "random") else "arch" if self.arch is not None else None
        if weights is not None:
            raise ConflictError(spell(weights), spell("structure"), "an audit of the structure reads no weights")
        if self.lower_bound:
            reason = "an audit of the structure evaluates no network"
            raise ConflictError(spell("lower_bound"), spell("structure"), reason)
        if self.is_published or self.iterations is not None:
            option = spell("method") if self.is_published else spell("iterations")
            raise ConflictError(option, spell("structure"), "an audit of the structure computes no norms")

    def _check_norm(self) -> None:
        """Refuse what is known in the l2 norm only."""
        if self.norm == "l2":
            return
        options = (
            ("structure", True, self.structure, "an audit of the structure says what has a bound in the l2 norm"),
            ("method", self.method, self.is_published, "its figures are spectral norms"),
            ("iterations", self.iterations, self.iterations is not None, "they belong to methods for spectral norms"),
            ("effort", self.effort, self.effort not in (None, "none"), "the search carries quadratic forms"),
            ("domain", self.domain, self.domain != "global", "magnitudes on a domain are followed in the l2 norm"),
        )
        for name, value, given, reason in options:
            if given:
                raise ConflictError(spell(name, value), spell("norm", self.norm), reason)

    def _check_effort(self) -> None:
        for name, file, reason in (
            ("certificate", self.certificate, "it keeps the numbers that the search for a tighter bound finds"),
            ("warm_start", self.warm_start, "the search for a tighter bound starts there"),
        ):
            if file is None:
                continue
            if self.search_effort == "none":
                raise RequirementError(spell(name), f"a search ({spell('effort', 'quick')} or longer)", reason)
            if Path(file).suffix.lower() != ".safetensors":
                raise InvalidValueError(spell(name), "the name of a file, FILE.safetensors", file)
        if self.effort in (None, "none"):
            return
        if self.structure:
            reason = "an audit of the structure computes no bounds"
            raise ConflictError(spell("effort", self.effort), spell("structure"), reason)
        if self.is_published:
            reason = "a tighter bound starts from certified norms"
            raise ConflictError(spell("effort", self.effort), spell("method", self.method), reason)

    def _check_domain(self) -> None:
        given = [name for name in ("around", "radius") if getattr(self, name) is not None]
        if self.domain != "ball" and given:
            raise RequirementError(spell(given[0]), spell("domain", "ball"), "it describes a ball")
        if self.domain != "ball" and self.norm_domain != "l2":
            raise RequirementError(
                spell("norm_domain", self.norm_domain), spell("domain", "ball"), "it describes a ball"
            )
        if self.domain == "ball" and len(given) < 2:
            raise IncompleteBallError

    def _check_normalisation(self) -> None:
        if (self.mean is None) != (self.std is None):
            given, other = ("mean", "std") if self.std is None else ("std", "mean")
            raise RequirementError(spell(given), spell(other), "a normalisation has both")
        if self.mean is None or self.std is None:
            return
        if self.domain == "ball" and not self.in_pixels:
            reason = "they are for pixels, and this ball lies in the network's own input"
            raise ConflictError(f"{spell('mean')} and {spell('std')}", f"{spell('around')}, which is a tensor,", reason)
        check_normalisation(self.mean, self.std)


@dataclass(frozen=True, kw_only=True, eq=False)
class AuditRequest(AuditOptions):
    """A model, and every option of its audit.

    >>> AuditRequest(model="resnet50", seed="x")
    Traceback (most recent call last):
    lipaudit.errors.InvalidValueError: seed must be an integer from 0 to 2^63 - 1, got 'x'
    """

    model: Network | str

    def _check_together(self) -> None:
        super()._check_together()
        check_weights(self.model, self.weights)


@dataclass(frozen=True, kw_only=True, eq=False)
class CompareRequest(LoadOptions):
    """A model, and every option of a comparison of methods on its layers."""

    model: Network | str
    methods: tuple[str, ...] | None = None
    time_limit: float | None = 60.0

    def _check_together(self) -> None:
        check_weights(self.model, self.weights)
        if self.methods is not None or self.iterations is not None:
            from lipaudit.auditing.method import find_compared

            find_compared(self.methods, self.iterations)


def check_weights(model: Network | str, weights: str | None) -> None:
    """Refuse random weights for what makes its own."""
    if weights == "random" and isinstance(model, str) and parse_spec(model).kind is Kind.FACTORY:
        raise FactoryWeightsError(model)


def check_normalisation(mean: tuple[float, ...], std: tuple[float, ...]) -> None:
    """Raise :class:`~lipaudit.errors.UsageError` where no network can have this normalisation."""
    if not {len(mean), len(std)} <= {1, max(len(mean), len(std))}:
        raise UnequalChannelsError(len(mean), len(std))
    if any(s == 0 or not math.isfinite(s) for s in std):
        reason = "pixels are divided by them"
        raise InvalidValueError(spell("std"), f"finite numbers other than 0 ({reason})", std)
    if not all(math.isfinite(m) for m in mean):
        raise InvalidValueError(spell("mean"), "finite numbers", mean)
    if max(1.0, *map(abs, mean)) / min(map(abs, std)) > LARGEST:
        raise NormalisationRangeError(mean, std, LARGEST)
