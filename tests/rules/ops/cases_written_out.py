"""Conformance cases of activations that arrive written out, built as the normal form that the graph recognises."""

from __future__ import annotations

import math

import torch
from torch.nn import functional

from lipaudit.graph.functions.normal_form import Expression, apply, clamp, constant
from lipaudit.graph.functions.normal_form_slope import slope_bound
from lipaudit.graph.passes.activations import ACTIVATION, Activation
from tests.nodes import data
from tests.rules.ops.cases import case

X = Expression.variable()


def _activation(phi: Expression | None) -> Activation:
    assert phi is not None
    bound = slope_bound(phi)
    assert bound is not None
    return Activation(phi, bound)


def _times(h: Expression | None, c1: float = 0.0, c2: float = 1.0, factor: Expression = X) -> Activation:
    """c1 x + c2 (factor) h."""
    assert h is not None
    product = factor * h
    assert product is not None
    scaled = product * constant(c2)
    assert scaled is not None
    return _activation(scaled + X * constant(c1))


_CUBE = X * X * X
_K = math.sqrt(2 / math.pi)
_written_out = {
    "silu": (_times(apply("sigmoid", X)), lambda x: x * torch.sigmoid(x), (2.39935728,)),
    "quick gelu": (_times(apply("sigmoid", X * constant(1.702))), lambda x: x * torch.sigmoid(1.702 * x), (1.409728,)),
    "gelu": (
        _times(apply("erf", X * constant(0.5**0.5)), 0.5, 0.5),
        lambda x: 0.5 * x * (1 + torch.erf(x * 0.5**0.5)),
        (math.sqrt(2),),
    ),
    "gelu (tanh)": (
        _times(apply("tanh", X * constant(_K) + _CUBE * constant(_K * 0.044715)), 0.5, 0.5),
        lambda x: 0.5 * x * (1 + torch.tanh(_K * (x + 0.044715 * x**3))),
        (1.418504,),
    ),
    "hardswish": (
        _times(clamp(X + constant(3), 0, 6), 0, 0.5),
        lambda x: x * functional.relu6(x + 3) / 2,
        (2.9999999, -2.9999999, 4.0),
    ),
    "mish": (
        _times(apply("tanh", apply("softplus", X))),
        lambda x: x * torch.tanh(functional.softplus(x)),
        (1.49057118,),
    ),
    "1 - silu": (_times(apply("sigmoid", X), 1.0, -1.0), lambda x: x - x * torch.sigmoid(x), (-2.39935728,)),
    "shifted tanh": (
        _times(apply("tanh", X + constant(2)), 0.0, 1.0, X + constant(2)),
        lambda x: (x + 2) * torch.tanh(x + 2),
        (-0.8003214,),
    ),
}
for payload, function, at in _written_out.values():
    case(ACTIVATION, self=data(1, 7), function=function, payload=payload, at=at, exact=True)
# a shift inside h alone: the bound is not attained
case(
    ACTIVATION,
    self=data(1, 7),
    function=lambda x: x * torch.sigmoid(x + 1),
    payload=_times(apply("sigmoid", X + constant(1))),
    at=(2.0, -1.0, 30.0),
)
