import contextlib
import itertools
import warnings
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import lipaudit
from lipaudit.errors import RegistryError
from lipaudit.frontends.load import load
from lipaudit.frontends.onnx.operators import UnsupportedOperatorError, converter
from tests.frontends.onnx.cases import ATTENTION, BLOCK_QUANTISED, CASES, CONTRIB, REFUSED, graph_model


def _load(model, tmp_path, **options):
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    return load(str(path), **options)


def _tuple(value):
    return value if isinstance(value, tuple) else (value,)


def _expected(path, feeds):
    """By onnxruntime, or by the reference implementation where onnxruntime does not know the operator set yet."""
    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail:
        return ReferenceEvaluator(str(path)).run(None, feeds)
    return session.run(None, feeds)


ALL_CASES = [*CASES, *ATTENTION, *CONTRIB]


@pytest.mark.parametrize("case", ALL_CASES, ids=str)
def test_operator_converts_and_agrees_with_onnxruntime(case, tmp_path):
    loaded = _load(case.model(), tmp_path)
    assert loaded.input_shapes == case.inputs
    random = np.random.default_rng(5)
    feeds = {name: random.standard_normal(shape).astype(np.float32) * 3 for name, shape in case.inputs.items()}
    expected = _expected(tmp_path / "m.onnx", feeds)
    found = _tuple(loaded.module(*map(torch.from_numpy, feeds.values())))
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-4, atol=1e-5 * max(1.0, float(np.abs(theirs).max())))


_CHANGED = {("Resize", 10), ("GlobalLpPool", 17)}  # the meaning of inputs changed; no implementation knows it later


@cache
def _versions(op):
    schemas = onnx.defs.get_all_schemas_with_history()
    return sorted(
        {s.since_version for s in schemas if (s.domain, s.name) == ("", op)} | {onnx.defs.onnx_opset_version()}
    )


def _newer(case):
    """The case at each later version of its operator that still takes it, and at the newest operator set of all."""
    for opset in _versions(case.op):
        later = replace(case, opset=opset)
        context = onnx.checker.C.CheckerContext()
        context.ir_version, context.opset_imports = 12, {"": opset}
        if opset > case.opset and (case.op, case.opset) not in _CHANGED:
            with contextlib.suppress(onnx.checker.ValidationError):
                onnx.checker.check_node(later.node(), context)
                yield later


LATER = [later for case in [*CASES, *ATTENTION] for later in _newer(case)]


def _check_later(case, tmp_path):
    """Loading compares the conversion with onnxruntime or the reference implementation."""
    assert _load(case.model(), tmp_path).input_shapes == case.inputs


@pytest.mark.parametrize("case", LATER[::20], ids=str)
def test_operator_at_some_later_opsets(case, tmp_path):
    _check_later(case, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("case", LATER, ids=str)
def test_operator_at_every_later_opset(case, tmp_path):
    _check_later(case, tmp_path)


@pytest.mark.parametrize("case", [*CASES[::5], *ATTENTION[::3], *CONTRIB[::4]], ids=str)
def test_operator_can_be_captured(case, tmp_path):
    loaded = _load(case.model(), tmp_path)
    x = tuple(torch.rand(shape) for shape in case.inputs.values())
    with torch.no_grad():
        program = torch.export.export(loaded.module, x, strict=False).run_decompositions({})
        for ours, theirs in zip(_tuple(program.module()(*x)), _tuple(loaded.module(*x)), strict=True):
            assert torch.equal(ours, theirs)


@pytest.mark.parametrize("case", BLOCK_QUANTISED, ids=str)
def test_weights_of_few_bits_are_exact(case, tmp_path):
    """Every weight against (q - z) s in rational arithmetic, bit by bit; the bound is that of this matrix."""
    bits, width, block = (case.attributes[name] for name in ("bits", "K", "block_size"))
    weight = _load(case.model(), tmp_path).module.get_submodule("the_node").layer.weight
    _, packed, scales, *rest = case.operands

    def number(row, k):
        return sum(int(row[(k * bits + i) // 8]) >> ((k * bits + i) % 8) & 1 and 1 << i for i in range(bits))

    for n, k in itertools.product(range(len(weight)), range(width)):
        zero = number(rest[0][n], k // block) if rest else 2 ** (bits - 1)
        q = number(packed[n].reshape(-1), k)
        assert Fraction(weight[n, k].item()) == (q - zero) * Fraction(scales[n, k // block].item())
    network = lipaudit.audit(str(tmp_path / "m.onnx")).network
    assert network.rigor == "certified"
    assert 1 <= network.upper_bound / float(torch.linalg.matrix_norm(weight, 2)) <= 1.001


@pytest.mark.parametrize("case", ATTENTION, ids=str)
def test_attention_is_one_operation(case, tmp_path):
    loaded = _load(case.model(), tmp_path)
    x = tuple(torch.rand(shape) for shape in case.inputs.values())
    with torch.no_grad():
        program = torch.export.export(loaded.module, x, strict=False).run_decompositions({})
    assert [str(n.target) for n in program.graph.nodes].count("aten.scaled_dot_product_attention.default") == 1


@pytest.mark.parametrize(("case", "reason"), REFUSED, ids=[str(c) for c, _ in REFUSED])
def test_refusals_name_the_node(case, reason, tmp_path):
    with pytest.raises(UnsupportedOperatorError, match=reason) as caught:
        _load(case.model(), tmp_path)
    assert "'the_node'" in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_an_operator_of_another_domain_is_refused_by_name(tmp_path):
    node = helper.make_node("Magic", ["x"], ["y"], name="spell", domain="com.example")
    model = graph_model([node], {"x": (1, 3)}, ["y"])
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    with pytest.raises(UnsupportedOperatorError, match=r"com\.example\.Magic.*'spell'"):
        _load(model, tmp_path)


def test_two_converters_for_one_operator_are_refused():
    with pytest.raises(RegistryError):
        converter("Relu")(lambda node: torch.nn.ReLU())


def test_constants_are_folded_but_batch_norms_stay(tmp_path):
    weight = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Cast", ["w16"], ["w"], to=TensorProto.FLOAT),
        helper.make_node("Identity", ["w"], ["w2"]),
        helper.make_node("Conv", ["x", "w2"], ["c"], name="conv"),
        helper.make_node("BatchNormalization", ["c", "s", "s", "s", "s"], ["b"], name="bn"),
        helper.make_node("Shape", ["b"], ["shape"]),
        helper.make_node("Gather", ["shape", "one"], ["channels"], axis=0),
        helper.make_node("Concat", ["minus", "channels"], ["target"], axis=0),
        helper.make_node("Reshape", ["b", "target"], ["y"], name="reshape"),
    ]
    initializers = [
        numpy_helper.from_array(weight.astype(np.float16), "w16"),
        numpy_helper.from_array(np.ones(4, np.float32), "s"),
        numpy_helper.from_array(np.array([1]), "one"),
        numpy_helper.from_array(np.array([-1]), "minus"),
    ]
    loaded = _load(graph_model(nodes, {"x": (1, 3, 5, 5)}, ["y"], initializers), tmp_path)
    assert list(loaded.node_names.values()) == ["conv", "bn", "reshape"]
    assert torch.equal(loaded.module.conv.weight, torch.from_numpy(weight.astype(np.float16).astype(np.float32)))
    assert isinstance(loaded.module.bn, torch.nn.BatchNorm2d)


def test_shared_weights_stay_shared(tmp_path):
    nodes = [helper.make_node("Gemm", [a, "w"], [b], transB=1) for a, b in (("x", "h"), ("h", "y"))]
    w = numpy_helper.from_array(np.eye(3, dtype=np.float32), "w")
    loaded = _load(graph_model(nodes, {"x": (1, 3)}, ["y"], [w]), tmp_path)
    assert len({p.data_ptr() for p in loaded.module.parameters()}) == 1
    assert list(loaded.node_names) == ["Gemm", "Gemm_1"]


@pytest.mark.parametrize("condition", [True, False])
def test_constant_branches_are_taken(tmp_path, condition):
    branches = [
        helper.make_graph([helper.make_node(op, ["x"], [op])], op, [], [helper.make_empty_tensor_value_info(op)])
        for op in ("Relu", "Neg")
    ]
    for branch in branches:
        branch.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    node = helper.make_node("If", ["c"], ["y"], name="if", then_branch=branches[0], else_branch=branches[1])
    model = graph_model([node], {"x": (1, 3)}, ["y"], [numpy_helper.from_array(np.bool_(condition), "c")])
    loaded = _load(model, tmp_path)
    x = torch.randn(1, 3)
    assert torch.equal(loaded.module(x), torch.relu(x) if condition else -x)


def test_several_inputs_and_outputs_and_constant_outputs(tmp_path):
    nodes = [
        helper.make_node("Add", ["a", "b"], ["sum"]),
        helper.make_node("Split", ["sum"], ["left", "right"], axis=1),
        helper.make_node("Neg", ["k"], ["constant"]),
    ]
    k = numpy_helper.from_array(np.ones(2, np.float32), "k")
    model = graph_model(nodes, {"a": (1, 4), "b": (1, 4)}, ["right", "constant", "sum"], [k])
    loaded = _load(model, tmp_path)
    assert list(loaded.input_shapes) == ["a", "b"]
    a, b = torch.randn(1, 4), torch.randn(1, 4)
    right, constant, total = loaded.module(a, b)
    assert torch.equal(right, (a + b)[:, 2:])
    assert torch.equal(constant, -torch.ones(2))
    assert torch.equal(total, a + b)


def test_old_opsets_are_converted_up(tmp_path):
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Dropout", ["c"], ["d"], ratio=0.5),
        helper.make_node("Flatten", ["d"], ["y"]),
    ]
    w = numpy_helper.from_array(np.random.default_rng(0).standard_normal((2, 3, 3, 3)).astype(np.float32), "w")
    model = graph_model(nodes, {"x": (1, 3, 4, 4)}, ["y"], [w], opset=8)
    model.ir_version = 3
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, (2, 3, 3, 3)))
    loaded = _load(model, tmp_path)
    assert loaded.input_shapes == {"x": (1, 3, 4, 4)}
    assert loaded.module(torch.rand(1, 3, 4, 4)).shape == (1, 32)


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT16, TensorProto.DOUBLE])
def test_input_types_are_kept(tmp_path, dtype):
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    w = numpy_helper.from_array(np.random.default_rng(0).standard_normal((3, 2)).astype(kind), "w")
    model = graph_model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": (1, 3)}, ["y"], [w], dtype=dtype)
    loaded = _load(model, tmp_path)
    assert loaded.input_dtypes == {"x": torch.from_numpy(np.zeros(1, kind)).dtype}
    assert loaded.module(torch.zeros(1, 3, dtype=loaded.input_dtypes["x"])).dtype == loaded.input_dtypes["x"]


def test_loading_warns_of_nothing(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _load(graph_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (1, 3)}, ["y"]), tmp_path)
