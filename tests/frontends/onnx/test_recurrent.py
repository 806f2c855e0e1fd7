"""Recurrent layers of ONNX: every attribute against onnxruntime, and their bounds against Jacobians."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import lipaudit
from lipaudit.frontends.load import load
from lipaudit.frontends.onnx.operators import UnsupportedOperatorError

STEPS, INPUT, HIDDEN = 4, 3, 2
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


@dataclass
class Layer:
    """One recurrent node that reads ``x`` of shape (1, STEPS, INPUT), behind the transpositions that it needs."""

    op: str
    attributes: dict[str, Any] = field(default_factory=dict)
    bias: bool = True
    start: str = ""  # the initial states are absent, "constant" or "input"
    lengths: tuple[int, ...] = ()
    peepholes: bool = False
    opset: int = 14
    scale: float = 1.0
    samples: int = 1  # the entries of the batch axis of the layer, all made of one input
    inputs: dict[str, tuple[int, ...]] = field(default_factory=dict, init=False)

    def __str__(self) -> str:
        parts = [f"{k}={v}" for k, v in self.attributes.items()]
        parts += [f"{k}={v}" for k in ("bias", "start", "lengths", "peepholes", "opset") if (v := getattr(self, k))]
        return f"{self.op}-{'-'.join(parts)}".replace(" ", "")

    @property
    def directions(self) -> int:
        return 2 if self.attributes.get("direction") == "bidirectional" else 1

    @property
    def batch_first(self) -> bool:
        return bool(self.attributes.get("layout"))

    def model(self) -> onnx.ModelProto:
        random = np.random.default_rng(len(str(self)))
        gates, width = GATES[self.op], self.samples * INPUT

        def draw(*shape: int) -> np.ndarray:
            return (random.standard_normal(shape) * self.scale).astype(np.float32)

        tensors = {
            "W": draw(self.directions, gates * HIDDEN, INPUT),
            "R": draw(self.directions, gates * HIDDEN, HIDDEN),
        }
        if self.bias:
            tensors["B"] = draw(self.directions, 2 * gates * HIDDEN)
        if self.lengths:
            tensors["lengths"] = np.array(self.lengths, np.int32)
        if self.peepholes:
            tensors["P"] = draw(self.directions, 3 * HIDDEN)
        states = ["h", "c"][: 1 + (self.op == "LSTM")]
        shape = (self.directions, self.samples, HIDDEN)
        shape = (shape[1], shape[0], shape[2]) if self.batch_first else shape
        self.inputs = {"x": (1, STEPS, width)}
        if self.start == "constant":
            tensors |= {name: draw(*shape) for name in states}
        elif self.start == "input":
            self.inputs |= dict.fromkeys(states, shape)
        given = {"sequence": "", **{name: name for name in (*tensors, *self.inputs)}}
        order = ["W", "R", "B", "lengths", "h", "c", "P"]
        names = ["sequence", *(name if name in given else "" for name in order[: 7 if self.op == "LSTM" else 5])]
        split = numpy_helper.from_array(np.array([STEPS, self.samples, INPUT]), "split")
        outputs = ["y", *(f"last_{name}" for name in states)]
        nodes = [
            helper.make_node("Reshape", ["x", "split"], ["cut"]),
            helper.make_node("Transpose", ["cut"], ["sequence"], perm=[1, 0, 2] if self.batch_first else [0, 1, 2]),
            helper.make_node(self.op, names, outputs, name="the_node", hidden_size=HIDDEN, **self.attributes),
        ]
        graph = helper.make_graph(
            nodes,
            "graph",
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in self.inputs.items()],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
            [split, *(numpy_helper.from_array(a, n) for n, a in tensors.items())],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)


DIRECTIONS = ("forward", "reverse", "bidirectional")
LAYERS = [
    *(Layer(op, {"direction": d}, start=s) for op, d, s in itertools.product(GATES, DIRECTIONS, ("", "constant"))),
    *(Layer(op, bias=False, opset=o) for op in GATES for o in (9, 22)),
    *(Layer(op, {"clip": 0.7}, scale=2.0) for op in GATES),
    *(Layer(op, {"direction": "bidirectional"}, lengths=(3,)) for op in GATES),
    *(Layer(op, {"direction": "reverse"}, lengths=(2, 4), start="constant", samples=2) for op in GATES),
    *(Layer(op, {"direction": d}, start="constant", samples=3) for op in GATES for d in DIRECTIONS[::2]),
    *(Layer(op, start="input") for op in GATES),
    *(Layer("GRU", {"linear_before_reset": 1, **more}) for more in ({}, {"clip": 0.5}, {"direction": "bidirectional"})),
    Layer("GRU", {"linear_before_reset": 1}, bias=False),
    Layer("LSTM", peepholes=True),
    Layer("LSTM", {"direction": "bidirectional", "clip": 0.9}, peepholes=True, start="constant"),
    Layer("LSTM", {"activations": ["Sigmoid", "Tanh", "Tanh"]}),
    Layer("GRU", {"activations": ["sigmoid", "tanh"] * 2, "direction": "bidirectional"}),
    Layer("RNN", {"activations": ["Relu"]}),
    Layer("RNN", {"activations": ["Relu"], "clip": 0.8}, scale=2.0),
    Layer("RNN", {"activations": ["Relu", "Tanh"], "direction": "bidirectional"}),
]
BATCH_FIRST = [
    Layer(op, {"layout": 1, "direction": d}, start=s, samples=2)
    for op, d, s in (("LSTM", "forward", "constant"), ("GRU", "forward", ""), ("RNN", "forward", "constant"))
]


def save(layer: Layer, tmp_path: Any) -> str:
    path = str(tmp_path / "m.onnx")
    onnx.save(layer.model(), path)
    return path


def agree(layer: Layer, tmp_path: Any, reference: Any) -> None:
    path = save(layer, tmp_path)
    module = load(path).module
    for scale in (1.0, 5.0):
        random = np.random.default_rng(3)
        feeds = {n: (random.standard_normal(s) * scale).astype(np.float32) for n, s in layer.inputs.items()}
        expected = reference(path, feeds)
        found = module(*map(torch.from_numpy, feeds.values()))
        assert len(found) == len(expected)
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_agrees_with_onnxruntime(layer: Layer, tmp_path: Any) -> None:
    def run(path: str, feeds: dict[str, np.ndarray]) -> list[Any]:
        return list(onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feeds))

    agree(layer, tmp_path, run)


@pytest.mark.parametrize("scale", [1e-8, 1e-4, 30.0, 300.0])
@pytest.mark.parametrize("op", GATES)
def test_tiny_and_saturated_layers_are_no_disagreement(op: str, scale: float, tmp_path: Any) -> None:
    """Onnxruntime's sigmoid and tanh are right to 1e-7 absolutely, which is much of a tiny output."""
    assert "agrees with onnxruntime" in load(save(Layer(op, scale=scale), tmp_path)).notes[0]


@pytest.mark.parametrize("layer", BATCH_FIRST, ids=str)
def test_batch_first_agrees_with_the_reference(layer: Layer, tmp_path: Any) -> None:
    """Onnxruntime has no kernel for layout 1."""
    agree(layer, tmp_path, lambda path, feeds: ReferenceEvaluator(path).run(None, feeds))


@pytest.mark.parametrize("layer", [layer for layer in LAYERS if layer.start != "input"][::3], ids=str)
def test_the_bound_is_above_every_jacobian(layer: Layer, tmp_path: Any) -> None:
    path = save(layer, tmp_path)
    report = lipaudit.audit(path)
    assert report.network.status == "finite"
    module = load(path).module.double()

    def all_outputs(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([t.flatten() for t in module(x)])

    for scale in (0.01, 1.0, 3.0):
        x = torch.randn(layer.inputs["x"], dtype=torch.float64) * scale
        jacobian = torch.autograd.functional.jacobian(all_outputs, x).reshape(-1, x.numel())
        assert float(torch.linalg.matrix_norm(jacobian, 2)) <= report.network.upper_bound


def test_a_state_that_is_an_input(tmp_path: Any) -> None:
    """An RNN needs no bound of its state; LSTM and GRU have one where the domain bounds it."""
    for op, status in (("RNN", "finite"), ("GRU", "unbounded"), ("LSTM", "unbounded")):
        path = save(Layer(op, start="input"), tmp_path)
        assert lipaudit.audit(path).network.status == status


@pytest.mark.filterwarnings("ignore:The tensor attributes:UserWarning")  # of torch, while it exports an LSTM
@pytest.mark.parametrize(
    ("op", "kind", "order"), [("LSTM", torch.nn.LSTM, (0, 2, 3, 1)), ("GRU", torch.nn.GRU, (1, 0, 2))]
)
def test_the_same_layer_of_torch_has_the_same_bound(op: str, kind: Any, order: tuple[int, ...], tmp_path: Any) -> None:
    layer = Layer(op, {"linear_before_reset": 1} if op == "GRU" else {})
    path = save(layer, tmp_path)
    weights = {t.name: torch.from_numpy(numpy_helper.to_array(t).copy()) for t in onnx.load(path).graph.initializer}
    theirs = kind(INPUT, HIDDEN, batch_first=True)
    tensors = (weights["W"][0], weights["R"][0], *weights["B"][0].chunk(2))
    for parameter, tensor in zip(theirs.parameters(), tensors, strict=True):
        parts = tensor.chunk(GATES[op])
        parameter.data = torch.cat([parts[k] for k in order])

    def bound(model: Any, **options: Any) -> float:
        report = lipaudit.audit(model, **options)
        return next(row.upper_bound for row in report.layers if op.lower() in row.op)

    assert bound(path) == pytest.approx(bound(theirs, input_shape={"input": (1, STEPS, INPUT)}), rel=1e-9)


REFUSED = [
    (
        Layer("LSTM", {"activations": ["HardSigmoid", "Tanh", "Tanh"]}),
        "activations HardSigmoid, Tanh, Tanh.*Sigmoid, Tanh",
    ),
    (Layer("GRU", {"activations": ["Sigmoid", "Softsign"]}), "activations Sigmoid, Softsign"),
    (Layer("RNN", {"activations": ["Affine"], "activation_alpha": [1.0]}), "Tanh or Relu"),
    (Layer("LSTM", {"input_forget": 1}), "coupled gates"),
    (Layer("GRU", {"direction": "sideways"}), "direction 'sideways'"),
    (Layer("RNN", lengths=(9,)), "1 to 4 entries"),
    (Layer("RNN", {"clip": -1.0}), "must be positive"),
]


@pytest.mark.parametrize(("layer", "reason"), REFUSED, ids=[str(layer) for layer, _ in REFUSED])
def test_refusals_name_the_node(layer: Layer, reason: str, tmp_path: Any) -> None:
    with pytest.raises(UnsupportedOperatorError, match=reason) as caught:
        load(save(layer, tmp_path))
    assert "'the_node'" in str(caught.value)
