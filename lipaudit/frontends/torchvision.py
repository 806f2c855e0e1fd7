"""Torchvision's registry: names, weight tags, the preprocessing that belongs to them, default input sizes."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from lipaudit.errors import ConflictError, UnknownChoiceError, WeightsUnavailableError
from lipaudit.frontends.checkpoint import StateDict, apply_state_dict, read_state_dict
from lipaudit.frontends.forward import bind_inputs
from lipaudit.frontends.held_inputs import NOTHING, Fixed
from lipaudit.frontends.loaded import LoadedModel, Preprocessing
from lipaudit.frontends.shapes import Shape
from lipaudit.option_names import spell

_CLIP_FRAMES = 16
_QUANTIZED = "quantized_"


def names() -> list[str]:
    """Every name in the registry, sorted: classification, detection, segmentation, video, optical flow."""
    from torchvision.models import list_models

    return sorted(list_models())


def load_torchvision(
    name: str,
    *,
    spec: str,
    input_shapes: Mapping[str, Shape] | None = None,
    weights: str | None = None,
    structure: bool = False,
    fixed: Fixed = NOTHING,
) -> LoadedModel:
    """Build ``NAME`` or ``NAME@TAG``.

    ``weights`` is None (the tag's, or the registry's default), ``random`` (seed 0) or a state dict file; with ``structure``
    the architecture is built on the meta device. A detection
    model is reduced to its backbone, because what follows selects boxes by value; the notes say so.
    Raises :class:`UsageError` for an unknown tag and :class:`WeightsUnavailableError` where a download fails.
    """
    model_name, at, tag = name.partition("@")
    entry = _pretrained_entry(model_name, tag) if at else _default_entry(model_name)
    if at and weights is not None:
        raise ConflictError(spell("weights", weights), spec, f"it names the weights {tag}")
    notes: list[str] = []
    dtype = torch.float32
    if structure:
        module, origin = _build_structure(model_name), "not read"
    elif weights is None:
        module, origin = _build_pretrained(model_name, entry, spec), entry.name
    elif weights == "random":
        module, origin = _build_random(model_name), "random"
        notes.append("The weights are random (seed 0): the figures describe the architecture, not a trained network.")
    else:
        state = read_state_dict(weights)
        module, origin = _build_for(model_name, state), weights
        dtype = apply_state_dict(module, state, weights, model_name)
        if getattr(module, "transform_input", False):
            notes.append(
                "The input is re-normalised inside the model (transform_input), as torchvision's own weights expect."
            )
    if model_name.startswith(_QUANTIZED):
        notes.append(
            "The floating-point network is audited; quantised arithmetic rounds and has no Lipschitz constant."
        )
    default, preprocessing = _defaults(model_name, entry)
    size = getattr(module, "image_size", None)
    if isinstance(size, int):  # a vision transformer takes one size, which need not be that of the default weights
        default = (*default[:-2], size, size)
    transform = getattr(module, "transform", None)
    backbone = getattr(module, "backbone", None)
    if transform is not None and isinstance(backbone, nn.Module):
        preprocessing = Preprocessing(tuple(transform.image_mean), tuple(transform.image_std))
        module = backbone
        notes.append("A detection model: its backbone is audited, without the heads and the selection of boxes.")
    module.eval()
    bound = bind_inputs(module, input_shapes, fixed, default, dtype)
    return bound.loaded(
        spec=spec,
        source="torchvision",
        preprocessing=preprocessing,
        weights=origin,
        notes=tuple(notes),
    )


def _pretrained_entry(model_name: str, tag: str) -> Any:
    from torchvision.models import get_model_weights

    members = get_model_weights(_float_name(model_name)).__members__
    if tag not in members:
        raise UnknownChoiceError(f"tag of weights of {model_name}", tag, members)
    return members[tag]


def _default_entry(model_name: str) -> Any:
    from torchvision.models import get_model_weights

    return get_model_weights(_float_name(model_name)).__members__["DEFAULT"]


def _float_name(model_name: str) -> str:
    return model_name.removeprefix(_QUANTIZED)


def _builder_options(model_name: str, state: StateDict | None = None) -> dict[str, Any]:
    """Keyword arguments that keep a builder from fetching or drawing weights, and fit its heads to a state dict."""
    from torchvision.models import get_model_builder

    options: dict[str, Any] = {}
    if "weights_backbone" in inspect.signature(get_model_builder(model_name)).parameters:
        options["weights_backbone"] = None
    if _float_name(model_name) in ("googlenet", "inception_v3"):
        options["init_weights"] = False
        if state is not None:
            options["aux_logits"] = any(n.startswith(("aux1.", "AuxLogits.")) for n in state)
            options["transform_input"] = True
    if "aux_loss" in inspect.signature(get_model_builder(model_name)).parameters and state is not None:
        options["aux_loss"] = any(n.startswith("aux_classifier.") for n in state)
    return options


def _build_for(model_name: str, state: StateDict) -> nn.Module:
    from torchvision.models import get_model

    with torch.random.fork_rng(devices=[]):
        module: nn.Module = get_model(model_name, weights=None, **_builder_options(model_name, state))
    return module


def _build_random(model_name: str) -> nn.Module:
    from torchvision.models import get_model

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module: nn.Module = get_model(model_name, weights=None, **_builder_options(model_name))
    return module


def _build_structure(model_name: str) -> nn.Module:
    """The architecture without values; RegNets compute their widths with tensors, which need values."""
    if model_name.startswith("regnet_"):
        return _build_random(model_name)
    with torch.device("meta"):
        return _build_random(model_name)


def _build_pretrained(model_name: str, entry: Any, spec: str) -> nn.Module:
    """Torchvision downloads, checks the hash in the file's name and caches; its progress goes to stderr."""
    from torchvision.models import get_model

    options = {k: v for k, v in _builder_options(model_name).items() if k == "weights_backbone"}
    try:
        with contextlib.redirect_stdout(sys.stderr):
            module: nn.Module = get_model(model_name, weights=entry, progress=False, **options)
    except (OSError, RuntimeError) as error:
        raise WeightsUnavailableError(
            f"the weights {entry.name} of {spec} cannot be fetched ({error}): connect to the internet, or give "
            f"{spell('weights', 'FILE')} with a state dict, or {spell('weights', 'random')} for the weights that training starts from"
        ) from error
    return module


@dataclass(frozen=True)
class _Presets:
    """What a weight entry's transforms say: sizes in pixels, normalisation per channel."""

    size: tuple[int, int] | None
    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None


def _presets(entry: Any) -> _Presets:
    transforms = entry.transforms()
    sizes = getattr(transforms, "crop_size", None) or getattr(transforms, "resize_size", None)
    pair = (sizes[0], sizes[-1]) if sizes else None
    mean, std = getattr(transforms, "mean", None), getattr(transforms, "std", None)
    return _Presets(pair, tuple(mean) if mean else None, tuple(std) if std else None)


def _defaults(model_name: str, entry: Any) -> tuple[Shape, Preprocessing | None]:
    from torchvision.models import get_model_builder

    presets = _presets(entry)
    size = presets.size
    if size is None:
        ssd = {"ssd300_vgg16": 300, "ssdlite320_mobilenet_v3_large": 320}
        size = tuple(entry.meta["min_size"]) if model_name.startswith("raft") else (ssd.get(model_name, 800),) * 2
    is_video = get_model_builder(model_name).__module__.startswith("torchvision.models.video")
    shape: Shape = (1, 3, _CLIP_FRAMES, *size) if is_video else (1, 3, *size)
    known = presets.mean is not None and presets.std is not None
    preprocessing = Preprocessing(presets.mean or (), presets.std or ()) if known else None
    return shape, preprocessing
