"""Convolution norms against the operator written out: every geometry, and every way of computing the bound."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import pytest
import torch
from hypothesis import HealthCheck, given, settings

from lipaudit.errors import NonFiniteWeightsError
from lipaudit.spectral.convolution import explicit, frequencies
from lipaudit.spectral.convolution import norm as convolution_module
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.convolution.norm import conv_norm, convolution_norm
from tests.spectral.geometries import Case, cases

# The written-out operator and LAPACK's singular values are off by a few dozen roundings.
SLACK = 1e-13
ROUTES = ("default", "fourier", "torus", "reshaped")
FEW = settings(
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.filter_too_much],
)
MANY = settings(FEW, max_examples=2000)


def take_route(monkeypatch: pytest.MonkeyPatch, route: str) -> None:
    """Force one of the ways: the written-out matrix is the shield that would otherwise hide a wrong Fourier bound."""
    if route != "default":
        monkeypatch.setattr(explicit, "SMALL_ENTRIES", 0)
    if route == "torus":
        monkeypatch.setattr(convolution_module, "GRID_FACTOR", 0)
    if route == "reshaped":
        monkeypatch.setattr(frequencies, "LAG_NUMBERS", 0)


@pytest.fixture(params=ROUTES)
def route(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    take_route(monkeypatch, request.param)
    return str(request.param)


def check(case: Case) -> None:
    """Both ends hold, and circular padding with one output per stride is met to a thousandth."""
    kernel = case.kernel()
    try:
        operator = case.operator(kernel)
    except (RuntimeError, ValueError):
        with pytest.raises(ValueError):
            case.norm(kernel)
        return
    # scaled as a whole, LAPACK's error is relative to the largest singular value
    exact = float(torch.linalg.matrix_norm(operator, 2))
    bracket = case.norm(kernel)
    assert bracket.upper >= exact * (1 - SLACK), (case, bracket, exact)
    assert bracket.lower <= exact * (1 + SLACK), (case, bracket, exact)


def check_same_circular(case: Case) -> None:
    exact = float(torch.linalg.matrix_norm(case.operator(case.kernel()), 2))
    assert exact > 0
    bracket = case.norm(case.kernel())
    assert exact * (1 - SLACK) <= bracket.upper <= exact * 1.001 * (1 + SLACK), (case, bracket, exact)


@FEW
@given(case=cases(valid=True))
def test_every_geometry(route: str, case: Case) -> None:
    check(case)


@FEW
@given(case=cases())
def test_refused_geometries_are_those_that_torch_refuses(case: Case) -> None:
    check(case)


@pytest.mark.long
@MANY
@given(case=cases(valid=True))
def test_thousands_of_geometries(route: str, case: Case) -> None:
    check(case)


@pytest.mark.long
@settings(MANY, max_examples=5000)
@given(case=cases())
def test_thousands_of_possibly_refused_geometries(case: Case) -> None:
    check(case)


def _grid() -> Iterator[Case]:
    """stride x padding x dilation x mode x kernel x groups in two dimensions, transposed with every output padding."""
    seed = 0
    for kernel, stride, dilation, groups in itertools.product((2, 3), (1, 2, 3), (1, 2), (1, 2)):
        for mode, padding in itertools.product(("zeros", "circular", "reflect", "replicate"), (0, 1, 3)):
            seed += 1
            sizes = ((6, 5), (4, 7), (6, 6))[seed % 3]
            yield Case((2, 4), (kernel, 3), sizes, (stride,) * 2, (padding, 1), (dilation, 1), groups, mode, seed=seed)
        for extra in range(max(stride, dilation)):
            seed += 1
            yield Case(
                (4, 2), (kernel, 2), (4, 3), (stride,) * 2, (1, 0), (dilation,) * 2, groups, "zeros", True, (extra, 0),
                seed=seed,
            )  # fmt: skip


def test_the_grid_of_geometries(route: str) -> None:
    for case in _grid():
        check(case)


@pytest.mark.parametrize("route", ["default", "fourier"], indirect=True)
@pytest.mark.parametrize(
    "case",
    [
        Case((2, 3), (3, 3), (6, 7), (1, 1), "same", (1, 1), padding_mode="circular"),
        Case((2, 3), (2, 4), (6, 5), (1, 1), "same", (1, 1), padding_mode="circular"),
        Case((3, 3), (3, 3), (9, 8), (1, 1), "same", (2, 3), padding_mode="circular"),
        Case((4, 4), (3, 3), (6, 6), (1, 1), "same", (1, 1), groups=2, padding_mode="circular"),
        Case((4, 4), (5, 3), (6, 6), (1, 1), "same", (1, 1), groups=4, padding_mode="circular"),
        Case((2, 3), (3, 3), (6, 8), (2, 2), (1, 1), (1, 1), padding_mode="circular"),
        Case((2, 3), (4, 5), (6, 9), (2, 3), (1, 1), (1, 1), padding_mode="circular"),
        Case((2, 2), (1, 1), (5, 4), (1, 1), (0, 0), (1, 1), padding_mode="circular"),
        Case((2, 3), (5,), (4,), (1,), "same", (2,), padding_mode="circular"),
        Case((2, 3), (7,), (30,), (1,), "same", (1,), padding_mode="circular"),
        Case((2, 2), (3, 2, 3), (4, 3, 4), (1, 1, 1), "same", (1, 1, 1), padding_mode="circular"),
    ],
)
@pytest.mark.parametrize("weights", ["gaussian", "ones", "rank one", "wide range"])
def test_circular_padding_is_met_to_a_thousandth(route: str, case: Case, weights: str) -> None:
    check_same_circular(Case(**{**case.__dict__, "weights": weights}))


@pytest.mark.parametrize("mode", ["zeros", "circular"])
def test_large_circular_inputs_do_not_lose_their_tightness(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the grid's limit the torus takes over; zero padding approaches the same supremum from below."""
    monkeypatch.setattr(convolution_module, "GRID_FACTOR", 0)
    monkeypatch.setattr(explicit, "SMALL_ENTRIES", 0)
    case = Case((2, 2), (3,), (257,), (1,), "same", (1,), padding_mode=mode, seed=3)
    exact = float(torch.linalg.matrix_norm(case.operator(case.kernel()), 2))
    bracket = case.norm(case.kernel())
    assert exact * (1 - SLACK) <= bracket.upper <= exact * 1.002
    assert exact * 0.98 <= bracket.lower <= exact * (1 + SLACK)


@pytest.mark.parametrize(("height", "excess"), [(3, 1.08), (7, 1.007)])
def test_zero_padding_needs_a_longer_period_than_the_input(
    height: int, excess: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[[1, -1], [-1, 1]] with zeros on one side: the circular operator of period H is smaller than this one.

    ``padding`` 1 gives H + 1 outputs, "same" keeps H of them; both exceed the circular value for odd H.
    """
    monkeypatch.setattr(explicit, "SMALL_ENTRIES", 0)
    kernel = torch.tensor([[[[1.0, -1.0], [-1.0, 1.0]]]], dtype=torch.float64)
    circular = conv_norm(kernel, height, padding="same", padding_mode="circular")
    exact = float(
        torch.linalg.matrix_norm(Case((1, 1), (2, 2), (height,) * 2, (1, 1), "same", (1, 1)).operator(kernel), 2)
    )
    zeros = conv_norm(kernel, height, padding="same")
    assert exact > circular.upper * (excess - 0.002), "the period H would have been no bound"
    assert exact < circular.upper * (excess + 0.01)
    assert zeros.upper >= exact
    assert zeros.lower <= exact * (1 + SLACK)


def test_zero_padding_in_one_dimension_at_the_smallest_admissible_period(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every asymmetric zero padding up to beyond the kernel, the pairs that torch's modules cannot express included."""
    monkeypatch.setattr(explicit, "SMALL_ENTRIES", 0)
    for size, k, left, right, stride in itertools.product((1, 2, 3, 5), (2, 3, 4), range(5), range(5), (1, 2)):
        if size + left + right < k:
            continue
        for kernel in (
            torch.ones(1, 1, k).double(),
            torch.tensor([(-1.0) ** i for i in range(k)]).reshape(1, 1, k).double(),
        ):
            geometry = Convolution(kernel, (size,), (stride,), ((left, right),), (1,))
            padded = torch.nn.functional.pad(torch.eye(size, dtype=torch.float64)[:, None], (left, right))
            operator = torch.nn.functional.conv1d(padded, kernel, stride=stride).flatten(1)
            exact = float(torch.linalg.matrix_norm(operator, 2))
            bracket = convolution_norm(geometry).bracket
            assert bracket.upper >= exact * (1 - SLACK), geometry
            assert bracket.lower <= exact * (1 + SLACK), geometry


def test_negative_padding_ignores_pixels(route: str) -> None:
    kernel = torch.randn(2, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    geometry = Convolution(kernel, (9,), (1,), ((-2, -1),), (1,))
    operator = torch.nn.functional.conv1d(torch.eye(18).double().reshape(18, 2, 9)[..., 2:-1], kernel).flatten(1)
    exact = float(torch.linalg.matrix_norm(operator, 2))
    bracket = convolution_norm(geometry).bracket
    assert bracket.lower <= exact * (1 + SLACK)
    assert bracket.upper >= exact * (1 - SLACK)


def test_groups_take_the_largest_never_the_sum_or_the_product() -> None:
    kernel = torch.zeros(3, 1, 1, 1)
    kernel[:, 0, 0, 0] = torch.tensor([2.0, -5.0, 3.0])
    bracket = conv_norm(kernel, 4, groups=3)
    assert bracket.upper == pytest.approx(5.0, rel=1e-3)
    assert bracket.upper >= 5.0 >= bracket.lower


def test_depthwise_with_a_zero_channel(route: str) -> None:
    kernel = torch.randn(4, 1, 3, 3, generator=torch.Generator().manual_seed(1)).double()
    kernel[2] = 0
    case = Case((4, 4), (3, 3), (5, 5), (1, 1), (1, 1), (1, 1), groups=4)
    exact = float(torch.linalg.matrix_norm(case.operator(kernel), 2))
    bracket = case.norm(kernel)
    assert bracket.lower <= exact * (1 + SLACK)
    assert bracket.upper >= exact * (1 - SLACK)


@pytest.mark.parametrize("scale", [1e-30, 1e30, 1e-300, 1e300, 1e-310])
def test_the_bracket_scales_with_the_weights(scale: float) -> None:
    kernel = torch.randn(3, 2, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    plain = conv_norm(kernel, 8, padding=1)
    scaled = conv_norm(kernel * scale, 8, padding=1)
    assert scaled.log_upper == pytest.approx(plain.log_upper + math.log(scale), abs=1e-9)
    assert scaled.log_lower == pytest.approx(plain.log_lower + math.log(scale), abs=1e-9)


@pytest.mark.parametrize("mode", ["zeros", "circular", "reflect", "replicate"])
@pytest.mark.parametrize("groups", [1, 2])
def test_zero_kernels_have_norm_zero(mode: str, groups: int) -> None:
    bracket = conv_norm(torch.zeros(4, 4 // groups, 3, 3), 5, padding=1, padding_mode=mode, groups=groups)
    assert bracket.log_lower == bracket.log_upper == -math.inf


def test_taps_that_never_meet_the_input_do_not_count() -> None:
    """Only the middle column of a 3 x 3 kernel sees an input of width 1."""
    kernel = torch.zeros(1, 1, 3, 3, dtype=torch.float64)
    kernel[..., 0], kernel[..., 2] = 100.0, 100.0
    assert conv_norm(kernel, (5, 1), padding=1).log_upper == -math.inf
    kernel[..., 1] = 1.0
    assert conv_norm(kernel, (5, 1), padding=1).upper < 3.0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_non_finite_kernels_are_refused(bad: float) -> None:
    kernel = torch.ones(2, 2, 3, 3)
    kernel[1, 0, 2, 2] = bad
    with pytest.raises(NonFiniteWeightsError):
        conv_norm(kernel, 6, padding=1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_the_bracket_depends_on_the_numbers_not_on_their_dtype(dtype: torch.dtype) -> None:
    kernel = torch.randn(4, 3, 3, 3, generator=torch.Generator().manual_seed(3)).to(dtype)
    for options in ({"padding": 1}, {"padding": 1, "stride": 2}, {"padding": 1, "padding_mode": "circular"}):
        assert conv_norm(kernel, 40, **options) == conv_norm(kernel.double(), 40, **options)


def test_complex_kernels_are_refused() -> None:
    kernel = torch.randn(2, 2, 3, dtype=torch.complex128, generator=torch.Generator().manual_seed(4))
    with pytest.raises(ValueError, match="complex"):
        conv_norm(kernel, 9, padding=1)


@pytest.mark.parametrize(
    ("message", "options"),
    [
        ("same", {"padding": "same", "stride": 2}),
        ("padding", {"padding": "full"}),
        ("at least 0", {"padding": -1}),
        ("padding_mode", {"padding_mode": "constant"}),
        ("does not fit", {"input_size": 2}),
        ("too large", {"padding": 6, "padding_mode": "reflect"}),
        ("too large", {"padding": 7, "padding_mode": "circular"}),
        ("stride", {"stride": 0}),
        ("dilation", {"dilation": 0}),
        ("groups", {"groups": 3}),
        ("groups", {"groups": 0}),
        ("zeros only", {"transposed": True, "padding_mode": "circular"}),
        ("output_padding", {"transposed": True, "output_padding": 1}),
        ("stride", {"stride": (1, 1, 1)}),
        ("input_size", {"input_size": (6,)}),
        ("tolerance", {"tol": 0.0}),
    ],
)
def test_what_is_wrong_is_said(message: str, options: dict[str, object]) -> None:
    arguments = {"kernel": torch.ones(4, 4, 3, 3), "input_size": 6, **options}
    with pytest.raises(ValueError, match=message):
        conv_norm(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(3,), (3, 3), (1, 1, 2, 2, 2, 2)])
def test_a_kernel_has_one_to_three_spatial_axes(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="kernel"):
        conv_norm(torch.ones(shape), 6)


def test_a_transposed_convolution_is_the_adjoint() -> None:
    kernel = torch.randn(3, 2, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    forward = conv_norm(kernel, 9, stride=2, padding=1)
    backward = conv_norm(kernel, 5, stride=2, padding=1, transposed=True)
    assert forward == backward


def test_a_strided_convolution_is_tighter_than_the_dense_one() -> None:
    kernel = torch.randn(8, 4, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(6))
    assert conv_norm(kernel, 16, stride=2, padding=1).upper < conv_norm(kernel, 16, padding=1).lower


def test_a_larger_input_never_has_a_smaller_norm() -> None:
    """The zero-padded operator on a part of the input is a compression: lower ends may not pass later upper ends."""
    kernel = torch.randn(4, 3, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
    brackets = [conv_norm(kernel, size, padding=1) for size in (3, 4, 6, 9, 20, 64, 1000)]
    for small, large in itertools.combinations(brackets, 2):
        assert small.lower <= large.upper
    assert brackets[-1].tightness < 1.03
