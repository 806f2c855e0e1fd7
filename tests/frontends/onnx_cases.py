"""One small graph per ONNX operator and option: what converts, at which opsets, and what is refused by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


@dataclass
class Case:
    """``y = op(x, *constants)``; a constant of None leaves an optional input out."""

    op: str
    shape: tuple[int, ...] = (1, 4, 6, 6)
    constants: tuple[Any, ...] = ()
    opset: int = 17
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1

    def __str__(self) -> str:
        options = "-".join(f"{k}{v}" for k, v in self.attributes.items())
        return f"{self.op}-{self.opset}-{options}".replace(" ", "")[:70]

    def model(self) -> onnx.ModelProto:
        names, initializers = ["x"], []
        for i, constant in enumerate(self.constants):
            names.append("" if constant is None else f"c{i}")
            if constant is not None:
                initializers.append(numpy_helper.from_array(np.asarray(constant), f"c{i}"))
        outputs = [f"y{i}" for i in range(self.outputs)]
        node = helper.make_node(self.op, names, outputs, name="the_node", **self.attributes)
        return graph_model([node], {"x": self.shape}, outputs, initializers, self.opset)


def graph_model(nodes, inputs, outputs, initializers=(), opset=17, dtype=TensorProto.FLOAT) -> onnx.ModelProto:
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info(name, dtype, shape) for name, shape in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        list(initializers),
    )
    for output in graph.output:
        output.type.tensor_type.elem_type = dtype
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8 if opset < 20 else 10
    return model


def _f(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _i(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def _resize(opset: int, scales=None, sizes=None, shape=(1, 2, 5, 4), **attributes) -> Case:
    if opset == 10:
        constants = (np.array(scales, np.float32),)
    elif sizes is not None:
        constants = (None, None, _i(*sizes))
    else:
        constants = (np.zeros(0, np.float32), np.array(scales, np.float32))
    return Case("Resize", shape, constants, opset, attributes)


UNARY = (
    *("Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Exp", "Floor", "Ceil", "Round", "Sign", "Sin", "Cos", "Atan", "Sinh"),
    *("Asinh", "Erf", "Softplus", "Softsign", "Identity", "Reciprocal"),
)
CASES = [
    *(Case(op) for op in UNARY),
    *(Case(op, opset=22) for op in ("Mish", "HardSwish", "Relu", "Identity")),
    *(Case("LeakyRelu", attributes={"alpha": a}) for a in (0.01, 0.3)),
    *(Case(op, attributes={"alpha": 0.7}) for op in ("Elu", "Celu", "ThresholdedRelu")),
    Case("Selu"),
    Case("Selu", attributes={"alpha": 1.5, "gamma": 1.1}),
    Case("HardSigmoid"),
    Case("HardSigmoid", attributes={"alpha": 1 / 6, "beta": 0.5}),
    *(Case("Gelu", opset=20, attributes={"approximate": a}) for a in ("none", "tanh")),
    Case("Clip", opset=9, attributes={"min": 0.0, "max": 6.0}),
    Case("Clip", constants=(np.float32(-1), np.float32(2))),
    Case("Clip", constants=(None, np.float32(2)), opset=11),
    Case("Clip", constants=(np.float32(0),)),
    Case("Clip"),
    Case("PRelu", constants=(_f(4, 1, 1),)),
    Case("PRelu", constants=(_f(1),), opset=9),
    Case("PRelu", constants=(_f(6),)),
    *(Case(op, opset=o, attributes={"axis": 1}) for op in ("Softmax", "LogSoftmax") for o in (11, 13)),
    Case("Softmax", opset=9, shape=(1, 5), attributes={"axis": 1}),
    *(Case("Softmax", attributes={"axis": a}) for a in (-1, 2)),
    Case("Cast", attributes={"to": TensorProto.FLOAT}),
    *(Case(op, constants=(_f(4, 1, 1),)) for op in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean")),
    *(Case(op, constants=(np.float32(1.5),)) for op in ("Add", "Sub", "Mul", "Div", "Max", "Min")),
    *(Case(op, constants=(_f(1, 1, 1, 1, 1),)) for op in ("Add", "Mul")),
    Case("Pow", constants=(np.float32(2),)),
    Case("Conv", constants=(_f(5, 4, 3, 3), _f(5)), attributes={"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    Case("Conv", constants=(_f(5, 4, 3, 3),), opset=9, attributes={"pads": [0, 1, 2, 0], "dilations": [2, 1]}),
    Case("Conv", constants=(_f(8, 2, 3, 3),), opset=22, attributes={"group": 2}),
    *(
        Case("Conv", (1, 4, 7, 6), (_f(5, 4, 3, 4),), attributes={"auto_pad": a, "strides": [2, 3]})
        for a in ("SAME_UPPER", "SAME_LOWER", "VALID")
    ),
    Case("Conv", (1, 4, 9), (_f(5, 4, 3), _f(5))),
    Case("Conv", (1, 2, 4, 5, 6), (_f(3, 2, 2, 3, 3),), attributes={"pads": [0, 1, 1, 1, 1, 1]}),
    Case(
        "ConvTranspose",
        constants=(_f(4, 3, 3, 3), _f(3)),
        attributes={"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
    ),
    Case("ConvTranspose", constants=(_f(4, 3, 3, 3),), attributes={"strides": [2, 2], "pads": [0, 0, 1, 1]}),
    Case("ConvTranspose", constants=(_f(4, 2, 3, 3),), opset=11, attributes={"group": 2, "dilations": [2, 1]}),
    Case("ConvTranspose", constants=(_f(4, 3, 3, 3),), attributes={"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    Case("MatMul", (1, 3, 5), (_f(5, 4),)),
    Case("MatMul", (1, 3, 5), (_f(1, 5, 4),)),
    Case("Gemm", (1, 5), (_f(4, 5), _f(4)), attributes={"transB": 1}),
    Case("Gemm", (1, 5), (_f(5, 4), _f(1, 4))),
    Case("Gemm", (1, 5), (_f(5, 4), _f(4)), attributes={"alpha": 0.5, "beta": 2.0}),
    Case("Gemm", (1, 5), (_f(1, 4),), attributes={"transA": 1}),
    *(
        Case("BatchNormalization", s, (_f(4), _f(4), _f(4), np.abs(_f(4)) + 0.1), o, {"epsilon": 1e-3})
        for s, o in (((1, 4, 6, 6), 9), ((1, 4, 6, 6), 15), ((1, 4), 14), ((1, 4, 3), 9))
    ),
    Case("LayerNormalization", (1, 3, 8), (_f(8), _f(8))),
    Case("LayerNormalization", (1, 3, 8), (_f(3, 8),), attributes={"axis": 1}),
    Case("InstanceNormalization", constants=(_f(4), _f(4))),
    Case("GroupNormalization", constants=(_f(4), _f(4)), opset=21, attributes={"num_groups": 2}),
    Case("LRN", attributes={"size": 3, "alpha": 0.1}),
    Case("LpNormalization", attributes={"axis": 1, "p": 2}),
    *(Case(op) for op in ("GlobalAveragePool", "GlobalMaxPool")),
    Case("GlobalMaxPool", (1, 4, 7), opset=22),
    *(
        Case(op, (1, 2, 7, 8), attributes={"kernel_shape": [3, 2], "strides": [2, 1], **extra})
        for op in ("MaxPool", "AveragePool")
        for extra in (
            {},
            {"pads": [1, 1, 1, 1]},
            {"pads": [0, 1, 1, 0]},
            {"auto_pad": "SAME_UPPER"},
            {"ceil_mode": 1},
        )
    ),
    Case("AveragePool", attributes={"kernel_shape": [3, 3], "pads": [0, 0, 1, 1], "count_include_pad": 1}),
    Case("AveragePool", attributes={"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
    Case("MaxPool", attributes={"kernel_shape": [2, 2], "dilations": [2, 1]}),
    Case("Reshape", constants=(_i(0, -1, 12),)),
    Case("Flatten", attributes={"axis": 2}),
    Case("Flatten", opset=21),
    Case("Squeeze", (1, 4, 1, 3), (_i(2),)),
    Case("Squeeze", (1, 4, 1, 3), opset=11, attributes={"axes": [-2]}),
    Case("Unsqueeze", (1, 4), (_i(1, -1),)),
    Case("Unsqueeze", (1, 4), opset=11, attributes={"axes": [0, 3]}),
    Case("Transpose", attributes={"perm": [0, 2, 3, 1]}),
    Case("Concat", constants=(_f(1, 2, 6, 6),), attributes={"axis": 1}),
    Case("Split", attributes={"axis": 1}, outputs=2),
    Case("Split", constants=(_i(1, 3),), attributes={"axis": 1}, outputs=2),
    Case("Split", opset=11, attributes={"axis": 1, "split": [3, 1]}, outputs=2),
    Case("Split", (1, 5), opset=18, attributes={"axis": 1, "num_outputs": 2}, outputs=2),
    Case("Slice", opset=9, attributes={"starts": [1, 0], "ends": [3, -1], "axes": [1, 3]}),
    Case("Slice", constants=(_i(0, 5), _i(100, -100), _i(1, 3), _i(2, -2))),
    Case("Slice", constants=(_i(-3), _i(2**62), _i(-1))),
    Case("Gather", constants=(_i(2, 0, 1),), attributes={"axis": 1}),
    Case("Gather", constants=(_i(1, 2),), attributes={"axis": 1}),
    Case("Gather", constants=(np.int64(-1),), attributes={"axis": 2}),
    Case("Gather", constants=(np.array([[0, 3], [2, 2]]),), attributes={"axis": 1}),
    Case("GatherElements", (1, 4), (np.array([[-1, 0, 0]]),), attributes={"axis": 1}),
    Case("Expand", (1, 4, 1), (_i(2, 1, 3),)),
    Case("Tile", (1, 4, 2), (_i(1, 2, 3),)),
    Case("Pad", constants=(_i(0, 0, 1, 2, 0, 0, 0, 1), np.float32(0.5))),
    Case("Pad", opset=9, attributes={"pads": [0, 0, 1, 0, 0, 0, 0, 1], "value": 1.0}),
    *(Case("Pad", constants=(_i(0, 0, 1, 2, 0, 0, 0, 1),), attributes={"mode": m}) for m in ("reflect", "edge")),
    Case("Pad", constants=(_i(0, 1, 0, 0, 0, 2, 0, 0),), attributes={"mode": "edge"}),
    Case("Pad", constants=(_i(1, 2, 0, 1), None, _i(2, 3)), opset=18),
    *(Case("DepthToSpace", attributes={"blocksize": 2, "mode": m}) for m in ("DCR", "CRD")),
    Case("SpaceToDepth", attributes={"blocksize": 2}),
    *(Case("Trilu", (1, 4, 4), (np.int64(1),), attributes={"upper": u}) for u in (0, 1)),
    Case("CumSum", constants=(np.int64(2),)),
    *(
        Case(op, opset=11, attributes={"axes": [1, -1], "keepdims": 0})
        for op in ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp")
    ),
    Case("ReduceMean", constants=(_i(2, 3),), opset=18),
    Case("ReduceSum", constants=(_i(-1),), attributes={"keepdims": 1}),
    Case("ReduceMean"),
    # known to onnx2torch alone
    Case("GatherND", (1, 4, 3), (np.array([[0, 1], [0, 3]]),), 13),
    # known by their definition in the standard alone
    Case("MeanVarianceNormalization", opset=13),
    _resize(10, (1, 1, 2, 2)),
    Case("Upsample", (1, 2, 5, 4), (np.array([1, 1, 2, 3], np.float32),), 9, {"mode": "nearest"}),
    *(
        _resize(13, scales, mode="nearest", coordinate_transformation_mode=rule, nearest_mode=rounding)
        for scales in ((1, 1, 2, 2), (1, 1, 0.5, 1.75))
        for rule in ("asymmetric", "half_pixel", "align_corners")
        for rounding in ("floor", "round_prefer_floor", "ceil")
    ),
    *(
        _resize(13, sizes=(1, 2, *size), mode=mode, coordinate_transformation_mode=rule)
        for size in ((10, 8), (3, 7), (1, 1))
        for mode in ("linear", "cubic")
        for rule in ("asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel")
    ),
    _resize(11, (1, 1, 1.3, 1.9), mode="linear"),
    _resize(18, (2, 2), mode="linear", axes=[2, 3]),
    _resize(13, sizes=(1, 2, 9, 9), mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1),
]

REFUSED = [
    (Case("QuantizeLinear", constants=(np.float32(0.1), np.uint8(3))), "QuantizeLinear"),
    (Case("Conv", constants=(_f(5, 4, 3, 3),), attributes={"auto_pad": "NONSENSE"}), "auto_pad"),
    (Case("BatchNormalization", constants=(_f(4),) * 4, opset=15, attributes={"training_mode": 1}), "training mode"),
    (Case("RandomNormalLike", constants=()), "random"),
    (Case("Reshape", constants=(_i(1, 7),)), "cannot become"),
    (Case("Dropout", constants=(np.float32(0.5), np.bool_(True))), "training mode"),
    (_resize(18, (1, 1, 0.5, 0.5), mode="linear", antialias=1), "antialias"),
]
