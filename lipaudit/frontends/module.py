"""A network that the caller already holds: it is audited as it is and handed back as it was."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from lipaudit.frontends.fixed import NOTHING, Fixed
from lipaudit.frontends.forward import bind_inputs
from lipaudit.frontends.loaded import LoadedModel
from lipaudit.frontends.shapes import Shape


def wrap_module(
    module: nn.Module, input_shapes: Mapping[str, Shape] | None = None, fixed: Fixed = NOTHING
) -> LoadedModel:
    """Describe an ``nn.Module``; its mode and its parameters are left alone. ``fixed`` are arguments of ``forward`` that are held."""
    bound = bind_inputs(module, input_shapes, fixed)
    return LoadedModel(
        module=bound.module,
        spec=f"{type(module).__module__}.{type(module).__qualname__}",
        source="module",
        input_shapes=bound.input_shapes,
        input_dtypes=bound.input_dtypes,
        weights="as given",
        fixed=bound.fixed,
    )
