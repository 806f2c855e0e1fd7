"""Large inputs cost nothing where they can, are refused where they cannot, and a refusal says why."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest
import torch
from torch import nn

import lipaudit
import lipaudit.rules
from lipaudit.graph.arguments import bind, overload
from lipaudit.graph.node import Constant, Node, Ref, TensorInfo
from lipaudit.rules.effect import Combination, Settings, Status
from lipaudit.rules.index_probe import PROBE_LIMIT, largest_count
from lipaudit.rules.rule import apply_rule

HUGE = 2**20


def huge(op: str, output: tuple[int, ...], /, *args: object, **kwargs: object) -> Node:
    """A node on tensors that are never made."""
    bound = {k: tuple(v) if isinstance(v, list) else v for k, v in bind(overload(op), args, kwargs).items()}
    return Node("node", op, bound, (TensorInfo(output, torch.float32),))  # type: ignore[arg-type]


def ref(*shape: int) -> Ref:
    return Ref("x", TensorInfo(shape, torch.float32))


@pytest.mark.parametrize(
    ("node", "upper"),
    [
        (huge("aten.flip.default", (1, HUGE, HUGE), ref(1, HUGE, HUGE), (1,)), 1.0),
        (huge("aten.expand.default", (4, HUGE, HUGE), ref(1, HUGE, HUGE), (4, HUGE, HUGE)), 2.0),
        (huge("aten.pad.default", (1, HUGE, 12, 9), ref(1, HUGE, 8, 9), (0, 0, 2, 2), "reflect"), 2**0.5),
        (huge("aten.unfold.default", (1, HUGE, 98, 9, 3), ref(1, HUGE, 100, 9), 2, 3, 1), 3**0.5),
        (
            huge("aten.index_select.default", (1, HUGE, 4), ref(1, HUGE, 9), 2, Constant(torch.tensor([1, 1, 1, 1]))),
            2.0,
        ),
        (
            huge(
                "aten.index.Tensor", (1, HUGE, 4), ref(1, HUGE, 9), (None, None, Constant(torch.tensor([1, 1, 1, 1])))
            ),
            2.0,
        ),
        (huge("aten.max_pool2d.default", (1, HUGE, 50, 50), ref(1, HUGE, 100, 100), (3, 3), (2, 2), (1, 1)), 2.0),
        (huge("aten.slice_scatter.default", (1, HUGE, HUGE), ref(1, HUGE, HUGE), ref(1, HUGE, 2), 2, 0, 2), 1.0),
        (huge("aten.copy.default", (4, HUGE, HUGE), Constant(torch.zeros(1)), ref(1, HUGE, HUGE)), 2.0),
        (huge("aten.mul.Tensor", (HUGE, HUGE, 3), ref(HUGE, HUGE, 3), Constant(torch.tensor([1.0, -3.0, 2.0]))), 3.0),
        (huge("aten.add.Tensor", (4, HUGE, HUGE), ref(1, HUGE, HUGE), Constant(torch.ones(4, 1, 1))), 2.0),
    ],
)
def test_untouched_axes_cost_nothing(node: Node, upper: float) -> None:
    tracemalloc.start()
    effect = apply_rule(node, Settings())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert upper <= effect.factors[0].upper <= upper * (1 + 1e-10)
    assert peak < 2**24


@pytest.mark.parametrize(
    "node",
    [
        huge("aten.gather.default", (HUGE, 64), ref(HUGE, 64), 1, Constant(torch.zeros(1, 1, dtype=torch.int64))),
        huge("aten.pad.default", (1, HUGE, 68), ref(1, HUGE, 64), (2, 2, 0, 0), "reflect"),
        huge("aten.adaptive_avg_pool1d.default", (1, 1, HUGE // 2), ref(1, 1, HUGE), (HUGE // 2,)),
        huge("aten.upsample_linear1d.default", (1, 1, HUGE), ref(1, 1, HUGE // 2), (HUGE,), False),
        huge("aten.col2im.default", (1, 1, HUGE, 64), ref(1, 9, HUGE * 62), (HUGE, 64), (3, 3), (1, 1), (0, 0), (1, 1)),
    ],
)
def test_beyond_the_limit_nothing_is_claimed(node: Node) -> None:
    effect = apply_rule(node, Settings())
    assert effect.status is Status.UNSUPPORTED
    assert "smaller input" in effect.reason


def test_probe_counts_the_numbers_of_one_input_only() -> None:
    """Constants that happen to equal element numbers, and fill values, are not counted."""
    ones = Constant(torch.ones(1, 2))
    assert largest_count("aten.cat.default", {"tensors": (ref(1, 2), ones, ref(1, 3)), "dim": 1}, 0) == 1
    assert largest_count("aten.cat.default", {"tensors": (ref(1, 2), ones, ref(1, 3)), "dim": 1}, 1) == 1
    filled = {"self": ref(1, 4), "dim": 1, "index": Constant(torch.tensor([[0]])), "value": 2.0}
    assert largest_count("aten.scatter.value", filled, 0) == 1
    assert PROBE_LIMIT * 8 * 2 <= 2**29


def test_nothing_remains_of_a_tensor_that_is_overwritten() -> None:
    effect = apply_rule(huge("aten.copy.default", (2, 3), ref(2, 3), ref(3)), Settings())
    assert [f.upper < 1e-300 for f in effect.factors] == [True, False]
    assert effect.combination is Combination.ROOT_SUM_SQUARES


def test_data_dependent_weights_are_never_read_as_constants() -> None:
    node = huge("aten.batch_norm.default", (1, 3), ref(1, 3), ref(3), None, None, None, False, 0.1, 1e-5, False)
    assert apply_rule(node, Settings()).status is Status.UNSUPPORTED
    node = huge("aten.rms_norm.default", (1, 3), ref(1, 3), (3,), ref(3), 1e-5)
    effect = apply_rule(node, Settings())
    assert effect.status is Status.UNSUPPORTED
    assert "weight" in effect.reason


def test_an_unknown_operation_is_unsupported() -> None:
    effect = apply_rule(Node("node", "aten.linalg_inv.default", {"input": ref(1, 4)}, ()), Settings())
    assert effect.status is Status.UNSUPPORTED
    assert "aten.linalg_inv.default" in effect.reason


def test_half_precision_constants_are_taken_exactly() -> None:
    weight = torch.tensor([1.0009765625, -0.5], dtype=torch.float16)
    node = huge("aten.mul.Tensor", (1, 2), ref(1, 2), Constant(weight))
    (factor,) = apply_rule(node, Settings()).factors
    assert 1.0009765625 <= factor.upper <= 1.0009765625 * (1 + 1e-12)


def test_casts_to_lower_precision_say_that_rounding_is_not_counted() -> None:
    node = Node(
        "node", "aten.to.dtype", {"self": ref(1, 2), "dtype": torch.float16}, (TensorInfo((1, 2), torch.float16),)
    )
    effect = apply_rule(node, Settings())
    assert effect.status is Status.FINITE
    assert "rounding" in effect.note


NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize(
    "function",
    [
        lambda x: nn.functional.leaky_relu(x, NAN),
        lambda x: nn.functional.elu(x, NAN),
        lambda x: nn.functional.celu(x, INFINITY),
        lambda x: x + NAN,
        lambda x: x - INFINITY,
        lambda x: x.clamp(min=NAN),
        lambda x: torch.add(x, x, alpha=NAN),
        lambda x: nn.functional.layer_norm(x, (4,), eps=NAN),
        lambda x: torch.where(torch.tensor([True, False, True, False]), x, NAN),
    ],
)
def test_a_function_without_values_has_no_bound(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    class Network(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x)

    assert not torch.isfinite(Network()(-torch.ones(1, 4))).all()
    report = lipaudit.audit(Network(), input_shape=(1, 4))
    assert report.network.status in ("unsupported", "unbounded")
    assert report.network.upper_bound is None
