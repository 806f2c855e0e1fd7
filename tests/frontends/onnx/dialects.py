"""Whole small networks as other exporters write them: TensorFlow and Keras (tf2onnx), PaddlePaddle, half precision."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.frontends.onnx.cases import graph_model

node = helper.make_node


def values(*shape: int, seed: int = 0, kind=np.float32) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * 0.5).astype(kind)


def tensor(array, name: str) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(array), name)


def constant(array, name: str) -> onnx.NodeProto:
    """A weight as a Constant node."""
    return node("Constant", [], [name], name=f"Const_{name}", value=tensor(array, name))


def tf2onnx_mobile() -> onnx.ModelProto:
    """Keras: NHWC input between transposes, SAME_UPPER at stride 2, ReLU6 as Min and Max, Squeeze and Reshape heads."""
    nodes = [
        node("Transpose", ["image"], ["nchw"], name="conv1__6", perm=[0, 3, 1, 2]),
        node(
            "Conv",
            ["nchw", "k1"],
            ["c1"],
            name="conv1/Conv2D",
            auto_pad="SAME_UPPER",
            strides=[2, 2],
            kernel_shape=[3, 3],
        ),
        node("BatchNormalization", ["c1", "g", "b", "m", "v"], ["n1"], name="conv1_bn", epsilon=1e-3),
        node("Relu", ["n1"], ["r1"], name="relu"),
        node("Min", ["r1", "six"], ["a1"], name="conv1_relu/Relu6"),
        node("Conv", ["a1", "depthwise"], ["c2"], name="dw", auto_pad="SAME_UPPER", strides=[2, 2], group=8),
        node("Transpose", ["c2"], ["nhwc"], name="back", perm=[0, 2, 3, 1]),
        node("Mul", ["nhwc", "scale"], ["scaled"], name="bn/mul_1"),
        node("Sub", ["scaled", "shift"], ["shifted"], name="bn/add_1"),
        node("Transpose", ["shifted"], ["nchw2"], name="again", perm=[0, 3, 1, 2]),
        node("MaxPool", ["nchw2"], ["pooled"], name="pool", auto_pad="SAME_UPPER", kernel_shape=[3, 3], strides=[2, 2]),
        node("GlobalAveragePool", ["pooled"], ["mean"], name="mean"),
        node("Squeeze", ["mean"], ["flat"], name="squeeze", axes=[2, 3]),
        node("Shape", ["flat"], ["shape"], name="Shape"),
        node("Cast", ["shape"], ["shape32"], name="Cast", to=TensorProto.INT32),
        node("Slice", ["shape32", "zero", "one", "zero"], ["batch"], name="strided_slice"),
        node("Concat", ["batch", "minus"], ["target32"], name="pack", axis=0),
        node("Cast", ["target32"], ["target"], name="Cast_1", to=TensorProto.INT64),
        node("Reshape", ["flat", "target"], ["row"], name="Reshape"),
        node("MatMul", ["row", "w"], ["product"], name="dense/MatMul"),
        node("Add", ["product", "bias"], ["logits"], name="dense/BiasAdd"),
        node("Softmax", ["logits"], ["probabilities"], name="Softmax", axis=1),
    ]
    weights = {
        "k1": values(8, 3, 3, 3),
        "depthwise": values(8, 1, 3, 3, seed=1),
        **{name: values(8, seed=i) for i, name in enumerate("gbm")},
        "v": np.abs(values(8)) + np.float32(0.1),
        "six": np.float32(6),
        "scale": values(8, seed=4),
        "shift": values(8, seed=5),
        "w": values(8, 5, seed=6),
        "bias": values(5),
    }
    limits = {name: np.array([value], np.int32) for name, value in (("zero", 0), ("one", 1), ("minus", -1))}
    stored = [tensor(array, name) for name, array in {**weights, **limits}.items()]
    return graph_model(nodes, {"image": ("unk__7", 15, 14, 3)}, ["probabilities"], stored, opset=11)


def paddle_block() -> onnx.ModelProto:
    """PaddlePaddle: every weight a Constant node, hardswish and hardsigmoid written out, scale operators, ceil pooling."""
    weights = {
        "conv_w": values(8, 3, 3, 3),
        "conv_b": values(1, 8, 1, 1),
        **{f"bn_{i}": values(8, seed=i) for i in range(3)},
        "bn_3": np.abs(values(8)) + np.float32(0.1),
        "three": np.array([3.0], np.float32),
        "low": np.float32(0),
        "high": np.float32(6),
        "six": np.array([6.0], np.float32),
        "se_w": values(8, 8, 1, 1, seed=3),
        "fc_w": values(8, 5, seed=4),
        "fc_b": values(5),
        "one": np.array([1.0], np.float32),
        "shape": np.array([-1, 8], np.int64),
    }
    nodes = [constant(array, name) for name, array in weights.items()]
    nodes += [
        node(
            "Conv", ["x", "conv_w"], ["c"], name="Conv.0", pads=[1, 1, 1, 1], strides=[2, 2], dilations=[1, 1], group=1
        ),
        node("Add", ["c", "conv_b"], ["cb"], name="Add.0"),
        node(
            "BatchNormalization",
            ["cb", *(f"bn_{i}" for i in range(4))],
            ["n"],
            name="BatchNormalization.0",
            momentum=0.9,
        ),
        node("Add", ["n", "three"], ["n3"], name="Add.2"),
        node("Clip", ["n3", "low", "high"], ["clipped"], name="Clip.0"),
        node("Mul", ["n", "clipped"], ["product"], name="Mul.0"),
        node("Div", ["product", "six"], ["swish"], name="Div.0"),
        node(
            "MaxPool",
            ["swish"],
            ["p"],
            name="MaxPool.0",
            kernel_shape=[3, 3],
            strides=[2, 2],
            pads=[1, 1, 1, 1],
            ceil_mode=1,
        ),
        node("GlobalAveragePool", ["p"], ["g"], name="GlobalAveragePool.0"),
        node("Conv", ["g", "se_w"], ["s"], name="Conv.1"),
        node("HardSigmoid", ["s"], ["gate"], name="HardSigmoid.0", alpha=1 / 6, beta=0.5),
        node("Identity", ["gate"], ["gate2"], name="Identity.0"),
        node("Add", ["g", "gate2"], ["joined"], name="Add.3"),
        node("Reshape", ["joined", "shape"], ["row"], name="Reshape.0"),
        node("MatMul", ["row", "fc_w"], ["m"], name="MatMul.0"),
        node("Add", ["m", "fc_b"], ["logits"], name="Add.4"),
        node("Mul", ["logits", "one"], ["y"], name="Mul.1"),
    ]
    return graph_model(nodes, {"x": (-1, 3, 16, 16)}, ["y"], opset=13)


def half_with_islands() -> onnx.ModelProto:
    """Float16 input and weights; a normalisation computed in float32 between two casts."""
    half = np.float16
    nodes = [
        node("Conv", ["x", "k"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["r"], name="relu"),
        node("Cast", ["r"], ["wide"], name="to32", to=TensorProto.FLOAT),
        node("InstanceNormalization", ["wide", "g", "b"], ["norm"], name="norm", epsilon=1e-3),
        node("Cast", ["norm"], ["narrow"], name="to16", to=TensorProto.FLOAT16),
        node("GlobalAveragePool", ["narrow"], ["mean"], name="mean"),
        node("Flatten", ["mean"], ["row"], name="flatten"),
        node("Cast", ["w32"], ["w16"], name="weight16", to=TensorProto.FLOAT16),
        node("Gemm", ["row", "w16", "bias"], ["y"], name="head", transB=1),
    ]
    stored = [
        tensor(values(4, 3, 3, 3, kind=half), "k"),
        tensor(np.ones(4, np.float32), "g"),
        tensor(np.zeros(4, np.float32), "b"),
        tensor(values(5, 4), "w32"),
        tensor(values(5, kind=half), "bias"),
    ]
    return graph_model(nodes, {"x": (1, 3, 8, 8)}, ["y"], stored, opset=13, dtype=TensorProto.FLOAT16)


def two_branches() -> onnx.ModelProto:
    """Two inputs, three outputs (one of them an input of the next node), a shared weight, initialisers among the inputs."""
    nodes = [
        node("Identity", ["w"], ["shared"], name="tie"),
        node("Gemm", ["a", "w"], ["ha"], name="left", transB=1),
        node("Gemm", ["b", "shared"], ["hb"], name="right", transB=1),
        node("Concat", ["ha", "hb"], ["both"], name="join", axis=-1),
        node("Split", ["both", "sizes"], ["small", "large"], name="split", axis=1),
    ]
    stored = [tensor(values(4, 6), "w"), tensor(np.array([3, 5]), "sizes")]
    model = graph_model(nodes, {"a": ("batch", 6), "b": ("batch", 6)}, ["ha", "small", "large"], stored, opset=13)
    for entry in stored:
        model.graph.input.append(helper.make_tensor_value_info(entry.name, entry.data_type, entry.dims))
    return model


DIALECTS = {f.__name__: f for f in (tf2onnx_mobile, paddle_block, half_with_islands, two_branches)}
