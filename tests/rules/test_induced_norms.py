"""The constants of every rule in the l-infinity and l1 norm against the real operation: Jacobians, pairs, and explicit matrices."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

import lipaudit.rules  # noqa: F401  registers the rules
from lipaudit.rules.effect import Combination, Effect, Status
from lipaudit.rules.norm import Norm
from lipaudit.rules.rule import apply_rule_in, find_operation, find_rule
from lipaudit.spectral.absolute_sums import convolution_sums
from lipaudit.spectral.convolution.geometry import Convolution
from tests.nodes import Operation
from tests.rules.ops.cases import Case, all_cases
from tests.rules.test_conformance import pairs, partial, points, ratio

NORMS = (Norm.LINF, Norm.L1)
CASES = [case for case in all_cases() if find_operation(case.op).induced_norm is not None]
CASES = [
    case for case in CASES if case.op not in ("aten.to.dtype", "aten._to_copy.default", "aten.type_as.default")
]  # they round


# every operation once, and those once more that join or broadcast several tensors; all cases are marked long
FEW = [
    case
    for op in dict.fromkeys(c.op for c in CASES)
    for number, case in enumerate(c for c in CASES if c.op == op)
    if number == 0 or (number < 3 and len(case.build().inputs) > 1)
]


def size(x: torch.Tensor, norm: Norm) -> float:
    return float(torch.linalg.vector_norm(x.double().flatten(), norm.power)) if x.numel() else 0.0


def induced(matrix: torch.Tensor, norm: Norm) -> float:
    """The largest sum of moduli of a row, or of a column."""
    return float(matrix.abs().sum(1 if norm is Norm.LINF else 0).max()) if matrix.numel() else 0.0


@pytest.mark.parametrize("case", FEW, ids=lambda case: case.label)
def test_no_jacobian_and_no_pair_exceeds_the_constant(case: Case) -> None:
    check(case)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_every_case(case: Case) -> None:
    check(case)


def check(case: Case) -> None:
    operation = case.build()
    effects = {norm: apply_rule_in(norm, operation.node) for norm in NORMS}
    if any(effect.status is not Status.FINITE for effect in effects.values()):
        assert all(effect.reason for effect in effects.values())
        assert {effect.status for effect in effects.values()} == {case.status} or case.status is Status.FINITE
        return
    assert all(effect.combination in (Combination.SUM, Combination.MAXIMUM) for effect in effects.values())
    found = of_jacobians(operation, effects, case)
    rule = find_rule(case.op)
    assert rule is not None
    exact = case.exact if case.exact is not None else rule.exact
    for norm, effect in effects.items():
        best = found[norm]
        if len(operation.inputs) > 1 or (exact and best < 1 / 1.001):
            best = max(best, of_pairs(operation, effect, case, norm))
        if exact:
            assert best >= 1 / 1.001, f"only {best:.6f} of the constant in the {norm} norm was found"


def of_jacobians(operation: Operation, effects: dict[Norm, Effect], case: Case) -> dict[Norm, float]:
    """The largest ratio of a Jacobian's norm to its factor; each input by itself, each output by itself."""
    best = dict.fromkeys(effects, 0.0)
    function = operation.function if case.formula is None else case.formula
    for _, point in points(operation, case):
        for output, info in enumerate(operation.node.outputs):
            if not info.dtype.is_floating_point or 0 in info.shape:
                continue
            for i, x in enumerate(point):
                if not x.dtype.is_floating_point:
                    continue
                jacobian = torch.autograd.functional.jacobian(partial(function, point, i, output), x)
                matrix = jacobian.reshape(-1, max(1, x.numel()))
                if not bool(torch.isfinite(matrix).all()):
                    continue
                for norm, effect in effects.items():
                    value, upper = induced(matrix, norm), effect.factors[i].upper
                    assert value * (1 - 1e-10) <= upper, (
                        f"input {i}, output {output}: {value!r} exceeds {upper!r} in {norm}"
                    )
                    best[norm] = max(best[norm], ratio(value, upper))
    return best


def of_pairs(operation: Operation, effect: Effect, case: Case, norm: Norm) -> float:
    """The largest ratio of a stretch to what the factors allow, all inputs moving together."""
    best = 0.0
    for x, y in pairs(operation, case):
        if all(torch.equal(a, b) for a, b in zip(x, y, strict=True)):
            continue
        moves = [f.upper * size(a - b, norm) for f, a, b in zip(effect.factors, x, y, strict=True)]
        allowed = math.fsum(moves) if effect.combination is Combination.SUM else max(moves)
        for fx, fy in zip(operation.function(*x), operation.function(*y), strict=True):
            if not fx.dtype.is_floating_point or fx.numel() == 0:
                continue
            moved, noise = size(fx - fy, norm), 1e-12 * (size(fx, norm) + size(fy, norm))
            assert moved <= allowed * (1 + 1e-10) + noise, f"moved {moved!r}, allowed {allowed!r}"
            best = max(best, ratio(moved - noise, allowed))
    return best


def matrix_of(convolution: Convolution) -> torch.Tensor:
    """The matrix of a convolution, column by column."""
    shape = (convolution.channels[0], *convolution.input_size)
    units = torch.eye(math.prod(shape), dtype=torch.float64).reshape(-1, *shape)
    dims = len(convolution.input_size)
    kernel = convolution.kernel.double()
    if convolution.transposed:
        apply = getattr(torch.nn.functional, f"conv_transpose{dims}d")
        left = [p for p, _ in convolution.padding]
        images = apply(
            units,
            kernel,
            None,
            convolution.stride,
            left,
            convolution.output_padding,
            convolution.groups,
            convolution.dilation,
        )
    else:
        mode = {"zeros": "constant"}.get(convolution.padding_mode, convolution.padding_mode)
        padded = torch.nn.functional.pad(units, [p for sides in reversed(convolution.padding) for p in sides], mode)
        apply = getattr(torch.nn.functional, f"conv{dims}d")
        images = apply(padded, kernel, None, convolution.stride, 0, convolution.dilation, convolution.groups)
    return images.flatten(1).T


GEOMETRIES = [
    {"input_size": (5, 6), "padding": 1},
    {"input_size": (5, 6), "padding": 0, "stride": 2},
    {"input_size": (2, 1), "padding": 2},
    {"input_size": (7, 5), "padding": (2, 1), "stride": (3, 2), "dilation": (2, 1)},
    {"input_size": (6, 6), "padding": 2, "dilation": 2, "groups": 2},
    {"input_size": (4, 4), "padding": "same", "groups": 2},
    {"input_size": (4, 3), "stride": 2, "padding": 1, "transposed": True, "output_padding": 1},
    {"input_size": (3, 3), "stride": (1, 3), "dilation": (2, 1), "transposed": True, "groups": 2},
    {"input_size": (6, 5), "padding": 2, "padding_mode": "reflect"},
    {"input_size": (6, 5), "padding": 1, "padding_mode": "circular", "stride": 2},
    {"input_size": (3, 2), "padding": 2, "padding_mode": "replicate"},
]


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_sums_of_a_convolution_are_those_of_its_matrix(geometry: dict[str, Any]) -> None:
    generator = torch.Generator().manual_seed(0)
    groups = geometry.get("groups", 1)
    kernel = torch.randn(4, 6 // groups if not geometry.get("transposed") else 3, 3, 3, generator=generator)
    convolution = Convolution.like_torch(kernel, **geometry)
    matrix = matrix_of(convolution)
    for norm, bracket in zip(NORMS, convolution_sums(convolution), strict=True):
        exact = induced(matrix, norm)
        assert exact * (1 - 1e-13) <= bracket.upper
        if convolution.padding_mode == "zeros":
            assert bracket.lower <= exact * (1 + 1e-13)
            assert bracket.upper == pytest.approx(exact, rel=1e-12)
        else:
            assert bracket.upper <= 4 * exact
            assert bracket.lower == 0.0


def test_sums_of_other_dimensions_and_scaled_kernels() -> None:
    generator = torch.Generator().manual_seed(1)
    for sizes in ((7,), (3, 4, 3)):
        kernel = torch.randn(3, 2, *(3,) * len(sizes), generator=generator)
        scale = torch.rand(3, *(1,) * (len(sizes) + 1), generator=generator, dtype=torch.float64)
        convolution = replace(Convolution.like_torch(kernel, sizes, padding=1), scales=(scale,))
        matrix = matrix_of(convolution)
        for norm, bracket in zip(NORMS, convolution_sums(convolution), strict=True):
            assert bracket.upper == pytest.approx(induced(matrix, norm), rel=1e-12)


def test_a_constant_that_is_too_small_is_found() -> None:
    conv = next(case for case in CASES if case.op == "aten.softmax.int" and case.status is Status.FINITE)
    operation = conv.build()
    small = {norm: Effect.stretch(0.1) for norm in NORMS}
    with pytest.raises(AssertionError, match="exceeds"):
        of_jacobians(operation, small, conv)
