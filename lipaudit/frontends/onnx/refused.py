"""ONNX operators that are refused on purpose, with the reason. They still evaluate where all their inputs are constant."""

from __future__ import annotations

from torch import nn

from lipaudit.frontends.onnx.operators import NodeView, converter

_REASONS = {
    ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul"): (
        "rounding to integers jumps, so that a quantised network has no Lipschitz constant; audit the network before "
        "quantisation"
    ),
    (
        "ConvInteger",
        "MatMulInteger",
    ): "integer arithmetic has no Lipschitz constant; audit the network before quantisation",
    ("LSTM", "GRU", "RNN", "Loop", "Scan", "SequenceMap"): "recurrence and loops are not supported; audit one step",
    ("NonZero", "Unique", "NonMaxSuppression"): (
        "how much it returns depends on the values of the network's input; cut the graph in front of it"
    ),
    ("OneHot",): "its indices depend on the network's input; a function of indices has no Lipschitz constant",
    ("GridSample", "RoiAlign", "MaxRoiPool", "DeformConv", "AffineGrid"): (
        "sampling at places that the network computes is not supported; cut the graph in front of it"
    ),
}
_REASON_BY_NAME = {name: reason for names, reason in _REASONS.items() for name in names}


@converter(*_REASON_BY_NAME)
def refuse(node: NodeView) -> nn.Module:
    """Name the node and the reason."""
    node.fail(_REASON_BY_NAME[node.op])
