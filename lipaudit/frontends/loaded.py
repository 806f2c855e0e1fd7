"""What a frontend hands over: a network in eval mode together with everything that is known about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass(frozen=True)
class Preprocessing:
    """The normalisation a pretrained model expects: (pixel - mean) / std per channel, pixels in [0, 1]."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model ready to be captured.

    ``spec`` is what the user typed, ``source`` the frontend (``torchvision``, ``timm``, ``onnx``, ``pt2``, ``checkpoint``,
    ``factory``, ``module``). ``input_shapes`` maps input names to full shapes with a batch axis of 1, in positional order.
    ``weights`` says where the numbers came from (a tag such as ``IMAGENET1K_V2``, a file name, ``random``).
    ``unnamed`` are inputs that ``forward`` does not name and takes among its further keywords (``**``).
    ``fixed`` are the inputs that are held at a value, ``unheld`` integer ones for whose every value the global bound holds.
    ``file_sha256`` is the hash of the model file where there is one. ``node_names`` maps module paths to the names that the file itself
    uses (ONNX node names), ``module_paths`` to the paths that the modules had where the file was exported, as far as it tells them;
    ``output_names`` are the file's names of all outputs. ``notes`` are remarks for the report, in plain sentences.
    """

    module: nn.Module
    spec: str
    source: str
    input_shapes: dict[str, tuple[int, ...]]
    input_dtypes: dict[str, torch.dtype] = field(default_factory=dict)
    preprocessing: Preprocessing | None = None
    weights: str = ""
    file_sha256: str | None = None
    node_names: dict[str, str] = field(default_factory=dict)
    module_paths: dict[str, str] = field(default_factory=dict)
    output_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    fixed: Mapping[str, object] = field(default_factory=dict)
    unheld: tuple[str, ...] = ()
    unnamed: tuple[str, ...] = ()
