"""A search that starts at the numbers of an earlier checkpoint: it needs less, and what it says is proved."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import nn

from lipaudit.network.bound import NetworkBound, Problem
from lipaudit.network.forms.bound import quadratic_forms
from lipaudit.network.forms.certificate import Certificate, CertificateError
from lipaudit.network.forms.elimination import InfeasibleError
from lipaudit.network.forms.program import program_of
from lipaudit.network.forms.recompute import by_certificate
from lipaudit.network.forms.tighten import graded
from lipaudit.network.forms.warm_start import chain_of
from lipaudit.network.rescaling import rescaled
from tests.network.forms.networks import network_problem

SHAPE = {"dense": (1, 6), "convolutional": (1, 2, 16, 16)}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """A search of this size proves what it found on one thread; on several, sums in another order may move the last digit."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@cache
def network(kind: str) -> nn.Sequential:
    torch.manual_seed(4)
    if kind == "dense":
        return (
            nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 20), nn.ReLU(), nn.Linear(20, 3))
            .double()
            .requires_grad_(False)
        )
    return nn.Sequential(
        nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.Conv2d(3, 4, 3, 2, 1), nn.ReLU(), nn.Conv2d(4, 3, 3, padding=1),
    ).double().requires_grad_(False)  # fmt: skip


@cache
def moved(kind: str, size: float) -> nn.Sequential:
    """The network after a step of training that moves its weights by a part of their deviation."""
    torch.manual_seed(7)
    later = copy.deepcopy(network(kind))
    with torch.no_grad():
        for weight in later.parameters():
            weight += size * weight.std() * torch.randn_like(weight)
    return later


def problem(kind: str, size: float = 0.0, **options: object) -> Problem:
    work = {"dense": 1.5e9, "convolutional": 6e9}[kind]
    return replace(network_problem(moved(kind, size), SHAPE[kind]), **{"work": work, **options})  # type: ignore[arg-type]


def bound(asked: Problem) -> NetworkBound:
    result = quadratic_forms(asked)
    assert isinstance(result, NetworkBound), result
    return result


@cache
def certificate(kind: str) -> Certificate:
    proof = bound(problem(kind)).proof
    assert proof is not None
    return proof


def stretched(net: nn.Module, shape: tuple[int, ...]) -> float:
    """log of the largest norm of a Jacobian at random inputs."""
    torch.manual_seed(0)
    jacobians = (torch.func.jacrev(net)(3 * torch.randn(shape, dtype=torch.float64)) for _ in range(20))
    return math.log(max(float(torch.linalg.matrix_norm(j.reshape(-1, math.prod(shape)), 2)) for j in jacobians))


@pytest.mark.parametrize("kind", SHAPE)
@pytest.mark.parametrize("size", [0.0, 0.02])
def test_the_next_checkpoint_needs_less_search_and_what_it_says_is_proved(kind: str, size: float) -> None:
    asked = problem(kind, size, warm_start=certificate(kind))
    cold, warm = bound(replace(asked, warm_start=None)), bound(asked)
    fifth = bound(replace(asked, work=asked.work / 5))
    assert warm.network.log_upper < cold.network.log_upper + 0.01
    assert fifth.network.log_upper < cold.network.log_upper + 0.01
    for found in (warm, fifth):
        assert found.network.log_upper > stretched(moved(kind, size), SHAPE[kind])
        assert "started at a certificate" in found.note
        again = by_certificate(replace(asked, certificate=found.proof))
        assert isinstance(again, NetworkBound)
        assert again.network.log_upper == found.network.log_upper
    assert bound(asked) == warm


@pytest.mark.parametrize("kind", SHAPE)
def test_numbers_of_no_network_are_worth_no_more_than_a_start(kind: str) -> None:
    torch.manual_seed(1)
    wild = {name: torch.exp(8 * torch.randn_like(values)) for name, values in certificate(kind).multipliers.items()}
    for forged in (
        replace(certificate(kind), multipliers=wild),
        replace(certificate(kind), multipliers={k: v / 1e6 for k, v in wild.items()}),
    ):
        found = bound(problem(kind, warm_start=forged))
        assert found.network.log_upper > stretched(network(kind), SHAPE[kind])
        assert found.network.log_upper < problem(kind).propagation.network.log_upper


def test_where_weights_have_grown_multipliers_are_raised_until_they_prove_something() -> None:
    net = copy.deepcopy(network("dense"))
    with torch.no_grad():
        for weight in net.parameters():
            weight *= 1.05
    larger = rescaled(network_problem(net, SHAPE["dense"]), certificate("dense").scales)
    chain, logs = chain_of(certificate("dense"), program_of(larger.graph, larger.propagation), larger.propagation)
    proofs = []
    for point in graded(chain, logs, (0.0, 2.0**-12, 1.0)):
        try:
            proofs.append(chain.certified(point)[0])
        except InfeasibleError:
            proofs.append(math.inf)
    before = bound(problem("dense")).network.log_upper
    exact = 1.05**2 - 1  # at which all forms are those of before, times a number
    assert math.isfinite(proofs[-1])
    assert min(proofs) > before + 3 * math.log(1.05) - 1e-9
    order = (next(iter(graded(chain, logs, (0.0, 2.0**-12, 1.0)))), *graded(chain, logs, (0.0, 2.0**-12, 1.0)))
    scaled = logs + (order[-1] - logs) / math.log(2) * math.log1p(exact)
    assert chain.certified(scaled)[0] == pytest.approx(before + 3 * math.log(1.05), abs=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: replace(c, multipliers={}), "it lacks 20 multipliers of the operation 'relu'"),
        (
            lambda c: replace(c, multipliers={k: v[:-1] for k, v in c.multipliers.items()}),
            "it has 19 float64 multipliers of the operation 'relu', not 20 float64",
        ),
        (
            lambda c: replace(c, multipliers={**c.multipliers, "relu_7": torch.ones(3)}),
            "it has multipliers of the operation 'relu_7', where this network has none",
        ),
        (
            lambda c: replace(c, multipliers={k: v * math.nan for k, v in c.multipliers.items()}),
            "the multipliers of the operation 'relu' are not positive and finite",
        ),
        (lambda c: replace(c, cuts=("relu_9",), forms=("entries",) * 2), "the network has no operation 'relu_9'"),
        (lambda c: replace(c, forms=("frequencies",)), "a part has no matrix per frequency"),
    ],
)
def test_the_certificate_of_another_architecture_is_refused(change, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(CertificateError) as error:
        quadratic_forms(problem("dense", warm_start=change(certificate("dense"))))
    assert message in str(error.value)


def test_forms_that_take_more_than_the_effort_allows_are_refused() -> None:
    with pytest.raises(CertificateError, match=r"take 5.3e.07 operations, and the effort allows 4e.07"):
        quadratic_forms(problem("dense", work=4e7, warm_start=certificate("dense")))


def test_where_the_certificate_has_constants_and_the_work_allows_forms_both_are_searched() -> None:
    """A file that has constants only takes nothing away from the search."""
    kind = "convolutional"
    cold = bound(problem(kind)).network.log_upper
    empty = Certificate((), ("constant",))
    assert bound(problem(kind, warm_start=empty)).network.log_upper == pytest.approx(cold, abs=0.02)
