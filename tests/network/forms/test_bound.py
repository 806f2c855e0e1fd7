"""What the search finds: the semidefinite optimum of dense networks, and the constants of networks that are known exactly."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

import lipaudit
from lipaudit.auditing.values import EFFORTS
from lipaudit.errors import ConflictError, UnknownChoiceError
from lipaudit.network.bound import NetworkBound, NotApplicable, Problem
from lipaudit.network.bounds import network_bounds
from lipaudit.network.domain import ball
from lipaudit.network.forms.bound import quadratic_forms
from lipaudit.network.forms.plan import Limits, plan
from tests.network.forms.networks import (
    F64,
    Case,
    case,
    conv,
    dense,
    jacobian,
    largest_stretch,
    max_min,
    network_problem,
    orthogonal,
    pixel_cases,
    proved,
    steps_of,
)
from tests.one_lipschitz.layers import Sandwich, SdpBased


def bound_of(example: Case, **options: float) -> float:
    result = quadratic_forms(replace(network_problem(example.net, example.shape), **options))
    assert isinstance(result, NetworkBound), result
    return math.exp(result.network.log_upper)


# of an interior-point solver (Clarabel) on LipSDP-Neuron
@pytest.mark.parametrize(
    ("sizes", "optimum"),
    [
        ((1, 16, 16, 16, 1), 7.0001802402571585),
        ((2, 10, 30, 20, 2), 15.936338674726313),
        ((8, 32, 32, 4), 8.614304961345992),
        ((10, 64, 64, 64, 5), 15.217281798219668),
    ],
)
def test_dense_networks_come_within_a_percent_of_the_semidefinite_optimum(
    sizes: tuple[int, ...], optimum: float
) -> None:
    torch.manual_seed(1)
    weights = [torch.randn(o, i, dtype=F64) / math.sqrt(i) * 1.4 for i, o in pairwise(sizes)]
    layers: list[nn.Module] = []
    for weight in weights:
        linear = nn.Linear(*weight.shape[::-1], bias=False, dtype=F64)
        linear.weight = nn.Parameter(weight)
        layers += [linear, nn.ReLU()]
    net = nn.Sequential(*layers[:-1]).eval().requires_grad_(False)
    bound = bound_of(Case(net, (1, sizes[0])), work=EFFORTS["quick"])
    assert optimum * (1 - 1e-6) <= bound <= 1.01 * optimum


def _affine() -> dict[str, Case]:
    torch.manual_seed(2)
    return {
        "centred": case((1, 9), lambda x: x - x.mean(-1, keepdim=True)),
        "halves": case((1, 8), lambda x: torch.cat([x[:, 4:], 2 * x[:, :4]], 1)),
        "second part": case((1, 8), lambda x, a: a(x).chunk(2, 1)[1], dense(8, 8)),
        "picked row": case((1, 8), lambda x, a: a(x).unbind(1)[3], dense(8, 8)),
        "difference": case((1, 8), lambda x, a: a(x)[:, 3] - a(x)[:, 5], dense(8, 8)),
        "sum": case((1, 8), lambda x, a: x - a(x), dense(8, 8)),
        "chain": case((1, 8), lambda x, a, b, c: c(b(a(x))), dense(8, 12), dense(12, 5), dense(5, 4)),
        "convolution and pooling": case((1, 2, 8, 8), lambda x, a: functional.avg_pool2d(a(x), 2), conv(2, 3)),
        "two convolutions": case((1, 2, 6, 6), lambda x, a, b: x + b(a(x)), conv(2, 3), conv(3, 2)),
        "pixel shuffle": case(
            (1, 1, 6, 6), lambda x, a: functional.pixel_shuffle(a(functional.pixel_unshuffle(x, 2)), 2), conv(4, 4, 1)
        ),
        "transposed": case(
            (1, 2, 4, 4), lambda x, a, b: a(b(x)),
            nn.ConvTranspose2d(2, 2, 3, stride=2, padding=1, output_padding=1, bias=False), conv(2, 2, 1),
        ),
        "reflected border": case(
            (1, 2, 5, 5), lambda x, a, b: a(b(x)), conv(2, 2, padding_mode="reflect"), conv(2, 2, 1)
        ),
        "two outputs": case((1, 8), lambda x, a, b: (a(x), b(x)), dense(8, 8), dense(8, 3)),
    }  # fmt: skip


AFFINE = _affine()


@pytest.mark.parametrize("name", AFFINE)
def test_affine_networks_have_the_norm_of_their_matrix(name: str) -> None:
    example = AFFINE[name]
    norm = float(torch.linalg.matrix_norm(jacobian(example.net, torch.zeros(example.shape, dtype=F64)), 2))
    assert norm <= bound_of(example) <= norm * (1 + 1e-6)


def _one_lipschitz() -> dict[str, Case]:
    torch.manual_seed(3)
    weight = torch.randn(8, 8, dtype=F64)
    scale = 2 / float(torch.linalg.matrix_norm(weight, 2)) ** 2 * (1 - 1e-9)
    rows = nn.Linear(8, 8, bias=False)
    rows.weight = nn.Parameter(weight)
    return {
        "convex potential layer": case((1, 8), lambda x, w: x - scale * (torch.relu(w(x)) @ w.weight), rows),
        "orthogonal and MaxMin": case(
            (1, 8), lambda x, a, b, c: c(max_min(b(max_min(a(x))))), *(orthogonal(8) for _ in range(3))
        ),
        "orthogonal and absolute values": case(
            (1, 6), lambda x, a, b: b(a(x).abs()).abs(), orthogonal(6), orthogonal(6)
        ),
    }


ONE_LIPSCHITZ = _one_lipschitz()


@pytest.mark.parametrize("name", ONE_LIPSCHITZ)
def test_what_is_1_lipschitz_by_construction_is_found_to_be(name: str) -> None:
    assert largest_stretch(ONE_LIPSCHITZ[name]) * (1 - 1e-12) <= bound_of(ONE_LIPSCHITZ[name]) <= 1 + 1e-5


def test_segments_and_constants_of_parts_without_forms_join_to_a_bound() -> None:
    torch.manual_seed(4)

    def formula(x: torch.Tensor, a: nn.Module, b: nn.Module, c: nn.Module, d: nn.Module) -> tuple[torch.Tensor, ...]:
        y = torch.relu(b(torch.relu(a(x)))).flatten(1)
        return c(y), d(y)

    example = case((1, 2, 8, 8), formula, conv(2, 3), conv(3, 3, stride=2), nn.Linear(48, 20), nn.Linear(48, 20))
    problem, program = network_problem(example.net, example.shape), steps_of(example)
    chain = plan(program, problem.propagation, Limits(entries=8, work=1e9))
    assert chain is not None
    assert len(chain.parts) > 1
    bound = proved(chain, chain.start("norm"))
    assert largest_stretch(example) <= bound <= math.exp(problem.propagation.network.log_upper) * 3


def test_an_audit_with_effort_keeps_both_bounds_and_prints_the_least() -> None:
    example = pixel_cases()["residual"]
    plain, tight = (lipaudit.audit(example.net, {"x": example.shape}, effort=effort) for effort in ("none", "quick"))
    assert [bound.name for bound in plain.network.bounds] == ["product"]
    product, forms = tight.network.bounds
    assert (product.name, forms.name) == ("product", "forms")
    assert product == plain.network.bounds[0]
    assert product.figure is not None
    assert forms.figure is not None
    assert tight.network.upper_bound == forms.figure.value < product.figure.value
    assert "5e+10 operations" in forms.note
    assert tight.layers == plain.layers


def test_nothing_runs_without_work_and_the_reason_is_given_elsewhere() -> None:
    example = pixel_cases()["residual"]
    problem = network_problem(example.net, example.shape)
    assert [result.name for result in network_bounds(Problem(**{**vars(problem), "work": 0.0}))] == ["product"]
    local = Problem(**{**vars(problem), "domain": ball({"x": torch.zeros(example.shape)}, 1.0)})
    assert quadratic_forms(local) == NotApplicable("forms", "Forms bound a network over all inputs only.")


def test_effort_has_four_names_and_needs_certified_norms() -> None:
    net = nn.Linear(2, 2)
    with pytest.raises(UnknownChoiceError, match="effort"):
        lipaudit.audit(net, (1, 2), effort="much")
    with pytest.raises(ConflictError, match="effort='quick' cannot be combined with method='sedghi2019'"):
        lipaudit.audit(net, (1, 2), effort="quick", method="sedghi2019")
    with pytest.raises(ConflictError, match="structure"):
        lipaudit.audit(net, (1, 2), effort="quick", structure=True)


def test_entries_that_are_sorted_along_pixels_keep_their_constant() -> None:
    """Sorting within a view of the channels is no group of channels where tensors are too large for dense forms."""

    class Sorted(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.unflatten(1, (-1, 4)).sort(2).values.flatten(1, 2)

    net = nn.Sequential(conv(3, 8), Sorted(), conv(8, 8), Sorted())
    report = lipaudit.audit(net, input_shape=(3, 32, 32), effort="quick")
    assert report.network.status == "finite"


def test_constants_of_unknown_error_make_a_bound_numerical_and_not_impossible() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(x) * torch.linspace(-1, 1, 6, dtype=x.dtype) - x.mean()

    forms = next(
        bound
        for bound in lipaudit.audit(Net(), input_shape={"x": (1, 6)}, effort="quick").network.bounds
        if bound.name == "forms"
    )
    assert forms.figure is not None
    assert forms.figure.rigor == "numerical"


def test_a_residual_block_before_a_layer_that_needs_multipliers_does_not_spoil_it() -> None:
    """The block's constant is one number; the multipliers of the next layer are found whatever stands before it."""
    torch.manual_seed(0)
    sandwich = Sandwich(16, 12)
    alone = lipaudit.audit(sandwich.eval(), input_shape=(1, 16), effort="quick").network.upper_bound
    net = nn.Sequential(SdpBased(16, 20), sandwich).eval()
    bound = lipaudit.audit(net, input_shape=(1, 16), effort="quick").network.upper_bound
    assert float(torch.linalg.matrix_norm(jacobian(net.double(), torch.ones(1, 16, dtype=F64)), 2)) <= bound
    assert bound <= min(alone * 1.05, 1.0)


class Silent(nn.Module):
    """A residual branch whose last layer is 0, as many networks start, and an output that is always the same."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.branch, self.silent, self.last = (nn.Linear(4, 4) for _ in range(4))
        nn.init.zeros_(self.silent.weight)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = torch.relu(self.first(x))
        h = torch.relu(h + self.silent(torch.relu(self.branch(h))))
        y = self.last(h)
        return y, self.silent(torch.relu(y))


def test_what_never_differs_has_no_part_in_forms(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net, file = Silent().eval(), tmp_path / "proof.safetensors"
    report = lipaudit.audit(net, (1, 4), effort="quick", lower_bound=True, certificate=str(file))
    network = report.network
    assert network.lower_bound <= network.upper_bound
    forms = next(bound for bound in network.bounds if bound.name == "forms")
    assert forms.upper_bound is not None, forms.reason
    assert lipaudit.verify(report, net, str(file)).verified


@pytest.mark.parametrize(
    ("layer", "formula"),
    [
        (nn.Conv1d(2, 2, 3), lambda x, a, b, c: b(functional.relu(c(functional.relu(a(x)).reshape(2, 9)))[None].flatten(1))),
        (nn.Conv2d(1, 2, 2), lambda x, a, b, c: b(c(functional.relu(a(x)).reshape(1, 3, 6))[None].flatten(1))),
        (nn.ConvTranspose2d(2, 1, 2), lambda x, a, b, c: b(c(functional.relu(a(x)).reshape(2, 3, 3))[None].flatten(1))),
        (nn.MaxPool2d(2), lambda x, a, b, c: b(c(functional.relu(a(x)).reshape(1, 3, 6))[None].flatten(1))),
        (nn.AvgPool2d(2, 1), lambda x, a, b, c: b(c(functional.relu(a(x)).reshape(1, 3, 6))[None].flatten(1))),
    ],
)  # fmt: skip
def test_tensors_without_a_batch_axis_have_forms(layer: nn.Module, formula: Callable[..., torch.Tensor]) -> None:
    torch.manual_seed(2)
    first = dense(6, 18)
    entries = formula(torch.zeros(1, 6), first, nn.Identity(), layer).numel()
    example = case((1, 6), formula, first, dense(entries, 3), layer)
    bound = bound_of(example, work=2e9)
    assert (
        largest_stretch(example) <= bound < math.exp(network_problem(example.net, (1, 6)).propagation.network.log_upper)
    )
