"""One door for every kind of model: from the text a user typed to a loaded model in eval mode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lipaudit.errors import (
    ConflictError,
    InvalidValueError,
    LipauditError,
    ModelLoadError,
    OutOfMemoryError,
    is_out_of_memory,
)
from lipaudit.errors.models import MissingArchitectureError, ModelPatternError, ModelSuffixError
from lipaudit.errors.reason import typed_reason_of
from lipaudit.frontends import registry
from lipaudit.frontends.checkpoint import apply_state_dict, read_state_dict
from lipaudit.frontends.factory import build_from_factory
from lipaudit.frontends.files import existing_file, sha256
from lipaudit.frontends.forward import bind_inputs
from lipaudit.frontends.held_inputs import NOTHING, Fixed
from lipaudit.frontends.loaded import LoadedModel
from lipaudit.frontends.shapes import Shape
from lipaudit.frontends.spec import (
    CHECKPOINT_SUFFIXES,
    FILE_SUFFIXES,
    TORCHSCRIPT_SUFFIXES,
    Kind,
    ModelSpec,
    parse_spec,
)
from lipaudit.frontends.timm import load_timm
from lipaudit.frontends.torchscript_check import is_torchscript
from lipaudit.frontends.torchvision import load_torchvision
from lipaudit.option_names import spell

_TRAINING = (
    "The factory made a network in training mode; it is audited in evaluation mode: without dropout, with the stored statistics of "
    "batch norms."
)


def load(
    spec: str,
    *,
    input_shapes: Mapping[str, Shape] | None = None,
    weights: str | None = None,
    arch: str | None = None,
    structure: bool = False,
    fixed: Fixed = NOTHING,
) -> LoadedModel:
    """Load the model that ``spec`` names.

    ``input_shapes`` maps input names (``""`` for the only one) to (H,), (C, H, W) or a full shape with a batch of 1.
    ``weights`` is None for the model's own pretrained weights, ``random`` for a seeded random initialisation, or the path
    of a state dict; with ``structure`` a model of a registry is built on the meta device, without any. ``arch`` names the
    architecture of a state dict file, in the same grammar as ``spec``. ``fixed`` are inputs that are held at a value.

    Raises the errors of :mod:`lipaudit.errors`: :class:`~lipaudit.errors.UsageError` for requests that contradict
    themselves, :class:`~lipaudit.errors.ModelNotFoundError`, :class:`~lipaudit.errors.ModelLoadError` and
    :class:`~lipaudit.errors.WeightsUnavailableError` otherwise.
    """
    try:
        return _load(spec, input_shapes, weights, arch, structure, fixed)
    except LipauditError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise OutOfMemoryError from error
        raise ModelLoadError(
            f"{spec[:200]} cannot be loaded: {typed_reason_of(error)}; check the file and its input size, or save or "
            "export the model again"
        ) from error


def _load(
    spec: str,
    input_shapes: Mapping[str, Shape] | None,
    weights: str | None,
    arch: str | None,
    structure: bool,
    fixed: Fixed,
) -> LoadedModel:
    parsed = parse_spec(spec)
    if parsed.is_pattern:
        raise ModelPatternError(spec)
    if parsed.kind is Kind.FILE:
        return _load_file(parsed, input_shapes, weights, arch, structure, fixed)
    if arch is not None:
        raise ConflictError(spell("arch"), spec, "it names an architecture, and is not a file of weights")
    return _load_architecture(parsed, input_shapes, weights, structure, fixed)


def _load_architecture(
    spec: ModelSpec, input_shapes: Mapping[str, Shape] | None, weights: str | None, structure: bool, fixed: Fixed
) -> LoadedModel:
    if spec.kind is Kind.FACTORY:
        return _load_factory(spec, input_shapes, weights, fixed)
    if registry.find(spec) is Kind.TORCHVISION:
        return load_torchvision(
            spec.name, spec=spec.text, input_shapes=input_shapes, weights=weights, structure=structure, fixed=fixed
        )
    return load_timm(
        spec.name, spec=spec.text, input_shapes=input_shapes, weights=weights, structure=structure, fixed=fixed
    )


def _load_factory(
    spec: ModelSpec, input_shapes: Mapping[str, Shape] | None, weights: str | None, fixed: Fixed
) -> LoadedModel:
    module = build_from_factory(spec.name)
    notes: tuple[str, ...]
    origin, notes = "as built", ("The weights are those that the factory made, with torch's generator seeded by 0.",)
    if weights not in (None, "random"):
        apply_state_dict(module, read_state_dict(weights), weights, spec.name)
        origin, notes = weights, ()
    if module.training:
        notes += (_TRAINING,)
    module.eval()
    bound = bind_inputs(module, input_shapes, fixed)
    return bound.loaded(
        spec=spec.text,
        source="factory",
        weights=origin,
        notes=notes,
    )


def _load_file(
    spec: ModelSpec,
    input_shapes: Mapping[str, Shape] | None,
    weights: str | None,
    arch: str | None,
    structure: bool,
    fixed: Fixed,
) -> LoadedModel:
    path = existing_file(spec.name)
    if weights is not None:
        raise ConflictError(spell("weights"), spec.text, "it holds its own weights")
    if spec.suffix in (*TORCHSCRIPT_SUFFIXES, *CHECKPOINT_SUFFIXES) and arch is None and is_torchscript(path):
        from lipaudit.frontends.torchscript import load_torchscript

        return load_torchscript(path, spec=spec.text, input_shapes=input_shapes, fixed=fixed)
    if spec.suffix in TORCHSCRIPT_SUFFIXES:
        raise ModelLoadError(f"{path} is no TorchScript archive, which torch.jit.save writes: fetch or export it again")
    if spec.suffix in CHECKPOINT_SUFFIXES:
        if arch is None:
            read_state_dict(spec.name)  # what is wrong with the file comes first
        if arch is None:
            raise MissingArchitectureError(spec.text, structure)
        architecture = parse_spec(arch)
        if architecture.kind is Kind.FILE or architecture.is_pattern:
            expected = "one architecture: a name of a registry, or package.module:factory"
            raise InvalidValueError(spell("arch"), expected, arch)
        loaded = _load_architecture(architecture, input_shapes, spec.name, False, fixed)
        return replace(loaded, spec=spec.text, source="checkpoint", weights=path.name, file_sha256=sha256(path))
    if arch is not None:
        raise ConflictError(spell("arch"), spec.text, "it holds its own architecture")
    if spec.suffix == ".onnx":
        from lipaudit.frontends.onnx import load_onnx

        return load_onnx(path, spec=spec.text, input_shapes=input_shapes, fixed=fixed)
    if spec.suffix == ".pt2":
        from lipaudit.frontends.pt2 import load_pt2

        return load_pt2(path, spec=spec.text, input_shapes=input_shapes, fixed=fixed)
    raise ModelSuffixError(spec.text, FILE_SUFFIXES)
