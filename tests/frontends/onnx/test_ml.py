"""What skl2onnx writes (domain ai.onnx.ml): operators against onnxruntime, whole files against Jacobians, labels left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import lipaudit
from lipaudit.frontends.load import load
from lipaudit.frontends.onnx.operators import UnsupportedOperatorError

FEATURES = 4
R = np.random.default_rng(0)
MEAN, SCALE = R.standard_normal(FEATURES).tolist(), (np.abs(R.standard_normal(FEATURES)) + 0.5).tolist()
W1, B1 = R.standard_normal((FEATURES, 5)).astype(np.float32), R.standard_normal(5).astype(np.float32)
W3, B3 = R.standard_normal((5, 3)).astype(np.float32), R.standard_normal(3).astype(np.float32)
KINDS = {"label": TensorProto.INT64, "text": TensorProto.STRING, "map": None}


def ml(op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs, outputs, name="the_node", domain="ai.onnx.ml", **attributes)


def save(tmp_path: Any, nodes: Sequence[onnx.NodeProto], outputs: Sequence[str] = ("y",), **constants: Any) -> str:
    """A file with one input x (N, FEATURES); ``label``, ``text`` and ``map`` are outputs of these types."""
    infos = [
        onnx.ValueInfoProto(name=n)
        if n == "map"
        else helper.make_tensor_value_info(n, KINDS.get(n, TensorProto.FLOAT), None)
        for n in outputs
    ]
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, FEATURES])],
        infos,
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    path = str(tmp_path / "m.onnx")
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def agrees(path: str, output: str = "y") -> None:
    """The converted network gives what onnxruntime gives for ``output``."""
    loaded, x = load(path), R.standard_normal((1, FEATURES)).astype(np.float32)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    found = loaded.module(torch.from_numpy(x))
    np.testing.assert_allclose(found.numpy(), np.asarray(session.run([output], {"x": x})[0]), rtol=1e-5, atol=1e-6)


def holds(path: str) -> float:
    """The bound, after Jacobians at random points have been held against it."""
    report = lipaudit.audit(path)
    assert report.network.status == "finite"
    module = load(path).module
    for scale in (0.1, 1.0, 5.0):
        x = torch.randn(1, FEATURES) * scale
        jacobian = torch.autograd.functional.jacobian(module, x).reshape(-1, FEATURES)
        assert float(torch.linalg.matrix_norm(jacobian, 2)) <= report.network.upper_bound * (1 + 1e-5)
    return float(report.network.upper_bound)


COEFFICIENTS = R.standard_normal(3 * FEATURES).astype(np.float32)
SIMPLE = [
    ("Scaler", {"offset": MEAN, "scale": SCALE}),
    ("Scaler", {"offset": [0.5], "scale": [2.0]}),
    ("LinearRegressor", {"coefficients": COEFFICIENTS[:FEATURES], "intercepts": [0.3]}),
    ("LinearRegressor", {"coefficients": COEFFICIENTS, "targets": 3, "post_transform": "SOFTMAX"}),
    (
        "LinearRegressor",
        {"coefficients": COEFFICIENTS, "intercepts": [1.0, 2.0, 3.0], "targets": 3, "post_transform": "LOGISTIC"},
    ),
    *(("Normalizer", {"norm": norm}) for norm in ("L1", "L2", "MAX")),
    ("Imputer", {"imputed_value_floats": [1.0], "replaced_value_float": float("nan")}),
]


@pytest.mark.parametrize(("op", "attributes"), SIMPLE, ids=[f"{op}-{'-'.join(a)}" for op, a in SIMPLE])
def test_agrees_with_onnxruntime(op: str, attributes: dict[str, Any], tmp_path: Any) -> None:
    path = save(tmp_path, [ml(op, ["x"], ["y"], **attributes)])
    agrees(path)
    if op != "Normalizer":
        holds(path)


@pytest.mark.parametrize("positions", [[2], [0, 3, 3]])
def test_features_at_constant_positions(positions: list[int], tmp_path: Any) -> None:
    path = save(tmp_path, [ml("ArrayFeatureExtractor", ["x", "at"], ["y"])], at=np.array(positions))
    agrees(path)
    assert holds(path) == pytest.approx(2**0.5 if len(positions) == 3 else 1.0)


def test_features_side_by_side(tmp_path: Any) -> None:
    path = save(tmp_path, [ml("FeatureVectorizer", ["x", "x"], ["y"], inputdimensions=[FEATURES, FEATURES])])
    agrees(path)
    assert holds(path) == pytest.approx(2**0.5)


CLASSIFIERS = [
    (rows, labels, transform)
    for rows, labels in ((3, [0, 1, 2]), (2, [0, 1]), (1, [0, 1]))
    for transform in ("NONE", "LOGISTIC", "SOFTMAX")
    if (rows, transform) != (1, "SOFTMAX")
]


@pytest.mark.parametrize(("rows", "labels", "transform"), CLASSIFIERS)
def test_linear_classifiers(rows: int, labels: list[int], transform: str, tmp_path: Any) -> None:
    """The label is left out and said to be; the scores have the norm of the coefficients times the slope."""
    attributes = {"coefficients": COEFFICIENTS[: rows * FEATURES], "intercepts": [0.3, -0.4, 0.1][:rows]}
    node = ml(
        "LinearClassifier", ["x"], ["label", "y"], classlabels_ints=labels, post_transform=transform, **attributes
    )
    path = save(tmp_path, [node], ["label", "y"])
    agrees(path)
    norm = float(np.linalg.norm(COEFFICIENTS[: rows * FEATURES].reshape(rows, -1), 2)) * (2**0.5 if rows == 1 else 1)
    slope = {"NONE": 1.0, "LOGISTIC": 0.25, "SOFTMAX": 0.5}[transform]
    assert holds(path) == pytest.approx(norm * slope, rel=2e-3)
    (note,) = [note for note in lipaudit.audit(path).notes if "'label'" in note]
    assert "no real numbers (int64)" in note
    assert "left out" in note


def perceptron(labels: Sequence[Any], text: bool = False) -> tuple[list[onnx.NodeProto], dict[str, Any]]:
    """StandardScaler and MLPClassifier as skl2onnx writes them."""
    label = "text" if text else "label"
    nodes = [
        ml("Scaler", ["x"], ["scaled"], offset=MEAN, scale=SCALE),
        helper.make_node("Cast", ["scaled"], ["cast"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["cast", "w1"], ["m1"]),
        helper.make_node("Add", ["m1", "b1"], ["a1"]),
        helper.make_node("Relu", ["a1"], ["r1"]),
        helper.make_node("MatMul", ["r1", "w3"], ["m2"]),
        helper.make_node("Add", ["m2", "b3"], ["a2"]),
        helper.make_node("Softmax", ["a2"], ["probabilities"], axis=-1),
        helper.make_node("ArgMax", ["probabilities"], ["best"], axis=1, keepdims=1),
        ml("ArrayFeatureExtractor", ["classes", "best"], ["picked"]),
        helper.make_node("Reshape", ["picked", "shape"], ["flat"]),
        helper.make_node("Identity", ["flat"], [label]),
        ml("ZipMap", ["probabilities"], ["map"], **{f"classlabels_{'strings' if text else 'int64s'}": labels}),
    ]
    classes = np.array([str(n) for n in labels], dtype=object) if text else np.array(labels)
    return nodes, {"w1": W1, "b1": B1, "w3": W3, "b3": B3, "classes": classes, "shape": np.array([-1])}


@pytest.mark.parametrize("text", [False, True])
def test_a_scaled_perceptron_that_classifies(text: bool, tmp_path: Any) -> None:
    nodes, constants = perceptron(["a", "b", "c"] if text else [0, 1, 2], text)
    path = save(tmp_path, nodes, ["text" if text else "label", "map"], **constants)
    bound = holds(path)
    first, second = (float(np.linalg.norm(w, 2)) for w in (np.diag(np.float32(SCALE)) @ W1, W3))
    assert bound == pytest.approx(first * second / 2, rel=5e-3)
    notes = " ".join(lipaudit.audit(path).notes)
    assert "maps labels to the numbers 'probabilities'" in notes
    assert f"({'string' if text else 'int64'})" in notes


def test_a_scaled_perceptron_that_regresses(tmp_path: Any) -> None:
    nodes = [*perceptron([0, 1, 2])[0][:7], helper.make_node("Reshape", ["a2", "shape"], ["y"])]
    path = save(tmp_path, nodes, w1=W1, b1=B1, w3=W3[:, :1], b3=B3[:1], shape=np.array([-1, 1]))
    agrees(path)
    holds(path)


@pytest.mark.parametrize("sides", [2, 3])
def test_the_normalisation_of_probabilities_is_the_identity(sides: int, tmp_path: Any) -> None:
    """Logistic regression: probabilities, normalised once more, in a map. Two one-sided scores do not add up to 1."""
    coefficients = np.concatenate([-COEFFICIENTS[:FEATURES], COEFFICIENTS[:FEATURES]]) if sides == 2 else COEFFICIENTS
    for transform, status in (("SOFTMAX", "finite"), ("LOGISTIC", "finite" if sides == 2 else "unbounded")):
        nodes = [
            ml(
                *("LinearClassifier", ["x"], ["label", "scores"]),
                classlabels_ints=list(range(sides)), coefficients=coefficients,
                intercepts=[-0.2, 0.2, 0.5][:sides], post_transform=transform,
            ),
            helper.make_node("Identity", ["scores"], ["same"]),
            ml("Normalizer", ["same"], ["probabilities"], norm="L1"),
            ml("ZipMap", ["probabilities"], ["map"], classlabels_int64s=list(range(sides))),
        ]  # fmt: skip
        path = save(tmp_path, nodes, ["label", "map"])
        assert lipaudit.audit(path).network.status == status
        if status == "finite":
            norm = float(np.linalg.norm(coefficients.reshape(sides, -1), 2))
            assert holds(path) == pytest.approx(norm * (0.5 if transform == "SOFTMAX" else 0.25), rel=2e-3)


def test_a_file_of_labels_alone_keeps_them(tmp_path: Any) -> None:
    node = helper.make_node("ArgMax", ["x"], ["label"], axis=1)
    report = lipaudit.audit(save(tmp_path, [node], ["label"]))
    assert report.network.status == "unbounded"


REFUSED = [
    ("Imputer", {"imputed_value_floats": [1.0], "replaced_value_float": -1.0}, "replaces the number -1"),
    ("Binarizer", {"threshold": 0.5}, "constant but for jumps"),
    ("SVMRegressor", {}, "support vector machines"),
    ("LabelEncoder", {}, "looks labels up"),
    ("LinearRegressor", {"coefficients": COEFFICIENTS[:3]}, "no matrix of 1 rows"),
    ("LinearRegressor", {"coefficients": COEFFICIENTS[:4], "post_transform": "PROBIT"}, "PROBIT jumps or has"),
    ("Scaler", {"scale": [1.0]}, "as many offsets as scales"),
    ("Normalizer", {"norm": "L7"}, "the norm 'L7'"),
]


@pytest.mark.parametrize(("op", "attributes", "reason"), REFUSED, ids=[f"{op}-{'-'.join(a)}" for op, a, _ in REFUSED])
def test_refusals_name_the_node(op: str, attributes: dict[str, Any], reason: str, tmp_path: Any) -> None:
    with pytest.raises(UnsupportedOperatorError, match=reason) as caught:
        load(save(tmp_path, [ml(op, ["x"], ["y"], **attributes)]))
    assert "'the_node'" in str(caught.value)


def test_positions_that_depend_on_the_input_are_refused(tmp_path: Any) -> None:
    nodes = [helper.make_node("ArgMax", ["x"], ["best"], axis=1), ml("ArrayFeatureExtractor", ["x", "best"], ["y"])]
    with pytest.raises(UnsupportedOperatorError, match="positions depend"):
        load(save(tmp_path, nodes))


def test_one_score_for_two_classes_has_no_softmax(tmp_path: Any) -> None:
    node = ml(
        *("LinearClassifier", ["x"], ["label", "y"]),
        classlabels_ints=[0, 1], coefficients=COEFFICIENTS[:4], intercepts=[0.0], post_transform="SOFTMAX",
    )  # fmt: skip
    with pytest.raises(UnsupportedOperatorError, match="SOFTMAX of one score"):
        load(save(tmp_path, [node], ["label", "y"]))


def test_files_of_skl2onnx(tmp_path: Any) -> None:
    skl2onnx = pytest.importorskip("skl2onnx")
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x = R.standard_normal((60, FEATURES)).astype(np.float32)
    labels, path = R.integers(0, 3, 60), str(tmp_path / "m.onnx")
    for model, target in (
        (MLPRegressor(hidden_layer_sizes=(5,), max_iter=2000, tol=1.0), x[:, 0] - x[:, 1]),
        (MLPClassifier(hidden_layer_sizes=(5,), max_iter=2000, tol=1.0), labels),
        (MLPClassifier(hidden_layer_sizes=(5,), max_iter=2000, tol=1.0, activation="logistic"), labels > 0),
        (LogisticRegression(), labels),
        (LogisticRegression(), np.array(["a", "b"])[labels // 2]),
    ):
        pipeline = make_pipeline(StandardScaler(), model).fit(x, target)
        onnx.save(skl2onnx.to_onnx(pipeline, x[:1]), path)
        holds(path)
