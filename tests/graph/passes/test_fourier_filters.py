"""Filters by frequency on half spectra have the largest norm of their matrices; what mixes frequencies is no filter."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import fft, nn

import lipaudit
from lipaudit.graph.capture.export import capture
from lipaudit.graph.evaluate import interpret
from lipaudit.graph.passes.fourier_filters import FOURIER_FILTER
from lipaudit.graph.passes.table import recognise
from tests.one_lipschitz.layers import CayleyConvolution

GENERATOR = torch.Generator().manual_seed(0)
SHAPES = {1: (1, 3, 9), 2: (1, 3, 6, 4)}
MATRICES = torch.randn(18, 4, 3, generator=GENERATOR, dtype=torch.float64) + 1j * torch.randn(
    18, 4, 3, generator=GENERATOR, dtype=torch.float64
)
LINE = MATRICES[:5]


class Filter(nn.Module):
    """A function of one tensor and of constant matrices."""

    def __init__(self, function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], matrices: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("matrices", matrices)
        self.real = nn.Parameter(torch.ones(1, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x * self.real, self.matrices)


def plane(x: torch.Tensor, m: torch.Tensor, norm: str | None = None) -> torch.Tensor:
    spectrum = fft.rfft2(x, norm=norm).permute(2, 3, 1, 0).reshape(18, 3, 1)
    return fft.irfft2((m @ spectrum).reshape(6, 3, 4, 1).permute(3, 2, 0, 1), s=(6, 4), norm=norm)


def line(x: torch.Tensor, m: torch.Tensor, odd: int = 9) -> torch.Tensor:
    return fft.irfft((fft.rfft(x).permute(2, 0, 1) @ m.mT).permute(1, 2, 0), n=odd)


FILTERS: dict[str, tuple[Callable[[torch.Tensor, torch.Tensor], torch.Tensor], torch.Tensor, int]] = {
    "a plane": (plane, MATRICES, 2),
    "a plane, orthonormal": (lambda x, m: plane(x, m, "ortho"), MATRICES, 2),
    "a line, the matrix on the right": (line, LINE, 1),
    "twice": (lambda x, m: fft.irfft((m.mT @ (m @ fft.rfft(x).permute(2, 1, 0))).permute(2, 1, 0), n=9), LINE, 1),
    "one matrix for all": (lambda x, m: fft.irfft((m[0] @ fft.rfft(x).permute(2, 1, 0)).permute(2, 1, 0), n=9), LINE, 1),
    "a scale": (lambda x, m: fft.irfft(fft.rfft(x) * m[0, :, :1].T.reshape(1, 4, 1)[:, :3], n=9), LINE, 1),
}  # fmt: skip
OTHERS: dict[str, tuple[Callable[[torch.Tensor, torch.Tensor], torch.Tensor], torch.Tensor, int]] = {
    "another length": (lambda x, m: line(x, m, 8), LINE, 1),
    "frequencies in another order": (lambda x, m: line(x, m).roll(0) + fft.irfft(fft.rfft(x).flip(2), n=9).sum(1, True), LINE, 1),
    "frequencies mixed": (lambda x, m: fft.irfft(fft.rfft(x) @ (m[:, 0, :1] @ m[:, 1, :1].mT), n=9), LINE, 1),
    "the other axis of a plane": (lambda x, m: fft.irfft2(fft.rfft2(x).transpose(2, 3)[:, :, :, :2] * m[0, 0, 0], s=(3, 2)), MATRICES, 2),
    "another normalisation": (lambda x, _: fft.irfft(2 * fft.rfft(x, norm="ortho"), n=9), LINE, 1),
}  # fmt: skip


def stretch_of(net: nn.Module, shape: tuple[int, ...]) -> float:
    x = torch.zeros(shape, dtype=torch.float64)
    return float(torch.linalg.matrix_norm(torch.autograd.functional.jacobian(net, x).reshape(-1, x.numel()), 2))


@pytest.mark.parametrize("name", FILTERS)
def test_filters_by_frequency(name: str) -> None:
    function, matrices, dims = FILTERS[name]
    net, shape = Filter(function, matrices), SHAPES[dims]
    graph = recognise(capture(net, {"x": torch.zeros(shape, dtype=torch.float64)}))
    assert FOURIER_FILTER in [node.op for node in graph]
    x = torch.randn(shape, generator=GENERATOR, dtype=torch.float64)
    torch.testing.assert_close(interpret(graph, {graph.inputs[0]: x})[graph.outputs[0]], net(x))
    bound = lipaudit.audit(net, input_shape={"x": shape}, effort="none").network.upper_bound
    assert stretch_of(net, shape) <= bound * (1 + 1e-12)
    limit = float(torch.linalg.matrix_norm(matrices, 2).max()) ** (2 if name == "twice" else 1)
    assert bound <= limit * 1.001


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_filter(name: str) -> None:
    function, matrices, dims = OTHERS[name]
    net, shape = Filter(function, matrices), SHAPES[dims]
    report = lipaudit.audit(net, input_shape={"x": shape}, effort="none")
    assert report.network.status == "finite"
    assert stretch_of(net, shape) <= report.network.upper_bound * (1 + 1e-9)
    if name != "frequencies in another order":
        graph = recognise(capture(net, {"x": torch.zeros(shape, dtype=torch.float64)}))
        assert FOURIER_FILTER not in [node.op for node in graph]


@pytest.mark.parametrize("size", [6, 7])
def test_a_cayley_convolution_is_orthogonal(size: int) -> None:
    torch.manual_seed(0)
    net = CayleyConvolution(4, size)
    network = lipaudit.audit(net, input_shape={"x": (1, 4, size, size)}, effort="none").network
    assert stretch_of(net.double(), (1, 4, size, size)) <= network.upper_bound <= 1 + 2e-6
    assert network.rigor == "numerical"


def test_a_complex_matrix_of_the_data_has_its_norm() -> None:
    net = Filter(lambda x, m: fft.ifft(m[0] @ fft.fft(x).reshape(3, 9)).real, MATRICES)
    bound = lipaudit.audit(net, input_shape={"x": (1, 3, 9)}, effort="none").network.upper_bound
    assert stretch_of(net, (1, 3, 9)) <= bound <= float(torch.linalg.matrix_norm(MATRICES[0], 2)) * 1.001


def test_a_product_of_two_complex_tensors_is_unsupported() -> None:
    net = Filter(lambda x, _: (fft.fft(x) @ fft.fft(x).mT).real, MATRICES)
    assert lipaudit.audit(net, input_shape={"x": (1, 3, 9)}).network.status == "unsupported"
