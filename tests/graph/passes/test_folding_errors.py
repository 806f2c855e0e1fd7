"""Folds and merges against rational arithmetic: the bound stays above the exact norm however much the summands cancel."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.graph.capture.export import capture
from lipaudit.graph.linear import DENSE, Dense, Scale, scale_columns, scale_rows
from lipaudit.graph.passes.folding_errors import cropped, exact_norm, margin, read_taps, widened
from lipaudit.graph.passes.table import simplify
from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.convolution.explicit import operator_matrices
from lipaudit.spectral.convolution.geometry import Convolution
from tests.spectral.test_interval import arb, precision  # noqa: F401  the precision of arb


class Branches(nn.Module):
    def __init__(self, *parts: nn.Module):
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.parts[0](x)
        for part in self.parts[1:]:
            y = y + part(x)
        return y


def taps(values: list[float], **geometry: int) -> nn.Conv1d:
    """A convolution along one axis with one channel."""
    conv = nn.Conv1d(1, 1, len(values), bias=False, dtype=torch.float64, **geometry)
    with torch.no_grad():
        conv.weight.copy_(torch.tensor([[values]], dtype=torch.float64))
    return conv


def bound(network: nn.Module, *shape: int) -> Fraction:
    network.eval()
    for parameter in network.parameters():
        parameter.requires_grad_(False)
    name = "input" if isinstance(network, nn.Sequential) else "x"
    report = lipaudit.audit(network, input_shape={name: shape}, tol=1e-9)
    assert report.network.rigor == "certified"
    return Fraction(report.network.upper_bound)


BIG = 2.0**60
UNREAD = {
    "one pixel": (1, {"padding": 1}),
    "one pixel, dilated": (1, {"padding": 3, "dilation": 3}),
    "one pixel, strided": (1, {"padding": 1, "stride": 5}),
    "two pixels, dilated": (2, {"padding": 4, "dilation": 4}),
}


@pytest.mark.parametrize("case", UNREAD)
def test_taps_that_no_pixel_meets_neither_hide_nor_feign_cancellation(case: str) -> None:
    size, geometry = UNREAD[case]
    stride = geometry.get("stride", 1)
    parts = [taps([BIG, BIG, BIG], **geometry), taps([1.0], stride=stride), taps([BIG, -BIG, BIG], **geometry)]
    found = bound(Branches(*parts), 1, 1, size)
    assert found >= 1
    assert found < 2**10
    # nothing cancels in what is read: unread weights make no difference
    parts = [taps([BIG, 1.0, BIG], **geometry), taps([1.0], stride=stride), taps([-BIG, 1.0, BIG], **geometry)]
    assert 3 <= bound(Branches(*parts), 1, 1, size) < 3 + Fraction(1, 10**8)


@pytest.mark.parametrize("count", [3, 6, 11])
def test_errors_of_many_cancelling_merges_add_up(count: int) -> None:
    norm = nn.BatchNorm1d(1, dtype=torch.float64)
    first = nn.Sequential(taps([1.0371]), norm)
    with torch.no_grad():
        norm.running_var.fill_(1.7319)
        norm.weight.fill_(0.9713)
    factor = float((norm.weight / torch.sqrt(norm.running_var + norm.eps)).detach())
    true = arb(1.0371) * arb(0.9713) / (arb(1.7319) + arb(norm.eps)).sqrt()
    total, parts = 1.0371 * factor, [first]
    for _ in range(count):
        weight = -total * (7 / 9) * (1 - 1e-9)
        parts.append(taps([weight]))
        total += weight
        true += arb(weight)
    found = arb(bound(Branches(*parts), 1, 1, 1))
    assert not found < abs(true)
    assert found < abs(true) * (1 + arb(1e-5))


def test_a_scale_after_merges_scales_their_error() -> None:
    norm = nn.BatchNorm1d(1, dtype=torch.float64)
    with torch.no_grad():
        norm.running_var.fill_(1 / 3)
        norm.weight.fill_(1e12)
    parts = [nn.Sequential(taps([0.1]), nn.BatchNorm1d(1, dtype=torch.float64)), taps([-0.09999])]
    inner = arb(0.1) / (1 + arb(1e-5)).sqrt() - arb(0.09999)
    true = inner * arb(1e12) / (arb(1 / 3) + arb(1e-5)).sqrt()
    assert not arb(bound(nn.Sequential(Branches(*parts), norm), 1, 1, 1)) < abs(true)


def test_weights_that_cancel_to_nothing_leave_their_rounding() -> None:
    network = Branches(nn.Sequential(taps([0.3]), nn.BatchNorm1d(1, dtype=torch.float64)), taps([-0.3]))
    true = abs(arb(0.3) / (1 + arb(1e-5)).sqrt() - arb(0.3))
    assert not arb(bound(network, 1, 1, 1)) < true


@pytest.mark.parametrize("scales", [1, 4])
def test_composed_scales_and_dense_folds(scales: int) -> None:
    factors = [0.1, 0.3, 0.7, 1 / 3][:scales]

    class Scaled(nn.Module):
        def __init__(self, inner: nn.Module):
            super().__init__()
            self.inner = inner

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.inner(x)
            for factor in factors:
                y = y / factor
            return y

    linear = nn.Linear(1, 1, bias=False, dtype=torch.float64)
    with torch.no_grad():
        linear.weight.fill_(0.1)
    true = math.prod((1 / Fraction(f) for f in factors), start=Fraction(1))
    for inner, start in ((linear, Fraction(0.1)), (nn.Tanh(), Fraction(1))):
        report = lipaudit.audit(Scaled(inner).eval(), input_shape={"x": (1, 1)}, tol=1e-9)
        row = report.layers[-1]
        assert Fraction(row.lower_bound) <= start * true <= Fraction(row.upper_bound)
        assert row.upper_bound < row.lower_bound * (1 + 1e-8)


def test_the_factor_of_addmm_is_a_rounding() -> None:
    class Addmm(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.addmm(torch.zeros(1), x, torch.full((2, 1), 0.1), alpha=0.7)

    (node,) = (n for n in simplify(capture(Addmm(), {"x": torch.zeros(1, 2)})) if n.op == DENSE)
    assert 2**-53 <= node.payload.error < 2**-52
    (row,) = lipaudit.audit(Addmm(), input_shape={"x": (1, 2)}, tol=1e-9).layers
    true = arb(float(torch.tensor(0.1))) * arb(0.7) * arb(2).sqrt()
    assert not arb(row.upper_bound) < true
    assert not arb(row.lower_bound) > true


GEOMETRIES = [
    Convolution(torch.ones(1, 1, *kernel, dtype=torch.float64), size, stride, padding, dilation)
    for kernel, size, stride, padding, dilation in itertools.product(
        [(3,), (2,), (5,)], [(1,), (2,), (4,)], [(1,), (2,), (5,)], [((0, 0),), ((1, 1),), ((4, 3),), ((-1, 3),)], [(1,), (2,), (4,)]
    )
    if size[0] + sum(padding[0]) >= (kernel[0] - 1) * dilation[0] + 1
]  # fmt: skip


def test_taps_that_are_read_are_those_of_the_written_out_operator() -> None:
    assert len(GEOMETRIES) > 100
    for geometry in GEOMETRIES:
        units = torch.eye(geometry.kernel_size[0], dtype=torch.float64)
        alone = [operator_matrices(geometry.with_kernel(unit.reshape(1, 1, -1))) for unit in units]
        assert read_taps(geometry) == ([a for a, matrix in enumerate(alone) if bool(matrix.any())],), geometry


def test_the_margin_bounds_what_roundings_do_to_the_operator() -> None:
    generator = torch.Generator().manual_seed(0)
    for geometry in (g for g in GEOMETRIES[::7] if all(read_taps(g))):
        for groups in (1, 2):
            shape = (4, 4 // groups, *geometry.kernel_size)
            kernel = torch.randn(shape, generator=generator, dtype=torch.float64)
            held = geometry.with_kernel(kernel, groups=groups, error=2.0**-21)
            signs = torch.randint(0, 2, shape, generator=generator) * 2.0 - 1
            moved = operator_matrices(held.with_kernel(kernel * signs * 2.0**-21))
            assert float(torch.linalg.matrix_norm(moved, 2).max()) <= margin(held)


def test_margins_of_transposed_and_padded_convolutions() -> None:
    transposed = Convolution(
        torch.ones(2, 3, 3), (4,), (2,), ((1, 1),), (1,), transposed=True, output_padding=(1,), error=1e-9
    )
    assert read_taps(transposed) == ([0, 1, 2],)
    assert margin(transposed) > 0
    circular = Convolution(torch.ones(1, 1, 3), (2,), (1,), ((1, 1),), (1,), padding_mode="circular", error=1e-9)
    assert margin(circular) > margin(
        Convolution(torch.ones(1, 1, 3), (2,), (1,), ((1, 1),), (1,), error=1e-9, groups=1)
    )
    assert cropped(transposed, ([1],)).shape == (2, 3, 1)


def test_folding_counts_roundings_and_scales_errors() -> None:
    u = 2.0**-53
    scale = Scale(torch.tensor([3.0, -0.5], dtype=torch.float64), 1, 4 * u)
    assert 9 * u <= scale_rows(scale, scale, 1).error < 10 * u
    assert 5 * u <= scale_rows(Dense(torch.ones(2, 3)), scale, 1).error < 6 * u
    assert 7 * u <= scale_columns(Dense(torch.ones(3, 2), 2 * u), scale, 1).error < 8 * u
    convolution = Convolution(torch.ones(2, 2, 1), (3,), (1,), ((0, 0),), (1,), error=u, moved=0.25)
    for fold in (scale_rows, scale_columns):
        folded = fold(convolution, scale, 1)
        assert 6 * u <= folded.error < 7 * u
        assert 0.75 <= folded.moved < 0.75 * (1 + 1e-5)


def test_an_error_that_nobody_knows_is_numerical() -> None:
    linear = Dense(torch.ones(2, 2), error=math.inf)
    assert exact_norm(Bracket.exact(2.0), linear).rigor is Rigor.NUMERICAL
    assert exact_norm(Bracket.exact(2.0), Dense(torch.ones(2, 2), error=1e-9)).rigor is Rigor.CERTIFIED


def test_a_bracket_widens_by_the_error_on_either_side() -> None:
    assert widened(Bracket.exact(2.0), 0.0) == Bracket.exact(2.0)
    wide = widened(Bracket.exact(2.0), 0.5)
    assert 1.5 * (1 - 1e-9) < wide.lower <= 1.5
    assert 2.5 <= wide.upper < 2.5 * (1 + 1e-9)
    assert widened(Bracket.exact(2.0), 3.0).log_lower == -math.inf
    assert widened(Bracket(-math.inf, -math.inf), 0.5).upper >= 0.5
    assert widened(Bracket.exact(1e300), 1e-300).lower <= 1e300 <= widened(Bracket.exact(1e300), 1e-300).upper
