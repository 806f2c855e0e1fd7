"""One small graph per ONNX operator and option: what converts, at which opsets, and what is refused by name."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


@dataclass
class Case:
    """``y = op(x, *constants)``, or ``op(*operands)`` where text names an input; None leaves an optional input out."""

    op: str
    shape: tuple[int, ...] = (1, 4, 6, 6)
    constants: tuple[Any, ...] = ()
    opset: int = 17
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int | tuple[int, ...] = 1  # how many, or which ones
    operands: tuple[Any, ...] = ()
    more: dict[str, tuple[int, ...]] = field(default_factory=dict)  # shapes of further inputs
    domain: str = ""

    def __str__(self) -> str:
        options = "-".join(f"{k}{v}" for k, v in self.attributes.items())
        return f"{self.op}-{self.opset}-{options}".replace(" ", "")[:70]

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        return {"x": self.shape, **self.more}

    def node(self) -> onnx.NodeProto:
        names = [o if isinstance(o, str) else "" if o is None else f"c{i}" for i, o in enumerate(self._operands)]
        kept = range(self.outputs) if isinstance(self.outputs, int) else self.outputs
        outputs = [f"y{i}" if i in kept else "" for i in range(max(kept) + 1)]
        return helper.make_node(self.op, names, outputs, name="the_node", domain=self.domain, **self.attributes)

    @property
    def _operands(self) -> tuple[Any, ...]:
        return self.operands or ("x", *self.constants)

    def model(self) -> onnx.ModelProto:
        node = self.node()
        initializers = [
            numpy_helper.from_array(np.asarray(operand), f"c{i}")
            for i, operand in enumerate(self._operands)
            if operand is not None and not isinstance(operand, str)
        ]
        model = graph_model([node], self.inputs, [o for o in node.output if o], initializers, self.opset)
        if self.domain:
            model.opset_import.append(helper.make_opsetid(self.domain, 1))
        return model


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
    model.ir_version = 3 if opset < 9 else 8 if opset < 20 else 10 if opset < 24 else 12
    if opset < 9:  # initialisers had to be inputs then
        for entry in initializers:
            graph_input = helper.make_tensor_value_info(entry.name, entry.data_type, entry.dims)
            model.graph.input.append(graph_input)
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
    Case("Mod", constants=(np.float32(2),), attributes={"fmod": 1}),
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
    # the second operand, or all but the first, depend on the input
    Case("MatMul", (1, 5, 8), operands=(_f(4, 5), "x")),
    Case("MatMul", (1, 5, 8), operands=(_f(5), "x")),
    Case("MatMul", (1, 5, 8), (_f(8),)),
    Case("MatMul", (1, 2, 5, 8), (_f(2, 8, 3),)),
    Case("Gemm", (1, 8), operands=(_f(3, 8), "x", _f(3, 1)), attributes={"transB": 1}),
    Case("Gemm", (1, 5), (_f(5, 4), np.float32(2)), opset=11),
    *(
        Case("Einsum", (1, 5, 8), (_f(*shape),), attributes={"equation": equation})
        for shape, equation in (
            ((8, 3), "bij,jk->bik"),
            ((8, 3), "...j,jk->...k"),
            ((8, 3), "bij,jk"),
            ((3, 8), "bij, kj -> bik"),
            ((5, 3), "bij,ik->bjk"),
            ((1, 8, 3), "bij,bjk->bik"),
            ((5, 8), "bij,ij->bi"),
            ((1, 5, 8), "bij,bij->jib"),
            ((8,), "bij,k->bijk"),
            ((4, 5), "bij,ki->b"),  # torch's own: an axis is summed alone
        )
    ),
    Case("Einsum", (1, 5, 8), operands=(_f(8, 3), "x"), attributes={"equation": "jk,bij->bik"}),
    Case("Einsum", (1, 5, 8), attributes={"equation": "bij->jib"}),
    Case("Einsum", (1, 2, 5, 8), operands=("x", "x"), attributes={"equation": "bhid,bhjd->bhij"}),
    *(Case(op, operands=(np.float32(2), "x")) for op in ("Sub", "Div", "Pow")),
    *(
        Case("Where", (1, 5, 8), operands=(_f(5, 8) > 0, *rest))
        for rest in (("x", np.float32(0)), (_f(8), "x"), ("x", "x"))
    ),
    # entries at constant positions
    *(Case("GatherND", (1, 4, 3), (indices,), 13) for indices in (np.array([[0, -1], [0, 3]]), np.array([[0]]))),
    Case("GatherND", (1, 4, 3), (np.array([[[1], [3]]]),), 13, {"batch_dims": 1}),
    *(
        Case("ScatterND", (1, 4, 3), (np.array([[0, 1], [0, -1]]), _f(2, 3)), 16, {"reduction": r})
        for r in ("none", "add")
    ),
    Case("ScatterND", (1, 3), operands=(_f(1, 4, 3), np.array([[0, 1]]), "x")),
    Case("ScatterND", (1, 4, 3), operands=("x", np.array([[0, 1]]), "z"), more={"z": (1, 3)}),
    *(
        Case("ScatterElements", (1, 4), (np.array([[1, -1]]), _f(1, 2)), 16, {"axis": 1, "reduction": r})
        for r in ("none", "add")
    ),
    Case(
        "ScatterElements",
        (1, 1, 3),
        operands=(_f(1, 4, 3), np.full((1, 1, 3), 2), "x"),
        attributes={"axis": 1},
        opset=18,
    ),
    Case("ScatterND", (1, 4), (np.array([[0, 1], [0, 1]]), _f(2)), 16, {"reduction": "add"}),
    Case(
        "ScatterND", (1, 4), operands=("x", np.array([[0, 1]]), "z"), more={"z": (1,)}, attributes={"reduction": "add"}
    ),
    Case("Compress", (1, 4), (np.array([True, False, True]),), 11, {"axis": 1}),
    Case("Compress", (1, 2, 3), (np.array([False, True, True, False, True]),), 11),
    Case("ReverseSequence", (1, 5, 3), (_i(3),), 10, {"time_axis": 1, "batch_axis": 0}),
    *(Case("CumSum", constants=(np.int64(-1),), attributes=a) for a in ({"reverse": 1}, {"exclusive": 1})),
    Case("CumSum", constants=(np.int32(1),), attributes={"exclusive": 1, "reverse": 1}),
    Case("Col2Im", (1, 8, 9), (_i(4, 4), _i(2, 2)), 18),
    Case("Col2Im", (1, 8, 4), (_i(4, 4), _i(2, 2)), 18, {"strides": [2, 2]}),
    *(Case("CenterCropPad", (1, 4, 6, 5), (_i(*size),), 18, {"axes": [2, 3]}) for size in ((4, 8), (3, 2), (9, 8))),
    *(Case("GlobalLpPool", attributes={"p": p}) for p in (1, 2)),
    Case("LpPool", attributes={"kernel_shape": [2, 2]}),
    Case("LpPool", opset=18, attributes={"kernel_shape": [2, 3], "p": 3, "strides": [2, 1], "pads": [0, 0, 1, 1]}),
    Case("MaxPool", attributes={"kernel_shape": [3, 3], "pads": [2, 2, 2, 2]}),
    Case("Shrink", attributes={"bias": 0.5, "lambd": 0.5}),
    Case("ReduceSum", attributes={"noop_with_empty_axes": 1}),
    Case(
        "Resize",
        (1, 2, 5, 4),
        (None, None, _i(10, 10)),
        18,
        {"axes": [2, 3], "mode": "linear", "keep_aspect_ratio_policy": "not_larger"},
    ),
    Case("Resize", (1, 5, 4, 2), (None, np.array([1, 2, 2, 1], np.float32)), 13, {"mode": "linear"}),
    *(
        Case("ConvTranspose", constants=(_f(4, 3, *kernel),), attributes={"strides": strides, **rest})
        for kernel, strides, rest in (
            ((3, 3), [2, 2], {"output_shape": [12, 12]}),
            ((3, 3), [2, 2], {"output_shape": [11, 12], "auto_pad": "SAME_UPPER"}),
            ((3, 3), [2, 2], {"output_shape": [14, 14]}),
            ((2, 2), [2, 2], {"auto_pad": "VALID"}),
        )
    ),
    # newer operators
    Case("RMSNormalization", (1, 3, 8), (_f(8),), 23),
    Case("RMSNormalization", (1, 3, 8), (_f(3, 8),), 23, {"axis": 1, "epsilon": 1e-3}),
    *(Case("Swish", opset=24, attributes={"alpha": a}) for a in (1.0, 1.702)),
    Case("GroupNormalization", constants=(_f(2), _f(2)), opset=18, attributes={"num_groups": 2}),
    Case("RotaryEmbedding", (1, 2, 5, 4), (_f(5, 2), _f(5, 2), np.arange(5)[None]), 23),
    Case(
        "RotaryEmbedding", (1, 2, 5, 8), (_f(1, 5, 2), _f(1, 5, 2)), 23, {"rotary_embedding_dim": 4, "interleaved": 1}
    ),
    Case("RotaryEmbedding", (1, 5, 8), (_f(1, 5, 2), _f(1, 5, 2)), 23, {"num_heads": 2}),
    # Fourier transforms
    *(
        Case("DFT", shape, () if n is None else (np.int64(n),), 17, {"axis": 1, "inverse": inverse, "onesided": half})
        for shape, inverse, half in (
            ((1, 6, 1), 0, 0),
            ((1, 6, 1), 0, 1),
            ((1, 6, 1), 1, 0),
            ((1, 6, 2), 0, 0),
            ((1, 6, 2), 1, 0),
            ((1, 5, 2), 1, 1),
        )
        for n in (None, 8)
    ),
    Case("DFT", (1, 3, 6, 1), (np.int64(4),), attributes={"axis": -2}),
    Case("DFT", (1, 3, 6, 2), (None, np.int64(1)), 20),
    Case("DFT", (1, 3, 6, 1), (), 20, {"onesided": 1}),
    *(
        Case("STFT", (1, 12, last), (np.int64(3), *rest), attributes={"onesided": half})
        for last, half in ((1, 1), (1, 0), (2, 0))
        for rest in ((_f(4),), (None, np.int64(5)), (_f(5), np.int64(5)))
    ),
    # before opset 9
    Case("Upsample", (1, 2, 5, 4), (), 8, {"mode": "linear", "scales": [1.0, 1.0, 2.0, 2.0]}),
    Case("Upsample", (1, 2, 5, 4), (), 7, {"mode": "nearest", "scales": [1.0, 1.0, 2.0, 2.0]}),
    Case("BatchNormalization", (1, 4, 6, 6), (_f(4), _f(4), _f(4), np.abs(_f(4)) + np.float32(0.1)), 7),
    *(Case("Dropout", opset=opset) for opset in (7, 10)),
]

_CUT_QUERY, _OTHER = (1, 2, 5, 4), {"k": (1, 2, 7, 4), "v": (1, 2, 7, 3)}
_SELF = ("x", "x", "x")
ATTENTION = [
    *(Case("Attention", _CUT_QUERY, opset=o, operands=("x", "k", "v"), more=_OTHER) for o in (23, 24, 25)),
    Case("Attention", _CUT_QUERY, opset=23, operands=("x", "k", "v", _f(5, 7)), more=_OTHER, attributes={"scale": 0.2}),
    Case("Attention", _CUT_QUERY, opset=23, operands=("x", "k", "v", _f(2, 5, 7) > -1), more=_OTHER),
    Case("Attention", _CUT_QUERY, opset=23, operands=_SELF, attributes={"is_causal": 1}),
    Case("Attention", _CUT_QUERY, opset=23, operands=(*_SELF, _f(5, 5)), attributes={"is_causal": 1}),
    Case("Attention", _CUT_QUERY, opset=23, operands=(*_SELF, np.eye(5) > 0), attributes={"is_causal": 1}),
    Case("Attention", _CUT_QUERY, opset=25, operands=_SELF, attributes={"left_window_size": 1, "right_window_size": 2}),
    Case("Attention", (1, 5, 8), opset=23, operands=_SELF, attributes={"q_num_heads": 2, "kv_num_heads": 2}),
    Case("Attention", (1, 4, 5, 2), opset=23, operands=("x", "k", "k"), more={"k": (1, 2, 5, 2)}),
    Case(
        "Attention",
        (1, 5, 8),
        opset=23,
        operands=("x", "k", "k"),
        more={"k": (1, 5, 4)},
        attributes={"q_num_heads": 4, "kv_num_heads": 2},
    ),
]

_TOKENS, _SKIP = (1, 5, 8), {"z": (1, 5, 8)}


def _contrib(op: str, *operands, shape=_TOKENS, more=None, outputs=1, **attributes) -> Case:
    return Case(
        op, shape, operands=operands, more=more or {}, outputs=outputs, attributes=attributes, domain="com.microsoft"
    )


CONTRIB = [
    *(_contrib(op, "x") for op in ("Gelu", "FastGelu", "QuickGelu")),
    _contrib("QuickGelu", "x", alpha=1.0),
    *(_contrib(op, "x", _f(8)) for op in ("BiasGelu", "FastGelu")),
    _contrib("FusedMatMul", "x", _f(8, 4), alpha=0.5),
    _contrib("FusedMatMul", "x", _f(4, 8), transB=1),
    _contrib("FusedMatMul", "x", "z", more=_SKIP, transB=1, alpha=0.3),
    _contrib("FusedGemm", "x", _f(8, 4), _f(4), shape=(1, 8), activation="Relu"),
    _contrib("FusedGemm", "x", _f(8, 4), _f(4), shape=(1, 8), activation="LeakyRelu", activation_alpha=0.3),
    _contrib("FusedConv", "x", _f(5, 4, 3, 3), _f(5), shape=(1, 4, 6, 6), activation="Relu", pads=[1, 1, 1, 1]),
    _contrib(
        "FusedConv",
        *("x", _f(5, 4, 3, 3)),
        shape=(1, 4, 6, 6),
        activation="Clip",
        activation_params=[-0.5, 2.0],
        auto_pad="SAME_UPPER",
        strides=[2, 2],
    ),
    _contrib(
        "FusedConv",
        *("x", _f(4, 4, 3, 3), _f(4), "x"),
        shape=(1, 4, 6, 6),
        activation="HardSigmoid",
        activation_params=[0.2, 0.5],
        pads=[1, 1, 1, 1],
    ),
    _contrib("SkipLayerNormalization", "x", "z", _f(8), _f(8), _f(8), more=_SKIP, outputs=(0, 3)),
    _contrib("SkipLayerNormalization", "x", "z", _f(8), more=_SKIP, epsilon=1e-5),
    _contrib("SkipSimplifiedLayerNormalization", "x", "z", _f(8), _f(8), more=_SKIP, outputs=(0, 3), epsilon=1e-5),
    Case("SimplifiedLayerNormalization", _TOKENS, (_f(8),), attributes={"epsilon": 1e-5}),
    Case("LayerNormalization", _TOKENS, (_f(8), _f(8)), opset=14),  # onnxruntime writes it below opset 17 too
    *(_contrib("Attention", "x", _f(8, 24), _f(24), num_heads=2, unidirectional=u) for u in (0, 1)),
    _contrib("Attention", "x", _f(8, 20), _f(20), num_heads=2, qkv_hidden_sizes=[8, 8, 4], scale=0.3),
    _contrib("Attention", "x", _f(8, 24), _f(24), None, None, _f(1, 2, 5, 5), num_heads=2),
    _contrib("MultiHeadAttention", "x", "k", "k", more={"k": (1, 7, 8)}, num_heads=2),
    _contrib("MultiHeadAttention", "x", "k", "k", _f(24), None, _f(1, 2, 5, 7), more={"k": (1, 7, 8)}, num_heads=2),
]


def _bits(bits: int, width: int = 40, rows: int = 3, block: int = 16, zeros: bool = False, **attributes: Any) -> Case:
    blocks = -(-width // block)
    random = np.random.default_rng(bits)
    packed = random.integers(0, 256, (rows, blocks, block * bits // 8), dtype=np.uint8)
    points = random.integers(0, 256, (rows, -(-blocks * bits // 8)), dtype=np.uint8) if zeros else None
    operands = ["x", packed, _f(rows, blocks), points, None, _f(rows) if zeros else None]
    while operands[-1] is None:
        operands.pop()
    return _contrib(
        "MatMulNBits", *operands, shape=(1, 2, width), K=width, N=rows, bits=bits, block_size=block, **attributes
    )


BLOCK_QUANTISED = [_bits(bits, zeros=zeros) for bits in (2, 4, 8) for zeros in (False, True)]
BLOCK_QUANTISED += [_bits(4, 64, 5, 32, True), _bits(4, 16)]
CONTRIB += BLOCK_QUANTISED

REFUSED = [
    (_bits(4, accuracy_level=4), "rounded to integers"),
    (Case("DFT", (1, 6, 3)), "last axis of 3"),
    (Case("DFT", (1, 6, 2), (None, np.int64(-1)), 20), "its axis is the last one"),
    (Case("DFT", (1, 6, 2), attributes={"onesided": 1}), "one-sided transform of complex"),
    (Case("STFT", (1, 6, 2), (np.int64(2), _f(4))), "one-sided transform of complex"),
    (Case("STFT", (1, 6, 1), (np.int64(0), _f(4))), "do not fit"),
    (Case("QuantizeLinear", constants=(np.float32(0.1), np.uint8(3))), "QuantizeLinear"),
    (Case("Conv", constants=(_f(5, 4, 3, 3),), attributes={"auto_pad": "NONSENSE"}), "auto_pad"),
    (Case("BatchNormalization", constants=(_f(4),) * 4, opset=15, attributes={"training_mode": 1}), "training mode"),
    (Case("RandomNormalLike", constants=()), "random"),
    (Case("Reshape", constants=(_i(1, 7),)), "cannot become"),
    (Case("Dropout", constants=(np.float32(0.5), np.bool_(True))), "training mode"),
    (_resize(18, (1, 1, 0.5, 0.5), mode="linear", antialias=1), "antialias"),
    (Case("GridSample", constants=(_f(1, 3, 3, 2),), opset=16), "sampling at places"),
    (Case("OneHot", constants=(np.int64(3), _f(2))), "function of indices"),
    (Case("DynamicQuantizeLinear", opset=13, outputs=3), "DynamicQuantizeLinear.*before quantisation"),
    (Case("NonZero", (1, 4)), "depends on the values"),
    (Case("Shrink", attributes={"bias": 0.2, "lambd": 0.5}), "jumps at 0.5"),
    (Case("LRN", attributes={"size": 4}), "even number of channels"),
    (Case("ScatterND", (1, 4), (np.array([[0, 1], [0, 1]]), _f(2))), "two updates go to one place"),
    (Case("ScatterND", (1, 4), (np.array([[0, 1]]), _f(1)), 18, {"reduction": "max"}), "'max'"),
    (Case("ReduceSumSquare", opset=18, attributes={"noop_with_empty_axes": 1}), "no reduction"),
    (Case("MaxPool", attributes={"kernel_shape": [2, 2]}, outputs=2), "'y1' is used"),
    (Case("LayerNormalization", (1, 3, 8), (_f(8),), outputs=3), "'y1' is used"),
    (Case("Cast", attributes={"to": TensorProto.FLOAT8E4M3FN}, opset=19), "FLOAT8E4M3FN"),
    (Case("Hardmax", (1, 4), opset=13), "no conversion is known"),
    (Case("Attention", _CUT_QUERY, opset=23, operands=_SELF, attributes={"softcap": 2.0}), "softcap"),
    (
        Case("Attention", _CUT_QUERY, opset=23, operands=("x", "x", "x", "m"), more={"m": (1, 1, 5, 5)}),
        "its mask depends",
    ),
    (
        Case("Attention", _CUT_QUERY, opset=23, operands=("x", "x", "x", None, _f(*_CUT_QUERY), _f(*_CUT_QUERY))),
        "past keys",
    ),
    (_contrib("MultiHeadAttention", "x", shape=(1, 5, 2, 3, 4), num_heads=2), "packed"),
    (_contrib("QLinearAdd", "x"), "com.microsoft.QLinearAdd.*before quantisation"),
    (_contrib("FusedConv", "x", _f(5, 4, 3, 3), shape=(1, 4, 6, 6), activation="Magic"), "the activation 'Magic'"),
    (replace(_contrib("Conv", "x", _f(8, 4, 3, 3)), domain="com.microsoft.nchwc"), "ORT_ENABLE_EXTENDED"),
]
