"""Capture: what the graph says about the network, and that the network is left as it was found."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations, parametrize

from lipaudit.errors import CaptureError, NonFiniteWeightsError
from lipaudit.graph.capture.export import capture
from lipaudit.graph.linear import CONVOLUTION, DENSE, SCALE
from lipaudit.graph.node import Constant, Graph, Node
from lipaudit.graph.passes.table import simplify
from tests.graph.interpreter import count, ops, run
from tests.graph.networks import EXAMPLES, Function, Residual

X = {"x": torch.zeros(1, 3, 8, 8)}


def _names(node: Node) -> set[str]:
    return {n for a in node.arguments.values() if isinstance(a, Constant) for n in a.names}


def _only(graph: Graph, op: str) -> Node:
    (node,) = (n for n in graph if n.op == op)
    return node


def test_the_network_is_left_as_it_was_found() -> None:
    module = Residual(nn.ReLU)
    module.train()
    module.body[0].eval()
    module.stem[0].weight.grad = torch.ones_like(module.stem[0].weight)
    calls: list[int] = []
    handle = module.stem.register_forward_hook(lambda *_: calls.append(1))
    modes = [m.training for m in module.modules()]
    hooks = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in module.modules()]
    state = copy.deepcopy(module.state_dict())
    needs_grad = [p.requires_grad for p in module.parameters()]
    capture(module, X)
    assert [m.training for m in module.modules()] == modes
    assert [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in module.modules()] == hooks
    assert list(module._modules) == ["stem", "body", "shortcut", "activation", "head"]
    assert all(torch.equal(state[k], v) for k, v in module.state_dict().items())
    assert [p.requires_grad for p in module.parameters()] == needs_grad
    assert bool((module.stem[0].weight.grad == 1).all())
    assert all(p.grad is None for p in module.shortcut.parameters())
    assert torch.is_grad_enabled()
    handle.remove()


def test_the_network_is_left_as_it_was_found_after_a_failure() -> None:
    module = Residual(nn.ReLU).train()
    with pytest.raises(CaptureError):
        capture(module, {"x": torch.zeros(1, 4, 8, 8)})
    assert all(m.training for m in module.modules())
    assert not any(m._forward_hooks for m in module.modules())


def test_eval_mode_is_captured_whatever_the_mode_was() -> None:
    module = Residual(nn.ReLU).train()
    assert count(simplify(capture(module, X)), "aten.dropout.default") == 0
    assert not any(n.get("training") is True or n.get("train") is True for n in capture(module, X))


def test_module_paths_and_sizes_agree_with_the_hooks() -> None:
    module = Residual(nn.ReLU)
    graph = capture(module, X)
    linear = [n for n in graph if n.op in ("aten.conv2d.default", "aten.linear.default")]
    assert {n.module for n in linear} == {
        "stem.0", "body.0.0", "body.0.3", "body.1.0", "body.1.3", "shortcut.0", "head.3",
    }  # fmt: skip
    for node in linear:
        (source,) = node.refs
        assert graph.input_sizes[node.module] == (source.info.shape,)
    assert graph.input_sizes["stem.0"] == ((1, 3, 8, 8),)
    assert graph.input_sizes["shortcut.0"] == ((1, 4, 8, 8),)
    assert graph.input_sizes["activation"] == ((1, 4, 8, 8), (1, 8, 4, 4))


def test_inputs_keep_their_names_and_outputs_their_order() -> None:
    example = EXAMPLES["several inputs and outputs"]
    module = example.module(nn.ReLU, offsets=True)
    left, right = example.inputs(0).values()
    graph = capture(module, {"left": left, "right": right})
    assert graph.inputs == ("left", "right")
    assert len(graph.outputs) == 3
    shapes = [next(n for n in graph if n.name == name).output.shape for name in graph.outputs]
    assert shapes == [(1, 4, 6, 6), (1, 8, 6, 6), (1, 4, 6, 6)]


def test_a_shared_module_is_recorded_twice() -> None:
    module = EXAMPLES["a shared convolution"].module(nn.ReLU, offsets=True)
    graph = capture(module, EXAMPLES["a shared convolution"].inputs(0))
    assert [n.module for n in graph if n.op == "aten.conv2d.default"] == ["conv", "conv"]
    assert graph.num_parameters == 4 * 4 * 9 + 4 + 4 + 4


def test_parameters_are_counted_and_unused_ones_are_named() -> None:
    def forward(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        m.idle(x)
        return m.used(x)

    module = Function(forward, used=nn.Linear(3, 2), idle=nn.Linear(3, 5), never=nn.Linear(2, 2))
    graph = capture(module, {"x": torch.zeros(1, 3)})
    assert graph.num_parameters == 8 + 20 + 6
    assert graph.unused_parameters == ("idle.bias", "idle.weight", "never.bias", "never.weight")
    assert ops(graph) == ["aten.linear.default"]


def test_tied_weights_count_once_and_none_is_unused() -> None:
    module = nn.Sequential(nn.Linear(4, 4, bias=False), nn.ReLU(), nn.Linear(4, 4, bias=False))
    module[2].weight = module[0].weight
    graph = capture(module, {"x": torch.zeros(1, 4)})
    assert graph.num_parameters == 16
    assert graph.unused_parameters == ()
    assert count(simplify(graph), DENSE) == 2


@pytest.mark.parametrize("shape", [(1, 4, 8, 8), (1, 3), (1, 3, 8)])
def test_a_rejected_input_says_why(shape: tuple[int, ...]) -> None:
    with pytest.raises(CaptureError, match="x: ") as caught:
        capture(Residual(nn.ReLU), {"x": torch.zeros(shape)})
    assert str(shape) in str(caught.value)
    assert "input_shape" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_fixed_size_network_passes_its_own_message_on() -> None:
    def forward(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        assert x.shape[-1] == 32, "this network needs images of 32 pixels"
        return x * 2

    with pytest.raises(CaptureError, match="this network needs images of 32 pixels"):
        capture(Function(forward), X)


def test_data_dependent_control_flow_is_refused() -> None:
    def forward(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if bool(x.sum() > 0) else x

    with pytest.raises(CaptureError):
        capture(Function(forward), X)


def test_data_dependent_shapes_are_refused() -> None:
    with pytest.raises(CaptureError):
        capture(Function(lambda m, x: x[x > 0]), X)


class Standardised(nn.Conv2d):
    """A convolution whose weight is computed from its parameter in every forward pass."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        w = self.weight
        w = (w - w.mean((1, 2, 3), keepdim=True)) / (w.std((1, 2, 3), keepdim=True) + 1e-3)
        return functional.conv2d(x, w, self.bias, self.stride, self.padding)


def test_weight_standardisation_becomes_one_constant_with_its_name() -> None:
    module = nn.Sequential(Standardised(3, 4, 3, padding=1)).double()
    x = {"x": torch.randn(1, 3, 6, 6, dtype=torch.float64)}
    graph = capture(module, x)
    assert ops(graph) == ["aten.conv2d.default"]
    node = _only(graph, "aten.conv2d.default")
    assert _names(node) == {"0.weight", "0.bias"}
    assert graph.unused_parameters == ()
    convolution = _only(simplify(graph), CONVOLUTION).payload
    assert torch.allclose(convolution.kernel.mean((1, 2, 3)), torch.zeros(4).double(), atol=1e-12)
    assert torch.equal(run(graph, x)[0], module(x["x"]).detach())


def test_parametrised_weights_are_evaluated() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(parametrizations.weight_norm(nn.Linear(4, 3))).double()
    with torch.no_grad():
        module[0].parametrizations.weight.original0.mul_(5)
    x = {"x": torch.randn(1, 4, dtype=torch.float64)}
    graph = capture(module, x)
    dense = _only(simplify(graph), DENSE)
    assert torch.allclose(dense.payload.weight, module[0].weight.detach(), rtol=1e-14)
    assert {n for n in _names(dense) if "original" in n} == {
        "0.parametrizations.weight.original0",
        "0.parametrizations.weight.original1",
    }
    assert graph.unused_parameters == ()


def test_a_data_dependent_weight_is_not_a_convolution() -> None:
    def forward(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        mixture = m.gate(x.mean((2, 3))).softmax(-1)
        weight = (mixture[0, :, None, None, None, None] * m.experts).sum(0)
        return functional.conv2d(x, weight, padding=1)

    module = Function(forward, gate=nn.Linear(3, 2), experts=torch.randn(2, 4, 3, 3, 3)).float()
    graph = simplify(capture(module, X))
    assert count(graph, CONVOLUTION) == 0
    assert len(_only(graph, "aten.conv2d.default").refs) == 2


def test_a_data_dependent_scale_or_matrix_is_none() -> None:
    def forward(m: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        gate = x.mean((2, 3), keepdim=True).sigmoid()
        return x * gate, x @ x.mT, functional.linear(x, x[0, 0]), x / gate

    graph = simplify(capture(Function(forward), X))
    assert count(graph, SCALE) == count(graph, DENSE) == 0


def test_constants_computed_from_shapes_alone_are_constants() -> None:
    def forward(m: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x + torch.arange(8.0), torch.zeros_like(x) + x.new_ones(1) + torch.ones_like(x)

    graph = capture(Function(forward), X)
    assert len(graph.outputs) == 1
    assert graph.constant_outputs == 1
    assert len(simplify(graph)) == 1, "adding a constant leaves every difference alone"


def test_buffers_and_lifted_constants_keep_their_names() -> None:
    module = Function(lambda m, x: x * m.gain, gain=torch.tensor([2.0, 3.0, 4.0]).reshape(3, 1, 1))
    graph = capture(module, {"x": torch.zeros(1, 3, 8, 8, dtype=torch.float64)})
    assert _names(_only(graph, "aten.mul.Tensor")) == {"gain"}


def test_non_persistent_buffers_are_found() -> None:
    module = nn.Module()
    module.register_buffer("gain", torch.full((3, 1, 1), 2.0), persistent=False)
    module.forward = lambda x: x * module.gain  # type: ignore[method-assign]
    scale = _only(simplify(capture(module, X)), SCALE)
    assert scale.payload.factor.tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("draw", [lambda: torch.rand(3, 1, 1), lambda: torch.randn(8), lambda: torch.randperm(3)[0]])
def test_random_numbers_are_no_constants(draw: Callable[[], torch.Tensor]) -> None:
    """One sample of a random factor is no bound for the others."""
    with pytest.raises(CaptureError, match="random"):
        capture(Function(lambda m, x: x * draw()), X)


@pytest.mark.parametrize("draw", [torch.rand_like, torch.randn_like, lambda x: functional.dropout(x, 0.5, True)])
def test_random_operations_on_data_are_refused(draw: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with pytest.raises(CaptureError, match="random numbers"):
        capture(Function(lambda m, x: x * draw(x)), X)


def test_buffers_that_forward_updates_do_not_matter() -> None:
    def forward(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        m.calls.add_(1)
        return x * 2

    module = Function(forward, calls=torch.zeros(()))
    graph = capture(module, X)
    assert ops(graph) == ["aten.mul.Tensor"]
    assert len(graph.outputs) == 1
    assert float(module.calls) == 0.0


def test_a_traced_graph_module_keeps_its_paths() -> None:
    traced = torch.fx.symbolic_trace(Residual(nn.ReLU).eval())
    graph = capture(traced, X)
    assert "stem.0" in {n.module for n in graph}


def test_nothing_is_computed_on_the_data_path() -> None:
    """The input's values are never read: NaN inputs give the same graph."""
    bad = {"x": torch.full((1, 3, 8, 8), float("nan"))}
    torch.manual_seed(0)
    module = Residual(nn.ReLU)
    plain, other = capture(module, X), capture(module, bad)
    assert [(n.name, n.op) for n in plain] == [(n.name, n.op) for n in other]


def test_non_finite_weights_are_named() -> None:
    module = Residual(nn.ReLU)
    with torch.no_grad():
        module.body[0][3].weight[0, 0, 0, 0] = float("nan")
    graph = capture(module, X)
    with pytest.raises(NonFiniteWeightsError) as caught:
        simplify(graph)
    assert caught.value.names == ["body.0.3.weight"]


def test_a_division_by_zero_is_not_a_scale() -> None:
    module = Function(lambda m, x: x / m.zero, zero=torch.zeros(3, 1, 1))
    graph = simplify(capture(module, {"x": torch.zeros(1, 3, 8, 8, dtype=torch.float64)}))
    assert ops(graph) == ["aten.div.Tensor"]


def test_numbers_read_from_weights_are_constants() -> None:
    def forward(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        y = x * m.scale.exp().item()
        if m.scale > 0:
            y = y + 1
        for _ in range(int(m.counts[0])):
            y = m.layer(y)
        return y.clamp(-m.scale.item(), m.scale.item()) * m.counts.tolist()[1]

    parts = {"scale": torch.tensor(0.5), "counts": torch.tensor([2.0, 3.0])}
    module = Function(forward, layer=nn.Linear(4, 4), **parts).double()
    x = {"x": torch.randn(1, 4, dtype=torch.float64)}
    graph = capture(module, x)
    assert ops(graph).count("aten.linear.default") == 2
    assert torch.equal(run(graph, x)[0], module(x["x"]).detach())


@pytest.mark.parametrize(
    "write",
    [
        lambda b, x: b.fill_(x.mean()),
        lambda b, x: b.copy_(x.mean()),
        lambda b, x: b.view(1).copy_(x.mean().reshape(1)),
        lambda b, x: torch.add(x.mean(), 0.0, out=b),
        lambda b, x: torch._foreach_copy_([b], [x.mean()]),
        lambda b, x: b.mul_(0.9).add_(x.abs().max() * 0.1),
    ],
)
def test_numbers_that_the_network_overwrites_are_no_constants(write: Callable[..., object]) -> None:
    def forward(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        write(m.memory, x)
        return x * float(m.memory)

    module = Function(forward, memory=torch.ones(()))
    with pytest.raises(CaptureError):
        capture(module, {"x": torch.zeros(1, 3)})
    assert float(module.memory) == 1


def test_lists_that_a_forward_pass_fills_are_emptied_again() -> None:
    def forward(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        first = not m.seen
        m.seen.append(1)
        m.nested["inner"].append(1)
        y = 7 * x if first else 2 * x
        return y * 2 if m.scale > 0 else y

    module = Function(forward, scale=torch.ones(()))
    module.seen, module.nested = [], {"inner": []}
    x = {"x": torch.ones(1, 3)}
    assert torch.equal(run(capture(module, x), x)[0], torch.full((1, 3), 14.0))
    assert (module.seen, module.nested) == ([], {"inner": []})


@pytest.mark.parametrize(
    "decide",
    [
        lambda m, x: bool((x * m.scale).sum() > 0),
        lambda m, x: (m.scale + x[0, 0]).item() > 0,
        lambda m, x: int(x.argmax()) > 2,
        lambda m, x: x.sum().tolist() > 0,
        lambda m, x: float(x.detach().abs().max()) > 1,
    ],
)
def test_numbers_read_from_the_input_are_refused(decide: Callable[[nn.Module, torch.Tensor], bool]) -> None:
    """A graph with the number of one input burnt in would be another function."""

    def forward(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if decide(m, x) and float(m.scale) > 0 else x

    module = Function(forward, scale=torch.tensor(0.5))
    with pytest.raises(CaptureError):
        capture(module, {"x": torch.ones(1, 4, dtype=torch.float64)})


def test_a_number_of_the_input_that_scales_is_refused() -> None:
    with pytest.raises(CaptureError, match="number"):
        capture(Function(lambda m, x: x * x.abs().max().item() * m.scale.item(), scale=torch.tensor(0.5)), X)


def test_what_a_network_caches_is_removed() -> None:
    def forward(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        m.cache["bias"] = m.table[:, :2] * 1
        m.last = x
        return x * m.cache["bias"].sum()

    module = Function(forward, table=torch.ones(2, 4))
    module.cache = {}
    capture(module, X)
    assert module.cache == {}
    assert not hasattr(module, "last")


class DroppedTable(nn.Module):
    """Dropout in eval mode on what depends on weights alone, as position biases have it, and in training mode."""

    def __init__(self, train: bool) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(3))
        self.train_mode = train

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.nn.functional.dropout(self.table, 0.5, training=self.train_mode)


def test_dropout_of_weights_draws_nothing_in_eval_mode() -> None:
    graph = capture(DroppedTable(False), {"x": torch.zeros(1, 3)})
    assert [n.op for n in graph if n.op != "input"] == ["aten.add.Tensor"]
    with pytest.raises(CaptureError, match="draws random numbers"):
        capture(DroppedTable(True), {"x": torch.zeros(1, 3)})


class _Normalised(nn.Module):
    """Divides a weight by its norm, by a power iteration whose vector is itself parametrised and is assigned in every forward."""

    def __init__(self) -> None:
        super().__init__()
        self.u = nn.Parameter(torch.ones(3, 1), requires_grad=False)
        parametrize.register_parametrization(self, "u", _UnitLength())

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        for _ in range(30):
            self.u = weight @ (weight.T @ self.u)
        return weight / (weight.T @ self.u).norm()


class _UnitLength(nn.Module):
    def forward(self, u: torch.Tensor) -> torch.Tensor:
        return u / u.norm()

    def right_inverse(self, u: torch.Tensor) -> torch.Tensor:
        return u / u.norm()


def test_a_power_iteration_that_assigns_a_parametrised_vector() -> None:
    layer = nn.Linear(4, 3)
    stored = layer.weight.detach().clone()
    parametrize.register_parametrization(layer, "weight", _Normalised())
    vector = layer.parametrizations.weight[0].parametrizations.u.original
    before = vector.detach().clone()
    (node,) = [n for n in capture(layer, {"input": torch.zeros(1, 4)}) if n.op == "aten.linear.default"]
    torch.testing.assert_close(
        node["weight"].value, (stored / torch.linalg.matrix_norm(stored, 2)).double(), atol=1e-6, rtol=0
    )
    assert torch.equal(vector, before)
