"""A captured network as a classifier: from images in the units of the radii to one vector of logits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from lipaudit.auditing.capture import Captured
from lipaudit.errors.certification import NoDecisionError, OneInputError
from lipaudit.graph.evaluate import can_interpret
from lipaudit.graph.linear import DENSE, Dense
from lipaudit.graph.node import Constant, Graph, Node, Ref, TensorInfo
from lipaudit.graph.ops import LOG_SOFTMAX, SOFTMAX, VIEWS
from lipaudit.graph.passes.table import IDENTITIES, fold, recognise
from lipaudit.graph.rewrite import drop_unread, rebuild
from lipaudit.spectral.rounding import UNIT_ROUNDOFF

PAIR = "lipaudit_pair"
_CENTRED, _SCALED, _VECTOR = "lipaudit_centred_pixels", "lipaudit_scaled_pixels", "lipaudit_logits"


@dataclass(frozen=True, eq=False)
class Classifier:
    """A network whose decision is its largest logit.

    ``values`` and ``recognised`` equal it in value, ``simple`` on differences. All three read ``input``, an image in the units of the
    radii, and return (1, ``classes``) logits; a softmax or its logarithm at the end is left out, because it changes no decision.
    """

    values: Graph
    recognised: Graph
    simple: Graph
    input: str
    shape: tuple[int, ...]
    classes: int

    @property
    def last(self) -> Node:
        """The node of the simplified graph that computes the logits, seen through changes of shape."""
        nodes = {node.name: node for node in self.simple}
        node = nodes[self.simple.outputs[0]]
        while node.op in VIEWS and len(node.refs) == 1:
            node = nodes[node.refs[0].name]
        return node

    @property
    def weight(self) -> Dense:
        """The last matrix W, so that the logits are W phi(x) + b, and of two logits the difference (w_i - w_j) phi(x) + b_i - b_j.

        The identity where the network does not end with a matrix.
        """
        payload = self.last.payload
        return payload if self._ends_with_matrix else Dense(torch.eye(self.classes, dtype=torch.float64))

    @property
    def features(self) -> Graph:
        """The simplified graph up to phi(x), what the last matrix reads."""
        return drop_unread(replace(self.simple, outputs=(self.read.name,), output_names=()))

    @property
    def _ends_with_matrix(self) -> bool:
        return self.last.op == DENSE and self.last.output.shape == (1, self.classes)

    @property
    def read(self) -> Ref:
        """What the last matrix reads: phi(x)."""
        if self._ends_with_matrix:
            return self.last.refs[0]
        name = self.simple.outputs[0]
        return Ref(name, next(node.output for node in self.simple if node.name == name))

    def pair(self, first: int, second: int) -> Graph:
        """The simplified graph of the one number f_first - f_second, but for the rounding of :func:`row_difference`."""
        row = row_difference(self.weight, first, second)
        read = self.read
        info = TensorInfo((1, 1), read.info.dtype)
        node = Node(PAIR, DENSE, {"input": read}, (info,), payload=Dense(row[None], UNIT_ROUNDOFF))
        kept = self.features
        return replace(kept, nodes=(*kept.nodes, node), outputs=(PAIR,))


def row_difference(weight: Dense, first: int, second: int) -> torch.Tensor:
    """w_first - w_second in float64, every entry rounded once."""
    return weight.weight[first].to(torch.float64) - weight.weight[second].to(torch.float64)


def classifier_of(network: Captured, mean: Sequence[float], std: Sequence[float]) -> Classifier:
    """The network behind the normalisation (pixel - mean) / std; empty where the images are the network's own inputs.

    Raises :class:`~lipaudit.errors.certification.NoDecisionError` where the output is no vector of logits, and
    :class:`~lipaudit.errors.certification.OneInputError` for several inputs.
    """
    graph = network.graph
    if len(graph.inputs) != 1:
        raise OneInputError(graph.inputs)
    if not can_interpret(graph):
        raise NoDecisionError("the network was not captured as one graph of operations")
    if len(graph.outputs) != 1 or graph.constant_outputs:
        count = len(graph.outputs) + graph.constant_outputs
        raise NoDecisionError(f"the network returns {count} tensors")
    values = _without_softmax(_normalised(graph, mean, std) if mean else graph)
    recognised = recognise(values)
    plain = _without_softmax(recognised)
    if plain is not recognised:  # a softmax that was written out
        values = recognised = plain
    values, recognised = _as_vector(values), _as_vector(recognised)
    output = next(node for node in recognised if node.name == recognised.outputs[0])
    if len(output.outputs) != 1 or len(output.output.shape) != 2 or output.output.shape[0] != 1:
        raise NoDecisionError(f"the network returns a tensor of shape {output.outputs[0].shape}")
    if output.output.shape[1] < 2 or not output.output.dtype.is_floating_point:
        raise NoDecisionError(
            "the network returns one number" if output.output.shape[1] == 1 else "the network returns no floats"
        )
    name = graph.inputs[0]
    shape = next(node.output.shape for node in graph if node.name == name)
    return Classifier(IDENTITIES.run(values), recognised, fold(recognised), name, shape, output.output.shape[1])


def _normalised(graph: Graph, mean: Sequence[float], std: Sequence[float]) -> Graph:
    """The graph with its input in pixels: a difference and a quotient per channel stand in front of it."""
    (name,) = graph.inputs
    source = next(node for node in graph if node.name == name)
    info = source.output

    def constant(numbers: Sequence[float]) -> Constant:
        value = torch.tensor(numbers, dtype=torch.float64).reshape(1, -1, *(1,) * (len(info.shape) - 2))
        return Constant(value, computed_in=info.dtype)

    centred = Node(_CENTRED, "aten.sub.Tensor", {"self": Ref(name, info), "other": constant(mean), "alpha": 1}, (info,))
    scaled = Node(_SCALED, "aten.div.Tensor", {"self": Ref(_CENTRED, info), "other": constant(std)}, (info,))
    moved = rebuild(
        replace(graph, nodes=(source, centred, scaled, *(node for node in graph if node.name != name))),
        lambda node: None if node.name in (name, _CENTRED, _SCALED) else _reading(node, name, Ref(_SCALED, info)),
    )
    return replace(moved, outputs=tuple(_SCALED if output == name else output for output in moved.outputs))


def _reading(node: Node, name: str, instead: Ref) -> Node:
    """The node with another tensor in the place of the one of that name."""

    def follow(argument: object) -> object:
        if isinstance(argument, Ref):
            return instead if argument.name == name else argument
        return tuple(map(follow, argument)) if isinstance(argument, tuple) else argument

    return replace(node, arguments={key: follow(value) for key, value in node.arguments.items()})  # type: ignore[misc]


def _as_vector(graph: Graph) -> Graph:
    """The graph with its output (1, K) where that has one long axis, as in (1, K, 1, 1)."""
    node = next(node for node in graph if node.name == graph.outputs[0])
    if (
        len(node.outputs) != 1
        or len(node.output.shape) == 2
        or max(node.output.shape, default=0) != math.prod(node.output.shape)
    ):
        return graph
    shape = (1, math.prod(node.output.shape))
    vector = Node(
        _VECTOR,
        "aten.reshape.default",
        {"self": Ref(node.name, node.output), "shape": shape},
        (TensorInfo(shape, node.output.dtype),),
    )
    return replace(graph, nodes=(*graph.nodes, vector), outputs=(_VECTOR,))


def _without_softmax(graph: Graph) -> Graph:
    """The graph up to a softmax over the classes, or its logarithm, at its end: x -> softmax(x) keeps the order of entries."""
    node = next(node for node in graph if node.name == graph.outputs[0])
    if node.op not in SOFTMAX | LOG_SOFTMAX or len(node.outputs) != 1 or len(node.output.shape) != 2:
        return graph
    if node["dim"] not in (1, -1) or len(node.refs) != 1:
        return graph
    return drop_unread(replace(graph, outputs=(node.refs[0].name,)))
