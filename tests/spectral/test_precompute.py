"""Norms that are computed in advance are those of the same weights alone; equal weights are measured once; a store saves the work."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from lipaudit.errors import NonFiniteWeightsError, OutputError
from lipaudit.spectral import oracle, precompute
from lipaudit.spectral.cache import NormStore
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.linear_map import LinearMap, OperatorNorm
from lipaudit.spectral.oracle import CertifiedNorms
from lipaudit.spectral.precompute import KnownNorms


def _convolution(seed: int, size: int = 6) -> Convolution:
    kernel = torch.randn(3, 2, 3, 3, generator=torch.Generator().manual_seed(seed))
    return Convolution.like_torch(kernel, size, padding="same", padding_mode="circular")


def _named(weights: list[LinearMap]) -> list[tuple[str, LinearMap]]:
    return [(f"layer{i}", weight) for i, weight in enumerate(weights)]


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest) -> int:
    """One thread works through the weights, several share them."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("large", [2**24, 20])
def test_the_norms_are_those_of_the_weights_alone(threads: int, large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precompute, "LARGE_NUMBERS", large)
    convolutions = [_convolution(seed) for seed in range(5)]
    matrices = [torch.eye(2) * 5, torch.ones(3, 4)]
    known, alone = KnownNorms(_named([*convolutions, *matrices]), 1e-3), CertifiedNorms(1e-3)
    assert torch.get_num_threads() == threads
    for linear in (*convolutions, _convolution(7), *matrices, torch.eye(3) * 9):  # two of them are not known
        assert known.norm(linear) == alone.norm(linear)


def test_equal_weights_are_measured_once_and_known_ones_not_again(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = []
    monkeypatch.setattr(
        precompute, "certified_norm", lambda c, tol: measured.append(c) or oracle.certified_norm(c, tol)
    )
    one, equal, elsewhere = _convolution(0), _convolution(0), _convolution(0, size=7)
    matrix = torch.ones(2, 2)
    reports: list[tuple[int, int, str]] = []
    known = KnownNorms(_named([one, equal, elsewhere, matrix]), 1e-3, progress=lambda *report: reports.append(report))
    assert len(measured) == 3
    assert (known.distinct, known.recalled) == (3, 0)
    assert [done for done, _, _ in reports] == [0, 1, 2, 3]
    assert {total for _, total, _ in reports} == {3}
    assert {name for _, _, name in reports} == {"", "layer1", "layer2", "layer3"}

    def refuse(*_arguments: object) -> None:
        raise AssertionError("measured again")

    monkeypatch.setattr(oracle, "certified_norm", refuse)
    assert known.norm(one) == known.norm(equal)
    assert 2 <= known.norm(matrix).bracket.upper <= 2.01


def test_a_store_saves_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = _named([_convolution(0), _convolution(1), torch.eye(4) * 3, torch.zeros(2, 2)])
    first = KnownNorms(weights, 1e-3, store=NormStore(tmp_path / "cache"))
    assert (first.distinct, first.recalled) == (4, 0)
    closer = KnownNorms(weights, 1e-4, store=NormStore(tmp_path / "cache"))
    assert closer.recalled == 0  # another tolerance asks for another figure

    def refuse(*_arguments: object) -> None:
        raise AssertionError("measured again")

    monkeypatch.setattr(precompute, "_norm", refuse)
    fresh_objects = _named([_convolution(0), _convolution(1), torch.eye(4) * 3, torch.zeros(2, 2)])
    second = KnownNorms(fresh_objects, 1e-3, store=NormStore(tmp_path / "cache"))
    assert (second.distinct, second.recalled) == (4, 4)
    for (_, before), (_, after) in zip(weights, fresh_objects, strict=True):
        assert first.norm(before) == second.norm(after)


def test_weights_without_a_norm_are_left_to_whoever_asks(threads: int, tmp_path: Path) -> None:
    bad = torch.tensor([[1.0, float("nan")], [0.0, 1.0]])
    known = KnownNorms(_named([torch.eye(2), bad]), 1e-3, store=NormStore(tmp_path))
    assert known.norm(torch.eye(2)).bracket.upper < 1.01
    with pytest.raises(NonFiniteWeightsError):
        known.norm(bad)


def test_a_failure_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(weight: LinearMap, tol: float) -> OperatorNorm:
        raise RuntimeError("no memory")

    monkeypatch.setattr(precompute, "_norm", fail)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(RuntimeError, match="no memory"):
            KnownNorms(_named([_convolution(seed) for seed in range(20)]), 1e-3)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_an_interrupted_search_keeps_what_it_found(threads: int, tmp_path: Path) -> None:
    def interrupt(done: int, total: int, name: str) -> None:
        if done == 2:
            raise KeyboardInterrupt

    weights = _named([_convolution(seed) for seed in range(4)])
    with pytest.raises(KeyboardInterrupt):
        KnownNorms(weights, 1e-3, store=NormStore(tmp_path), progress=interrupt)
    assert torch.get_num_threads() == threads
    assert KnownNorms(weights, 1e-3, store=NormStore(tmp_path)).recalled >= 2


def test_a_store_that_takes_nothing_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object) -> None:
        raise OutputError("disk full")

    monkeypatch.setattr(NormStore, "write", full)
    known = KnownNorms(_named([torch.eye(2)]), 1e-3, store=NormStore(tmp_path))
    assert known.unsaved == "disk full"
    assert known.recalled == 0
