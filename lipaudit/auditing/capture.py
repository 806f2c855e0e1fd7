"""From a loaded model to its graph: captured, recognised, and simplified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from lipaudit.errors import CaptureError, NoTensorError
from lipaudit.errors.inputs import LargeInputError, UnreadInputError
from lipaudit.frontends.loaded import LoadedModel
from lipaudit.graph.capture.agreement import disagreement
from lipaudit.graph.capture.export import capture
from lipaudit.graph.capture.layerwise import layers_by_hooks
from lipaudit.graph.node import Graph
from lipaudit.graph.passes.decomposition import decompose
from lipaudit.graph.passes.table import fold, recognise
from lipaudit.graph.passes.unknown_weights import replace_unknown_weights
from lipaudit.rules.rule import has_rule


@dataclass(frozen=True, eq=False)
class Captured:
    """A network on zeros of its input's shape: ``graph`` as captured, ``recognised`` equal to it, ``simple`` with scales folded."""

    inputs: dict[str, torch.Tensor]
    graph: Graph
    recognised: Graph
    simple: Graph


def capture_model(
    loaded: LoadedModel, place: torch.device, structure: bool = False, freeze: int | None = None
) -> Captured:
    """The network as a graph; ``structure`` fills the places of weights that were never read, ``freeze`` seeds what computes weights."""
    inputs = zero_inputs(loaded, place)
    graph = graph_of(loaded.module, inputs, freeze)
    _check_read(graph, loaded.unnamed)
    recognised = recognise(replace_unknown_weights(graph) if structure else graph)
    return Captured(inputs, graph, recognised, fold(recognised))


def _check_read(graph: Graph, unnamed: Sequence[str]) -> None:
    """Refuse an input that only fits into the ``**`` of forward and that nothing reads: its name is wrong."""
    for name in unread_inputs(graph):
        if name in unnamed:
            raise UnreadInputError(name)


def unread_inputs(graph: Graph) -> list[str]:
    """The inputs on which nothing depends."""
    read = {ref.name for node in graph for ref in node.refs} | set(graph.outputs)
    return [name for name in graph.inputs if name not in read]


def zero_inputs(loaded: LoadedModel, device: torch.device) -> dict[str, torch.Tensor]:
    """Zeros of the shapes and types that a network reads."""
    try:
        return {
            name: torch.zeros(shape, dtype=loaded.input_dtypes.get(name, torch.float32), device=device)
            for name, shape in loaded.input_shapes.items()
        }
    except (RuntimeError, TypeError, OverflowError) as error:
        raise LargeInputError(loaded.input_shapes) from error


def graph_of(module: nn.Module, inputs: Mapping[str, torch.Tensor], freeze: int | None = None) -> Graph:
    """The network as a graph, or its layers one by one where it is none but runs on the inputs.

    Operations without a rule are in pieces, and the graph of the pieces is compared with the module as well.
    """
    try:
        graph = capture(module, inputs, freeze)
        pieces = decompose(graph, has_rule)
        difference = None if pieces is graph else disagreement(module, inputs, pieces, freeze)
        if difference is not None:
            raise CaptureError(f"an operation was decomposed wrongly: {difference}")
        return pieces
    except NoTensorError:
        raise
    except CaptureError as error:
        return decompose(layers_by_hooks(module, inputs, error), has_rule)
