"""Activations that arrive written out are recognised, in any algebraic order, and nothing else is."""

from __future__ import annotations

import math
import random
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import lipaudit
from lipaudit.graph.capture.export import capture
from lipaudit.graph.node import Graph, Node, Ref, TensorInfo
from lipaudit.graph.passes.activations import ACTIVATION, matcher
from lipaudit.graph.passes.table import simplify
from lipaudit.graph.pattern import replace_patterns
from lipaudit.network.propagate import evaluate_rules, propagate
from lipaudit.rules.effect import Settings, Status
from lipaudit.rules.ops import (
    activation_slopes,
)
from tests.nodes import function_of, operation
from tests.places import SAMPLES

R2, K = math.sqrt(2), math.sqrt(2 / math.pi)
HALF = torch.full((6,), 0.5)


Function = Callable[[Tensor], Tensor]


class Written(nn.Module):
    """A linear layer, a function written out, and a linear layer."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.before, self.after = nn.Linear(6, 6), nn.Linear(6, 6)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.function(self.before(x)))


class Many(nn.Module):
    """One output per function, each of its own linear layer's output: one capture for all."""

    def __init__(self, functions: Mapping[str, Function]) -> None:
        super().__init__()
        self.before = nn.ModuleList([nn.Linear(6, 6) for _ in functions])
        self.functions = tuple(functions.values())

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(f(layer(x)) for f, layer in zip(self.functions, self.before, strict=True))


def simplified(module: nn.Module) -> Graph:
    return simplify(capture(module, {"x": torch.zeros(1, 6)}))


SILU = {
    "x s(x)": lambda x: x * torch.sigmoid(x),
    "s(x) x": lambda x: torch.sigmoid(x) * x,
    "x / (1 + e^-x)": lambda x: x / (1 + torch.exp(-x)),
    "x * 1/(1 + e^-x)": lambda x: x * torch.reciprocal(torch.exp(torch.neg(x)) + 1),
    "in place": lambda x: x.mul_(torch.sigmoid(x)),
    "x/2 (1 + tanh(x/2))": lambda x: 0.5 * x * (1 + torch.tanh(x / 2)),
    "x (1 - s(-x))": lambda x: x * (1 - torch.sigmoid(-x)),
    "shifted": lambda x: (x + 3) * torch.sigmoid(x + 3),
    "quick gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "uniform tensor": lambda x: x * (torch.sigmoid(x) * (HALF + HALF)),
    "after dropout": lambda x: (y := functional.dropout(x, training=False)) * torch.sigmoid(x.contiguous() + 0 * y),
}
GELU = {
    "onnx": lambda x: (x * (torch.erf(x / R2) + 1.0)) * 0.5,
    "half first": lambda x: 0.5 * x * (1 + torch.erf(x * 0.70710678)),
    "half inside": lambda x: x * (0.5 + 0.5 * torch.erf(x * (1 / R2))),
    "half of sum": lambda x: x * ((1 + torch.erf(x / R2)) / 2),
    "cdf first": lambda x: 0.5 * (1.0 + torch.erf(x / R2)) * x,
    "distributed": lambda x: (x + x * torch.erf(x / R2)) * 0.5 * (x * 0 + 1),
    "minus erfc": lambda x: -x * 0.5 * (-1 - torch.erf(x / R2)),
    "erf is odd": lambda x: x * 0.5 * (1 - torch.erf(-x / R2)),
    "subtracted": lambda x: x * torch.sub(0.5, torch.erf(x / R2), alpha=-0.5),
}
GELU_TANH = {
    "pow": lambda x: 0.5 * x * (1 + torch.tanh(K * (x + 0.044715 * torch.pow(x, 3)))),
    "float pow": lambda x: 0.5 * x * (1.0 + torch.tanh(K * (x + 0.044715 * x**3.0))),
    "cube": lambda x: 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x))),
    "factored": lambda x: 0.5 * x * (1 + torch.tanh(x * 0.7978845608 * (1 + 0.044715 * x * x))),
    "square": lambda x: x * (0.5 * torch.tanh(x * (K + 0.0356774081 * x.square())) + 0.5),
    "float32 constants": lambda x: (
        x
        * (torch.tanh((x + x**3 * float(torch.tensor(0.044715))) * float(torch.tensor(K))) + 1)
        * float(torch.tensor(0.5))
    ),
}
SCALED_GELU = {"scaled first": lambda x: (z := x / R2) * (torch.erf(z) + 1)}  # as a function of z
HARDSWISH = {
    "relu6": lambda x: x * functional.relu6(x + 3) / 6,
    "relu6, divided first": lambda x: x * (functional.relu6(x + 3) / 6),
    "clamp": lambda x: x * (3 + x).clamp(0, 6) * (1 / 6),
    "hardtanh": lambda x: functional.hardtanh(x + 3, 0.0, 6.0) * x / 6,
    "hardsigmoid": lambda x: x * functional.hardsigmoid(x),
    "unit clamp": lambda x: torch.clamp(x * (1 / 6) + 0.5, 0, 1) * x,
    "two clamps": lambda x: x * torch.clamp_max(functional.relu(x + 3), 6) / 6,
    "nested clamps": lambda x: x * torch.clamp(1 + 2 * torch.clamp(x + 3, 0, 9), -5, 13).sub(1) / 12,
}
MISH = {
    "softplus": lambda x: x * torch.tanh(functional.softplus(x)),
    "swapped": lambda x: torch.tanh(functional.softplus(x)) * x,
    "log": lambda x: x * torch.tanh(torch.log(1 + torch.exp(x))),
    "log1p": lambda x: x * torch.tanh(torch.log1p(torch.exp(x))),
    "logsigmoid": lambda x: x * torch.tanh(-functional.logsigmoid(-x)),
}
FAMILIES = {
    "silu": (SILU, activation_slopes.SILU.high),
    "gelu": (GELU, activation_slopes.GELU_ERF.high),
    "gelu (tanh)": (GELU_TANH, activation_slopes.GELU_TANH.high),
    "hardswish": (HARDSWISH, 1.5),
    "mish": (MISH, activation_slopes.MISH.high),
    "": (SCALED_GELU, 2 * activation_slopes.GELU_ERF.high),
}
# the same function with another argument or in another form, which is known by its formula only
UNNAMED = {"x/2 (1 + tanh(x/2))", "x (1 - s(-x))", "shifted", "quick gelu", "erf is odd"}


@pytest.mark.parametrize("name", FAMILIES)
def test_every_spelling(name: str) -> None:
    spellings, constant = FAMILIES[name]
    graph = simplified(Many(spellings))
    assert Counter(n.op for n in graph) == {"input": 1, "lipaudit.dense": len(spellings), ACTIVATION: len(spellings)}
    nodes = {node.name: node for node in graph}
    for order, output in zip(spellings, graph.outputs, strict=True):
        node = nodes[output]
        assert nodes[node.refs[0].name].op == "lipaudit.dense", order
        # exact for the stored constants; those of a cubic or of sixths typed as decimals differ in the last digits
        assert node.payload.constant.upper == pytest.approx(constant, rel=1e-8), order
        assert node.payload.constant.tightness < 1 + 1e-8, order
        assert node.payload.name == ("" if order in UNNAMED else name), (order, node.payload.formula)


def test_formula_and_merged_operations() -> None:
    class Block(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * (1 + torch.erf(x / R2))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = Block()

        def forward(self, x: Tensor) -> Tensor:
            return self.block(x) * 0.5

    _, node = replace_patterns(capture(Net(), {"x": torch.zeros(1, 6)}), matcher)
    assert node.payload.formula == "0.5 x + 0.5 x erf(0.70711 x)"
    assert (node.module, node.name) == ("block", "mul_1")
    assert node.sources == ()  # everything ran in the same module

    _, node = replace_patterns(capture(Block(), {"x": torch.zeros(1, 6)}), matcher)
    assert node.sources == ("div", "erf", "add")


def test_operations_that_others_read_stay() -> None:
    class Both(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            gate = torch.sigmoid(x)
            return x * gate, gate

    graph = simplify(capture(Both(), {"x": torch.zeros(1, 6)}))
    assert [n.op for n in graph] == ["input", "aten.sigmoid.default", ACTIVATION]
    assert graph.nodes[2].sources == ()
    assert lipaudit.audit(Both(), input_shape=(1, 6)).network.status == "finite"


def test_scaled_product_read_twice() -> None:
    graph = simplified(Written(lambda x: (y := x * torch.sigmoid(x)) + 0.5 * y))
    constants = [n.payload.constant.upper for n in graph if n.op == ACTIVATION]
    assert constants == pytest.approx([activation_slopes.SILU.high, activation_slopes.SILU.high / 2])


def test_activation_of_an_activation() -> None:
    def twice(x: Tensor) -> Tensor:
        y = x * torch.sigmoid(x)
        return y * torch.tanh(functional.softplus(y))

    graph = simplified(Written(twice))
    assert [n.payload.name for n in graph if n.op == ACTIVATION] == ["silu", "mish"]
    assert [n.refs[0].name for n in graph if n.op == ACTIVATION] == [n.name for n in graph.nodes[1:3]]


def test_scales_around_are_folded_into_linear_layers() -> None:
    slope = torch.arange(1.0, 7.0)
    graph = simplified(Written(lambda x: (y := x * slope) * torch.sigmoid(y) * slope))
    assert [n.op for n in graph] == ["input", "lipaudit.dense", ACTIVATION, "lipaudit.dense"]
    assert graph.nodes[2].payload.name == "silu"


VECTOR = torch.linspace(0.5, 2, 6)
GATE = nn.Linear(6, 6)
OTHERS = {
    "square": lambda x: x * x,
    "x relu(x)": lambda x: x * functional.relu(x),
    "x |x|": lambda x: x * x.abs(),
    "x softplus(x)": lambda x: x * functional.softplus(x),
    "x e^x": lambda x: x * torch.exp(x),
    "x^2 s(x)": lambda x: x * x * torch.sigmoid(x),
    "flipped": lambda x: x * torch.sigmoid(x.flip(1)),
    "gated": lambda x: x * torch.sigmoid(functional.linear(x, GATE.weight)),
    "squeeze-excite": lambda x: x * torch.sigmoid(x.mean(-1, keepdim=True)),
    "glu": lambda x: x[:, :3].repeat(1, 2) * torch.sigmoid(x[:, 3:].repeat(1, 2)),
    "outer": lambda x: (x[:, :, None] * torch.sigmoid(x[:, None, :])).mean(1),
    "broadcast constant": lambda x: (x * (torch.sigmoid(x) + torch.zeros(4, 6))).mean(0, keepdim=True),
    "softplus that jumps": lambda x: x * torch.tanh(functional.softplus(x, threshold=1.0)),
    "division by a sigmoid": lambda x: x / torch.sigmoid(x),
    "pole": lambda x: x / (1 - torch.exp(-x)),
    "half precision gate": lambda x: x * torch.sigmoid(x.half()).float(),
    "clamp by nothing": lambda x: x * torch.clamp(x, min=-1.0),
    "infinite constant": lambda x: x * torch.clamp(torch.sigmoid(x) + x, max=math.inf),
}
# not in the normal form of an activation, but functions of one number for all that
FUNCTIONS = {
    "x s(x)^2": lambda x: x * (torch.sigmoid(x) * torch.sigmoid(x)),
    "two functions": lambda x: x * (torch.sigmoid(x) + torch.tanh(x)),
    "two arguments": lambda x: x * (torch.sigmoid(x) + torch.sigmoid(2 * x)),
    "per channel inside": lambda x: x * torch.sigmoid(VECTOR * x),
    "per channel shift": lambda x: x * torch.sigmoid(x + VECTOR),
    "per channel clamp shift": lambda x: x * torch.clamp(x + VECTOR, 0, 6),
    "per channel sum": lambda x: x * (VECTOR + torch.erf(x)),
    "softplus with beta": lambda x: x * torch.tanh(functional.softplus(x, beta=2.0)),
    "another cubic": lambda x: 0.5 * x * (1 + torch.tanh(K * (x + 0.05 * x**3))),
    "tanh of a square": lambda x: x * torch.tanh(x * x),
}


def test_others_stay_unbounded() -> None:
    graph = simplified(Many(OTHERS))
    assert ACTIVATION not in {n.op for n in graph}
    outputs = propagate(graph, evaluate_rules(graph, Settings())).outputs
    assert {name: v.status for name, v in zip(OTHERS, outputs.values(), strict=True)} == dict.fromkeys(
        OTHERS, Status.UNBOUNDED
    )


def test_others_are_functions_of_one_number() -> None:
    graph = simplified(Many(FUNCTIONS))
    assert ACTIVATION not in {n.op for n in graph}
    effects = evaluate_rules(graph, Settings())
    points = torch.linspace(-20, 20, 40001, dtype=torch.float64)[:, None].repeat(1, 6)
    for (name, function), output in zip(FUNCTIONS.items(), graph.outputs, strict=True):
        x = points.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(function(x).sum(), x)
        steepest = float(gradient.abs().max())
        assert steepest * (1 - 1e-9) <= effects[output].constant.upper <= steepest * (1 + 1e-3), name


def test_per_channel_factor_outside_is_no_obstacle() -> None:
    graph = simplified(Written(lambda x: VECTOR * (x * torch.sigmoid(x))))
    assert ACTIVATION in {n.op for n in graph}


UNARY = ("sigmoid", "tanh", "erf", "softplus", "relu6", "hardsigmoid", "relu", "neg", "exp", "log_sigmoid", "square")
SUMS = ("aten.add.Tensor", "aten.sub.Tensor")
BINARY = ("aten.mul.Tensor", "aten.mul.Tensor", "aten.div.Tensor", *SUMS)
INFO = TensorInfo((1, 4), torch.float64)


def random_graph(generator: random.Random) -> Graph:
    """A chain of element-wise operations chosen at random: functions of the last tensor, and sums and products of it
    with a number, the input or another tensor."""
    nodes = [Node("x", "input", {}, (INFO,))]
    while len(nodes) < 8:
        last = Ref(nodes[-1].name, INFO)
        if generator.random() < 0.25:
            op, call = f"aten.{generator.choice(UNARY)}.default", (torch.zeros(1),)
            arguments = {**operation(op, call, {}).node.arguments, "self": last}
        else:
            op = generator.choice(BINARY)
            number = generator.choice([-3.0, -0.5, 0.5, 1.0, 2.0, 3.0, 1 / 6, 0.7])
            other = Ref(generator.choice([nodes[0], nodes[0], *nodes[-3:]]).name, INFO)
            pair = [last, generator.choice([number, other])]
            generator.shuffle(pair)
            arguments = dict(zip(("self", "other"), pair, strict=True)) | ({"alpha": 1} if op in SUMS else {})
        nodes.append(Node(f"n{len(nodes)}", op, arguments, (INFO,)))
    return Graph(tuple(nodes), ("x",), (nodes[-1].name,))


def test_random_chains_never_exceed_the_constant() -> None:
    generator = random.Random(11)
    far = torch.logspace(1, 4, 1000)
    points = torch.cat([torch.linspace(-10, 10, 8001), far, -far]).double()
    formulas: Counter[str] = Counter()
    for _ in range(2000):
        graph = random_graph(generator)
        for node in replace_patterns(graph, matcher):
            if node.op != ACTIVATION:
                continue
            formula, constant = node.payload.formula, node.payload.constant
            formulas[formula] += 1
            if formulas[formula] > 2:
                continue
            found = steepest(graph, node.refs[0].name, node.name, points)
            assert found <= constant.upper * (1 + 1e-9), formula
            assert found >= constant.lower * 0.98, formula
    assert len(formulas) > 60


def steepest(graph: Graph, source: str, target: str, points: Tensor) -> float:
    """Largest |slope| of ``target`` as a function of ``source``, by differentiating the nodes after it."""
    x = points.clone().requires_grad_()
    known = {source: x}
    for node in graph:
        if node.name not in known and node.refs and all(ref.name in known for ref in node.refs):
            (known[node.name],) = function_of(node)(*(known[ref.name] for ref in node.refs))
    (gradient,) = torch.autograd.grad(known[target].sum(), x)
    return float(gradient[torch.isfinite(gradient)].abs().max())


def export(function: Callable[[Tensor], Tensor], path: Path, opset: int) -> None:
    with warnings.catch_warnings():
        # the TorchScript exporter, which writes activations out, is deprecated
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(Written(function).eval(), (torch.zeros(1, 6),), path, dynamo=False, opset_version=opset)


@pytest.mark.parametrize("opset", [13, 17])
@pytest.mark.parametrize(
    ("function", "constant"),
    [
        (functional.silu, activation_slopes.SILU.high),
        (functional.gelu, activation_slopes.GELU_ERF.high),
        (lambda x: functional.gelu(x, approximate="tanh"), activation_slopes.GELU_TANH.high),
        (functional.hardswish, 1.5),
        (functional.mish, activation_slopes.MISH.high),
    ],
    ids=["silu", "gelu", "gelu-tanh", "hardswish", "mish"],
)
def test_exported_networks(function: Callable[[Tensor], Tensor], constant: float, opset: int, tmp_path: Path) -> None:
    export(function, tmp_path / "net.onnx", opset)
    report = lipaudit.audit(str(tmp_path / "net.onnx"))
    before, activation, after = (layer.upper_bound for layer in report.layers)
    assert activation == pytest.approx(constant, rel=1e-7)
    assert report.network.upper_bound == pytest.approx(before * activation * after)


def test_sample_vision_transformer() -> None:
    file = SAMPLES / "digits_vit.onnx"
    report = lipaudit.audit(str(file))
    rows = [layer for layer in report.layers if layer.name.endswith("mlp.1/Mul")]
    assert len(rows) >= 2
    for row in rows:
        assert row.upper_bound == pytest.approx(activation_slopes.GELU_ERF.high)
        assert row.note.startswith("gelu, written out")
        assert [name.rsplit("/", 1)[1] for name in row.folded] == ["Div", "Erf", "Add"]
