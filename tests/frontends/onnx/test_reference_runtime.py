"""Who judges a conversion, by which measure, and what a refusal says."""

import itertools
import re
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from lipaudit.errors import ModelLoadError
from lipaudit.frontends.load import load
from lipaudit.frontends.onnx import (
    operators,
    value_check,
)
from lipaudit.frontends.onnx.operators import UnsupportedOperatorError
from lipaudit.frontends.onnx.reference import reference_evaluator
from tests.frontends.onnx.cases import Case, graph_model
from tests.frontends.onnx.detectors import detector

_N = np.random.default_rng(3).standard_normal


def _load(model, tmp_path):
    onnx.save(model, tmp_path / "m.onnx")
    return load(str(tmp_path / "m.onnx"))


def _runtime(model):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _w(*shape):
    return _N(shape).astype(np.float32)


_STATISTICS = (_w(4), _w(4), _w(4), np.abs(_w(4)) + 0.5)
# what onnx's reference implementation evaluates other than the standard says, or not at all
MENDED = [
    *(
        Case("BatchNormalization", constants=_STATISTICS, opset=o, attributes={"epsilon": 0.1})
        for o in (7, 8, 9, 11, 13)
    ),
    Case("BatchNormalization", (2, 4), _STATISTICS, 9),
    Case(
        "ConvTranspose",
        constants=(_w(4, 2, 3, 3), _w(4)),
        attributes={"group": 2, "strides": [2, 3], "pads": [1, 0, 2, 1]},
    ),
    Case(
        "ConvTranspose",
        constants=(_w(4, 1, 2, 2),),
        attributes={"group": 4, "dilations": [2, 1], "output_padding": [0, 0]},
    ),
    Case("ConvTranspose", constants=(_w(4, 2, 3, 3),), attributes={"strides": [2, 2], "output_shape": [12, 12]}),
    Case("ConvTranspose", constants=(_w(4, 2, 3, 3),), attributes={"strides": [2, 2], "output_padding": [1, 1]}),
    Case("ConvTranspose", constants=(_w(4, 2, 3, 3),), attributes={"strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    Case("ConvTranspose", (1, 4, 7), (_w(4, 2, 3),), attributes={"strides": [3]}),
    Case("LRN", (1, 8, 4, 4), attributes={"size": 5, "alpha": 0.3, "beta": 0.6, "bias": 1.5}),
    Case("LRN", (2, 5, 3, 3), opset=7, attributes={"size": 3}),
    Case("GlobalLpPool", attributes={"p": 1}),
    Case("GlobalLpPool", opset=2, attributes={"p": 3}),
    Case("GlobalMaxPool", (1, 4, 6), opset=22),
    *(Case("Softmax", (2, 3, 4), opset=11, attributes={"axis": axis}) for axis in (0, 1, 2, -1)),
    Case("LogSoftmax", (2, 3, 4), opset=9),
    Case("Upsample", (1, 2, 3, 4), opset=7, attributes={"scales": [1.0, 1.0, 2.0, 3.0], "mode": "linear"}),
    Case("Upsample", (1, 2, 3, 4), (np.array([1, 1, 2, 1.5], np.float32),), 9),
    Case("Resize", (1, 2, 3, 4), (np.array([1, 1, 2, 1.5], np.float32),), 10),
    Case("Slice", (5, 3), (np.array([-9]), np.array([-(2**62)]), np.array([0]), np.array([-2]))),
    Case("Slice", (5, 3), opset=9, attributes={"starts": [-9, 1], "ends": [3, 2**40], "axes": [0, 1]}),
]


@pytest.mark.parametrize("case", MENDED, ids=str)
def test_the_mended_reference_agrees_with_onnxruntime(case):
    model = case.model()
    feeds = {"x": _w(*case.shape)}
    (expected,) = _runtime(model).run(None, feeds)
    (found,) = reference_evaluator(model, {"": case.opset}).run(None, feeds)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("opset", [10, 11, 13])
@pytest.mark.parametrize("axis", [None, 1])
@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_the_mended_dequantisation_agrees_with_onnxruntime(opset, axis, kind):
    if opset < 13 and axis is not None:
        pytest.skip("one scale for the whole tensor is all that there is")
    q = np.random.default_rng(0).integers(0, 9, (4, 3)).astype(kind)
    scale, zero = np.float32(0.3), kind(2)
    if axis is not None:
        scale, zero = np.array([0.3, 0.7, 2], np.float32), np.array([1, 0, 3], kind)
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["w"], **({} if axis is None else {"axis": axis})),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    weights = [numpy_helper.from_array(np.asarray(a), n) for n, a in (("q", q), ("s", scale), ("z", zero))]
    model = graph_model(nodes, {"x": (2, 4)}, ["y"], weights, opset)
    feeds = {"x": _w(2, 4)}
    (expected,) = _runtime(model).run(None, feeds)
    (found,) = reference_evaluator(model, {"": opset}).run(None, feeds)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("case", MENDED, ids=str)
def test_without_onnxruntime_the_reference_judges_and_the_report_says_so(case, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    loaded = _load(case.model(), tmp_path)
    assert re.search(r"agrees with the reference implementation of onnx .*not installed", loaded.notes[0])


def _chain(*nodes, initializers=(), opset=17, shape=(1, 3)):
    return graph_model(
        [helper.make_node(o, i, [n], name=n) for o, i, n in nodes], {"x": shape}, [nodes[-1][2]], initializers, opset
    )


def test_a_refusal_names_the_first_node_that_differs(tmp_path, monkeypatch):
    monkeypatch.setitem(operators._CONVERTERS, "Relu", lambda node: torch.nn.LeakyReLU(0.1))
    model = _chain(
        ("Neg", ["x"], "first"), ("Relu", ["first"], "second"), ("Exp", ["second"], "third"), ("Tanh", ["third"], "y")
    )
    with pytest.raises(
        ModelLoadError, match=r"differs from onnxruntime .* first in the value 'second' of the node 'second' \(Relu\)"
    ):
        _load(model, tmp_path)


@pytest.mark.parametrize("where", ["Softmax", "Relu", "Sigmoid"])
def test_an_output_that_tells_nothing_hides_no_mistake(where, tmp_path, monkeypatch):
    """Sigmoids far out, dead units and a softmax that is 1 give the same for any network in front of them."""
    monkeypatch.setitem(operators._CONVERTERS, "Abs", lambda node: torch.nn.Identity())
    shift = numpy_helper.from_array(np.array([-1e4 if where != "Softmax" else 0], np.float32), "c")
    shape = (1, 1) if where == "Softmax" else (1, 3)
    model = _chain(
        ("Abs", ["x"], "a"), ("Add", ["a", "c"], "b"), (where, ["b"], "y"), initializers=[shift], shape=shape
    )
    assert len(np.unique(_runtime(model).run(None, {"x": _w(*shape)})[0])) == 1
    with pytest.raises(ModelLoadError, match=r"first in the value 'a'"):
        _load(model, tmp_path)


@pytest.mark.parametrize("size", [64, 320])
@pytest.mark.parametrize(("bias", "gain"), [(-40.0, 1.0), (-16.0, 1.0), (-3000.0, 10.0)])
def test_a_text_detector(size, bias, gain, tmp_path):
    """Its probabilities lie below what onnxruntime's sigmoid resolves, the values on the way are large."""
    loaded = _load(detector(size, bias, gain), tmp_path)
    assert re.search(r"agrees with onnxruntime [0-9.]+ on random", loaded.notes[0])
    x = _w(1, 3, size, size)
    expected = torch.from_numpy(_runtime(onnx.load(tmp_path / "m.onnx")).run(None, {"x": x})[0])
    assert float(expected.median()) < 1e-6
    assert torch.allclose(loaded.module(torch.from_numpy(x)), expected, atol=1e-4)


def test_a_mistake_inside_a_text_detector_is_found(tmp_path, monkeypatch):
    def without_epsilon(node):
        module = torch.nn.BatchNorm2d(node.shape()[1], eps=3e-3).eval()
        for name, index in (("weight", 1), ("bias", 2), ("running_mean", 3), ("running_var", 4)):
            getattr(module, name).data.copy_(node.tensor(index))
        return module

    monkeypatch.setitem(operators._CONVERTERS, "BatchNormalization", without_epsilon)
    with pytest.raises(ModelLoadError, match=r"first in the value 'batchnormalization1_out'"):
        _load(detector(64), tmp_path)


def test_what_onnxruntime_does_not_run_is_named(tmp_path):
    """It has no kernel of LRN in double precision; the nodes around are still judged by it."""
    nodes = [
        helper.make_node("Neg", ["x"], ["a"]),
        helper.make_node("LRN", ["a"], ["b"], size=3),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    loaded = _load(graph_model(nodes, {"x": (1, 4, 3, 3)}, ["y"], dtype=onnx.TensorProto.DOUBLE), tmp_path)
    assert re.search(
        r"agrees with onnxruntime [0-9.]+ and, for LRN, which it does not run, the reference", loaded.notes[0]
    )


def test_an_operator_set_that_is_newer_than_onnxruntime(tmp_path):
    newest = onnx.defs.onnx_opset_version()
    loaded = _load(_chain(("Neg", ["x"], "a"), ("Relu", ["a"], "y"), opset=newest), tmp_path)
    assert re.search(r"agrees with onnxruntime [0-9.]+ on random", loaded.notes[0])


def test_branches_and_functions_are_judged_node_by_node(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    branches = {
        name: helper.make_graph([helper.make_node(op, ["a"], [op])], op, [], [onnx.ValueInfoProto(name=op)])
        for name, op in (("then_branch", "Relu"), ("else_branch", "Neg"))
    }
    nodes = [
        helper.make_node("Double", ["x"], ["a"], domain="own"),
        helper.make_node("If", ["c"], ["y"], **branches),
    ]
    model = graph_model(nodes, {"x": (1, 3)}, ["y"], [numpy_helper.from_array(np.bool_(True), "c")])
    imports = [helper.make_opsetid("", 17)]
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.functions.append(
        helper.make_function("own", "Double", ["u"], ["v"], [helper.make_node("Add", ["u", "u"], ["v"])], imports)
    )
    x = torch.randn(1, 3)
    assert torch.equal(_load(model, tmp_path).module(x), torch.relu(2 * x))


LIMITS = (-100, -6, -5, -3, -1, 0, 2, 4, 5, 9, -(2**62), 2**62)


@pytest.mark.parametrize("step", [1, 2, -1, -2, 7, -7, None])
def test_slices_are_those_of_onnxruntime(step, tmp_path):
    """All limits inside, at the ends and beyond of an axis of five, by the attributes of opset 9 (no step) and by inputs."""
    nodes, weights = [], []

    def constant(value):
        weights.append(numpy_helper.from_array(np.array([value]), f"c{len(weights)}"))
        return weights[-1].name

    for index, (start, end) in enumerate(itertools.product(LIMITS, LIMITS)):
        if step is None:
            nodes.append(helper.make_node("Slice", ["x"], [f"y{index}"], starts=[start], ends=[end], axes=[-1]))
        else:
            inputs = ["x", *map(constant, (start, end, -1, step))]
            nodes.append(helper.make_node("Slice", inputs, [f"y{index}"]))
    outputs = [f"y{i}" for i in range(len(nodes))]
    model = graph_model(nodes, {"x": (1, 5)}, outputs, weights, 9 if step is None else 13)
    x = torch.arange(5.0)[None]
    loaded = _load(model, tmp_path)
    found = loaded.module(x)
    for ours, theirs in zip(found, _runtime(model).run(None, {"x": x.numpy()}), strict=True):
        assert ours.tolist() == theirs.tolist()


_I = np.array
OUTSIDE = [
    (Case("Gather", (1, 5), (_I([-6]),), attributes={"axis": 1}), "index -6 lies outside"),
    (Case("Gather", (1, 5), (_I([5]),), attributes={"axis": 1}), "index 5 lies outside"),
    (Case("Gather", (1, 5), (_I([0]),), attributes={"axis": -3}), "axis -3 lies outside"),
    (Case("GatherElements", (1, 5), (_I([[-6, 0]]),), attributes={"axis": 1}), "index -6 lies outside"),
    (Case("GatherND", (2, 5), (_I([[0, -6]]),)), "index -6 lies outside"),
    (Case("ScatterND", (2, 5), (_I([[0, -7]]), _w(1))), "index -7 lies outside"),
    (Case("ScatterElements", (1, 5), (_I([[-9]]), _w(1, 1)), attributes={"axis": 1}), "index -9 lies outside"),
    (Case("Squeeze", (1, 5, 1), (_I([-5]),)), "axis -5 lies outside"),
    (Case("Unsqueeze", (1, 5), (_I([-5]),)), "axis -5 lies outside"),
    (Case("Concat", (1, 5), operands=("x", "x"), attributes={"axis": -4}), "axis -4 lies outside"),
    (Case("Split", (1, 6), outputs=2, opset=13, attributes={"axis": -4}), "axis -4 lies outside"),
    (Case("Slice", (1, 5), (_I([0]), _I([2]), _I([-4]))), "axis -4 lies outside"),
    (Case("Pad", (1, 5), (_I([1, 1]), np.float32(0), _I([-4])), opset=18), "axis -4 lies outside"),
    (Case("ReduceSum", (1, 5), (_I([-4]),), opset=13), "axis -4 lies outside"),
    (Case("ReduceMean", (1, 5), opset=13, attributes={"axes": [-4]}), "axis -4 lies outside"),
    (Case("CumSum", (1, 5), (_I(-4),), opset=13), "axis -4 lies outside"),
    (Case("Flatten", (1, 5), attributes={"axis": -4}), "axis -4 lies outside"),
    (Case("Softmax", (1, 5), attributes={"axis": -4}), "axis -4 lies outside"),
]


@pytest.mark.parametrize(("case", "reason"), OUTSIDE, ids=[str(case) for case, _ in OUTSIDE])
def test_what_lies_outside_of_a_tensor_is_refused(case, reason, tmp_path):
    """Torch would count some of them from the end a second time."""
    with pytest.raises(UnsupportedOperatorError, match=reason):
        _load(case.model(), tmp_path)


INSIDE = [
    Case("Gather", (1, 5), (_I([-5, -1, 4]),), attributes={"axis": -1}),
    Case("Gather", (2, 5), (_I(-2),), attributes={"axis": -1}),
    Case("GatherElements", (1, 5), (_I([[-5, -1, 0]]),), attributes={"axis": -1}),
    Case("GatherND", (2, 5), (_I([[-2, -5], [1, -1]]),)),
    Case("GatherND", (2, 5, 3), (_I([[-5], [-1]]),), attributes={"batch_dims": 1}),
    Case("ScatterND", (2, 5), (_I([[-1, -5]]), _w(1))),
    Case("ScatterElements", (1, 5), (_I([[-5]]), _w(1, 1)), attributes={"axis": -1}),
    Case("Pad", (1, 5), (_I([0, -2, 0, 3]), np.float32(2))),
    Case("Pad", (1, 5), (_I([-1, -4]), np.float32(2), _I([-1])), opset=18),
    Case("Split", (1, 7), outputs=3, opset=18, attributes={"axis": -1, "num_outputs": 3}),
    Case("Split", (1, 7), (_I([0, 5, 2]),), outputs=3, attributes={"axis": -1}),
    Case("Squeeze", (1, 5, 1), (_I([-1, -3]),)),
    Case("Unsqueeze", (1, 5), (_I([-1, -4]),)),
]


@pytest.mark.parametrize("case", INSIDE, ids=str)
def test_places_from_the_end_are_those_of_onnxruntime(case, tmp_path):
    model = case.model()
    loaded, x = _load(model, tmp_path), _w(*case.shape)
    found = loaded.module(torch.from_numpy(x))
    for ours, theirs in zip(
        found if isinstance(found, tuple) else (found,), _runtime(model).run(None, {"x": x}), strict=True
    ):
        np.testing.assert_array_equal(ours.numpy(), theirs)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.DOUBLE])
def test_noise_is_measured_behind_casts_as_well(kind, tmp_path, monkeypatch):
    """What skl2onnx writes: a cast in front of the layers, which would end the float64 of the measurement."""

    class Rounded(torch.nn.Module):
        def forward(self, x):
            return torch.sigmoid(x) + 2.0**-23

    monkeypatch.setattr(value_check, "TOLERANCE", dict.fromkeys(value_check.TOLERANCE, 0.0))
    monkeypatch.setitem(operators._CONVERTERS, "Sigmoid", lambda node: Rounded())
    dtype = np.float32 if kind == TensorProto.FLOAT else np.float64
    weight = numpy_helper.from_array(np.ones((3, 4), dtype), "W")
    nodes = [
        helper.make_node("Cast", ["x"], ["c"], to=kind),
        helper.make_node("MatMul", ["c", "W"], ["m"]),
        helper.make_node("Cast", ["m"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Sigmoid", ["f"], ["y"]),
    ]
    model = graph_model(nodes, {"x": (1, 3)}, ["y"], [weight], 17)
    assert _load(model, tmp_path).source == "onnx"
