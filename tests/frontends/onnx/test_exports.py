"""Both exporters of torch, from opset 9 to the newest, on a network with the layers that image classifiers use."""

import contextlib
import io
import logging
import warnings

import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.frontends.load import load


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU6())
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.up = nn.ConvTranspose2d(8, 8, 2, stride=2)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = nn.functional.max_pool2d(self.stem(x), 3, 2, 1)
        x = x + nn.functional.hardswish(self.depthwise(x))
        a, b = self.up(x).chunk(2, dim=1)
        x = torch.cat([nn.functional.gelu(a), nn.functional.silu(b)], dim=1)
        x = nn.functional.interpolate(x, scale_factor=2, mode="nearest")
        x = self.norm(x.flatten(2).transpose(1, 2)).mean(1)
        return self.head(nn.functional.dropout(x, training=self.training)).softmax(-1)


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    network = Network()
    with torch.no_grad():
        network(torch.rand(4, 3, 16, 16))  # batch statistics that are not 0 and 1
    return network.eval()


def _export(network, path, x, **options):
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")  # the exporters warn of their own deprecations; only the file matters here
        torch.onnx.export(network, (x,), path, **options)


def _check(network, path, x, **options):
    loaded = load(str(path), **options)
    with torch.no_grad():
        assert torch.allclose(loaded.module(x), network(x), atol=1e-5)
        program = torch.export.export(loaded.module, (x,), strict=False).run_decompositions({})
        assert torch.equal(program.module()(x), loaded.module(x))
    paths = [list(n.meta["nn_module_stack"].values())[-1][0] for n in program.graph.nodes if n.op == "call_function"]
    assert set(paths) <= set(loaded.node_names)
    return loaded


@pytest.mark.parametrize("opset", [9, 11, 13, 17])
def test_torchscript_exporter(network, tmp_path, opset):
    x = torch.rand(1, 3, 16, 16)
    _export(network, tmp_path / "n.onnx", x, dynamo=False, opset_version=opset)
    _check(network, tmp_path / "n.onnx", x)


@pytest.mark.parametrize("opset", [18, 20, None])
def test_dynamo_exporter(network, tmp_path, opset):
    x = torch.rand(1, 3, 16, 16)
    _export(network, tmp_path / "n.onnx", x, dynamo=True, opset_version=opset)
    _check(network, tmp_path / "n.onnx", x)


def test_dynamic_axes(network, tmp_path):
    x = torch.rand(1, 3, 16, 16)
    axes = {"x": {0: "n", 2: "h", 3: "w"}}
    _export(network, tmp_path / "n.onnx", x, dynamo=False, opset_version=17, input_names=["x"], dynamic_axes=axes)
    loaded = _check(network, tmp_path / "n.onnx", torch.rand(1, 3, 24, 16), input_shapes={"x": (3, 24, 16)})
    assert loaded.input_shapes == {"x": (1, 3, 24, 16)}


def test_constant_folding_off_and_training_names(network, tmp_path):
    x = torch.rand(1, 3, 16, 16)
    options = {"do_constant_folding": False, "export_params": True, "keep_initializers_as_inputs": True}
    _export(network, tmp_path / "n.onnx", x, dynamo=False, opset_version=11, **options)
    _check(network, tmp_path / "n.onnx", x)


class Recurrent(nn.Module):
    """A recurrent layer and a dense head on its last output."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.head = nn.Linear(layer.hidden_size * (2 if layer.bidirectional else 1), 2)

    def forward(self, x):
        return self.head(self.layer(x)[0][:, -1])


@pytest.mark.parametrize("dynamo", [False, True])
@pytest.mark.parametrize(
    "layer",
    [
        nn.LSTM(3, 4, batch_first=True),
        nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True),
        nn.GRU(3, 4, batch_first=True),
        nn.RNN(3, 4, batch_first=True),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:The tensor attributes:UserWarning")  # of torch, while it exports an LSTM
def test_recurrent_layers_have_the_bound_of_torch(layer, dynamo, tmp_path):
    network, x = Recurrent(layer).eval(), torch.rand(1, 5, 3)
    _export(network, tmp_path / "n.onnx", x, dynamo=dynamo)
    ours = lipaudit.audit(str(tmp_path / "n.onnx")).network
    theirs = lipaudit.audit(network, input_shape={"x": (1, 5, 3)}).network
    assert ours.status == theirs.status == "finite"
    if isinstance(layer, nn.RNN) and dynamo:
        assert theirs.upper_bound <= ours.upper_bound <= 3 * theirs.upper_bound  # written out, one step after the other
    else:
        assert ours.upper_bound == pytest.approx(theirs.upper_bound, rel=1e-6)
