"""Normalisations are recognised in every spelling, equal in value, and nothing else is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from lipaudit.graph.capture.export import capture
from lipaudit.graph.evaluate import interpret
from lipaudit.graph.node import Graph
from lipaudit.graph.passes.normalization import NORMALIZATION, Normalization
from lipaudit.graph.passes.radial import RADIAL
from lipaudit.graph.passes.table import recognise, simplify

Function = Callable[[Tensor], Tensor]
G = torch.Generator().manual_seed(3)
SHAPE = (1, 4, 5, 6)
LAST, CHANNELS = (torch.randn(n, generator=G, dtype=torch.float64) for n in (6, 4))
BOTH = torch.randn(5, 6, generator=G, dtype=torch.float64)
PER_CHANNEL = CHANNELS.reshape(4, 1, 1)


class Many(nn.Module):
    """One output per function, of the same input: one capture for all."""

    def __init__(self, functions: Mapping[str, Function]) -> None:
        super().__init__()
        self.functions = tuple(functions.values())

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(f(x) for f in self.functions)


def recognised(functions: Mapping[str, Function]) -> Graph:
    return recognise(capture(Many(functions), {"x": torch.zeros(SHAPE, dtype=torch.float64)}))


def mean(x: Tensor, *axes: int) -> Tensor:
    return x.mean(axes, keepdim=True)


def centred(x: Tensor, *axes: int) -> Tensor:
    return x - x.mean(axes, keepdim=True)


def var(x: Tensor, *axes: int, correction: int = 0) -> Tensor:
    return x.var(axes, correction=correction, keepdim=True)


def onnx_layer_norm(x: Tensor) -> Tensor:
    z = x - x.mean(-1, keepdim=True)
    return (z / torch.sqrt(z.pow(2.0).mean(-1, keepdim=True) + 1e-5)) * LAST + LAST


def var_mean(x: Tensor, unbiased: bool) -> Tensor:
    v, m = torch.var_mean(x, 1, unbiased=unbiased, keepdim=True)
    return (x - m) * torch.rsqrt(v + 1e-4)


def squares_and_mean(x: Tensor) -> Tensor:
    u = x.mean(1, keepdim=True)
    s = ((x * x).mean(1, keepdim=True) - u * u).clamp(min=0)
    return (x - u) * torch.rsqrt(s + 1e-6)


def sizes_without_kept_axes(x: Tensor) -> Tensor:
    return x / (x.square().mean((2, 3)) + 1e-5).sqrt().view(1, 4, 1, 1)


def expanded(x: Tensor) -> Tensor:
    return x / torch.linalg.vector_norm(x, dim=(1,), keepdim=True).clamp(min=1e-3).expand(SHAPE)


N = Normalization
# what is recognised, and how many constant products and sums stay behind it
FORMS: dict[str, tuple[Function, Normalization, dict[str, int]]] = {
    "layer norm": (lambda x: functional.layer_norm(x, (6,), LAST, LAST), N((3,), True, 1e-5, "root"), {"mul": 1, "add": 1}),
    "layer norm, two axes": (lambda x: functional.layer_norm(x, (5, 6), BOTH), N((2, 3), True, 1e-5, "root"), {"mul": 1}),
    "layer norm, no weight": (lambda x: functional.layer_norm(x, (6,), eps=0.1), N((3,), True, 0.1, "root"), {}),
    "native layer norm": (
        lambda x: torch.native_layer_norm(x, (6,), None, LAST, 0.1)[0], N((3,), True, 0.1, "root"), {"add": 1},
    ),
    "one group": (lambda x: functional.group_norm(x, 1, CHANNELS, CHANNELS), N((1, 2, 3), True, 1e-5, "root"), {"mul": 1, "add": 1}),
    "groups": (lambda x: functional.group_norm(x, 2, CHANNELS), N((2, 3, 4), True, 1e-5, "root"), {"reshape": 2, "mul": 1}),
    "groups, no weight": (lambda x: functional.group_norm(x, 2), N((2, 3, 4), True, 1e-5, "root"), {"reshape": 2}),
    "a group per channel": (lambda x: functional.group_norm(x, 4), N((2, 3), True, 1e-5, "root"), {}),
    "instance norm": (lambda x: functional.instance_norm(x, None, None, CHANNELS), N((2, 3), True, 1e-5, "root"), {"mul": 1}),
    "rms norm": (lambda x: functional.rms_norm(x, (6,), LAST, 1e-3), N((3,), False, 1e-3, "root"), {"mul": 1}),
    "rms norm, no eps": (
        lambda x: functional.rms_norm(x, (6,)), N((3,), False, torch.finfo(torch.float64).eps, "root"), {},
    ),
    "onnx": (onnx_layer_norm, N((3,), True, 1e-5, "root"), {"mul": 1, "add": 1}),
    "product of differences": (
        lambda x: centred(x, 1) * torch.rsqrt(mean(centred(x, 1) * centred(x, 1), 1) + 1e-6), N((1,), True, 1e-6, "root"), {},
    ),
    "variance": (lambda x: centred(x, 1) / (var(x, 1) + 1e-3).sqrt(), N((1,), True, 1e-3, "root"), {}),
    "variance of differences": (lambda x: centred(x, 1) / (var(centred(x, 1), 1) + 1e-3).sqrt(), N((1,), True, 1e-3, "root"), {}),
    "unbiased variance": (
        lambda x: centred(x, 1) / (var(x, 1, correction=1) + 1e-3).sqrt(), N((1,), True, 1e-3 * 3 / 4, "root"), {"mul": 1},
    ),
    "variance and mean": (lambda x: var_mean(x, False), N((1,), True, 1e-4, "root"), {}),
    "unbiased variance and mean": (lambda x: var_mean(x, True), N((1,), True, 1e-4 * 3 / 4, "root"), {"mul": 1}),
    "squares and mean": (squares_and_mean, N((1,), True, 1e-6, "root"), {}),
    "several axes": (lambda x: centred(x, 1, 3) / (var(x, 3, 1) + 1e-3) ** 0.5, N((1, 3), True, 1e-3, "root"), {}),
    "rms": (lambda x: x * torch.rsqrt(mean(x.pow(2), -1) + 1e-6) * LAST, N((3,), False, 1e-6, "root"), {"mul": 1}),
    "rms, power": (lambda x: x * (mean(x * x, 1) + 1e-6).pow(-0.5), N((1,), False, 1e-6, "root"), {}),
    "rms, reciprocal": (lambda x: x * (1 / (mean(x * x, 1) + 1e-6).sqrt()), N((1,), False, 1e-6, "root"), {}),
    "rms, casts": (
        lambda x: x * torch.rsqrt(mean(x.float().pow(2), 1) + 0.5).double(), N((1,), False, 0.5, "root"), {},
    ),
    "rms, scaled rows": (lambda x: 3 * x / (mean((2 * x).square(), 1) + 1.0).sqrt(), N((1,), False, 0.25, "root"), {"mul": 1}),
    "rms, negative rows": (lambda x: (x * -2.0) / (mean(x * x, 1) + 1.0).sqrt(), N((1,), False, 1.0, "root"), {"mul": 1}),
    "sizes without kept axes": (sizes_without_kept_axes, N((2, 3), False, 1e-5, "root"), {}),
    "sum of squares": (lambda x: x / ((x * x).sum(3, keepdim=True) + 1.5).sqrt(), N((3,), False, 0.25, "root"), {"mul": 1}),
    "l2": (lambda x: functional.normalize(x, dim=-1, eps=1e-3), N((3,), False, 1e-3, "clamped"), {}),
    "l2 over channels": (lambda x: functional.normalize(x, dim=1), N((1,), False, 1e-12, "clamped"), {}),
    "l2 expanded": (expanded, N((1,), False, 1e-3, "clamped"), {}),
    "l2 of a maximum": (
        lambda x: x / torch.maximum(x.norm(2, 1, True), torch.tensor(0.5).double()), N((1,), False, 0.5, "clamped"), {},
    ),
    "l2 of clamped squares": (
        lambda x: x * torch.rsqrt(torch.clamp_min((x * x).sum(1, keepdim=True), 0.25)), N((1,), False, 0.5, "clamped"), {},
    ),
    "l2 shifted": (lambda x: x / (x.norm(dim=1, keepdim=True) + 0.5), N((1,), False, 0.5, "shifted"), {}),
    "l2 of a root": (lambda x: x / ((x * x).sum(1, keepdim=True).sqrt() + 0.5), N((1,), False, 0.5, "shifted"), {}),
    "deviation": (
        lambda x: centred(x, 1) / (x.std(1, keepdim=True) + 1e-3), N((1,), True, 1e-3 * math.sqrt(3), "shifted"), {"mul": 1},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def forms() -> Graph:
    return recognised({name: function for name, (function, _, _) in FORMS.items()})


def upstream(graph: Graph, output: str) -> list[str]:
    """The operations between the input and one output."""
    nodes = {node.name: node for node in graph}
    found, waiting = [], [output]
    while waiting:
        node = nodes[waiting.pop()]
        if node.op != "input":
            found.append(node.op)
            waiting += [ref.name for ref in node.refs]
    return found


def test_every_form_is_found(forms: Graph) -> None:
    payloads = {n.name: n.payload for n in forms if n.op == NORMALIZATION}
    assert len(payloads) == len(FORMS)
    for (name, (_, expected, rest)), payload, output in zip(
        FORMS.items(), payloads.values(), forms.outputs, strict=True
    ):
        assert (payload.axes, payload.centred, payload.form) == (expected.axes, expected.centred, expected.form), name
        assert payload.epsilon == pytest.approx(expected.epsilon, rel=1e-15), name
        left = Counter(op.split(".")[1] for op in upstream(forms, output))
        assert left == Counter({"normalization": 1}) + Counter(rest), name


def test_every_form_keeps_its_value(forms: Graph) -> None:
    for scale in (1.0, 1e-3, 1e3):
        x = torch.randn(SHAPE, generator=G, dtype=torch.float64) * scale
        values = interpret(forms, {"x": x}, dtype=torch.float64)
        for (name, (function, _, _)), value in zip(FORMS.items(), values.values(), strict=True):
            tolerance = 1e-6 if name == "rms, casts" else 1e-11  # that one rounds to float32 on the way
            assert isinstance(value, Tensor)
            torch.testing.assert_close(
                value, function(x), rtol=tolerance, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}"
            )


OTHERS: dict[str, Function] = {
    "no epsilon": lambda x: centred(x, 1) / var(x, 1).sqrt(),
    "no epsilon, l2": lambda x: x / x.norm(dim=1, keepdim=True),
    "epsilon outside the root": lambda x: x * ((mean(x * x, 1)).rsqrt() + 1e-3),
    "negative epsilon": lambda x: x / (mean(x * x, 1) - 1e-3).sqrt(),
    "mean of another tensor": lambda x: (x - mean(x.flip(1), 1)) / (var(x, 1) + 1e-3).sqrt(),
    "variance of another tensor": lambda x: centred(x, 1) / (var(x.flip(1).sin(), 1) + 1e-3).sqrt(),
    "mean over other axes": lambda x: centred(x, 1) / (var(x, 2) + 1e-3).sqrt(),
    "rows not centred": lambda x: x / (var(x, 1) + 1e-3).sqrt(),
    "size not centred": lambda x: centred(x, 1) / (mean(x * x, 1) + 1e-3).sqrt(),
    "batch axis": lambda x: centred(x, 0, 1) / (var(x, 0, 1) + 1e-3).sqrt(),
    "all axes": lambda x: x / (x.square().mean() + 1e-3).sqrt(),
    "wrong factor of the mean": lambda x: (x - 0.5 * mean(x, 1)) / (var(x, 1) + 1e-3).sqrt(),
    "per channel epsilon": lambda x: x / (mean(x * x, 2, 3) + PER_CHANNEL.abs()).sqrt(),
    "scaled within": lambda x: x / (mean((x * PER_CHANNEL).square(), 1) + 1e-3).sqrt(),
    "cubes": lambda x: x / (mean(x.pow(3), 1) + 1e-3).sqrt(),
    "absolute values": lambda x: x / (x.abs().mean(1, keepdim=True) + 1e-3).sqrt(),
    "l1 norm": lambda x: functional.normalize(x, p=1.0, dim=1),
    "not rooted": lambda x: x / (mean(x * x, 1) + 1e-3),
    "sizes of other rows": lambda x: x / (x.square().mean(3) + 1e-3).sqrt()[:, :, :, None].mean(2, keepdim=True),
    "sizes along another axis": lambda x: (y := x[..., :5]) / (y.square().mean(2) + 1e-3).sqrt()[:, :, None, :].roll(1, 1),
    "clamped above": lambda x: x / x.norm(dim=1, keepdim=True).clamp(1e-3, 10.0),
    "clamped variance and epsilon": lambda x: x / (mean(x * x, 1) + 1e-3).clamp_min(0.1).sqrt(),
    "a variance of one entry less": lambda x: (y := x[:, :1]) * torch.rsqrt(var(y, 1, correction=0) + 1e-3),
}  # fmt: skip


def test_near_misses_stay() -> None:
    graph = recognised(OTHERS)
    found = {
        name for name, output in zip(OTHERS, graph.outputs, strict=True) if NORMALIZATION in upstream(graph, output)
    }
    assert not found


def test_norms_with_other_weights_stay() -> None:
    functions: dict[str, Function] = {
        "data-dependent weight": lambda x: functional.layer_norm(x, (6,), x[0, 0, 0]),
        "data-dependent bias": lambda x: functional.group_norm(x, 2, None, x[0, :, 0, 0]),
        "stored statistics": lambda x: functional.instance_norm(x, CHANNELS, CHANNELS.abs(), use_input_stats=False),
        "whole batch": lambda x: functional.layer_norm(x, SHAPE),
    }
    graph = recognised(functions)
    assert NORMALIZATION not in {n.op for n in graph}
    x = torch.randn(SHAPE, generator=G, dtype=torch.float64)
    for function, value in zip(functions.values(), interpret(graph, {"x": x}).values(), strict=True):
        torch.testing.assert_close(value, function(x))


def test_statistics_that_others_read_stay() -> None:
    def both(x: Tensor) -> Tensor:
        size = torch.rsqrt(mean(x * x, 1) + 1e-6)
        return torch.cat([x * size, size], 1)

    graph = recognised({"both": both})
    (found,) = (n for n in graph if n.op == NORMALIZATION)
    assert found.sources == ()
    assert RADIAL in {n.op for n in graph}

    graph = recognised({"mean too": lambda x: torch.cat(torch.native_layer_norm(x, (6,), None, None, 0.1)[:2], 3)})
    assert "aten.native_layer_norm.default" in {n.op for n in graph}


def test_names_and_sources() -> None:
    graph = recognise(capture(Many({"onnx": onnx_layer_norm}), {"x": torch.zeros(SHAPE, dtype=torch.float64)}))
    found = next(n for n in graph if n.op == NORMALIZATION)
    assert found.name == "div"
    assert set(found.sources) == {"mean", "sub", "pow_1", "mean_1", "add", "sqrt"}

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(6)

        def forward(self, x: Tensor) -> Tensor:
            return self.norm(x)

    graph = recognise(capture(Net(), {"x": torch.zeros(SHAPE)}))
    assert [(n.name, n.op, n.module) for n in graph] == [
        ("x", "input", ""),
        ("layer_norm_normalized", NORMALIZATION, "norm"),
        ("layer_norm_scaled", "aten.mul.Tensor", "norm"),
        ("layer_norm", "aten.add.Tensor", "norm"),
    ]


def test_the_weight_folds_into_the_next_layer() -> None:
    net = nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 3)).double()
    with torch.no_grad():
        net[0].weight.copy_(LAST)
    graph = simplify(capture(net, {"x": torch.zeros(1, 6, dtype=torch.float64)}))
    assert [n.op for n in graph] == ["input", NORMALIZATION, "lipaudit.dense"]
    torch.testing.assert_close(graph.nodes[2].payload.weight, net[1].weight.detach() * LAST)


def test_epsilons_of_bounds_never_round_up() -> None:
    graph = recognised({"l2": lambda x: x * torch.rsqrt(torch.clamp_min((x * x).sum(1, keepdim=True), 1e-8))})
    (payload,) = (n.payload for n in graph if n.payload is not None)
    assert payload.epsilon**2 <= 1e-8
    assert payload.epsilon == pytest.approx(1e-4, rel=1e-15)
