"""Networks as other exporters and onnxruntime's optimiser write them, from the file to the bound."""

import math

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import lipaudit
from lipaudit.errors import ModelLoadError
from lipaudit.frontends.load import load
from lipaudit.frontends.onnx.operators import UnsupportedOperatorError
from sample_models.expect import FOLDER
from tests.frontends.onnx.cases import graph_model
from tests.frontends.onnx.dialects import DIALECTS, constant, tensor, values


def _save(model, tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("name", DIALECTS)
def test_the_conversion_agrees_with_onnxruntime_and_has_a_bound(name, tmp_path):
    path = _save(DIALECTS[name](), tmp_path)
    loaded = load(str(path))
    random = np.random.default_rng(1)
    kinds = {torch.float32: np.float32, torch.float16: np.float16}
    feeds = {k: random.standard_normal(s).astype(kinds[loaded.input_dtypes[k]]) for k, s in loaded.input_shapes.items()}
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    with torch.no_grad():
        found = loaded.module(*map(torch.from_numpy, feeds.values()))
    found = found if isinstance(found, tuple) else (found,)
    for ours, theirs in zip(found, session.run(None, feeds), strict=True):
        tolerance = 1e-2 if theirs.dtype == np.float16 else 1e-5
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=tolerance, atol=tolerance)
    assert lipaudit.audit(str(path)).network.status == "finite"


@pytest.mark.parametrize("name", [name for name in DIALECTS if name != "half_with_islands"])
def test_the_bound_holds_for_the_jacobian(name, tmp_path):
    path = _save(DIALECTS[name](), tmp_path)
    loaded = load(str(path))
    network = loaded.module.double()
    torch.manual_seed(0)
    x = tuple(torch.randn(shape, dtype=torch.float64) for shape in loaded.input_shapes.values())

    def joined(*inputs):
        result = network(*inputs)
        return torch.cat([r.flatten() for r in (result if isinstance(result, tuple) else (result,))])

    blocks = torch.autograd.functional.jacobian(joined, x)
    jacobian = torch.cat([b.reshape(b.shape[0], -1) for b in blocks], dim=1)
    stretch = float(torch.linalg.matrix_norm(jacobian, ord=2))
    assert 0 < stretch <= lipaudit.audit(str(path)).network.upper_bound


def test_half_precision_weights_are_audited_as_stored(tmp_path):
    report = lipaudit.audit(str(_save(DIALECTS["half_with_islands"](), tmp_path)))
    kernel = torch.from_numpy(values(4, 3, 3, 3, kind=np.float16)).double()
    expected = lipaudit.conv_norm(kernel, input_size=(8, 8), padding=1)
    found = next(layer for layer in report.layers if layer.name == "conv")
    assert found.log10_upper_bound == pytest.approx(expected.log_upper / math.log(10), rel=1e-12)


def test_a_half_precision_product_between_two_casts_is_audited(tmp_path):
    weight = values(64, 32, kind=np.float16)
    nodes = [
        helper.make_node("Cast", ["x"], ["narrow"], name="to16", to=TensorProto.FLOAT16),
        helper.make_node("MatMul", ["narrow", "w"], ["product"], name="product"),
        helper.make_node("Cast", ["product"], ["y"], name="to32", to=TensorProto.FLOAT),
    ]
    model = graph_model(nodes, {"x": (1, 64)}, ["y"], [tensor(weight, "w")], opset=13)
    report = lipaudit.audit(str(_save(model, tmp_path)))
    expected = np.linalg.svd(weight.astype(np.float64), compute_uv=False)[0]
    assert expected <= report.network.upper_bound <= 1.001 * expected
    assert any("0.02 of the output" in note for note in report.notes)


def test_the_hardswish_that_paddle_writes_out_is_found(tmp_path):
    report = lipaudit.audit(str(_save(DIALECTS["paddle_block"](), tmp_path)))
    assert {layer.op for layer in report.layers} >= {"hardswish", "conv2d", "linear"}


def test_the_stored_slope_of_a_hard_sigmoid_counts(tmp_path):
    # the float32 nearest to 1/6 is larger than 1/6, so that torch's hardsigmoid would be too flat by 3e-8
    node = helper.make_node("HardSigmoid", ["x"], ["y"], alpha=1 / 6, beta=0.5)
    report = lipaudit.audit(str(_save(graph_model([node], {"x": (1, 3)}, ["y"]), tmp_path)))
    assert float(np.float32(1 / 6)) <= report.network.upper_bound <= float(np.float32(1 / 6)) * (1 + 1e-12)


@pytest.mark.parametrize("name", ["digits_resnet", "digits_mobile", "digits_vit"])
def test_files_that_onnxruntime_optimised(name, tmp_path):
    """Its fusions (FusedConv, SkipLayerNormalization, Gelu, FusedMatMul) keep the figures.

    In transformers it also reshapes around dense layers, which keeps the gain of a layer norm out of the next layer: the
    bound may grow a little, it must not shrink.
    """
    original, path = FOLDER / f"{name}.onnx", tmp_path / "optimised.onnx"
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(path)
    onnxruntime.InferenceSession(str(original), options, providers=["CPUExecutionProvider"])
    assert any(n.domain == "com.microsoft" for n in onnx.load(path).graph.node)
    before, after = (lipaudit.audit(str(p)).network for p in (original, path))
    assert before.status == after.status == "finite"
    slack = 1.0 if name == "digits_vit" else 1e-6
    assert -1e-6 <= after.log10_upper_bound - before.log10_upper_bound <= slack


def test_quantised_weights_alone_are_constants(tmp_path):
    """Weights stored as integers with a scale are numbers like any others; only activations must not be rounded."""
    nodes = [
        constant(np.array([[1, -2], [3, 4]], np.int8), "q"),
        constant(np.float32(0.5), "scale"),
        helper.make_node("DequantizeLinear", ["q", "scale"], ["w"], name="weights"),
        helper.make_node("MatMul", ["x", "w"], ["y"], name="dense"),
    ]
    report = lipaudit.audit(str(_save(graph_model(nodes, {"x": (1, 2)}, ["y"]), tmp_path)))
    expected = np.linalg.norm(np.array([[1, -2], [3, 4]]) * 0.5, 2)
    assert expected <= report.network.upper_bound <= expected * 1.001


def test_quantised_activations_are_refused_by_name(tmp_path):
    stored = [numpy_helper.from_array(np.float32(0.1), "s"), numpy_helper.from_array(np.uint8(0), "z")]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="input_quantizer"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], name="input_dequantizer"),
    ]
    path = _save(graph_model(nodes, {"x": (1, 2)}, ["y"], stored), tmp_path)
    with pytest.raises(UnsupportedOperatorError, match=r"'input_quantizer'.*before quantisation"):
        load(str(path))


def test_a_mask_of_infinities_is_no_broken_weight(tmp_path):
    mask = np.where(np.tri(4, dtype=bool), 0, -np.inf).astype(np.float32)
    nodes = [helper.make_node("Add", ["x", "mask"], ["a"]), helper.make_node("Softmax", ["a"], ["y"], axis=-1)]
    stored = [numpy_helper.from_array(mask, "mask")]
    report = lipaudit.audit(str(_save(graph_model(nodes, {"x": (1, 4, 4)}, ["y"], stored), tmp_path)))
    assert report.network.upper_bound == pytest.approx(0.5)


def test_constants_of_the_shape_alone(tmp_path):
    nodes = [
        helper.make_node("EyeLike", ["x"], ["eye"], name="eye", k=1),
        helper.make_node("Size", ["x"], ["size"]),
        helper.make_node("Cast", ["size"], ["n"], to=TensorProto.FLOAT),
        helper.make_node("Div", ["x", "n"], ["scaled"]),
        helper.make_node("Add", ["scaled", "eye"], ["y"]),
    ]
    loaded = load(str(_save(graph_model(nodes, {"x": (1, 3)}, ["y"]), tmp_path)))
    assert torch.allclose(loaded.module(torch.ones(1, 3)), torch.tensor([[1 / 3, 4 / 3, 1 / 3]]))


def test_a_file_that_uses_operators_of_a_later_opset_than_it_declares(tmp_path):
    model = graph_model([helper.make_node("Gelu", ["x"], ["y"], name="act")], {"x": (1, 3)}, ["y"], opset=18)
    with pytest.raises(ModelLoadError, match=r"node 'act' is a Gelu, which the declared opset 18 does not have"):
        load(str(_save(model, tmp_path)))


def test_the_standard_domain_has_two_names(tmp_path):
    model = graph_model([helper.make_node("Relu", ["x"], ["y"], domain="ai.onnx")], {"x": (1, 3)}, ["y"])
    model.opset_import[0].domain = "ai.onnx"
    loaded = load(str(_save(model, tmp_path)))
    assert torch.equal(loaded.module(torch.tensor([[-1.0, 0.0, 2.0]])), torch.tensor([[0.0, 0.0, 2.0]]))


def test_constants_added_at_constant_places_change_no_bound(tmp_path):
    node = helper.make_node("ScatterND", ["x", "places", "updates"], ["y"], reduction="add")
    stored = [
        numpy_helper.from_array(np.array([[0, 1], [0, 2]]), "places"),
        numpy_helper.from_array(values(2), "updates"),
    ]
    report = lipaudit.audit(str(_save(graph_model([node], {"x": (1, 4)}, ["y"], stored), tmp_path)))
    assert report.network.upper_bound == pytest.approx(1.0)
