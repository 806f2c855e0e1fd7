"""Conformance cases of convolutions, dense layers and folded scales, and what their rules say beyond a number."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

from lipaudit.graph.linear import CONVOLUTION, DENSE, SCALE, Dense, Scale
from lipaudit.rules.effect import Settings, Status
from lipaudit.rules.rule import apply_rule
from lipaudit.spectral.convolution.geometry import Convolution
from tests.nodes import data, operation
from tests.rules.ops.cases import case, unbounded

_GENERATOR = torch.Generator().manual_seed(0)


def _random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=_GENERATOR, dtype=torch.float64)


case("aten.conv1d.default", data(1, 2, 7), _random(3, 2, 3), None, [2], [1])
case("aten.conv1d.padding", data(1, 2, 7), _random(2, 2, 4), None, [1], "same")
case("aten.conv2d.default", data(1, 2, 5, 4), _random(4, 1, 3, 3), _random(4), [1, 2], [1, 1], [1, 1], 2)
case("aten.conv2d.default", data(1, 2, 6, 6), _random(3, 2, 3, 3), None, [1, 1], [2, 2], [2, 2])
case("aten.conv2d.padding", data(1, 2, 5, 5), _random(2, 2, 3, 3), None, [1, 1], "valid")
case("aten.conv3d.default", data(1, 1, 3, 4, 3), _random(2, 1, 2, 3, 2), None, [1, 2, 1], [0, 1, 1])
case("aten.conv3d.padding", data(1, 1, 3, 4, 3), _random(1, 1, 2, 3, 2), None, [1, 1, 1], "same")
case("aten.conv_transpose1d.default", data(1, 2, 4), _random(2, 3, 3), None, [2], [1], [1])
case("aten.conv_transpose2d.input", data(1, 2, 3, 4), _random(2, 2, 3, 2), None, [2, 3], [1, 0], [1, 2], 2)
case("aten.conv_transpose3d.input", data(1, 1, 2, 3, 2), _random(1, 2, 2, 2, 2), None, [2, 1, 2])
case("aten.convolution.default", data(1, 2, 5), _random(2, 2, 3), None, [1], [1], [1], False, [0], 1)
case("aten.convolution.default", data(1, 2, 5), _random(2, 2, 3), None, [2], [1], [1], True, [1], 1)
# fmt: off
for _name, _flags in (("default", 4), ("deprecated", 3)):
    for _stride, _padding, _dilation, _transposed, _output, _groups in (
        (2, 1, 2, False, 0, 2), (3, 0, 1, False, 0, 2), (2, 1, 1, True, 1, 1)
    ):
        case(f"aten._convolution.{_name}", data(1, 2 * _groups, 7), _random(2, 2, 3), None, [_stride], [_padding], [_dilation], _transposed,
             [_output], _groups, *[_transposed] * _flags)
# fmt: on
unbounded("aten.conv2d.default", data(1, 1, 4, 4), data(1, 1, 3, 3), None, [1, 1], [1, 1], witness=(0.0, 1e4))

case("aten.linear.default", data(1, 3, 4), _random(2, 4), _random(2))
case("aten.linear.default", data(4), _random(2, 4))
case("aten.linear.default", _random(3, 4), data(2, 4))
case("aten.addmm.default", _random(3), data(2, 4), _random(4, 3), alpha=-2.0)
case("aten.addmm.default", data(3), _random(2, 4), data(4, 3), beta=0.5, exact=False)
case("aten.mm.default", data(2, 4), _random(4, 3))
case("aten.mm.default", _random(2, 4), data(4, 3))
case("aten.matmul.default", data(2, 5, 4), _random(4, 3))
case("aten.matmul.default", _random(2, 5), data(3, 5, 4))
case("aten.matmul.default", data(4), _random(4, 3))
case("aten.matmul.default", data(3, 4), _random(4))
case("aten.matmul.default", data(5, 4), _random(3, 4, 2), exact=False)
case("aten.matmul.default", data(1, 6, 5, 4), _random(2, 1, 4, 2), exact=False)
case("aten.matmul.default", data(2, 5, 4), _random(2, 4, 2))
unbounded("aten.matmul.default", data(2, 3), data(3, 2), witness=(0.0, 1e4))
unbounded("aten.mm.default", data(2, 3), data(3, 2), witness=(0.0, 1e4))


def _payload(op: str, payload: Any, *shape: int, function: Any, sources: tuple[str, ...] = ()) -> None:
    case(op, input=data(*shape), function=function, payload=payload)


_KERNEL = _random(3, 2, 3, 3)
_CIRCULAR = Convolution(
    _KERNEL, (5, 4), (1, 1), ((1, 1), (1, 1)), (1, 1), padding_mode="circular", output_padding=(0, 0)
)
_payload(
    CONVOLUTION,
    _CIRCULAR,
    1,
    2,
    5,
    4,
    function=lambda x: functional.conv2d(functional.pad(x, (1, 1, 1, 1), mode="circular"), _KERNEL),
)
_MATRIX = _random(3, 4)
_payload(DENSE, Dense(_MATRIX), 1, 2, 4, function=lambda x: x @ _MATRIX.T)
_FACTOR = _random(3)
_payload(SCALE, Scale(_FACTOR, 1), 1, 3, 2, function=lambda x: x * _FACTOR[None, :, None])


def test_data_dependent_bias_is_counted() -> None:
    built = operation("aten.linear.default", (data(2, 3), _random(4, 3), data(4)), {})
    effect = apply_rule(built.node, Settings())
    assert len(effect.factors) == 2
    assert effect.factors[1].upper == pytest.approx(2**0.5)


def test_folded_kernels_get_a_wider_bracket() -> None:
    plain, folded = (
        operation(DENSE, (), {"input": data(1, 4)}, lambda x: x @ _MATRIX.T, Dense(_MATRIX, error)).node
        for error in (0.0, 1e-15)
    )
    narrow, wide = (apply_rule(n, Settings()).factors[0] for n in (plain, folded))
    assert wide.log_upper > narrow.log_upper
    assert wide.log_upper - narrow.log_upper < 1e-12


def test_constant_product_is_not_claimed() -> None:
    built = operation("aten.mm.default", (_random(2, 3), _random(3, 2)), {})
    assert apply_rule(built.node, Settings()).status is Status.UNSUPPORTED
