"""A network that the caller already holds: it is audited as it is and handed back as it was."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from lipaudit.frontends.loaded import LoadedModel
from lipaudit.frontends.shapes import Shape, input_names, resolve_shapes


def wrap_module(module: nn.Module, input_shapes: Mapping[str, Shape] | None = None) -> LoadedModel:
    """Describe an ``nn.Module``; its mode and its parameters are left alone."""
    shapes = resolve_shapes(input_shapes, dict.fromkeys(input_names(module)))
    dtype = next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float32)
    return LoadedModel(
        module=module,
        spec=f"{type(module).__module__}.{type(module).__qualname__}",
        source="module",
        input_shapes=shapes,
        input_dtypes=dict.fromkeys(shapes, dtype),
        weights="as given",
    )
