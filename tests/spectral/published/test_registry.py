"""The registry: names, errors, and what surrounds a measurement."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch

from lipaudit.errors import MethodError, NonFiniteWeightsError, RegistryError, UsageError
from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.published.delattre2023 import delattre2023
from lipaudit.spectral.published.registry import (
    Method,
    Options,
    all_methods,
    find_method,
    measure,
    measure_matrix,
    register,
)
from lipaudit.spectral.published.sampling import oversampling_factor
from lipaudit.spectral.published.symbols import grid_symbols
from tests.spectral.published.operators import Geometry, norm


def probe(seen: list[object], error: Exception | None = None) -> Method:
    """A method that is not registered and writes down what it gets."""

    def function(convolution: Convolution, options: Options) -> Bracket:
        seen.append(convolution.kernel)
        seen.append((torch.backends.cudnn.conv.fp32_precision, torch.backends.cuda.matmul.fp32_precision))
        if error is not None:
            raise error
        return Bracket(-math.inf, 0.0, Rigor.ESTIMATE)

    return Method("probe", "Probe", "", "", "", function)


@pytest.fixture
def _rounded_products() -> Iterator[None]:
    torch.backends.cuda.matmul.allow_tf32 = True
    yield
    torch.backends.cuda.matmul.allow_tf32 = False


@pytest.mark.usefixtures("_rounded_products")
@pytest.mark.parametrize("error", [None, MethodError("refused")])
def test_products_do_not_round_to_tf32_meanwhile(error: Exception | None) -> None:
    before = torch.backends.cudnn.conv.fp32_precision
    seen: list[object] = []
    if error is None:
        measure(probe(seen), Geometry((1, 1), (3,), (5,)).convolution())
    else:
        with pytest.raises(MethodError, match="refused"):
            measure(probe(seen, error), Geometry((1, 1), (3,), (5,)).convolution())
    assert seen[1] == ("ieee", "ieee")
    assert torch.backends.cudnn.conv.fp32_precision == before
    assert torch.backends.cuda.matmul.allow_tf32
    assert torch.backends.cudnn.allow_tf32


def test_a_method_gets_a_scaled_kernel_of_the_precision_asked_for() -> None:
    convolution = Geometry((2, 3), (3, 3), (5, 5)).convolution()
    seen: list[object] = []
    bracket = measure(probe(seen), convolution.with_kernel(convolution.kernel * 2.0**700), Options(dtype=torch.float32))
    assert isinstance(seen[0], torch.Tensor)
    assert seen[0].dtype is torch.float32
    assert 0.5 <= float(seen[0].abs().max()) < 1
    ratio = float((convolution.kernel / seen[0].double()).mean())
    assert bracket.log_upper == pytest.approx(math.log(ratio) + 700 * math.log(2))
    assert bracket.rigor is Rigor.ESTIMATE


def test_our_own_norms_take_the_weights_as_stored() -> None:
    # 1 + 2^-40 is no float32
    matrix = torch.tensor([[1 + 2.0**-40]], dtype=torch.float64)
    options = Options(dtype=torch.float32, tolerance=1e-9)
    convolution = Convolution(matrix[:, :, None], (1,), (1,), ((0, 0),), (1,))
    assert measure(find_method("gram"), convolution, options).upper >= 1 + 2.0**-40
    assert measure_matrix(find_method("gram"), matrix, options).upper >= 1 + 2.0**-40
    assert measure(find_method("ryu2019"), convolution, options).upper < 1 + 2.0**-41


def test_names() -> None:
    names = [method.name for method in all_methods()]
    assert names == sorted(names)
    with pytest.raises(UsageError, match="there is no method 'ryu2020': choose one of araujo2021, bibi2019"):
        find_method("ryu2020")
    with pytest.raises(RegistryError, match="ryu2019 is registered twice"):
        register(find_method("ryu2019"))


def test_weights_that_are_not_finite() -> None:
    broken = Convolution(torch.tensor([[[math.nan]]]), (3,), (1,), ((0, 0),), (1,))
    for method in all_methods():
        with pytest.raises(NonFiniteWeightsError):
            measure(method, broken)


@pytest.mark.parametrize("method", [m for m in all_methods() if m.iterations is not None], ids=lambda m: m.name)
def test_no_iterations_at_all_are_refused(method: Method) -> None:
    with pytest.raises(UsageError, match="iterations or samples must be at least 1, got 0"):
        measure(method, Geometry((2, 3), (3, 3), (5, 5)).convolution(), Options(iterations=0))
    explicit = measure(method, Geometry((2, 3), (3, 3), (5, 5)).convolution(), Options(iterations=method.iterations))
    assert explicit == measure(method, Geometry((2, 3), (3, 3), (5, 5)).convolution())


def test_too_few_samples_are_refused() -> None:
    convolution = Geometry((2, 3), (5, 3), (9, 9)).convolution()
    with pytest.raises(MethodError, match="4 samples per axis give no bound for a kernel of 5 taps: take at least 5"):
        measure(find_method("araujo2021"), convolution, Options(iterations=4))
    assert measure(find_method("araujo2021"), convolution, Options(iterations=5)).rigor is Rigor.NUMERICAL
    with pytest.raises(MethodError, match="take at least 5"):
        delattre2023(convolution, Options(), 4)


def test_kernels_too_large_to_convolve_with_themselves_are_refused() -> None:
    wide = Convolution(torch.ones(256, 256, 3, 3), (8, 8), (1, 1), ((1, 1), (1, 1)), (1, 1))
    with pytest.raises(MethodError, match=r"delattre2024 with 5 iterations .* take at most 3"):
        measure(find_method("delattre2024"), wide, Options(iterations=5))


@pytest.mark.parametrize(("degree", "samples"), [(1, 3), (1, 5), (2, 5), (3, 9)])
def test_the_factor_for_samples_holds_for_polynomials(degree: int, samples: int) -> None:
    generator = torch.Generator().manual_seed(degree)
    coefficients = torch.randn(500, 2 * degree + 1, dtype=torch.complex128, generator=generator)
    exponents = torch.arange(-degree, degree + 1, dtype=torch.float64)

    def largest(points: int) -> torch.Tensor:
        angles = torch.arange(points, dtype=torch.float64) * 2 * math.pi / points
        waves = torch.outer(exponents, angles)
        return (coefficients @ torch.polar(torch.ones_like(waves), waves)).abs().amax(1)

    factor = oversampling_factor((2 * degree + 1,), (samples,))
    assert (largest(2000) <= factor * largest(samples)).all()
    # the cosine factor is the smaller one from 4 degree samples on
    assert (factor >= 1 / math.cos(math.pi * degree / samples)) == (samples >= 4 * degree)


def test_symbols_come_in_chunks_of_the_same_numbers() -> None:
    convolution = Geometry((4, 6), (3, 2), (5, 6), groups=2).convolution()
    whole = torch.cat(list(grid_symbols(convolution, (5, 6))))
    parts = list(grid_symbols(convolution, (5, 6), chunk_numbers=40))
    assert whole.shape == (20, 2, 3, 2)
    assert max(part.numel() for part in parts) <= 40
    torch.testing.assert_close(torch.cat(parts), whole, rtol=1e-14, atol=1e-14)


def test_a_complex_matrix_has_the_norm_of_its_real_form() -> None:
    matrix = torch.randn(4, 3, dtype=torch.complex128, generator=torch.Generator().manual_seed(0))
    for name in ("sedghi2019", "tsuzuku2018", "gram"):
        assert measure_matrix(find_method(name), matrix).upper == pytest.approx(norm(matrix.numpy()), rel=1e-3)
