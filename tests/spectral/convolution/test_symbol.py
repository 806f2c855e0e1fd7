"""Symbol, polyphase and Gram matrices of frequencies against torch.fft and circulants written out."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from lipaudit.spectral.convolution.geometry import padding_source
from lipaudit.spectral.convolution.stride import Taps, polyphase
from lipaudit.spectral.convolution.symbol import Frequencies, SymbolGram


def _kernel(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def _symbol(taps: Taps, group: int, angles: torch.Tensor) -> torch.Tensor:
    """D(w) by its definition: (points, rows, columns)."""
    waves = torch.polar(torch.ones(()).double(), -(angles @ taps.offsets.double().T))
    return torch.einsum("pt,trc->prc", waves, taps.matrices[group].to(torch.complex128))


def _full_lattice(period: tuple[int, ...]) -> Frequencies:
    index = torch.cartesian_prod(*[torch.arange(n) for n in period]).reshape(-1, len(period))
    return Frequencies(index, period)


def _circulant(
    kernel: torch.Tensor, size: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]
) -> torch.Tensor:
    """The circular convolution y[j] = sum_a K[a] x[(s j + d a) mod N], entry by entry."""
    c_out, c_in = kernel.shape[:2]
    outputs = [n // s for n, s in zip(size, stride, strict=True)]
    matrix = torch.zeros(c_out, *outputs, c_in, *size, dtype=torch.float64)
    for j in itertools.product(*map(range, outputs)):
        for a in itertools.product(*map(range, kernel.shape[2:])):
            place = tuple((s * q + d * t) % n for s, q, d, t, n in zip(stride, j, dilation, a, size, strict=True))
            matrix[(slice(None), *j, slice(None), *place)] += kernel[(slice(None), slice(None), *a)]
    return matrix.reshape(c_out * math.prod(outputs), -1)


@pytest.mark.parametrize("shape", [(3, 2, 3), (2, 3, 4), (2, 2, 3, 3), (3, 1, 2, 5), (1, 2, 2, 3, 2)])
def test_the_symbol_is_the_transform_of_the_padded_kernel(shape: tuple[int, ...]) -> None:
    kernel = _kernel(*shape)
    d = len(shape) - 2
    period = (8, 6, 5)[:d]
    transform = torch.fft.fftn(kernel, s=period, dim=tuple(range(2, 2 + d)))
    expected = torch.linalg.matrix_norm(transform.flatten(2).permute(2, 0, 1), 2)
    taps = polyphase(kernel[None], (1,) * d, (1,) * d)
    frequencies = _full_lattice(period)
    symbol = _symbol(taps, 0, frequencies.angles())
    assert torch.allclose(torch.linalg.matrix_norm(symbol, 2), expected, rtol=1e-12)


@pytest.mark.parametrize(
    "shape", [(1, 3, 2, 3), (1, 2, 4, 3, 3), (3, 2, 2, 2, 3), (2, 1, 1, 5), (2, 1, 3, 3, 3), (1, 2, 2, 2, 2, 3)]
)
def test_the_gram_matrix_is_the_product_of_the_symbol_with_its_adjoint(shape: tuple[int, ...]) -> None:
    d = len(shape) - 3
    taps = polyphase(_kernel(*shape), (1,) * d, (1,) * d)
    gram = SymbolGram(taps)
    frequencies = _full_lattice((7, 5, 4)[:d])
    for group in range(shape[0]):
        symbol = _symbol(taps, group, frequencies.angles()) * 2.0**-gram.exponent
        expected = symbol.mH @ symbol
        if shape[1] < shape[2]:
            expected = symbol.conj() @ symbol.mT
        computed = gram.at(torch.full((len(frequencies),), group), frequencies)
        assert computed.shape[-1] == gram.n == min(shape[1:3])
        assert float((computed - expected).abs().max()) < gram.error
        assert gram.error < 1e-11 * gram.scale


@pytest.mark.parametrize(
    "shape", [(1, 3, 3, 3), (1, 4, 6, 3, 3), (3, 2, 2, 3, 3), (4, 1, 1, 3, 3), (1, 1, 1, 7), (1, 8, 8, 1, 1)]
)
@pytest.mark.parametrize("kind", ["gaussian", "ones", "orthogonal"])
def test_bounds_from_trace_and_frobenius_norm(shape: tuple[int, ...], kind: str) -> None:
    kernel = _kernel(*shape)
    if kind == "ones":
        kernel = torch.ones_like(kernel)
    if kind == "orthogonal":
        kernel = torch.zeros_like(kernel)
        kernel.flatten(3)[..., 0] = torch.eye(*shape[1:3])
    d = len(shape) - 3
    taps = polyphase(kernel, (1,) * d, (1,) * d)
    gram = SymbolGram(taps)
    frequencies = _full_lattice((9, 6)[:d])
    bounds = gram.upper_bounds(frequencies)
    for group in range(shape[0]):
        symbol = _symbol(taps, group, frequencies.angles()) * 2.0**-gram.exponent
        largest = torch.linalg.matrix_norm(symbol, 2) ** 2
        assert bool((bounds[group] >= largest * (1 - 1e-14)).all())
        if gram.n == 1:
            assert torch.allclose(bounds[group], largest, atol=1e-11 * gram.scale)
        if kind == "orthogonal" and shape[1] == shape[2]:
            assert torch.allclose(bounds[group], largest, rtol=1e-4), "equal eigenvalues have variance zero"


@pytest.mark.parametrize(
    ("kernel_size", "size", "stride", "dilation"),
    [
        ((3,), (6,), (2,), (1,)),
        ((4,), (9,), (3,), (1,)),
        ((2,), (8,), (2,), (3,)),
        ((3,), (8,), (2,), (2,)),
        ((3,), (12,), (4,), (3,)),
        ((5,), (4,), (2,), (1,)),
        ((1,), (6,), (3,), (1,)),
        ((3, 2), (4, 6), (2, 3), (1, 1)),
        ((2, 3), (6, 4), (3, 1), (2, 2)),
        ((3, 3), (4, 4), (2, 2), (1, 1)),
        ((2, 2, 2), (2, 4, 3), (1, 2, 3), (1, 1, 2)),
    ],
)
def test_polyphase_has_the_norm_of_the_strided_circulant(
    kernel_size: tuple[int, ...], size: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]
) -> None:
    for c_out, c_in in ((2, 3), (3, 1)):
        kernel = _kernel(c_out, c_in, *kernel_size, seed=c_out)
        exact = float(torch.linalg.matrix_norm(_circulant(kernel, size, stride, dilation), 2))
        taps = polyphase(kernel[None], stride, dilation)
        period = [n // s for n, s in zip(size, stride, strict=True)]
        period = [n // math.gcd(n, g) for n, g in zip(period, taps.divisors, strict=True)]
        symbol = _symbol(taps, 0, _full_lattice(tuple(period)).angles())
        assert float(torch.linalg.matrix_norm(symbol, 2).max()) == pytest.approx(exact, rel=1e-12)


def test_polyphase_needs_no_more_taps_than_the_stride_leaves() -> None:
    for k, s in itertools.product(range(1, 8), range(1, 5)):
        taps = polyphase(_kernel(1, 2, 2, k), (s,), (1,))
        assert len(taps.offsets) == -(-k // s)
        assert taps.matrices.shape[-1] == 2 * min(k, s)


def test_dilation_becomes_a_divisor_and_leaves_the_degree_alone() -> None:
    taps = polyphase(_kernel(1, 2, 3, 3, 4), (1, 1), (2, 5))
    assert taps.divisors == (2, 5)
    assert taps.degrees == (1.0, 1.5)
    strided = polyphase(_kernel(1, 2, 3, 3), (2,), (6,))
    assert strided.divisors == (3,)
    assert strided.degrees == (1.0,)


def test_zero_taps_lower_the_degree() -> None:
    kernel = _kernel(1, 2, 2, 5, 3)
    kernel[..., 0, :] = 0
    kernel[..., 4, :] = 0
    kernel[..., :, 0] = 0
    taps = polyphase(kernel, (1, 1), (1, 1))
    assert taps.degrees == (1.0, 0.5)
    assert taps.offsets.amin(0).tolist() == [0, 0]
    centre = torch.zeros(1, 1, 1, 3, 3)
    centre[..., 1, 1] = 2
    assert polyphase(centre.double(), (1, 1), (1, 1)).degrees == (0.0, 0.0)


def test_a_zero_kernel_keeps_one_tap() -> None:
    taps = polyphase(torch.zeros(2, 3, 2, 3, dtype=torch.float64), (1,), (1,))
    assert taps.matrices.shape == (2, 1, 3, 2)
    assert taps.degrees == (0.0,)


@pytest.mark.parametrize("period", [(1,), (2,), (5,), (6,), (4, 6), (5, 5), (1, 4), (2, 3, 4)])
def test_the_lattice_holds_one_of_each_pair_of_opposite_frequencies(period: tuple[int, ...]) -> None:
    kept = [tuple(i) for i in Frequencies.lattice(period).index.tolist()]
    opposite = [tuple(-a % n for a, n in zip(i, period, strict=True)) for i in kept]
    assert set(kept) | set(opposite) == set(itertools.product(*map(range, period)))
    assert len(set(kept)) == len(kept)
    assert all(o == k or o not in kept for k, o in zip(kept, opposite, strict=True))


def test_cells_split_into_halves_that_cover_them() -> None:
    cells = Frequencies.lattice((3, 4)).halved()
    step = torch.tensor([2 * math.pi / n for n in cells.period], dtype=torch.float64)
    children = cells.split((True, True))
    child_step = torch.tensor([2 * math.pi / n for n in children.period], dtype=torch.float64)
    assert torch.allclose(child_step * 2, step)
    distance = children.angles().reshape(4, -1, 2) - cells.angles()
    distance = (distance + math.pi) % (2 * math.pi) - math.pi
    signs = (distance / child_step).round(decimals=9)
    assert sorted(map(tuple, signs[:, 0].tolist())) == [(-1.0, -1.0), (-1.0, 1.0), (1.0, -1.0), (1.0, 1.0)]
    assert bool((signs == signs[:, :1]).all())
    fixed = cells.split((True, False))
    assert len(fixed) == 2 * len(cells)
    assert fixed.period == (2 * cells.period[0], cells.period[1])
    assert torch.allclose(fixed.angles()[:, 1], cells.angles()[:, 1].repeat(2))


@pytest.mark.parametrize("shape", [(3, 2, 3), (2, 3, 4)])
def test_the_left_vector_is_the_direction_that_is_stretched_into(shape: tuple[int, ...]) -> None:
    taps = polyphase(_kernel(1, *shape), (1,), (1,))
    gram = SymbolGram(taps)
    frequencies = Frequencies(torch.tensor([[2]]), (7,))
    values, vectors = torch.linalg.eigh(gram.at(torch.tensor([0]), frequencies))
    angle = tuple(frequencies.angles()[0].tolist())
    left = gram.left_vectors(torch.tensor([0]), torch.tensor([angle], dtype=torch.float64), vectors[:, :, -1])[0]
    symbol = _symbol(taps, 0, frequencies.angles())[0] * 2.0**-gram.exponent
    gain = torch.linalg.vector_norm(symbol.mH @ left) / torch.linalg.vector_norm(left)
    assert float(gain) ** 2 == pytest.approx(float(values[0, -1]), rel=1e-10)


@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
def test_padding_copies_the_pixels_that_torch_copies(mode: str) -> None:
    numbers = torch.arange(1.0, 6.0)[None, None]
    padded = torch.nn.functional.pad(numbers, (4, 3), mode="constant" if mode == "zeros" else mode)[0, 0]
    expected = [None if v == 0 else int(v) - 1 for v in padded.tolist()]
    assert [padding_source(i, 5, mode) for i in range(-4, 8)] == expected
