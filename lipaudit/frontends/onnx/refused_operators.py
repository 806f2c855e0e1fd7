"""ONNX operators that are refused on purpose, with the reason. They still evaluate where all their inputs are constant."""

from __future__ import annotations

from torch import nn

from lipaudit.frontends.onnx.operators import Converter, NodeView, converter

_QUANTISED = "rounding to integers jumps, so that a quantised network has no Lipschitz constant; audit the network before quantisation"
_LAYOUT = (
    "onnxruntime wrote this file for one kind of processor, in blocks of channels; write it again at the level "
    "ORT_ENABLE_EXTENDED or audit the original file"
)
_STANDARD = {
    ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul"): _QUANTISED,
    ("ConvInteger", "MatMulInteger"): _QUANTISED,
    ("Loop", "Scan", "SequenceMap"): "loops are not supported; audit one step",
    ("NonZero", "Unique", "NonMaxSuppression"): (
        "how much it returns depends on the values of the network's input; cut the graph in front of it"
    ),
    ("OneHot",): "its indices depend on the network's input; a function of indices has no Lipschitz constant",
    ("GridSample", "RoiAlign", "MaxRoiPool", "DeformConv", "AffineGrid"): (
        "sampling at places that the network computes is not supported; cut the graph in front of it"
    ),
}
_MICROSOFT = {
    ("QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax", "QLinearConcat"): _QUANTISED,
    ("QLinearAveragePool", "QLinearGlobalAveragePool", "QGemm", "QAttention", "DynamicQuantizeMatMul"): _QUANTISED,
    ("MatMulIntegerToFloat", "QuantizeLinear", "DequantizeLinear"): _QUANTISED,
}
_STEPS = "it is constant but for jumps, so that it has no Lipschitz constant; cut the graph in front of it"
_MACHINE_LEARNING = {
    ("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor", "Binarizer"): _STEPS,
    ("OneHotEncoder", "LabelEncoder", "CategoryMapper", "CastMap", "DictVectorizer"): (
        "it looks labels up; a function of labels has no Lipschitz constant"
    ),
    ("SVMClassifier", "SVMRegressor"): "support vector machines are not supported",
    ("ZipMap",): "its map of labels is read by another operator; maps are supported as outputs of the file only",
}
_BLOCKS = {
    ("Conv", "MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool", "Upsample"): _LAYOUT,
    ("ReorderInput", "ReorderOutput"): _LAYOUT,
}


def _refusal(reason: str) -> Converter:
    def refuse(node: NodeView) -> nn.Module:
        node.fail(reason)

    return refuse


_DOMAINS = {
    "": _STANDARD,
    "com.microsoft": _MICROSOFT,
    "com.microsoft.nchwc": _BLOCKS,
    "ai.onnx.ml": _MACHINE_LEARNING,
}
for _domain, _table in _DOMAINS.items():
    for _names, _reason in _table.items():
        converter(*_names, domain=_domain)(_refusal(_reason))
