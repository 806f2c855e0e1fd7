"""The conditions under which an exported program is the network that was exported, as arithmetic over the sizes of its inputs.

``torch.export`` writes them as Python (``L['x'].size()[1] % 2 == 0``). They are parsed here, never run.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lipaudit.errors.inputs import ExportedSizesError, UnreadableConditionError

_LARGEST = 10**18
_COMPARE: dict[type, Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_ARITHMETIC: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: dict[str, Callable[[Iterable[int]], int]] = {"torch.sym_max": max, "torch.sym_min": min}


class _UnknownError(Exception):
    """The condition is not arithmetic over the sizes of inputs."""


def check_guards(guards: list[str], shapes: Mapping[str, tuple[int, ...]], what: str) -> None:
    """Raise :class:`~lipaudit.errors.UsageError` unless inputs of these shapes fulfil every condition.

    >>> check_guards(["L['x'].size()[1] % 2 == 0"], {"x": (1, 6)}, "net.pt2")
    """
    for guard in guards:
        try:
            holds = bool(_value(ast.parse(guard, mode="eval").body, shapes))
        except (_UnknownError, SyntaxError, ValueError, RecursionError, MemoryError, ArithmeticError, LookupError):
            raise UnreadableConditionError(what, guard) from None
        if not holds:
            sizes = ", ".join(f"{name}: {'x'.join(map(str, shape))}" for name, shape in shapes.items())
            raise ExportedSizesError(what, guard, sizes)


def _value(node: ast.expr, shapes: Mapping[str, tuple[int, ...]]) -> int | bool:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.Subscript):
        return _size(node, shapes)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        value = _value(node.operand, shapes)
        return -value if isinstance(node.op, ast.USub) else not value
    if isinstance(node, ast.Call) and not node.keywords and ast.unparse(node.func) in _FUNCTIONS:
        return _FUNCTIONS[ast.unparse(node.func)](_value(part, shapes) for part in node.args)
    if isinstance(node, ast.BoolOp):
        parts = [bool(_value(part, shapes)) for part in node.values]
        return all(parts) if isinstance(node.op, ast.And) else any(parts)
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        result = _ARITHMETIC[type(node.op)](_value(node.left, shapes), _value(node.right, shapes))
        if abs(result) <= _LARGEST:
            return result
    if isinstance(node, ast.Compare) and all(type(op) in _COMPARE for op in node.ops):
        values = [_value(part, shapes) for part in (node.left, *node.comparators)]
        return all(_COMPARE[type(op)](a, b) for op, a, b in zip(node.ops, values, values[1:], strict=False))
    raise _UnknownError


def _size(node: ast.Subscript, shapes: Mapping[str, tuple[int, ...]]) -> int:
    """``L['x'].size()[1]``"""
    match node:
        case ast.Subscript(
            value=ast.Call(
                func=ast.Attribute(
                    value=ast.Subscript(value=ast.Name(id="L"), slice=ast.Constant(value=str(name))), attr="size"
                ),
                args=[],
                keywords=[],
            ),
            slice=ast.Constant(value=int(axis)),
        ):
            return shapes[name][axis]
    raise _UnknownError
