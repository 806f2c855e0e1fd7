"""What counts as affine is affine, and its errors are bounded by those of what it reads: every conformance case of every operation."""

import pytest
import torch

from lipaudit.graph.evaluate import Value
from lipaudit.graph.ops import CASTS
from lipaudit.network.affine import is_affine
from lipaudit.network.rounding import affine_error
from tests.nodes import Operation
from tests.rules.ops.cases import all_cases


def _affine() -> dict[str, list[Operation]]:
    """By operation; those that round to another type, or that cannot run here, are left out."""
    affine: dict[str, list[Operation]] = {}
    for case in all_cases():
        if case.op.count(".") == 2 and case.op not in CASTS and case.function is None:
            built = case.build()
            if is_affine(built.node):
                affine.setdefault(case.op, []).append(built)
    return affine


AFFINE = _affine()


def test_families_are_among_the_cases() -> None:
    names = {op.split(".")[1] for op in AFFINE}
    assert names >= {
        "where",
        "masked_fill",
        "gather",
        "grid_sampler",
        "lerp",
        "upsample_bicubic2d",
        "addcmul",
        "index_put",
        "rot90",
    }


@pytest.mark.parametrize("op", AFFINE)
def test_affine_operations_are_affine_and_pass_errors_on(op: str) -> None:
    for built in AFFINE[op]:
        generator = torch.Generator().manual_seed(0)
        x, y = ([each.random(generator) for each in built.inputs] for _ in range(2))
        value = built.function(*x)
        if not all(bool(torch.isfinite(part).all()) for part in value):
            continue  # a division by 0
        middle = built.function(*((a + b) / 2 for a, b in zip(x, y, strict=True)))
        for between, first, second in zip(middle, value, built.function(*y), strict=True):
            size = max(float(first.abs().max()), float(second.abs().max())) if first.numel() else 0.0
            assert torch.allclose(between, (first + second) / 2, rtol=0.0, atol=1e-12 * size)
        errors = [each.random(generator).abs() for each in built.inputs]
        names = [ref.name for ref in built.node.refs]
        known: dict[str, Value] = dict(zip(names, x, strict=True))
        moved: dict[str, Value] = dict(zip(names, errors, strict=True))
        bounds = affine_error(built.node, known, moved, tuple(value) if len(value) > 1 else value[0])
        for signs in (
            [torch.ones_like(e) for e in errors],
            [torch.randn(e.shape, generator=generator).sign() for e in errors],
        ):
            there = built.function(*(a + s * e for a, s, e in zip(x, signs, errors, strict=True)))
            each = bounds if isinstance(bounds, tuple) else (bounds,)
            for before, after, bound in zip(value, there, each, strict=True):
                assert bool(((after - before).abs() <= bound * (1 + 1e-9)).all())
