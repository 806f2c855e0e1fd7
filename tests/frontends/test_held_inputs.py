"""Inputs that are held fixed, and arguments of ``forward`` under their own names."""

from __future__ import annotations

import copy
import math
from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

import lipaudit
from lipaudit.errors import CaptureError, UsageError
from lipaudit.frontends.forward import Arguments, called_with
from lipaudit.frontends.held_inputs import as_tensor, describe, read_fixed
from lipaudit.frontends.load import load
from lipaudit.frontends.module import wrap_module
from lipaudit.frontends.onnx.side_inputs import needs_value
from lipaudit.frontends.spec import parse_fix

Pair = namedtuple("Pair", ["first", "second"])


@dataclass
class Output:
    logits: torch.Tensor
    loss: torch.Tensor | None = None
    hidden: tuple[torch.Tensor | None, ...] = ()


class Vision(nn.Module):
    """The signature of vision models of Hugging Face; ``kind`` picks what is returned."""

    def __init__(self, kind: str = "dataclass") -> None:
        super().__init__()
        self.scale, self.kind = nn.Parameter(torch.tensor(3.0)), kind

    def forward(self, pixel_values=None, mask=None, *, factor=1.0, labels=None):
        y = pixel_values * self.scale * factor
        y = y if mask is None else y * mask
        if self.kind == "dataclass":
            return Output(y, None if labels is None else y.sum(), (y, None))
        if self.kind == "tuple":
            return (y, None, [y])
        if self.kind == "named":
            return Pair(y, None)
        return {"y": y, "loss": None} if self.kind == "dict" else y


def bound(model: object, **options: object) -> float:
    found = lipaudit.audit(model, **options).network.upper_bound  # type: ignore[arg-type]
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("options", "constant"),
    [
        ({"input_shape": {"pixel_values": (1, 4)}}, 3.0),
        ({"input_shape": (1, 4)}, 3.0),
        ({"input_shape": {"pixel_values": (1, 4)}, "fix": {"mask": torch.tensor([[0.0, 0.5, 0.25, 0.0]])}}, 1.5),
        ({"input_shape": {"pixel_values": (1, 4)}, "fix": {"factor": -2.0}}, 6.0),
        ({"input_shape": {"pixel_values": (1, 4)}, "fix": {"mask": np.full((1, 4), 7, dtype=np.int64)}}, 21.0),
        ({"input_shape": {"pixel_values": (1, 4)}, "fix": {"mask": "[[2, 0, 0, 0]]", "factor": "0.5"}}, 3.0),
        ({"input_shape": {"pixel_values": (1, 4), "mask": (1, 4)}, "fix": {"mask": 2}}, 6.0),
        ({"input_shape": {"mask": (1, 4)}, "fix": {"pixel_values": torch.full((1, 4), 5.0)}}, 15.0),
        ({"input_shape": {"pixel_values": (1, 4)}, "fix": {"mask": None, "labels": "none"}}, 3.0),
    ],
)
def test_optional_and_keyword_arguments(options: dict[str, object], constant: float) -> None:
    assert bound(Vision("tensor").eval(), **options) == pytest.approx(constant, rel=1e-9)


@pytest.mark.parametrize("kind", ["dataclass", "tuple", "named", "dict"])
def test_outputs_of_every_container(kind: str) -> None:
    report = lipaudit.audit(Vision(kind).eval(), input_shape={"pixel_values": (1, 4)}, lower_bound=True)
    names = {"dataclass": ["logits", "hidden.0"], "tuple": ["0", "2.0"], "named": ["first"], "dict": ["y"]}[kind]
    assert [output.name for output in report.network.outputs] == names
    assert report.network.upper_bound == pytest.approx(3 * math.sqrt(len(names)), rel=1e-6)
    assert report.network.lower_bound == pytest.approx(3 * math.sqrt(len(names)), rel=1e-5)


def test_what_is_held_is_said_and_the_module_is_left_alone() -> None:
    net = Vision("tensor").train()
    before = dict(vars(net))
    ids = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    report = lipaudit.audit(net, input_shape={"pixel_values": (1, 4)}, fix={"mask": ids, "factor": 2.0})
    assert any("mask = 1x4 numbers of float32 (SHA-256 " in note and "factor = 2.0" in note for note in report.notes)
    assert dict(vars(net)) == before
    assert torch.equal(ids, torch.tensor([[1.0, 2.0, 3.0, 4.0]]))
    assert report.model.input_shapes == {"pixel_values": (1, 4)}


def test_a_held_tensor_that_the_network_writes_to_keeps_its_values() -> None:
    class Writes(nn.Module):
        def forward(self, x, mask):
            mask[:, 0] = 0
            return x * mask

    held = torch.ones(1, 3)
    assert bound(Writes(), input_shape={"x": (1, 3)}, fix={"mask": held}) == pytest.approx(1.0)
    assert torch.equal(held, torch.ones(1, 3))


def test_tokens_and_what_is_behind_them() -> None:
    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.out = nn.Embedding(5, 3), nn.Linear(3, 2)

        def forward(self, ids, features):
            return self.out(self.embed(ids).mean(1) + features)

    net = Tokens().eval()
    want = torch.linalg.svdvals(net.out.weight.double())[0].item()
    found = bound(net, input_shape={"features": (1, 3)}, fix={"ids": "[[1, 2, 4]]"}, tol=1e-6)
    assert want <= found <= want * 1.00001
    with pytest.raises(CaptureError, match="hold that input at a value"):
        lipaudit.audit(net, input_shape={"ids": (1, 3), "features": (1, 3)})


@pytest.mark.parametrize(
    ("fix", "shape", "message"),
    [
        ({"nothing": 1}, None, "no input named 'nothing'"),
        ({"mask": "abc"}, None, r"^the value of fix=.* must be a number, true, .*, got 'abc'"),
        ({"mask": "[[1], [1, 2]]"}, None, "is not a tensor"),
        ({"mask": "missing.npy"}, None, "there is no file"),
        ({"mask": torch.tensor([math.nan])}, None, "NaN"),
        ({"mask": torch.eye(2).to_sparse()}, None, "sparse"),
        ({"pixel_values": 1.0, "mask": 1.0, "factor": 1.0, "labels": 1.0}, None, "every input is held fixed"),
        ({"mask": torch.ones(1, 4)}, {"pixel_values": (1, 4), "mask": (1, 4)}, "leave out its input_shape"),
        ([("mask", 1)], None, "^fix must be a mapping"),
    ],
)
def test_what_cannot_be_held(fix: object, shape: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        lipaudit.audit(Vision().eval(), input_shape=shape or {"pixel_values": (1, 4)}, fix=fix)  # type: ignore[arg-type]


def test_arguments_by_position_only_keywords_and_open_ones() -> None:
    class Strange(nn.Module):
        def forward(self, a, b=None, /, *more, c, d=2.0, **names):
            return a * d + c + names.get("e", 0)

    arguments = Arguments.of(Strange())
    assert arguments.inputs() == ["a", "c"]
    assert arguments.inputs(["e"], ["c"]) == ["a", "e"]
    shapes = {"a": (1, 2), "e": (1, 2)}
    assert bound(Strange(), input_shape=shapes, fix={"c": 1.0}) == pytest.approx(math.sqrt(5))
    with pytest.raises(UsageError, match="by position only"):
        wrap_module(Strange(), {"a": (1, 2)}, {"c": 1.0, "b": 2})
    assert Arguments.of(nn.Sequential()).inputs() == ["input"]


def test_a_module_with_a_hook_on_keywords_is_refused_where_keywords_are_used() -> None:
    net = Vision("tensor")
    net.register_forward_pre_hook(lambda module, args, kwargs: (args, {**kwargs, "factor": 9.0}), with_kwargs=True)
    with pytest.raises(UsageError, match="hook that reads keyword arguments"):
        lipaudit.audit(net, input_shape={"mask": (1, 4)}, fix={"pixel_values": torch.ones(1, 4)})
    assert bound(net, input_shape={"pixel_values": (1, 4)}) == pytest.approx(27.0)


def test_a_view_and_its_deep_copy_compute_with_their_own_weights() -> None:
    net = Vision("tensor").eval()
    view = called_with(net, ["pixel_values"], {"mask": torch.full((1, 4), 2.0)})
    x = torch.rand(1, 4)
    assert torch.equal(view(x), net(x, mask=torch.full((1, 4), 2.0)))
    twin = copy.deepcopy(view).double()
    with torch.no_grad():
        next(iter(twin.parameters())).fill_(10.0)
    assert torch.equal(twin(x.double()), x.double() * 20)
    assert net.scale.item() == 3.0


def test_text_and_tensors_of_a_file_input() -> None:
    assert parse_fix("a=b=c") == ("a", "b=c")
    for text in ("a", "=1", "a="):
        with pytest.raises(UsageError, match="NAME=VALUE"):
            parse_fix(text)
    assert read_fixed({"a": "True", "b": "null", "c": '"mean"', "d": "1e3"}) == {
        "a": True,
        "b": None,
        "c": "mean",
        "d": 1000.0,
    }
    assert as_tensor("s", 3, torch.int64, ()).shape == ()
    assert as_tensor("s", 3, torch.int64, ("n", "m"), (1, 2)).tolist() == [[3, 3]]
    for value, axes, message in [
        (1, ("n", "m"), "open sizes"),
        (1.5, (1,), "cannot hold"),
        ([1, 2], (1, 2), "shape"),
        (300, (), "cannot hold"),
        (None, (), "which is a tensor, must be a number"),
        ([[1], [1, 2]], (), "is not a tensor"),
    ]:
        with pytest.raises(UsageError, match=message):
            as_tensor("s", value, torch.uint8, axes)
    assert describe({}) == ""


def side_input_file(path, operator: str = "Add", kind: int = TensorProto.INT64, axes: tuple[object, ...] = (1,)) -> str:
    """y = 2x + E[kind] (or another operator), where row k of E is full of k + 1."""
    table = (np.arange(5, dtype=np.float32)[:, None] + 1).repeat(3, 1)
    nodes = [
        helper.make_node("Mul", ["x", "two"], ["u"]),
        helper.make_node("Gather", ["E", "kind"], ["e"]),
        helper.make_node(operator, ["u", "e"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3]),
            helper.make_tensor_value_info("kind", kind, axes),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
        [numpy_helper.from_array(np.float32([2]), "two"), numpy_helper.from_array(table, "E")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return str(path)


@pytest.mark.parametrize("kind", [TensorProto.INT64, TensorProto.INT32])
def test_integer_inputs_of_onnx_files(tmp_path, kind: int) -> None:
    path = side_input_file(tmp_path / "a.onnx", "Mul", kind)
    for value, constant in ((3, 8.0), ([0], 2.0), (np.array([4]), 10.0), ("2", 6.0)):
        assert bound(path, fix={"kind": value}) == pytest.approx(constant, rel=1e-6)
    loaded = load(path, fixed={"kind": torch.tensor([1])})
    assert torch.equal(loaded.module(torch.ones(1, 3)), torch.full((1, 3), 4.0))
    with pytest.raises(UsageError, match="hold it at a value with fix="):
        lipaudit.audit(path)
    for fix, message in (
        ({"kind": [1, 2]}, "shape"),
        ({"sort": 1}, "no input named"),
        ({"kind": 1, "x": 0}, "every input"),
    ):
        with pytest.raises(UsageError, match=message):
            lipaudit.audit(path, fix=fix, input_shape=(1, 3))


def test_held_inputs_of_a_file_that_fixes_a_batch(tmp_path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "m"], ["y"])],
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 3]) for name in ("x", "m")],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 3])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "b.onnx")
    assert bound(str(tmp_path / "b.onnx"), fix={"m": [[1.0, 5.0, 2.0]]}) == pytest.approx(5.0)


def test_sampling_rate_that_picks_a_branch(tmp_path) -> None:
    def branch(name: str, scale: float) -> onnx.GraphProto:
        constant = helper.make_node("Constant", [], [f"c_{name}"], value=numpy_helper.from_array(np.float32([scale])))
        product = helper.make_node("Mul", ["x", f"c_{name}"], [f"r_{name}"])
        return helper.make_graph(
            [constant, product], name, [], [helper.make_tensor_value_info(f"r_{name}", TensorProto.FLOAT, [1, 3])]
        )

    nodes = [
        helper.make_node("Equal", ["sr", "k"], ["is16"]),
        helper.make_node("If", ["is16"], ["y"], then_branch=branch("a", 3.0), else_branch=branch("b", 7.0)),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3]),
            helper.make_tensor_value_info("sr", TensorProto.INT64, []),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])],
        [numpy_helper.from_array(np.int64(16000), "k")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "v.onnx")
    assert bound(str(tmp_path / "v.onnx"), fix={"sr": 16000}) == pytest.approx(3.0)
    assert bound(str(tmp_path / "v.onnx"), fix={"sr": 8000}) == pytest.approx(7.0)


@pytest.mark.parametrize("operator", ["Add", "Sub"])
def test_an_integer_input_that_only_adds_constants_needs_no_value(tmp_path, operator: str) -> None:
    path = side_input_file(tmp_path / "a.onnx", operator)
    report = lipaudit.audit(path)
    assert report.network.upper_bound == pytest.approx(2.0, rel=1e-6)
    assert any("No value was given for 'kind': upper bounds hold for every value" in note for note in report.notes)
    assert report.network.upper_bound == lipaudit.audit(path, fix={"kind": 4}).network.upper_bound
    with pytest.raises(UsageError, match="depends on the value of the input 'kind'"):
        lipaudit.audit(path, domain="ball", around=torch.zeros(1, 3), radius=1.0)


GATHER = ("Gather", ["E", "k"], ["e"])


@pytest.mark.parametrize(
    ("nodes", "free"),
    [
        ([GATHER, ("MatMul", ["x", "W"], ["u"]), ("Add", ["u", "e"], ["v"]), ("Relu", ["v"], ["y"])], True),
        ([GATHER, ("Relu", ["x"], ["u"]), ("Concat", ["u", "e"], ["v"]), ("MatMul", ["v", "V"], ["y"])], True),
        ([GATHER, ("Mul", ["x", "c"], ["u"]), ("Sub", ["e", "u"], ["v"]), ("Clip", ["v", "c"], ["y"])], True),
        ([("Cast", ["k"], ["f"]), ("Mul", ["f", "c"], ["e"]), ("Add", ["x", "e"], ["y"])], True),
        ([GATHER, ("Mul", ["x", "e"], ["y"])], False),
        ([GATHER, ("Add", ["x", "e"], ["v"]), ("Sigmoid", ["v"], ["s"]), ("Mul", ["v", "s"], ["y"])], False),
        ([GATHER, ("Clip", ["x", "c"], ["u"]), ("Add", ["u", "e"], ["v"]), ("Relu", ["v"], ["y"])], False),
        ([GATHER, ("Add", ["x", "e"], ["v"]), ("Add", ["v", "x"], ["y"])], False),
        ([GATHER, ("Add", ["x", "e"], ["v"]), ("LayerNormalization", ["v", "c"], ["y"])], False),
        ([("Range", ["z", "k", "o"], ["e"]), ("Concat", ["x", "e"], ["y"])], False),
        ([("Reshape", ["c", "k"], ["e"]), ("Add", ["x", "e"], ["y"])], False),
        ([("Gather", ["x", "k"], ["y"])], False),
        ([("NonZero", ["k"], ["e"]), ("Add", ["x", "e"], ["y"])], False),
    ],
)
def test_for_which_graphs_the_value_matters(nodes: list[tuple[str, list[str], list[str]]], free: bool) -> None:
    made = [helper.make_node(operator, inputs, outputs) for operator, inputs, outputs in nodes]
    graph = helper.make_graph(made, "g", [], [])
    assert (needs_value(graph, ["k"], ["x"]) == "") is free


def test_a_value_that_matters_behind_a_clip() -> None:
    """relu(min(x, 0) + e) is constant for e = 0 and has slope 1 for e = 1: no bound for 0 may stand for both."""
    clipped = [("Clip", ["x", "", "c"], ["u"]), GATHER, ("Add", ["u", "e"], ["v"]), ("Relu", ["v"], ["y"])]
    graph = helper.make_graph([helper.make_node(*node) for node in clipped], "g", [], [])
    assert needs_value(graph, ["k"], ["x"]) == "Add ('v')"


class Text(nn.Module):
    """The signature of language models: every argument is optional."""

    def forward(self, input_ids=None, attention_mask=None, inputs_embeds=None, return_dict=True):
        return attention_mask if inputs_embeds is None else inputs_embeds


def test_with_the_first_optional_argument_held_the_input_must_be_named() -> None:
    arguments = Arguments.of(Text())
    assert arguments.inputs() == ["input_ids"]
    assert arguments.inputs(["inputs_embeds"], ["input_ids"]) == ["inputs_embeds"]
    assert arguments.inputs([], ["input_ids", "attention_mask"]) == ["inputs_embeds"]
    with pytest.raises(UsageError, match="one of attention_mask, inputs_embeds"):
        arguments.inputs([], ["input_ids"])
    with pytest.raises(
        UsageError, match=r"name the input and its sizes, input_shape=\{'NAME': SIZES\}, where NAME is one of"
    ):
        lipaudit.audit(Text(), fix={"input_ids": [[1, 2, 3]]})
