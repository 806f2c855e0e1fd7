"""A network that the caller already holds: it is audited as it is and handed back as it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import torch
from torch import nn
from torch.export import ExportedProgram

from lipaudit.frontends.forward import bind_inputs
from lipaudit.frontends.held_inputs import NOTHING, Fixed
from lipaudit.frontends.loaded import LoadedModel
from lipaudit.frontends.program import check_evaluation, load_program
from lipaudit.frontends.shapes import Shape
from lipaudit.frontends.torchscript import wrap_torchscript

Network: TypeAlias = nn.Module | ExportedProgram


def wrap_module(
    module: Network, input_shapes: Mapping[str, Shape] | None = None, fixed: Fixed = NOTHING
) -> LoadedModel:
    """Describe a network; its mode and its parameters are left alone. ``fixed`` are arguments of ``forward`` that are held.

    A network is an ``nn.Module``, of TorchScript or compiled ones included, or an exported program.
    """
    if isinstance(module, ExportedProgram):
        return load_program(
            module, spec="ExportedProgram", source="module", weights="as given", requested=input_shapes, fixed=fixed
        )
    if isinstance(module, torch.jit.ScriptModule):
        return wrap_torchscript(module, input_shapes, fixed)
    if type(module).__name__ == "OptimizedModule":  # by torch.compile: what it computes is what is inside
        module = module.get_submodule("_orig_mod")
    spec = f"{type(module).__module__}.{type(module).__qualname__}"
    if isinstance(module, torch.fx.GraphModule):
        spec = "GraphModule"
        if "train" in vars(module):  # the module of an exported program, which has no modes any more
            check_evaluation(module.graph.nodes, spec)
    bound = bind_inputs(module, input_shapes, fixed)
    return bound.loaded(
        spec=spec,
        source="module",
        weights="as given",
    )
