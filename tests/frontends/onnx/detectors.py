"""A text detector of the DB kind as an ONNX graph: large values on the way, a map of probabilities near 0 at the end."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.frontends.onnx.cases import graph_model


def detector(size: int, bias: float = -40.0, gain: float = 3.0, opset: int = 14) -> onnx.ModelProto:
    """Convolutions, batch norm and hard swish down to a quarter, squeeze and excitation, a pyramid, a head that goes up again.

    ``gain`` is what a convolution multiplies its values by, ``bias`` the logit of no text.
    """
    random = np.random.default_rng(0)
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []

    def weight(array: np.ndarray) -> str:
        weights.append(numpy_helper.from_array(array.astype(np.float32), f"w{len(weights)}"))
        return weights[-1].name

    def add(operator: str, inputs: list[str], **attributes: object) -> str:
        name = f"{operator.lower()}{len(nodes)}"
        nodes.append(helper.make_node(operator, inputs, [f"{name}_out"], name=name, **attributes))
        return f"{name}_out"

    def conv(x: str, inside: int, outside: int, kernel: int = 3, stride: int = 1, group: int = 1) -> str:
        fan = inside // group * kernel * kernel
        kernels = random.standard_normal((outside, inside // group, kernel, kernel)) * gain / np.sqrt(fan)
        pad = [kernel // 2] * 4
        return add("Conv", [x, weight(kernels)], pads=pad, strides=[stride] * 2, group=group)

    def norm(x: str, width: int) -> str:
        mean, variance = random.standard_normal(width), random.uniform(0.5, 1.5, width)
        return add("BatchNormalization", [x, *map(weight, (np.ones(width), np.zeros(width), mean, variance))])

    def up(x: str, inside: int, outside: int) -> str:
        kernels = random.standard_normal((inside, outside, 2, 2)) / np.sqrt(inside)
        return add("ConvTranspose", [x, weight(kernels), weight(np.zeros(outside))], strides=[2, 2])

    x = add("HardSwish", [norm(conv("x", 3, 8, stride=2), 8)])
    for _ in range(3):
        y = add("HardSwish", [norm(conv(x, 8, 8, group=8), 8)])
        x = add("Add", [x, norm(conv(y, 8, 8, kernel=1), 8)])
    deep = add("Relu", [norm(conv(x, 8, 16, stride=2), 16)])
    gate = add("HardSigmoid", [conv(add("GlobalAveragePool", [deep]), 16, 16, kernel=1)], alpha=0.2, beta=0.5)
    deep = conv(add("Mul", [deep, gate]), 16, 8, kernel=1)
    scales = numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales")
    weights.append(scales)
    deep = add(
        "Resize",
        [deep, "", "scales"],
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    both = add("Concat", [conv(x, 8, 8, kernel=1), deep], axis=1)
    head = add("Relu", [norm(conv(both, 16, 8), 8)])
    logits = add("Add", [up(head, 8, 1), weight(np.full(1, bias))])
    nodes.append(helper.make_node("Sigmoid", [logits], ["maps"], name="probabilities"))
    return graph_model(nodes, {"x": (1, 3, size, size)}, ["maps"], weights, opset)
