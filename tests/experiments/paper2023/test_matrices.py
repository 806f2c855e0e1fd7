"""The experiments on random matrices, at tiny sizes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lipaudit.experiments.harness.golub_kahan import lanczos_norm
from lipaudit.experiments.harness.registry import Request
from lipaudit.experiments.harness.render import cell_text
from lipaudit.experiments.paper2023 import convergence, dimension_table, spectral_table


def matrices(count: int, shape: tuple[int, int], dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(count, *shape, dtype=dtype, generator=torch.Generator().manual_seed(0))


def test_convergence_tabulates_true_errors() -> None:
    found = convergence.run(Request(), 3, (12, 8), 400, 4)
    table = found.tables[0]
    sigma = np.linalg.svd(matrices(3, (12, 8)).numpy(), compute_uv=False)
    for products in (0, 1, 3):
        schatten = (sigma**2.0 ** (products + 1)).sum(1) ** 2.0 ** -(products + 1)
        errors = schatten - sigma[:, 0]
        row = next(r for r in table.rows if r[:2] == ("Gram", products))
        assert row[2:] == pytest.approx((errors.mean(), errors.min(), errors.max()), rel=1e-9)
    last = next(r for r in table.rows if r[:2] == ("power", 400))
    assert last[4] < 1e-10 * sigma.max()
    starts = found.tables[1]
    assert starts.rows[0][3] < starts.rows[0][4]  # different starts
    assert [series.label for series in found.plots[0].series] == ["Gram iteration", "power iteration"]
    assert len(found.plots[1].series) == 5
    assert found.claims[-1].holds


def test_convergence_counts_the_iterations_that_power_iteration_needs() -> None:
    gram = torch.zeros(convergence.PRODUCTS + 1, 2, dtype=torch.float64)
    gram[10] = torch.tensor([1e-2, 3e-2])
    gram[11] = torch.tensor([1e-9, 1e-9])
    power = -torch.tensor([[0.5, 0.5], [0.03, 0.03], [0.03, 0.005], [1e-3, 1e-3]], dtype=torch.float64)
    histories = convergence.Histories(gram, power, torch.ones(2, dtype=torch.float64))
    assert histories.needed(10) == 3
    assert histories.needed(11) is None
    by_start = {claim.statement[:30]: claim for claim in convergence.claims(histories)}
    assert not by_start["power iteration needs more tha"].holds


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_convergence_claims_come_out_both_ways(side: float) -> None:
    gram = torch.full((convergence.PRODUCTS + 1, 2), 1e-3, dtype=torch.float64) * side
    power = torch.full((2000, 2), -1e-2, dtype=torch.float64) * side
    floor, ten, eleven, below, above = convergence.claims(
        convergence.Histories(gram, power, torch.ones(2, dtype=torch.float64))
    )
    assert not floor.holds
    assert ten.holds
    assert eleven.holds
    assert below.holds == above.holds == (side > 0)
    gram[12:] = 0
    assert convergence.claims(convergence.Histories(gram, power, torch.ones(2, dtype=torch.float64)))[0].holds
    assert not convergence.determinism(
        convergence.Histories(gram, power, torch.ones(2, dtype=torch.float64)), False
    ).holds


@pytest.mark.parametrize(("apart", "holds"), [(1 + 1e-15, False), (1.9, False), (2.1, True)])
def test_starts_differ_where_their_errors_differ_by_more_than_2(apart: float, holds: bool) -> None:
    gram = torch.zeros(convergence.PRODUCTS + 1, 2, dtype=torch.float64)
    power = torch.tensor([[-1e-3, -1e-3 * apart]], dtype=torch.float64).repeat(100, 1)
    histories = convergence.Histories(gram, power, torch.ones(2, dtype=torch.float64))
    assert convergence.determinism(histories, True).holds == holds
    assert not convergence.determinism(histories, False).holds


def test_spectral_table_has_the_errors_of_the_singular_values() -> None:
    found = spectral_table.run(Request(), 2, (40, 20))
    rows = {row[:2]: row for row in found.tables[0].rows}
    assert set(rows) >= {("SVD", None), ("PI", 10), ("PI", 100), ("PI", 1000), ("GI", 10), ("GI", 11), ("GI", 12)}
    marks: spectral_table.Marks = {3: ([], [])}
    first = torch.randn(1, 40, 20, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    singular = np.linalg.svd(first[0].numpy(), compute_uv=False)
    spectral_table.collect(spectral_table.schatten_norms(first, 4), 0, marks, float(singular[0]), torch.device("cpu"))
    assert marks[3][0] == pytest.approx([(singular**16).sum() ** (1 / 16) / singular[0] - 1])
    assert marks[3][1][0] >= 0
    assert rows["PI", 10][2] < 0
    assert rows["PI", 1000][4] == -2.43e-6
    assert len(found.claims) == 12
    drawn = {series.label: series.y for series in found.plots[0].series}
    assert drawn["power iteration, mean"] == tuple(
        max(1e-16, abs(rows["PI", n][2])) for n in spectral_table.PAPER_POWER
    )
    gram = [row[2] for key, row in rows.items() if key[0] == "GI"]
    assert drawn["Gram iteration, median"] == tuple(max(1e-16, value) for value in gram)
    assert found.claims[2].measured.startswith(f"median {rows['GI', 12][2]:.3g} of 2 ")
    assert "power iteration, mean" in found.tables[0].title


def test_one_median_of_gram_iteration_stands_in_table_claims_and_plot() -> None:
    errors = [-4e-16, 2e-16, 6e-16, -9e-16]  # the median of the signed ones would be -1e-16
    assert spectral_table.centre("GI", errors) == pytest.approx(5e-16)
    assert spectral_table.centre("PI", errors) == pytest.approx(-1.25e-16)


@pytest.mark.parametrize("products", [6, 8, 10])
def test_the_products_between_two_errors_are_found(products: int) -> None:
    def error(n: int, ratio: float) -> float:
        return (1 + ratio**2.0 ** (n + 1)) ** (2.0 ** -(n + 1)) - 1

    ratio = 0.01**2.0 ** -(products + 1)  # (sigma_2 / sigma_1)^(2^(N+1)) = 0.01
    found = spectral_table.products_between(error(products, ratio), error(products + 1, ratio), products)
    assert found == pytest.approx(products, abs=1e-3)


def test_the_papers_rows_are_as_many_products_as_they_say() -> None:
    (ten, _), (eleven, _) = spectral_table.PAPER_GRAM[10], spectral_table.PAPER_GRAM[11]
    assert spectral_table.products_between(ten, eleven, 10) == pytest.approx(10, abs=1e-3)
    gram: spectral_table.Marks = {10: ([ten, 1e-9], [1.0, 1.0]), 11: ([eleven, 1e-15], [1.0, 1.0])}
    assert spectral_table.index_claim(gram).holds  # the second matrix has only rounding left
    assert not spectral_table.index_claim({10: ([ten], [1.0]), 11: ([eleven / 4], [1.0])}).holds
    assert not spectral_table.index_claim({10: ([1e-9], [1.0]), 11: ([1e-15], [1.0])}).holds


def test_spectral_claims_come_out_both_ways() -> None:
    def judge(gram_factor: float, power_factor: float, seconds: float) -> list[bool]:
        gram = {n: ([error * gram_factor], [seconds]) for n, (error, _) in spectral_table.PAPER_GRAM.items()}
        power = {n: ([error * power_factor], [1.0]) for n, (error, _) in spectral_table.PAPER_POWER.items()}
        return [claim.holds for claim in spectral_table.claims(gram, power, 1.0)]

    fall = [False]  # the paper's own table has a factor of 1.56e6, not of 1e4
    assert judge(1.0, 1.0, 0.5) == [True] * 5 + fall + [True] * 4 + [False, True]
    assert judge(4.9, 1 / 4.9, 0.5) == [True] * 4 + [False] + fall + [True] * 4 + [False, True]
    lone = {n: ([1e-3, error], [0.5, 0.5]) for n, (error, _) in spectral_table.PAPER_GRAM.items()}
    assert spectral_table.nearest_claim(lone).holds
    assert not spectral_table.nearest_claim(lone | {12: ([4.33e-12, 1e-3], [0.5, 0.5])}).holds
    assert judge(0.3, 1.0, 0.5)[10]  # 1000 power iterations are not as close as 10 products
    assert judge(5.1, -1.0, 2.0) == [False] * 12


def test_dimension_table_has_true_references() -> None:
    found = dimension_table.run(Request(), (10, 30), 2, memory=10**9)
    generator = torch.Generator().manual_seed(0)
    rows = {row[0]: row for row in found.tables[0].rows}
    assert set(rows) == {10, 30}
    matrix = torch.randn(30, 30, generator=generator)
    assert dimension_table.reference_norm(matrix, generator) == pytest.approx(
        np.linalg.norm(matrix.double().numpy(), 2), rel=1e-12
    )
    for p, power_time, gram_time, power_error, gram_error, reference, power_size, gram_size, rate in found.tables[
        0
    ].rows:
        assert power_size >= abs(power_error)
        assert gram_size >= abs(gram_error)
        assert 1.2 * p**0.5 < reference < 2.5 * p**0.5
        assert abs(power_error) < 0.5
        assert -1e-4 < gram_error < 0.1
        assert rate == 20.0 * p**3 / gram_time
        assert power_time > 0
    assert "p = 100, 1000, 10000, 50000" in found.notes[0]


def test_dimension_table_leaves_out_what_does_not_fit() -> None:
    found = dimension_table.run(Request(full=True), (10, 100), 1, memory=4 * 4 * 99**2)
    assert [row[0] for row in found.tables[0].rows] == [10]
    assert "p = 100, 1000, 10000, 50000 (more than the free memory" in found.notes[0]


def test_the_rates_that_the_papers_times_imply() -> None:
    rows = {row[0]: row for row in dimension_table.paper_table().rows}
    assert rows[50000][6] == pytest.approx(10 * 2 * 50000**3 / 0.0040)
    assert rows[50000][6] > 1e17
    assert rows[10000][7] == pytest.approx(200 * 4e8 / 0.016)
    found = dimension_table.run(Request(), (10,), 1, memory=10**9)
    assert len(found.claims) == 2  # what was measured; the paper's own numbers make no claim
    (gram,) = (note for note in found.notes if "flop/s" in note)
    assert "6.2e+17 flop/s at p = 50000" in gram
    assert "above the 3.097e+14 of its card at p = 10000, 50000" in gram
    (power,) = (note for note in found.notes if "B/s" in note)
    assert "5e+12 B/s at p = 10000" in power
    assert "above the 7.68e+11 of its card at p = 10000, 50000" in power


def test_dimension_claims_come_out_both_ways() -> None:
    good = dimension_table.claims([(10, 2.0, 1.0, -0.1, 0.01, 5.0, 0.1, 0.01)])
    bad = dimension_table.claims([(10, 1.0, 2.0, -0.01, 0.1, 5.0, 0.01, 0.1)])
    assert [c.holds for c in good] == [True, True]
    assert [c.holds for c in bad] == [False, False]


def test_errors_of_both_signs_do_not_cancel_in_the_claim() -> None:
    _, closer = dimension_table.claims([(10, 2.0, 1.0, -0.01, 0.0, 5.0, 0.01, 0.02)])
    assert not closer.holds
    rounding = dimension_table.claims([(10, 2.0, 1.0, 0.0, 0.0, 5.0, 0.0, 4.9e-6)])[1]
    assert rounding.holds
    assert "1e-06" in rounding.statement
    assert "allowed: 4.9e-06 against 0 at p = 10, within the 5e-06 of rounding" in rounding.measured
    assert "allowed" not in closer.measured
    assert not dimension_table.claims([(10, 2.0, 1.0, 0.0, 0.0, 5.0, 0.0, 5.1e-6)])[1].holds


def test_errors_within_rounding_are_marked_in_the_dimension_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dimension_table, "_last_gram", lambda matrix: 1.0 + 9e-7)
    monkeypatch.setattr(dimension_table, "_last_power", lambda matrix, generator: 1.0 - 2e-6)
    monkeypatch.setattr(dimension_table, "reference_norm", lambda matrix, generator: 1.0)
    found = dimension_table.run(Request(), (10,), 2, memory=10**9)
    assert [cell_text(cell) for cell in found.tables[0].rows[0][3:8]] == ["-2e-06", "9e-07*", "1", "2e-06", "9e-07*"]
    assert "* marks" in found.tables[0].title
    assert "power iteration" in found.title
    assert "Gram iteration" in found.title


def test_the_dimension_table_averages_absolute_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    values = iter([0.0, 3.0, -1.0])  # the first run warms up
    monkeypatch.setattr(dimension_table, "_last_gram", lambda matrix: next(values))
    monkeypatch.setattr(dimension_table, "_last_power", lambda matrix, generator: -2.0)
    monkeypatch.setattr(dimension_table, "reference_norm", lambda matrix, generator: 1.0)
    row = dimension_table.run(Request(), (10,), 2, memory=10**9).tables[0].rows[0]
    assert row[3:5] == (-3.0, 0.0)
    assert row[6:8] == (3.0, 2.0)


@pytest.mark.parametrize("shape", [(60, 40), (40, 60), (5, 5), (1, 4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_lanczos_finds_the_norm(shape: tuple[int, int], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lipaudit.experiments.harness.golub_kahan._CHUNK", 100)
    matrix = matrices(1, shape, dtype)[0]
    expected = np.linalg.norm(matrix.double().numpy(), 2)
    assert lanczos_norm(matrix, 60, torch.Generator().manual_seed(1)) == pytest.approx(expected, rel=1e-10)
    assert lanczos_norm(matrix, 2, torch.Generator().manual_seed(1)) <= expected * (1 + 1e-12)


def test_lanczos_of_a_matrix_of_low_rank_and_of_zero() -> None:
    v = torch.arange(1.0, 7.0)
    assert lanczos_norm(torch.outer(v, v), 6, torch.Generator().manual_seed(0)) == pytest.approx(91.0)
    assert lanczos_norm(torch.zeros(4, 3), 3, torch.Generator().manual_seed(0)) == 0
