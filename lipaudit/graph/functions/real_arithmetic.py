"""Which operations on tensors of a type are those of real numbers."""

from __future__ import annotations

import torch

from lipaudit.graph.node import Constant, Node, Ref
from lipaudit.graph.ops import CASTS

COMPARISONS = {f"aten.{name}.{kind}" for name in ("gt", "ge", "lt", "le") for kind in ("Scalar", "Tensor")}
_CONDITIONS = {"condition", "mask"}
_OF_WHOLE_NUMBERS = {f"aten.{name}.{kind}" for name in ("add", "sub", "rsub", "mul") for kind in ("Tensor", "Scalar")}


def has_real_arithmetic(node: Node) -> bool:
    """Whether an operation on tensors of these types computes what its rule says of real numbers, with 1 for True and 0 for False.

    Whole numbers wrap and are divided with rounding, the sum of booleans is their "or", and a cast to booleans or whole numbers jumps.
    """
    operands = {k: _dtype(v) for k, v in node.arguments.items() if isinstance(v, Ref | Constant)}
    output = node.output.dtype
    if output.is_complex or any(dtype.is_complex for dtype in operands.values()):
        return False
    if any(operands[key] is not torch.bool for key in _CONDITIONS & operands.keys()):
        return False
    if node.op in CASTS:
        return output.is_floating_point or all(dtype is torch.bool for dtype in operands.values())
    if output.is_floating_point or node.op in COMPARISONS:
        return True
    if output is torch.bool:
        return "add" not in node.op and all(dtype is torch.bool for dtype in operands.values())
    return node.op in _OF_WHOLE_NUMBERS and output in (torch.int32, torch.int64)


def _dtype(argument: Ref | Constant) -> torch.dtype:
    return argument.info.dtype if isinstance(argument, Ref) else argument.dtype
