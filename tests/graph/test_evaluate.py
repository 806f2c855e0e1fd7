"""Graphs evaluated node by node against the networks that they were captured from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
import timm
import torch
import torchvision
from timm.layers import set_fused_attn, use_fused_attn
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from lipaudit.errors import GraphError
from lipaudit.graph.capture.export import capture
from lipaudit.graph.evaluate import evaluate, interpret
from lipaudit.graph.node import Graph, Node, Ref, TensorInfo
from lipaudit.graph.passes.attention import ATTENTION
from lipaudit.graph.passes.normalization import NORMALIZATION
from lipaudit.graph.passes.table import recognise

# timm name, input size, options, how many attentions and normalisations it has, and softmaxes of another kind
SHORT: dict[str, tuple[int, dict[str, object], tuple[int, int, int]]] = {
    "vit_tiny_patch16_224": (32, {"img_size": 32, "depth": 2}, (2, 5, 0)),
    "swin_tiny_patch4_window7_224": (112, {"img_size": 112, "depths": (2, 2)}, (4, 11, 0)),
    "convnext_atto_rms": (32, {}, (0, 17, 0)),
}
LONG: dict[str, tuple[int, dict[str, object], tuple[int, int, int]]] = {
    "resnet18": (64, {}, (0, 0, 0)),
    "swinv2_tiny_window8_256": (128, {"img_size": 128}, (12, 53, 0)),  # two l2 normalisations per attention
    "maxvit_rmlp_pico_rw_256": (64, {"img_size": 64}, (22, 45, 0)),
    "convnextv2_atto": (64, {}, (0, 17, 0)),
    "cait_xxs24_224": (64, {"img_size": 64}, (2, 53, 24)),  # talking heads
    "pvt_v2_b0": (64, {}, (8, 30, 0)),
    "levit_128s": (224, {}, (11, 0, 0)),
    "xcit_nano_12_p16_224": (64, {}, (14, 65, 0)),
    "volo_d1_224": (224, {}, (16, 41, 4)),  # outlook attention has logits of a linear layer
    "davit_tiny": (64, {}, (12, 29, 0)),
    "mvitv2_tiny": (224, {}, (0, 51, 10)),  # position biases that depend on the queries
    "edgenext_xx_small": (64, {}, (3, 26, 0)),
    "mobilevitv2_050": (64, {}, (0, 21, 9)),  # softmax of context scores
    "eva02_tiny_patch14_224": (56, {"img_size": 56}, (12, 25, 0)),
    "twins_svt_small": (64, {"img_size": 64}, (18, 48, 0)),
}
MODELS = {**SHORT, **LONG}


@pytest.fixture(autouse=True)
def _written_out() -> Iterator[None]:
    """timm's attention as a chain of operations."""
    fused = use_fused_attn()
    set_fused_attn(False)
    yield
    set_fused_attn(fused)


def randomised(module: nn.Module) -> nn.Module:
    """In float64, with no weight that is the same everywhere (zero heads, unit scales)."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in module.double().eval().parameters():
            if parameter.numel() > 1 and float(parameter.std()) == 0:
                noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.add_(0.1 * noise)
    return module


def replayed(graph: Graph, module: nn.Module, x: Tensor) -> float:
    """The largest relative distance between the outputs of the graph and of the network."""
    values = list(interpret(graph, {"x": x}, dtype=torch.float64).values())
    with torch.no_grad():
        expected = [t for t in tree_leaves(module(x)) if isinstance(t, Tensor)]
    return max(float((a - b).norm() / b.norm()) for a, b in zip(values, expected, strict=True))


# levit keeps its position biases in a cache that it fills while it is captured
@pytest.mark.filterwarnings("ignore:The tensor attributes")
@pytest.mark.parametrize("name", [*SHORT, *(pytest.param(name, marks=pytest.mark.long) for name in LONG)])
def test_recognised_networks_keep_their_value(name: str) -> None:
    size, options, (attentions, normalisations, softmaxes) = MODELS[name]
    torch.manual_seed(0)
    module = randomised(timm.create_model(name, pretrained=False, **options))
    x = torch.randn(1, 3, size, size, dtype=torch.float64)
    captured = capture(module, {"x": x})
    graph = recognise(captured)
    found = Counter(node.op for node in graph)
    assert (found[ATTENTION], found[NORMALIZATION], found["aten.softmax.int"]) == (
        attentions,
        normalisations,
        softmaxes,
    )
    assert replayed(captured, module, x) < 1e-9
    assert replayed(graph, module, x) < 1e-9


@pytest.mark.parametrize("name", ["mobilenet_v3_small", "squeezenet1_1"])
def test_torchvision_networks_keep_their_value(name: str) -> None:
    torch.manual_seed(0)
    module = randomised(torchvision.models.get_model(name, weights=None))
    x = torch.randn(1, 3, 64, 64, dtype=torch.float64)
    assert replayed(recognise(capture(module, {"x": x})), module, x) < 1e-9


class Precise(nn.Module):
    """Constants, casts and integers of several kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.tensor([1 / 3, 2 / 3, 1.0]))
        self.register_buffer("index", torch.tensor([2, 0]))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = (x * self.weight).half().to(torch.bfloat16)
        return y.float()[:, self.index], torch.view_as_real(torch.fft.fft(y.to(torch.float32)))


def test_every_float_moves_to_the_asked_precision() -> None:
    x = torch.tensor([[0.1, 0.2, 0.3]])
    graph = capture(Precise(), {"x": x})
    picked, transformed = interpret(graph, {"x": x}, dtype=torch.float64).values()
    exact = x.double() * torch.tensor([1 / 3, 2 / 3, 1.0]).double()
    assert isinstance(picked, Tensor)
    assert torch.equal(picked, exact[:, [2, 0]])
    torch.testing.assert_close(transformed, torch.view_as_real(torch.fft.fft(exact)), rtol=1e-15, atol=1e-15)
    rounded, _ = interpret(graph, {"x": x}).values()
    assert isinstance(rounded, Tensor)
    assert rounded.dtype is torch.float32
    assert torch.equal(rounded, (x * torch.tensor([1 / 3, 2 / 3, 1.0])).half().bfloat16().float()[:, [2, 0]])


class Split(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        a, b = x.chunk(2, 1)
        return a.relu() + b, y.sigmoid()


def test_only_what_is_wanted_is_evaluated() -> None:
    x, y = torch.tensor([[-1.0, 2.0]]), torch.zeros(1, 3)
    graph = capture(Split(), {"x": x, "y": y})
    (halves,) = (node.name for node in graph if len(node.outputs) == 2)
    values = interpret(graph, {"x": x}, wanted=[halves, "relu", "x"])
    assert list(values) == [halves, "relu", "x"]
    assert isinstance(values[halves], tuple)
    assert [float(t) for t in values[halves]] == [-1.0, 2.0]
    assert torch.equal(values["relu"], torch.tensor([[0.0]]))  # type: ignore[arg-type]
    first, second = interpret(graph, {"x": x, "y": y}).values()
    assert torch.equal(first, torch.tensor([[2.0]]))  # type: ignore[arg-type]
    assert torch.equal(second, torch.full((1, 3), 0.5))  # type: ignore[arg-type]


def test_gradients_pass_through() -> None:
    x, y = torch.tensor([[1.0, 2.0]], requires_grad=True), torch.zeros(1, 3)
    graph = capture(Split(), {"x": x.detach(), "y": y})
    first, _ = interpret(graph, {"x": x, "y": y}).values()
    assert isinstance(first, Tensor)
    assert torch.equal(torch.autograd.grad(first.sum(), x)[0], torch.ones(1, 2))


def test_what_cannot_be_evaluated_says_why() -> None:
    x, y = torch.zeros(1, 2), torch.zeros(1, 3)
    graph = capture(Split(), {"x": x, "y": y})
    with pytest.raises(GraphError, match="no value was given for the network input y"):
        interpret(graph, {"x": x})
    with pytest.raises(GraphError, match=r"the network input x has shape \(1, 2\), not \(1, 4\)"):
        interpret(graph, {"x": torch.zeros(1, 4), "y": y})
    with pytest.raises(GraphError, match=r"no nodes named \['z'\]"):
        interpret(graph, {"x": x, "y": y}, wanted=["z"])
    info = TensorInfo((1, 2), torch.float32)
    with pytest.raises(GraphError, match=r"gave shapes \(\(1, 3\),\), not \(\(1, 2\),\)"):
        evaluate(Node("relu", "aten.relu.default", {"self": Ref("x", info)}, (info,)), {"x": y})
    with pytest.raises(GraphError, match="is no ATen operation"):
        evaluate(Node("a", "lipaudit.nothing", {"self": Ref("x", info)}, (info,)), {"x": x})
    with pytest.raises(GraphError, match="has several outputs"):
        evaluate(Node("a", "aten.relu.default", {"self": Ref("x", info)}, (info,)), {"x": (x, x)})
    with pytest.raises(GraphError, match="no tuple of tensors"):
        evaluate(Node("a", "getitem", {"self": Ref("x", info), "index": 0}, (info,)), {"x": x})
