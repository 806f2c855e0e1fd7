"""Every spelling of an operation has the facets of the operation, computes what its translation computes, and gets its bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import lipaudit
import lipaudit.rules  # registers the rules
from lipaudit.errors import RegistryError
from lipaudit.graph.aliases import canonical
from lipaudit.graph.arguments import overload
from lipaudit.graph.node import Constant, Node
from lipaudit.graph.ops import ALIASES, CASTS, MOVEMENT, aten
from lipaudit.rules.effect import Effect
from lipaudit.rules.rule import FACETS, find_operation, operations
from tests.nodes import data, function_of, operation

X = data(2, 3, 4)
MATRIX = data(2, 3)
F64 = torch.float64
# A call of every alias: arguments, named arguments.
CALLS: dict[str, tuple[Any, ...]] = {
    "view": (X, [6, 4]), "_unsafe_view": (X, [6, 4]), "_reshape_alias": (X, [6, 4], [4, 1]), "view_copy": (X, [6, 4]),
    "view_as": (X, data(4, 6)),
    "reshape_as": (X, torch.zeros(4, 6)), "flatten.using_ints": (X, 1), "unflatten.int": (X, 2, [2, -1]), "ravel": (X,),
    "squeeze": (data(1, 3, 1),),
    "squeeze.dim": (data(1, 3, 1), -1), "squeeze.dims": (data(1, 3, 1), [0, 2]), "unsqueeze": (X, -2),
    "atleast_1d": (data(),),
    "alias": (X,), "contiguous": (X,), "detach": (X,), "detach_": (X,), "lift_fresh": (X,), "lift_fresh_copy": (X,),
    "to.dtype": (X, torch.float32), "to.dtype_layout": (X, {"dtype": torch.float32}), "to.device": (X, "cpu", torch.float32),
    "to.other": (X, torch.zeros(1)), "type_as": (X, data(2, dtype=torch.float32)),
    "transpose.int": (X, -1, 0), "swapaxes": (X, 0, 1), "swapdims": (X, -3, 2), "t": (MATRIX,), "mT": (X,), "numpy_T": (X,),
    "movedim.int": (X, 0, -1), "movedim.intlist": (X, [0, 1], [2, 0]), "moveaxis.int": (X, 2, 0), "moveaxis.intlist": (X, [2], [0]),
    "fliplr": (X,), "flipud": (X,), "narrow": (X, 1, -2, 2),
    "split.Tensor": (X, 2, 1), "split.sizes": (X, [1, 2], 1), "unsafe_split.Tensor": (X, 2, -2), "chunk": (X, 3, 2),
    "unsafe_split_with_sizes": (X, [1, 2], 1), "unsafe_chunk": (X, 2, 1), "tensor_split.sections": (X, 3, -1),
    "tensor_split.indices": (X, [1, 3], 2),
    "expand_as": (data(1, 3, 1), data(2, 3, 4)), "broadcast_to": (MATRIX, [5, 2, 3]), "tile": (X, [2, 1]),
    "concat": ([X, data(1, 3, 4)],), "concatenate": ([X, X], -1),
    "_softmax": (X, 1, False), "_log_softmax": (X, -1, False),
    "clamp_min": (X, -0.5), "clamp_max": (X, 0.5), "hardtanh": (X, -0.25, 0.5), "relu6": (X,),
    "_prelu_kernel": (X, torch.full((1, 1, 1), 0.25, dtype=F64)),
    "max.other": (X, data(3, 1)), "fmax": (X, X), "min.other": (X, X), "fmin": (X, X),
    "_adaptive_avg_pool2d": (data(1, 2, 4, 4), [2, 1]), "_adaptive_avg_pool3d": (data(1, 2, 4, 4, 2), [2, 1, 1]),
    "add.Scalar": (X, 2.0, 3.0), "sub.Scalar": (X, 2.0, 3.0), "rsub.Scalar": (X, 2.0, 3.0), "mul.Scalar": (X, -2.0),
    "div.Scalar": (X, -2.0), "div.Scalar_mode": (X, 2.0, {"rounding_mode": None}),
    "where.ScalarOther": (torch.tensor([True, False, True, False]), X, 2.0),
    "where.ScalarSelf": (torch.tensor([True, False, True, False]), 2.0, X),
    **{f"{name}.{kind}": (X, other) for name in ("less", "less_equal", "greater", "greater_equal", "not_equal")
       for kind, other in (("Tensor", data(3, 1)), ("Scalar", 0.5))},
    "masked_fill.Scalar": (X, torch.tensor([True, False, True, False]), 2.0),
}  # fmt: skip


def test_every_alias_is_called() -> None:
    assert set(aten(*CALLS)) == set(ALIASES), "an alias without a call here, or a call of what is no alias"


@pytest.mark.parametrize("name", CALLS)
def test_an_alias_has_the_facets_of_its_operation(name: str) -> None:
    (alias,) = aten(name)
    assert find_operation(alias) is find_operation(ALIASES[alias])
    assert find_operation(alias).constant is not None
    for facet in FACETS[1:]:
        with pytest.raises(RegistryError, match=f"{alias} is a spelling of"):
            getattr(operations(alias), facet)(Effect.stretch)
    with pytest.raises(RegistryError, match=f"{alias} is a spelling of"):
        operations(alias).constant(formula="", source="")(Effect.stretch)


@pytest.mark.parametrize("name", CALLS)
def test_a_translation_computes_the_same(name: str) -> None:
    *positional, named = CALLS[name] if isinstance(CALLS[name][-1], dict) else (*CALLS[name], {})
    built = operation(*aten(name), positional, named)
    spelled = canonical(built.node)
    assert spelled.op == ALIASES[built.node.op]
    assert spelled.refs == built.node.refs
    inputs = [x.random(torch.Generator().manual_seed(1)) for x in built.inputs]
    before, after = built.function(*inputs), function_of(with_tensors(spelled))(*inputs)
    assert [tuple(t.shape) for t in after] == [o.shape for o in built.node.outputs]
    for a, b in zip(before, after, strict=True):
        assert a.dtype is b.dtype
        assert torch.equal(a, b)


def with_tensors(node: Node) -> Node:
    """The node with tensors for numbers, where its operation reads tensors."""
    kinds = {a.name: str(a.type) for a in overload(node.op)._schema.arguments}
    return replace(
        node,
        arguments={
            key: Constant(torch.tensor(value, dtype=F64))
            if kinds.get(key) == "Tensor" and isinstance(value, float)
            else value
            for key, value in node.arguments.items()
        },
    )


# Views of torch that are no bijection of the entries, or change the numbers.
OTHER_VIEWS = set(aten(
    "as_strided", "diagonal", "select.int", "unbind.int", "unfold", "slice_inverse", "view.dtype", "view_as_real", "view_as_complex",
    "_conj", "_neg_view", "_fw_primal", "_test_autograd_multiple_dispatch_view",
))  # fmt: skip
# Views of sparse and nested tensors, which no graph holds.
WITHOUT_DENSE_NUMBERS = set(aten(
    "indices", "_indices", "values", "_values", "crow_indices", "ccol_indices", "col_indices", "row_indices", "_sparse_broadcast_to",
    "_nested_get_values", "_nested_view_from_buffer", "_nested_view_from_jagged",
))  # fmt: skip


def views_of_torch() -> Iterator[str]:
    """The ATen overloads that return a view of ``self`` and that torch does not itself define by others."""
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        first = schema.arguments[0] if schema.arguments else None
        if (
            namespace != "aten"
            or name.endswith("_")
            or first is None
            or first.name != "self"
            or len(schema.returns) != 1
        ):
            continue
        if first.alias_info is None or first.alias_info.is_write or schema.returns[0].alias_info is None:
            continue
        full = f"aten.{name}.{schema.overload_name or 'default'}"
        try:
            defined_by_others = overload(full)._can_decompose()
        except RuntimeError:  # an operation of TorchScript alone
            continue
        if not defined_by_others or full in ALIASES:
            yield full


def test_every_view_of_torch_has_an_entry() -> None:
    """A view that torch adds must get into a family, or into the list of those that are none."""
    names = set(views_of_torch())
    assert len(names & set(ALIASES)) > 20
    unknown = sorted(names - MOVEMENT - OTHER_VIEWS - WITHOUT_DENSE_NUMBERS)
    assert not unknown, f"views that graph/ops.py does not know: {unknown}"


def test_a_view_without_an_entry_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "MOVEMENT", MOVEMENT - {"aten.unsqueeze.default"})
    with pytest.raises(AssertionError, match=r"does not know: \['aten.unsqueeze.default'\]"):
        test_every_view_of_torch_has_an_entry()


def test_every_cast_is_in_the_family() -> None:
    """Every overload of ``to`` that a graph can hold."""
    held = {f"aten.to.{name}" for name in torch.ops.aten.to.overloads() if not name.startswith("prim_")}
    assert held | set(aten("_to_copy", "type_as")) == CASTS


ONES = torch.ones(1, 12)
Function = Callable[[torch.Tensor], torch.Tensor]
# Functions of a tensor of shape 1x3x4 that mean the same, in several spellings.
SPELLINGS: dict[str, list[Function]] = {
    "flip of the first axis": [lambda x: x.flip(0), torch.flipud],
    "flip of the second axis": [lambda x: x.flip(1), torch.fliplr, lambda x: x.flip(-2)],
    "views as rows": [
        lambda x: x.view(1, 12), lambda x: x.reshape(1, 12), lambda x: x.flatten(1), lambda x: x.view_as(ONES),
        lambda x: x.reshape_as(ONES), lambda x: x.ravel()[None], lambda x: torch.ops.aten._unsafe_view(x, [1, 12]),
        lambda x: torch.ops.aten.view_copy(x, [1, 12]), lambda x: torch.ops.aten._reshape_alias(x, [1, 12], [12, 1]),
        lambda x: x.reshape(1, 12, 1).squeeze(-1),
    ],
    "views without the first axis": [
        lambda x: x.view(3, 4), torch.squeeze, lambda x: x.squeeze(0), lambda x: x.squeeze((0,)), lambda x: x.flatten(0, 1),
    ],
    "views with one axis more": [
        lambda x: x.unsqueeze(1), lambda x: x.view(1, 1, 3, 4), lambda x: x.unflatten(0, (1, 1)), lambda x: x[:, None],
    ],
    "copies": [
        torch.clone, lambda x: x.contiguous(), torch.ops.aten.alias, torch.ops.aten.lift_fresh_copy, torch.positive,
        lambda x: functional.dropout(x, training=False), lambda x: functional.feature_alpha_dropout(x, training=False),
    ],
    "casts": [
        lambda x: x.double(), lambda x: x.to(F64), lambda x: x.type_as(torch.ones(1, dtype=F64)), lambda x: x.to("cpu", F64),
        lambda x: x.to(torch.ones(1, dtype=F64)), lambda x: torch.ops.aten._to_copy(x, dtype=F64),
        lambda x: torch.ops.aten.to.dtype_layout(x, dtype=F64),
    ],
    "transpositions": [
        lambda x: x.permute(0, 2, 1), lambda x: x.transpose(1, 2), lambda x: x.swapaxes(-1, 1), lambda x: x.swapdims(1, 2),
        lambda x: x.mT, lambda x: x.movedim(1, 2), lambda x: x.moveaxis((1,), (-1,)), lambda x: x.squeeze(0).t()[None],
        lambda x: x.adjoint(),
    ],
    "parts": [
        lambda x: x[:, 1:], lambda x: x.narrow(1, 1, 2), lambda x: x.split([1, 2], 1)[1], lambda x: x.tensor_split([1], 1)[1],
        lambda x: torch.unsafe_split_with_sizes(x, [1, 2], 1)[1],
    ],
    "halves": [
        lambda x: x.chunk(2, -1)[1], lambda x: x.split(2, -1)[1], lambda x: x.tensor_split(2, -1)[1],
        lambda x: torch.unsafe_chunk(x, 2, -1)[1],
    ],
    "broadcasts": [
        lambda x: x.expand(5, 3, 4), lambda x: x.broadcast_to(5, 3, 4), lambda x: x.expand_as(torch.ones(5, 3, 4)),
        lambda x: x.expand(5, -1, -1),
    ],
    "repetitions": [lambda x: x.repeat(1, 2, 1), lambda x: x.tile(2, 1), lambda x: torch.tile(x, (1, 2, 1))],
    "joins": [
        lambda x: torch.cat([x, -x], 1), lambda x: torch.concat([x, -x], 1), lambda x: torch.concatenate([x, -x], 1),
        lambda x: torch.hstack([x, -x]),
    ],
    "clamps": [
        functional.relu6, lambda x: functional.hardtanh(x, 0.0, 6.0), lambda x: x.clamp(0, 6), lambda x: x.clamp_min(0).clamp_max(6),
        lambda x: x.clip(0, 6),
    ],
    "clamps from below": [functional.relu, lambda x: x.clamp_min(0), lambda x: x.clamp(min=0)],
    "softmax": [lambda x: x.softmax(-1), lambda x: functional.softmax(x, 2), lambda x: torch.ops.aten._softmax(x, -1, False)],
    "log-softmax": [lambda x: x.log_softmax(-1), lambda x: torch.ops.aten._log_softmax(x, 2, False)],
    "parametric ReLU": [
        lambda x: functional.prelu(x, torch.full((1,), 0.25)), lambda x: torch._prelu_kernel(x, torch.full((1, 1, 1), 0.25)),
        lambda x: functional.leaky_relu(x, 0.25),
    ],
    "maxima": [lambda x: torch.maximum(x, x.flip(-1)), lambda x: torch.max(x, x.flip(-1)), lambda x: torch.fmax(x, x.flip(-1))],
    "sums and products": [
        lambda x: (x + 1) * 2 / 4 - 3, lambda x: torch.div(torch.mul(torch.add(x, 1), 2), torch.tensor(4.0)) - torch.tensor(3.0),
    ],
}  # fmt: skip


class Network(nn.Module):
    """exp of what follows a bounded tensor: its slope depends on the interval behind the spelling, along which axes on the radii."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        moved = self.function(x.sigmoid())
        return moved.exp() * moved.roll(1, -1)


@pytest.mark.parametrize("meaning", SPELLINGS)
def test_spellings_get_the_same_bound(meaning: str) -> None:
    bounds = []
    for function in SPELLINGS[meaning]:
        report = lipaudit.audit(Network(function), input_shape={"x": (1, 3, 4)})
        assert report.network.upper_bound is not None
        bounds.append(report.network.log10_upper_bound)
    assert max(bounds) - min(bounds) < 1e-9, bounds
