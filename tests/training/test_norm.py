"""The differentiable bound: an upper bound of the operator, with the gradient of the written-out iteration."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from torch import nn
from torch.autograd import forward_ad
from torch.utils.flop_counter import FlopCounterMode

from lipaudit.spectral.convolution.frequencies import crop, reduce
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.convolution.symbol import Frequencies
from lipaudit.spectral.matrix.gradient import schatten_norm
from lipaudit.training.geometry import Geometry
from lipaudit.training.norm import spectral_norm_bound
from lipaudit.training.search import largest_bound
from tests.spectral.geometries import Case, cases

EXACT_GRID = 10_000
KINDS = [
    Geometry((6, 7), padding=1),
    Geometry((6, 7), padding="same", padding_mode="circular"),
    Geometry((8, 6), stride=2, padding=(1, 0)),
    Geometry((7, 7), stride=(2, 3), padding=1, dilation=2),
    Geometry((7, 5), padding=1, padding_mode="reflect"),
    Geometry((6, 6), padding=((0, 2), (1, 0)), stride=2),
    Geometry((4, 4), stride=2, padding=1, output_padding=1, transposed=True),
    Geometry((2, 2), padding=1),
    Geometry((3, 3)),
]


def random(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def gradient(kernel: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    leaf = kernel.clone().requires_grad_()
    spectral_norm_bound(leaf, *args, **kwargs).backward()
    assert leaf.grad is not None
    return leaf.grad


def written_out(convolution: Convolution, products: int) -> tuple[torch.Tensor, float]:
    """All bounds of [P] Algorithm 3 at once, in operations that torch differentiates, and the factor of the padding."""
    ordinary = convolution.adjoint() if convolution.transposed else convolution
    reduced = reduce(crop(ordinary), drop_zeros=False)
    phase = Frequencies.lattice(reduced.period).angles() @ reduced.taps.offsets.to(torch.float64).T
    waves = torch.polar(torch.ones_like(phase), -phase)
    iterate = torch.einsum("gtrc,ft->gfrc", reduced.taps.matrices.to(waves.dtype), waves).flatten(0, 1)
    # torch has no slope for the norm of zeros, and powers of small numbers vanish
    iterate = iterate[iterate.detach().flatten(1).abs().amax(1) > 1e-15]
    for _ in range(products):
        iterate = iterate.mH @ iterate
    return torch.linalg.matrix_norm(iterate) ** (2.0**-products), math.sqrt(reduced.copies)


def has_one_maximum(bounds: torch.Tensor) -> bool:
    top = bounds.detach().sort(descending=True).values
    return len(top) == 1 or (len(top) > 1 and bool(top[1] < top[0] * (1 - 1e-6)))


@settings(max_examples=300, deadline=None)
@given(cases(valid=True))
def test_value_and_gradient_are_those_of_the_iteration(case: Case) -> None:
    kernel = case.kernel()
    kernel = (kernel / kernel.abs().amax().clamp_min(1e-300)).requires_grad_()
    try:
        convolution = case.convolution(kernel)
    except ValueError:
        assume(False)
    bounds, factor = written_out(convolution, 3)
    assume(has_one_maximum(bounds))
    expected = bounds.max() * factor
    geometry = Geometry.of(convolution)
    found = spectral_norm_bound(kernel, geometry, 3, oversampling=EXACT_GRID)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    (slope,) = torch.autograd.grad(expected, kernel)
    torch.testing.assert_close(torch.autograd.grad(found, kernel)[0], slope, rtol=1e-10, atol=1e-10)


@settings(max_examples=300, deadline=None)
@given(cases(valid=True))
def test_bounds_the_operator_of_torch(case: Case) -> None:
    kernel = case.kernel()
    try:
        geometry = Geometry.of(case.convolution(kernel))
        norm = float(torch.linalg.matrix_norm(case.operator(kernel), 2))
    except (ValueError, RuntimeError):
        assume(False)
    for options in ({}, {"oversampling": 2}, {"any_size": True}, {"any_size": True, "oversampling": 3}):
        assert norm <= float(spectral_norm_bound(kernel, geometry, 5, **options)) * (1 + 1e-12)


@pytest.mark.parametrize("kind", range(len(KINDS)))
@pytest.mark.parametrize("groups", [1, 2])
def test_equals_finite_differences(kind: int, groups: int) -> None:
    geometry = Geometry(**{**vars(KINDS[kind]), "groups": groups})
    kernel = random(4, 2, 3, 2, seed=kind).requires_grad_()
    assert torch.autograd.gradcheck(lambda k: spectral_norm_bound(k, geometry, 3), (kernel,))


@pytest.mark.parametrize("shape", [(4, 6), (6, 4), (1, 5), (5, 1)])
def test_a_dense_layer_has_the_schatten_norm_and_its_gradient(shape: tuple[int, int]) -> None:
    weight = random(*shape).requires_grad_()
    found, expected = spectral_norm_bound(weight, iterations=4), schatten_norm(weight, 4)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    slopes = (torch.autograd.grad(value, weight)[0] for value in (found, expected))
    torch.testing.assert_close(*slopes, rtol=1e-10, atol=1e-12)
    assert torch.autograd.gradcheck(lambda w: spectral_norm_bound(w, iterations=3), (weight,))


def test_the_gradient_tends_to_the_singular_vectors() -> None:
    weight = random(5, 8)
    u, sigma, vh = torch.linalg.svd(weight)
    torch.testing.assert_close(spectral_norm_bound(weight, iterations=12), sigma[0], rtol=1e-6, atol=0)
    torch.testing.assert_close(gradient(weight, iterations=12), torch.outer(u[:, 0], vh[0]), rtol=0, atol=1e-6)


def test_the_gradient_of_an_exact_convolution_is_that_of_its_norm() -> None:
    case = Case((2, 3), (3, 3), (5, 5), (1, 1), "same", (1, 1), padding_mode="circular", seed=4)
    kernel = case.kernel().requires_grad_()
    norm = torch.linalg.matrix_norm(case.operator(kernel.detach()), 2)
    found = spectral_norm_bound(kernel, Geometry.of(case.convolution(kernel)), 14)
    torch.testing.assert_close(found, norm, rtol=1e-5, atol=0)
    step = 1e-6 * random(*kernel.shape, seed=9)
    ahead, behind = (torch.linalg.matrix_norm(case.operator(kernel.detach() + s * step), 2) for s in (1, -1))
    (slope,) = torch.autograd.grad(found, kernel)
    torch.testing.assert_close((slope * step).sum(), (ahead - behind) / 2, rtol=1e-3, atol=0)


def test_a_large_input_is_bounded_on_a_lattice() -> None:
    kernel, geometry = random(3, 2, 3, 3), Geometry((150, 150), padding=1)
    whole = float(spectral_norm_bound(kernel, geometry, 10, oversampling=EXACT_GRID))
    for oversampling in (2, 4, 16):
        value = float(spectral_norm_bound(kernel, geometry, 10, oversampling=oversampling))
        assert whole * (1 - 1e-4) <= value <= whole / math.cos(math.pi / 2 / oversampling) ** 2 * (1 + 1e-3)
    # sharp: the maximum of two taps may lie between two points
    two = torch.tensor([[[1.0, 1.0]]], dtype=torch.float64)
    edge = float(spectral_norm_bound(two, Geometry(1001), oversampling=3))
    assert 2 <= edge <= 2 / math.cos(math.pi / 6) * (1 + 1e-12)


def test_any_size_bounds_larger_inputs_where_the_own_size_does_not() -> None:
    kernel = random(2, 2, 3, 3, seed=2)
    larger = torch.linalg.matrix_norm(Case((2, 2), (3, 3), (12, 12), (1, 1), (1, 1), (1, 1)).operator(kernel), 2)
    small = Geometry((1, 1), padding=1)
    assert spectral_norm_bound(kernel, small, 8) < larger <= spectral_norm_bound(kernel, small, 8, any_size=True)


def test_the_search_finds_the_maximum_whatever_is_held_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, geometry = random(6, 3, 3, 3), Geometry((12, 12), padding=1, groups=2)
    expected = spectral_norm_bound(kernel, geometry), gradient(kernel, geometry)
    monkeypatch.setattr("lipaudit.training.search.CHUNK_NUMBERS", 100)
    torch.testing.assert_close(spectral_norm_bound(kernel, geometry), expected[0], rtol=1e-13, atol=0)
    torch.testing.assert_close(gradient(kernel, geometry), expected[1], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", [0, 2, 6])
def test_any_scale(scale: float, dtype: torch.dtype, kind: int) -> None:
    kernel, tolerance = random(4, 4, 3, 3, dtype=dtype), 1e-4 if dtype == torch.float32 else 1e-10
    value = spectral_norm_bound(kernel * scale, KINDS[kind]).double() / scale
    torch.testing.assert_close(value, spectral_norm_bound(kernel, KINDS[kind]).double(), rtol=tolerance, atol=0)
    slopes = gradient(kernel * scale, KINDS[kind]), gradient(kernel, KINDS[kind])
    torch.testing.assert_close(*slopes, rtol=0, atol=tolerance)


@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_a_zero_kernel(kind: int) -> None:
    kernel = torch.zeros(2, 2, 3, 3)
    assert spectral_norm_bound(kernel, KINDS[kind]) == 0
    assert not gradient(kernel, KINDS[kind]).any()


def test_taps_that_meet_no_pixel_count_for_nothing() -> None:
    kernel = random(2, 2, 3)
    inner = Geometry(1, padding=1)
    expected = spectral_norm_bound(kernel[..., 1])
    torch.testing.assert_close(spectral_norm_bound(kernel, inner), expected, rtol=1e-12, atol=0)
    assert not gradient(kernel, inner)[..., [0, 2]].any()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_nan_is_not_hidden(bad: float) -> None:
    kernel = random(2, 2, 3, 3)
    kernel[0, 1, 1, 1] = bad
    assert spectral_norm_bound(kernel, KINDS[0]).isnan()
    assert gradient(kernel, KINDS[0]).isnan().any()


@pytest.mark.parametrize("low", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single_precision(low: torch.dtype) -> None:
    kernel = random(8, 8, 3, 3, dtype=torch.float32).to(low)
    value = spectral_norm_bound(kernel, KINDS[0])
    assert value.dtype == torch.float32
    assert torch.equal(value, spectral_norm_bound(kernel.float(), KINDS[0]))
    slope = gradient(kernel, KINDS[0])
    assert slope.dtype == low
    assert torch.equal(slope, gradient(kernel.float(), KINDS[0]).to(low))


@pytest.mark.parametrize("low", [torch.float16, torch.bfloat16])
def test_autocast_does_not_lower_the_precision(low: torch.dtype) -> None:
    kernel = random(8, 8, 3, 3, dtype=torch.float32)
    value, slope = spectral_norm_bound(kernel, KINDS[0]), gradient(kernel, KINDS[0])
    with torch.autocast("cpu", dtype=low):
        assert torch.equal(spectral_norm_bound(kernel, KINDS[0]), value)
        assert torch.equal(gradient(kernel, KINDS[0]), slope)


def test_products_are_not_rounded_and_their_precision_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, matmul = random(4, 4, 3, 3, dtype=torch.float32), torch.backends.cuda.matmul
    seen: list[tuple[str, str]] = []

    def watched(*args: Any) -> Any:
        seen.append((matmul.fp32_precision, torch.backends.mkldnn.matmul.fp32_precision))
        return largest_bound(*args)

    monkeypatch.setattr("lipaudit.training.norm.largest_bound", watched)
    value, before = spectral_norm_bound(kernel, KINDS[0]), torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        assert torch.equal(spectral_norm_bound(kernel, KINDS[0]), value)
        assert torch.get_float32_matmul_precision() == "medium"
        matmul.fp32_precision = "tf32"
        assert torch.equal(spectral_norm_bound(kernel, KINDS[0]), value)
        assert matmul.fp32_precision == "tf32"
    finally:
        torch.set_float32_matmul_precision(before)
    assert seen == [("ieee", "ieee")] * 3


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_a_gpu_gives_the_same(kind: int) -> None:
    kernel = random(4, 4, 3, 3, dtype=torch.float32)
    value, slope = spectral_norm_bound(kernel, KINDS[kind]), gradient(kernel, KINDS[kind])
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high")
        torch.testing.assert_close(spectral_norm_bound(kernel.cuda(), KINDS[kind]).cpu(), value, rtol=1e-5, atol=0)
        torch.testing.assert_close(gradient(kernel.cuda(), KINDS[kind]).cpu(), slope, rtol=0, atol=1e-4)
    finally:
        torch.set_float32_matmul_precision(before)


def test_only_the_weight_the_place_and_the_value_are_kept() -> None:
    kept: list[torch.Tensor] = []
    kernel = random(4, 4, 3, 3, dtype=torch.float32).half().requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        spectral_norm_bound(kernel, Geometry((20, 20), padding=1), 9)
    assert sorted(t.numel() for t in kept) == [1, 2, kernel.numel()]
    assert any(t.data_ptr() == kernel.data_ptr() for t in kept)


def test_a_second_derivative_is_refused() -> None:
    kernel = random(2, 2, 3, 3).requires_grad_()
    with pytest.raises(RuntimeError, match=r"cannot be differentiated again.*gram_iteration\.schatten_norms"):
        torch.autograd.grad(spectral_norm_bound(kernel, KINDS[0]), kernel, create_graph=True)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_is_one_operation_of_a_compiled_function(backend: str) -> None:
    kernel = random(3, 3, 3, 3, dtype=torch.float32).requires_grad_()
    compiled = torch.compile(lambda k: 2 * spectral_norm_bound(k, KINDS[0]), backend=backend, fullgraph=True)
    value = compiled(kernel)
    assert torch.equal(value, 2 * spectral_norm_bound(kernel, KINDS[0]))
    (slope,) = torch.autograd.grad(value, kernel)
    assert torch.equal(slope, 2 * gradient(kernel.detach(), KINDS[0]))


@pytest.mark.filterwarnings("ignore:The .grad attribute")
def test_the_operations_keep_the_rules_of_torch() -> None:
    kernel = random(2, 2, 3, 3, dtype=torch.float32).requires_grad_()
    sizes = [6, 7, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 0]
    torch.library.opcheck(torch.ops.lipaudit.spectral_norm_bound.default, (kernel, sizes, "zeros", 3, 16, False))


def test_no_gradient_costs_nothing() -> None:
    kernel = random(2, 2, 3, 3).requires_grad_()
    (0 * spectral_norm_bound(kernel, KINDS[0])).backward()
    assert kernel.grad is not None
    assert not kernel.grad.any()


@pytest.mark.parametrize(
    ("weight", "options", "message"),
    [
        (torch.zeros(2, 2, dtype=torch.long), {}, "floating-point"),
        (torch.zeros(0, 2), {}, "floating-point numbers"),
        (torch.zeros(2, 2, 3), {}, "needs the geometry"),
        (torch.zeros(2, 2), {"geometry": Geometry(4)}, "no geometry"),
        (torch.zeros(2, 2), {"iterations": 21}, "from 0 to 20, not 21"),
        (torch.zeros(2, 2), {"oversampling": 1}, "at least 2, not 1"),
        (torch.zeros(2, 2, 5), {"geometry": Geometry(3)}, "does not fit"),
        (torch.zeros(2, 2, 3), {"geometry": Geometry(3, groups=3)}, "3 groups"),
    ],
)
def test_bad_arguments(weight: torch.Tensor, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        spectral_norm_bound(weight, **options)


def test_torch_agrees_on_the_arguments() -> None:
    layer = nn.Conv2d(2, 4, 3, stride=2, padding=1, dilation=2, groups=2, bias=False).double()
    layer.weight = nn.Parameter(random(4, 1, 3, 3))
    geometry = Geometry((21, 21), layer.stride, layer.padding, layer.dilation, layer.groups, layer.padding_mode)
    basis = torch.eye(882, dtype=torch.float64).reshape(882, 2, 21, 21)
    norm = torch.linalg.matrix_norm(layer(basis).flatten(1), 2)
    assert norm <= spectral_norm_bound(layer.weight, geometry, 8) <= 1.2 * norm


@pytest.mark.parametrize("shape", [(3, 8, 3, 3), (8, 3, 3, 3)])
def test_a_dispatch_mode_changes_nothing(shape: tuple[int, ...]) -> None:
    kernel = torch.randn(shape, generator=torch.Generator().manual_seed(7)).requires_grad_()
    geometry = Geometry((7, 7), padding=1, padding_mode="circular")

    def slope() -> torch.Tensor:
        return torch.autograd.grad(spectral_norm_bound(kernel, geometry, 6), kernel)[0]

    expected = slope()
    assert expected.abs().max() > 0.1
    with FlopCounterMode(display=False):
        assert torch.equal(slope(), expected)


# the first forward-mode derivative of a process makes torch compile its own rules by torch.jit
@pytest.mark.filterwarnings("ignore:.*torch.jit.script.* is deprecated")
def test_forward_mode_is_refused_instead_of_giving_zero() -> None:
    weight, direction = torch.randn(3, 4), torch.randn(3, 4)
    with pytest.raises(RuntimeError, match="no forward-mode derivative"):
        torch.func.jvp(spectral_norm_bound, (weight,), (direction,))
    with forward_ad.dual_level(), pytest.raises(RuntimeError, match="no forward-mode derivative"):
        spectral_norm_bound(forward_ad.make_dual(weight, direction))
