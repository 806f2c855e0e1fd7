"""Timm's registry: architectures, pretrained tags, input sizes and normalisation from the pretrained configuration."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import torch
from torch import nn

from lipaudit.errors import UnknownChoiceError, WeightsUnavailableError
from lipaudit.frontends.checkpoint import apply_state_dict, read_state_dict
from lipaudit.frontends.forward import bind_inputs
from lipaudit.frontends.held_inputs import NOTHING, Fixed
from lipaudit.frontends.loaded import LoadedModel, Preprocessing
from lipaudit.frontends.shapes import Shape
from lipaudit.frontends.spec import HUB
from lipaudit.option_names import spell


def names(tags: bool = False) -> list[str]:
    """Every architecture, sorted; with ``tags`` every pretrained name ``architecture.tag`` instead."""
    import timm

    return sorted(timm.list_models(pretrained=True, include_tags=True) if tags else timm.list_models())


def load_timm(
    name: str,
    *,
    spec: str,
    input_shapes: Mapping[str, Shape] | None = None,
    weights: str | None = None,
    structure: bool = False,
    fixed: Fixed = NOTHING,
) -> LoadedModel:
    """Build a known architecture, with the weights of its tag (or of its default tag).

    ``weights`` is None (pretrained), ``random`` (seed 0) or a state dict file; with ``structure`` the architecture is built
    on the meta device. Raises :class:`UsageError` for an unknown
    tag and :class:`WeightsUnavailableError` where the architecture has no weights or they cannot be fetched.
    """
    if not name.startswith(HUB):
        _check_tag(name)
    if name.startswith(HUB) or (weights is None and not structure):
        _check_reachable(name, spec)
    notes: tuple[str, ...] = ()
    dtype = torch.float32
    if structure:
        with torch.device("meta"):
            module = _build(name, spec, pretrained=False)
        origin = "not read"
    elif weights is None:
        module = _build(name, spec, pretrained=True)
        origin = str(_configuration(module).get("tag") or "pretrained")
    else:
        module = _build(name, spec, pretrained=False)
        origin = weights
        if weights == "random":
            notes = ("The weights are random (seed 0): the figures describe the architecture, not a trained network.",)
        else:
            dtype = apply_state_dict(module, read_state_dict(weights), weights, name)
    module.eval()
    configuration = _configuration(module)
    size = configuration.get("input_size")
    default = (1, *size) if size else None
    preprocessing = None
    if configuration.get("mean") and configuration.get("std"):
        preprocessing = Preprocessing(tuple(configuration["mean"]), tuple(configuration["std"]))
    bound = bind_inputs(module, input_shapes, fixed, default, dtype)
    return bound.loaded(
        spec=spec,
        source="timm",
        preprocessing=preprocessing,
        weights=origin,
        notes=notes,
    )


def _configuration(module: nn.Module) -> dict[str, Any]:
    configuration = getattr(module, "pretrained_cfg", None) or {}
    return dict(configuration)


def has(architecture: str) -> bool:
    """Whether timm can build the architecture (names that it only keeps for old callers included)."""
    import timm

    return bool(timm.is_model(architecture))


def _check_tag(name: str) -> None:
    import timm

    try:
        timm.get_pretrained_cfg(name)
    except RuntimeError as error:  # raised for exactly one reason: an unknown tag of a known architecture
        architecture, _, tag = name.partition(".")
        known = [n.partition(".")[2] for n in timm.list_models(f"{architecture}.*", include_tags=True)]
        raise UnknownChoiceError(f"pretrained tag of {architecture}", tag, [t for t in known if t]) from error


def _build(name: str, spec: str, pretrained: bool) -> nn.Module:
    """Timm checks, fetches and caches through huggingface_hub; anything printed goes to stderr."""
    import timm

    with contextlib.redirect_stdout(sys.stderr), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        try:
            module: nn.Module = timm.create_model(name, pretrained=pretrained)
        except (OSError, RuntimeError) as error:
            if not pretrained and not name.startswith(
                HUB
            ):  # a repository of the hub says itself what its architecture is
                raise
            raise _unavailable(spec, str(error)) from error
    return module


def _check_reachable(name: str, spec: str) -> None:
    """Fail at once where the hub's name does not resolve and the weights are not cached; its own retries take a minute."""
    import timm
    from huggingface_hub import constants, try_to_load_from_cache

    files = ["model.safetensors", "pytorch_model.bin"]
    revision = None
    if name.startswith(HUB):
        identifier, _, revision = name.removeprefix(HUB).partition("@")
        repository: str | None = identifier
        files = ["config.json"]
    else:
        configuration = timm.get_pretrained_cfg(name)
        repository = getattr(configuration, "hf_hub_id", None)
        if configuration is None or not (repository or configuration.url or configuration.file):
            raise _unavailable(spec, "timm publishes none for this architecture")
        files = [configuration.hf_hub_filename] if configuration.hf_hub_filename else files
    if repository is None or constants.HF_HUB_OFFLINE:
        return
    if any(isinstance(try_to_load_from_cache(repository, file, revision=revision or None), str) for file in files):
        return
    if any(os.environ.get(v) for v in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
        return
    host = urlsplit(constants.ENDPOINT).hostname or ""
    try:
        socket.getaddrinfo(host, 443)
    except OSError as error:
        raise _unavailable(spec, f"{host} cannot be reached: {error}") from error


def _unavailable(spec: str, reason: str) -> WeightsUnavailableError:
    if HUB in spec.replace("hf_hub:", HUB):
        return WeightsUnavailableError(
            f"{spec} cannot be fetched from the hub, or is no model of timm ({reason[:300]}): connect to the internet, or name its "
            f"architecture with {spell('arch')} and a file of its weights"
        )
    return WeightsUnavailableError(
        f"the pretrained weights of {spec} cannot be fetched ({reason}): connect to the internet, or give {spell('weights', 'FILE')} "
        f"with a state dict, or {spell('weights', 'random')} for the weights that training starts from"
    )
