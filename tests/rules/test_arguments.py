"""Every argument of every schema of every rule is exercised by a conformance case away from its default.

A rule that drops an argument without reading it claims the constant of another call: the conformance cases hold every
call against the operation itself, and these tests see to it that no argument is left out. A rule that is registered
is covered from then on: without cases for its arguments the test fails and names them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import lipaudit.rules  # noqa: F401  registers the rules
from lipaudit.graph.arguments import bind, overload
from lipaudit.rules.rule import all_rules
from tests.rules.ops.cases import Case, all_cases

OPS = [op for op in all_rules() if op.startswith("aten.")]
CASES: dict[str, list[Case]] = defaultdict(list)
for _case in all_cases():
    CASES[_case.op].append(_case)


def values(op: str, argument: str) -> list[Any]:
    """What the cases of an operation give an argument."""
    return [bind(overload(op), case.args, dict(case.kwargs))[argument] for case in CASES[op]]


def same(value: Any, other: Any) -> bool:
    """Whether an argument has a value; a tensor is equal to nothing."""
    if isinstance(value, list | tuple) and isinstance(other, list | tuple):
        return len(value) == len(other) and all(map(same, value, other))
    numbers = isinstance(value, bool | int | float | complex) and isinstance(other, bool | int | float | complex)
    return not isinstance(value, torch.Tensor) and (numbers or type(value) is type(other)) and bool(value == other)


def shortcoming(op: str, argument: torch.Argument) -> str:
    """What the cases of an operation do not show of one of its arguments, empty where nothing is missing."""
    found = values(op, argument.name)
    if argument.has_default_value():
        away = [v for v in found if not same(v, argument.default_value)]
        return "" if away else f"is never away from its default {argument.default_value!r}"
    if not found:
        return "is never given"
    if "Tensor" in str(argument.type):
        return ""
    return "" if any(not same(v, found[0]) for v in found) else f"is always {found[0]!r}; give it a second value"


def shortcomings() -> Iterator[str]:
    for op in OPS:
        for argument in overload(op)._schema.arguments:
            if text := shortcoming(op, argument):
                yield f"{op} (rule {all_rules()[op].name}): {argument.name} {text}"


def test_every_argument_is_exercised_away_from_its_default() -> None:
    missing = list(shortcomings())
    assert not missing, (
        f"{len(missing)} arguments that a rule may drop unread; add conformance cases (tests/rules/cases_*.py):\n"
        + "\n".join(missing)
    )


def test_the_arguments_are_counted() -> None:
    """So that a change of the registry or of torch cannot empty the test above."""
    counted = sum(len(overload(op)._schema.arguments) for op in OPS)
    assert counted >= 1179


def test_a_missing_case_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CASES, "aten.topk.default", [])
    assert "aten.topk.default (rule topk): sorted is never away from its default True" in shortcomings()
