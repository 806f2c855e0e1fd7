"""The last resort for a network that is no single graph: its layers, one by one, as they run on an input of zeros.

The graph says so itself. One operation without a rule, ``lipaudit.uncaptured``, stands for everything between the layers: every
layer reads from it and the network's output comes from it, so that each layer has its own norm and nothing is claimed
for the network.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

import torch
from torch import nn

from lipaudit.errors import CaptureError
from lipaudit.graph.capture.export import capture
from lipaudit.graph.capture.trace import sizes_when_run
from lipaudit.graph.node import Argument, Constant, Graph, Node, Ref, TensorInfo

UNCAPTURED = "lipaudit.uncaptured"
_SOURCE, _OUTPUT = "network", "output"


def layers_by_hooks(module: nn.Module, inputs: Mapping[str, torch.Tensor], failure: CaptureError) -> Graph:
    """The layers of ``module`` that run on ``inputs``, none of them connected; ``failure`` is why it was not captured.

    Raises:
        CaptureError: ``failure`` itself, where the network does not run on the inputs.
    """
    try:
        sizes = sizes_when_run(module, inputs)
    except Exception:
        raise failure from None
    entries = [Node(name, "input", {}, (TensorInfo(tuple(x.shape), x.dtype),)) for name, x in inputs.items()]
    received: list[TensorInfo] = []
    nodes: list[Node] = []
    ends: list[Ref] = []
    for path, layer in _layers(module, sizes):
        source = Ref(f"{_SOURCE}_{len(received)}", layer.nodes[0].output)
        nodes.append(
            Node(source.name, "getitem", {"self": Ref(_SOURCE, source.info), "index": len(received)}, (source.info,))
        )
        operations, results = _prefixed(layer, f"layer_{len(received)}_", path, source)
        nodes += operations
        ends += results
        received.append(source.info)
    read = tuple(Ref(n.name, n.output) for n in entries)
    before = Node(_SOURCE, UNCAPTURED, {"inputs": read}, tuple(received), payload=str(failure))
    scalar = TensorInfo((), torch.float32)
    after = Node(_OUTPUT, UNCAPTURED, {"inputs": (*ends, *read)}, (scalar,), payload=str(failure))
    unique = {id(p): p.numel() for p in module.parameters()}
    return Graph(
        nodes=(*entries, before, *nodes, after),
        inputs=tuple(inputs),
        outputs=(_OUTPUT,),
        output_names=("",),
        input_sizes={name: tuple(shapes) for name, shapes in sizes.items()},
        num_parameters=sum(unique.values()),
    )


def _layers(module: nn.Module, sizes: Mapping[str, list[tuple[int, ...]]]) -> Iterator[tuple[str, Graph]]:
    """Every module with weights and without parts, captured alone at each size that it ran on."""
    for path, layer in module.named_modules():
        weight = next((p for p in layer.parameters() if p.is_floating_point()), None)
        if weight is None or any(layer.children()):
            continue
        for shape in dict.fromkeys(sizes.get(path, [])):
            # what takes something else than one tensor of numbers (an embedding) is no layer with a norm
            with suppress(CaptureError):
                graph = capture(layer, {"input": torch.zeros(shape, dtype=weight.dtype, device=weight.device)})
                if len(graph) > 1:
                    yield path, graph


def _prefixed(graph: Graph, prefix: str, path: str, source: Ref) -> tuple[tuple[Node, ...], list[Ref]]:
    """The layer's operations with ``source`` for its input, below the layer's own name and path; and its outputs."""
    entry = graph.inputs[0]

    def follow(argument: Argument) -> Argument:
        if isinstance(argument, tuple):
            return tuple(follow(part) for part in argument)
        if isinstance(argument, Constant):
            return replace(argument, names=tuple(f"{path}.{name}" for name in argument.names))
        if isinstance(argument, Ref):
            return source if argument.name == entry else replace(argument, name=prefix + argument.name)
        return argument

    nodes = tuple(
        replace(
            node,
            name=prefix + node.name,
            module=f"{path}.{node.module}" if node.module else path,
            arguments={key: follow(argument) for key, argument in node.arguments.items()},
        )
        for node in graph
        if node.op != "input"
    )
    ends = {prefix + name for name in graph.outputs}
    return nodes, [Ref(node.name, node.outputs[0]) for node in nodes if node.name in ends]
