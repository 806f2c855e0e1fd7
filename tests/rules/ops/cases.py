"""The registry of conformance cases. Modules ``cases_*`` (and ``test_linear_rules``) beside this one fill it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from lipaudit.rules.effect import Status
from tests.nodes import Data, Operation, operation


@dataclass(frozen=True, eq=False)
class Case:
    """One call of an operation that has a rule.

    ``op`` is the registered name, ``args`` and ``kwargs`` the call, with :class:`tests.nodes.Data` for data-dependent
    tensors. ``at`` are values at which a constant input attains the supremum. ``exact`` overrides the rule's claim
    that its factor is attained. ``witness`` is a pair of values (a, b): between the inputs that are constantly a and
    constantly b an unbounded operation stretches by more than 1000. ``function`` replaces the operation where it is no
    ATen operation or cannot run here; ``formula`` is the same function written out, for Jacobians where torch has no
    derivative of the operation or an inexact one. ``payload`` is the node's.
    """

    op: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    status: Status = Status.FINITE
    at: tuple[float, ...] = ()
    exact: bool | None = None
    witness: tuple[float, float] | None = None
    function: Callable[..., Any] | None = None
    formula: Callable[..., Any] | None = None
    payload: Any = None
    scales: tuple[float, ...] = (1.0, 1e-3, 1e3)

    def build(self) -> Operation:
        return operation(self.op, self.args, dict(self.kwargs), self.function, self.payload)

    @property
    def label(self) -> str:
        parts = [_show(a) for a in self.args] + [f"{k}={_show(v)}" for k, v in self.kwargs.items()]
        return f"{self.op.removeprefix('aten.')}({', '.join(parts)})"


CASES: list[Case] = []
_OWN = ("status", "at", "exact", "witness", "function", "formula", "payload", "scales")


def case(op: str, *args: Any, **options: Any) -> None:
    """Register a case; options named like fields of :class:`Case` are its own, the others are arguments of the call."""
    own = {k: options.pop(k) for k in tuple(options) if k in _OWN}
    CASES.append(Case(op if "." in op or op == "getitem" else f"aten.{op}.default", args, options, **own))


def unbounded(op: str, *args: Any, **options: Any) -> None:
    case(op, *args, status=Status.UNBOUNDED, **options)


def unsupported(op: str, *args: Any, **options: Any) -> None:
    case(op, *args, status=Status.UNSUPPORTED, **options)


def all_cases() -> list[Case]:
    """Every case of every module of cases."""
    here = Path(__file__).parent
    for path in sorted([*here.glob("cases_*.py"), *here.glob("test_linear.py")]):
        importlib.import_module(f"tests.rules.ops.{path.stem}")
    return CASES


def _show(value: Any) -> str:
    if isinstance(value, Data):
        return "x" + "x".join(map(str, value.shape))
    if isinstance(value, torch.Tensor):
        return "c" + "x".join(map(str, value.shape))
    if isinstance(value, torch.Generator):  # its own text has an address, and every process must name a test alike
        return "generator"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_show, value)) + "]"
    return str(value)
