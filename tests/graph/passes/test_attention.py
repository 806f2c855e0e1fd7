"""Written-out attention is recognised, equal in value, and nothing else is."""

from __future__ import annotations

import contextlib
import io
import math
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from lipaudit.frontends.onnx import load_onnx
from lipaudit.graph.capture.export import capture
from lipaudit.graph.evaluate import interpret
from lipaudit.graph.node import Constant, Graph, Node
from lipaudit.graph.passes.attention import ATTENTION
from lipaudit.graph.passes.normalization import NORMALIZATION
from lipaudit.graph.passes.table import recognise

Function = Callable[[Tensor, Tensor, Tensor], Tensor]
G = torch.Generator().manual_seed(5)
H, N, M, D, E = 2, 4, 6, 3, 5  # heads, queries, keys, their width, that of the values


def normal(*shape: int) -> Tensor:
    return torch.randn(shape, generator=G, dtype=torch.float64)


PER_HEAD, PER_QUERY, PER_KEY = normal(H, 1, 1), normal(N, 1), normal(M)
BIAS, HEAD_BIAS, WINDOW_MASK = normal(N, M), normal(1, H, N, M), normal(3, N, M)
MASK = torch.tensor([[False, True, False, False, True, False]]).expand(N, M).clone()
MIX, KEYS, SUM = normal(H, H), normal(D, M), normal(N, E)
INFINITY = torch.tensor(math.inf).double()


class Many(nn.Module):
    """One output per function of the same queries, keys and values: one capture for all."""

    def __init__(self, functions: Mapping[str, Function]) -> None:
        super().__init__()
        self.functions = tuple(functions.values())

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        return tuple(f(q, k, v) for f in self.functions)


def inputs(*lead: int) -> dict[str, Tensor]:
    return {"q": normal(*lead, N, D), "k": normal(*lead, M, D), "v": normal(*lead, M, E)}


def recognised(functions: Mapping[str, Function], *lead: int) -> Graph:
    return recognise(capture(Many(functions), {name: torch.zeros_like(x) for name, x in inputs(*lead).items()}))


def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.transpose(-2, -1)).softmax(-1) @ v


def softmax(logits: Tensor) -> Tensor:
    return logits.softmax(-1)


def logits(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.transpose(-2, -1)


def folded_batch(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (t.flatten(0, 1) for t in (q, k, v))
    return torch.bmm(softmax(torch.baddbmm(BIAS, q, k.transpose(1, 2), alpha=0.5)), v)


# the attention's scale, whether it has a mask, and what is inserted around it
FORMS: dict[str, tuple[Function, float, bool, dict[str, int]]] = {
    "plain": (plain, 1.0, False, {}),
    "scaled queries": (lambda q, k, v: softmax(logits(q * 0.5, k)) @ v, 1.0, False, {"mul": 1}),
    "scaled logits": (lambda q, k, v: softmax(logits(q, k) * 0.25) @ v, 0.25, False, {}),
    "divided logits": (lambda q, k, v: softmax(logits(q, k) / math.sqrt(3)) @ v, 1 / math.sqrt(3), False, {}),
    "scaled twice": (lambda q, k, v: softmax(2 * (logits(q, k) / 8)) @ v, 0.25, False, {}),
    "negative scale": (lambda q, k, v: softmax(logits(q, k) * -0.5) @ v, 0.5, False, {"neg": 1}),
    "scale per head": (lambda q, k, v: softmax(logits(q, k) * PER_HEAD) @ v, 1.0, False, {"mul": 1}),
    "scale per query": (lambda q, k, v: softmax(PER_QUERY * logits(q, k)) @ v, 1.0, False, {"mul": 1}),
    "scale per key": (lambda q, k, v: softmax(PER_KEY * logits(q, k)) @ v, 1.0, False, {"mul": 1}),
    "scales of two kinds": (lambda q, k, v: softmax(logits(q, k) * PER_HEAD * PER_KEY * 2) @ v, 2.0, False, {"mul": 2}),
    "bias": (lambda q, k, v: softmax(logits(q, k) + BIAS) @ v, 1.0, True, {}),
    "subtracted bias": (lambda q, k, v: softmax(logits(q, k) - HEAD_BIAS) @ v, 1.0, True, {}),
    "bias, scaled": (lambda q, k, v: softmax((logits(q, k) + BIAS) * PER_HEAD / 3) @ v, 1 / 3, True, {"mul": 1}),
    "two biases": (lambda q, k, v: softmax(HEAD_BIAS + (logits(q, k) * 0.5 + BIAS)) @ v, 0.5, True, {}),
    "shift of all logits": (lambda q, k, v: softmax(logits(q, k) + 3.0) @ v, 1.0, False, {}),
    "shift before a scale per key": (lambda q, k, v: softmax((logits(q, k) + torch.ones(M)) * PER_KEY) @ v, 1.0, True, {"mul": 1}),
    "masked": (lambda q, k, v: softmax((logits(q, k)).masked_fill(MASK, -math.inf)) @ v, 1.0, True, {}),
    "where": (lambda q, k, v: softmax(torch.where(~MASK, logits(q, k) * 2, -INFINITY)) @ v, 2.0, True, {}),
    "where not": (lambda q, k, v: softmax(torch.where(MASK, -math.inf, logits(q, k) + BIAS)) @ v, 1.0, True, {}),
    "dropout and casts": (
        lambda q, k, v: functional.dropout(logits(q, k).float().softmax(-1).double(), 0.1, False) @ v, 1.0, False, {},
    ),
    "keys permuted": (lambda q, k, v: softmax(q @ k.permute(0, 1, 3, 2)) @ v, 1.0, False, {}),
    "keys that lie": (lambda q, k, v: softmax(q @ k.reshape(1, H, D, M)) @ v, 1.0, False, {"view": 1, "transpose": 1}),
    "values in front": (
        lambda q, k, v: v.transpose(-2, -1) @ softmax(logits(q, k)).transpose(-2, -1), 1.0, False, {"transpose": 1},
    ),
    "einsum": (
        lambda q, k, v: torch.einsum("bhnm,bhme->bhne", softmax(torch.einsum("bhnd,bhmd->bhnm", q, k)), v), 1.0, False, {},
    ),
    "einsum, values in front": (
        lambda q, k, v: torch.einsum("bhme,bhnm->bhen", v, softmax(torch.einsum("bhmd,bhnd->bhnm", k, q))),
        1.0, False, {"transpose": 1},
    ),
    "folded batch": (folded_batch, 0.5, True, {"view": 3}),
    "weights viewed": (
        lambda q, k, v: softmax(logits(q, k) + HEAD_BIAS).view(H, N, M) @ v[0], 1.0, True, {"view": 2, "select": 1},
    ),
    "keys for all heads": (lambda q, k, v: softmax(q @ k[:, :1].transpose(-2, -1)) @ v, 1.0, False, {"slice": 1, "expand": 1}),
    "values for all heads": (
        lambda q, k, v: softmax(logits(q, k) * PER_HEAD) @ v[:, :1], 1.0, False, {"mul": 1, "slice": 1, "expand": 1},
    ),
    "one query head": (
        lambda q, k, v: softmax(logits(q[:, :1], k) * PER_HEAD) @ v, 1.0, False, {"slice": 1, "expand": 1, "mul": 1},
    ),
    "einsum that broadcasts": (
        lambda q, k, v: torch.einsum("bhnm,bhme->bhne", softmax(torch.einsum("bhnd,bhmd->bhnm", q, k[:, :1])), v[:, :1]),
        1.0, False, {"slice": 2, "expand": 2},
    ),
    "softmax of keys over queries": (lambda q, k, v: softmax(logits(k, q)) @ q, 1.0, False, {}),
}  # fmt: skip


# a reshaping is captured under one name or another
_VIEWS = dict.fromkeys(("reshape", "_unsafe_view", "flatten"), "view")


@pytest.fixture(scope="module")
def forms() -> Graph:
    return recognised({name: function for name, (function, *_) in FORMS.items()}, 1, H)


def upstream(graph: Graph, output: str) -> list[Node]:
    """The nodes between the inputs and one output."""
    nodes = {node.name: node for node in graph}
    found, waiting = dict[str, Node](), [output]
    while waiting:
        node = nodes[waiting.pop()]
        if node.op != "input":
            found[node.name] = node
            waiting += [ref.name for ref in node.refs]
    return list(found.values())


def test_every_form_is_found(forms: Graph) -> None:
    for (name, (_, scale, masked, rest)), output in zip(FORMS.items(), forms.outputs, strict=True):
        nodes = upstream(forms, output)
        (found,) = (n for n in nodes if n.op == ATTENTION)
        assert found["scale"] == pytest.approx(scale, rel=1e-15), name
        assert isinstance(found["attn_mask"], Constant) == masked, name
        left = Counter(_VIEWS.get(n.op.split(".")[1], n.op.split(".")[1]) for n in nodes if n is not found)
        assert left == Counter(rest), name


def test_every_form_keeps_its_value(forms: Graph) -> None:
    x = inputs(1, H)
    values = interpret(forms, x, dtype=torch.float64)
    for (name, (function, *_)), value in zip(FORMS.items(), values.values(), strict=True):
        tolerance = 1e-6 if "casts" in name else 1e-11  # that one rounds to float32 on the way
        assert isinstance(value, Tensor)
        expected = function(*x.values())
        torch.testing.assert_close(value, expected, rtol=tolerance, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}")


def windows(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Three windows in the batch axis, each with its mask, as shifted windows are written."""
    a = logits(q * 0.5, k) + HEAD_BIAS
    a = a.view(1, 3, H, N, M) * PER_HEAD + WINDOW_MASK[:, None]
    return softmax(a.view(3, H, N, M)) @ v


def test_masks_of_windows() -> None:
    graph = recognised({"windows": windows}, 3, H)
    (found,) = (n for n in graph if n.op == ATTENTION)
    assert found["attn_mask"].value.shape == (3, H, N, M)
    assert [n.op for n in graph if n.op not in ("input", ATTENTION)] == ["aten.mul.Tensor"] * 2
    x = inputs(3, H)
    (value,) = interpret(graph, x).values()
    torch.testing.assert_close(value, windows(*x.values()), rtol=1e-12, atol=1e-12)


def test_a_mask_that_no_float32_holds_stays_exact() -> None:
    bias, mask = (torch.randn(n, M, generator=G) for n in (N, 1))

    def summed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return softmax(logits(q, k) + bias + mask) @ v

    x = {name: t.float() for name, t in inputs(1, H).items()}
    graph = recognise(capture(Many({"sum": summed}), x))
    (value,) = interpret(graph, x, dtype=torch.float64).values()
    expected = softmax(logits(x["q"].double(), x["k"].double()) + bias.double() + mask.double()) @ x["v"].double()
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=1e-12)
    (value,) = interpret(graph, x).values()
    torch.testing.assert_close(value, expected.float())


OTHERS: dict[str, Function] = {
    "talking heads before": lambda q, k, v: softmax((logits(q, k).permute(0, 2, 3, 1) @ MIX).permute(0, 3, 1, 2)) @ v,
    "talking heads after": lambda q, k, v: (softmax(logits(q, k)).permute(0, 2, 3, 1) @ MIX).permute(0, 3, 1, 2) @ v,
    "softmax over the queries": lambda q, k, v: logits(q, k).softmax(-2) @ v,
    "softmax over the heads": lambda q, k, v: logits(q, k).softmax(1) @ v,
    "weights transposed": lambda q, k, v: softmax(logits(k, q)).transpose(-2, -1) @ v,
    "data-dependent bias": lambda q, k, v: softmax(logits(q, k) + q[..., :1]) @ v,
    "data-dependent scale": lambda q, k, v: softmax(logits(q, k) * k[..., 0].unsqueeze(-2)) @ v,
    "data-dependent mask": lambda q, k, v: softmax(logits(q, k).masked_fill(q[..., :1] > 0, -math.inf)) @ v,
    "a finite mask": lambda q, k, v: softmax(logits(q, k).masked_fill(MASK, -2.0)) @ v,
    "a mask, then a negative scale": lambda q, k, v: softmax(logits(q, k).masked_fill(MASK, -math.inf) * -1.0) @ v,
    "a scale that varies along both axes": lambda q, k, v: softmax(logits(q, k) * BIAS) @ v,
    "clamped logits": lambda q, k, v: softmax(logits(q, k).clamp(-1, 1)) @ v,
    "weights scaled": lambda q, k, v: (softmax(logits(q, k)) * PER_QUERY) @ v,
    "weights plus identity": lambda q, k, v: (softmax(logits(q, k)) + BIAS) @ v,
    "logits of a linear layer": lambda q, k, v: softmax(q @ KEYS) @ v,
    "constant keys": lambda q, k, v: softmax(q @ KEYS.expand(1, H, D, M)) @ v,
    "weights for all heads": lambda q, k, v: softmax(logits(q, k))[:, :1] @ v,
    "logits for all heads": lambda q, k, v: softmax(logits(q[:, :1], k[:, :1])) @ v,
    "rows torn apart": lambda q, k, v: softmax((q @ k.transpose(-2, -1)).reshape(1, H, M, N)).reshape(1, H, N, M) @ v,
    "added to a product": lambda q, k, v: torch.baddbmm(SUM, softmax(logits(q, k))[0], v[0]),
    "einsum over the heads": lambda q, k, v: torch.einsum("bhnm,bhme->bne", softmax(logits(q, k)), v),
    "einsum that repeats the width": lambda q, k, v: softmax(torch.einsum("bhnd,bhmd->bhnm", q, k[..., :1])) @ v,
    "no softmax": lambda q, k, v: logits(q, k).sigmoid() @ v,
}  # fmt: skip


def test_near_misses_stay() -> None:
    graph = recognised(OTHERS, 1, H)
    found = {
        name
        for name, output in zip(OTHERS, graph.outputs, strict=True)
        if ATTENTION in {n.op for n in upstream(graph, output)}
    }
    assert not found
    x = inputs(1, H)
    for (name, function), value in zip(OTHERS.items(), interpret(graph, x).values(), strict=True):
        torch.testing.assert_close(value, function(*x.values()), msg=lambda m, n=name: f"{n}: {m}", equal_nan=True)


def test_weights_that_others_read_stay() -> None:
    def both(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        weights = softmax(logits(q, k))
        return torch.cat([weights @ v, weights], -1)

    graph = recognised({"both": both}, 1, H)
    (found,) = (n for n in graph if n.op == ATTENTION)
    assert found.sources == ()
    assert "aten.softmax.int" in {n.op for n in graph}


def test_names_and_sources() -> None:
    graph = recognised({"plain": lambda q, k, v: softmax(logits(q, k) * 0.5) @ v}, 1, H)
    (found,) = (n for n in graph if n.op == ATTENTION)
    assert found.name == graph.outputs[0] == "matmul_1"
    assert set(found.sources) == {"softmax", "mul", "matmul"}
    assert len(graph) == 4


class Block(nn.Module):
    """Pre-norm attention of four heads, as vision transformers write it."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm(x)).reshape(1, 5, 3, 4, 2).permute(2, 0, 3, 1, 4).unbind(0)
        y = softmax(q @ k.transpose(-2, -1) * 2**-0.5) @ v
        return x + self.out(y.transpose(1, 2).reshape(1, 5, 8))


@pytest.mark.parametrize(("dynamo", "opset"), [(False, 13), (False, 17), (True, 18)])
def test_exported_networks(dynamo: bool, opset: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 5, 8)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")  # the exporters warn of their own deprecations
        torch.onnx.export(Block().eval(), (x,), tmp_path / "net.onnx", dynamo=dynamo, opset_version=opset)
    module = load_onnx(tmp_path / "net.onnx", spec="net.onnx").module
    captured = capture(module, {"x": x})
    graph = recognise(captured)
    found = Counter(n.op for n in graph)
    assert (found[ATTENTION], found[NORMALIZATION], found["aten.softmax.int"]) == (1, 1, 0)
    (before,), (after,) = (interpret(g, {"x": x}, dtype=torch.float64).values() for g in (captured, graph))
    torch.testing.assert_close(before, after, rtol=1e-12, atol=1e-12)
