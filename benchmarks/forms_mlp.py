"""Bounds of random ReLU networks: product of norms, ECLipsE-Fast and ECLipsE, start and result of lipaudit's forms, semidefinite optimum.

    python -m benchmarks.forms_mlp --networks 20
    python -m benchmarks.forms_mlp --networks 10 --deepest 3 --widest 32 --eclipse 100 --semidefinite 100

ECLipsE is the package ``eclipse-nn`` (Xu and Sivaranjani, *ECLipsE: Efficient Compositional Lipschitz Constant Estimation for Deep Neural
Networks*, NeurIPS 2024), for networks of at most ``--eclipse`` hidden units. The semidefinite optimum is LipSDP-Neuron (Fazlyab
et al., 2019), solved by cvxpy with Clarabel for networks of at most ``--semidefinite`` hidden units: its time grows with their fourth
power or faster. Seconds are those of the processor, on one thread.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import time
from collections.abc import Callable, Sequence
from unittest import mock

import torch
from torch import nn

from lipaudit.graph.capture.export import capture
from lipaudit.graph.passes.table import simplify
from lipaudit.network.bound import NetworkBound, Problem
from lipaudit.network.domain import GLOBAL
from lipaudit.network.efforts import EFFORTS
from lipaudit.network.forms.bound import quadratic_forms
from lipaudit.network.forms.chain import Chain
from lipaudit.network.forms.program import program_of
from lipaudit.network.forms.segment import Segment
from lipaudit.network.forms.spaces import DenseSpace
from lipaudit.network.magnitudes import Extents
from lipaudit.network.propagate import evaluate_rules, propagate
from lipaudit.rules.effect import Settings
from lipaudit.spectral.oracle import CertifiedNorms


def random_network(number: int, deepest: int, widest: int) -> nn.Sequential:
    """2 to ``deepest`` hidden layers of 16 to ``widest`` units each, weights drawn as N(0, 2 / inputs), by the seed ``number``."""
    draw = random.Random(number)
    hidden = [draw.randint(16, widest) for _ in range(draw.randint(2, deepest))]
    sizes = [draw.randint(2, 64), *hidden, draw.randint(2, 16)]
    generator = torch.Generator().manual_seed(number)
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        linear = nn.Linear(inputs, outputs, bias=False, dtype=torch.float64)
        linear.weight.data = torch.randn(outputs, inputs, generator=generator, dtype=torch.float64) * math.sqrt(
            2 / inputs
        )
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1]).eval()


def matrices(network: nn.Sequential) -> list[torch.Tensor]:
    """The weights of the dense layers, from the input on."""
    return [layer.weight.detach() for layer in network if isinstance(layer, nn.Linear)]


def problem(network: nn.Sequential, work: float) -> Problem:
    """The problem that an audit would hand to the forms."""
    weights = matrices(network)
    graph = simplify(capture(network, {"input": torch.zeros(1, weights[0].shape[1], dtype=torch.float64)}))
    extents = Extents(graph, GLOBAL, False)
    return Problem(
        graph, GLOBAL, propagate(graph, evaluate_rules(graph, Settings()), extents), extents, CertifiedNorms(), work
    )


def forms(network: nn.Sequential, work: float) -> float:
    """The proved bound by forms within an amount of work."""
    result = quadratic_forms(problem(network, work))
    assert isinstance(result, NetworkBound)
    assert result.network.log_upper is not None
    return math.exp(result.network.log_upper)


def start(network: nn.Sequential) -> float:
    """The lesser of the bounds by forms that two closed forms of multipliers prove."""
    given = problem(network, 1.0)
    chain = Chain([Segment(program_of(given.graph, given.propagation), DenseSpace())])
    return math.exp(min(chain.certified(chain.start(how))[0] for how in ("norm", "forward")))


def eclipse_fast(network: nn.Sequential) -> float:
    """ECLipsE-Fast of eclipse-nn."""
    from eclipse_nn.eclipsE_fast import ECLipsE_Fast

    weights = matrices(network)
    return float(ECLipsE_Fast(weights, [0] * len(weights), [1] * len(weights)))


def eclipse(network: nn.Sequential) -> float:
    """ECLipsE of eclipse-nn, NaN where it fails.

    Clarabel solves its semidefinite problems: with SCS, which the package calls, its own check of the solution fails on all networks here.
    """
    import cvxpy
    from eclipse_nn.eclipsE import ECLipsE

    weights, solve = matrices(network), cvxpy.Problem.solve
    with mock.patch.object(cvxpy.Problem, "solve", lambda self, **_: solve(self, solver="CLARABEL")):
        value, failed = ECLipsE(weights, [0] * len(weights), [1] * len(weights))
    return math.nan if failed else float(value)


def semidefinite(network: nn.Sequential) -> float:
    """The optimum of LipSDP-Neuron."""
    import cvxpy
    import numpy

    weights = [w.numpy() for w in matrices(network)]
    sizes = [weights[0].shape[1], *(w.shape[0] for w in weights[:-1])]
    starts = numpy.cumsum([0, *sizes])
    units, total = sum(sizes[1:]), sum(sizes)
    before, after = numpy.zeros((units, total)), numpy.zeros((units, total))
    for k, weight in enumerate(weights[:-1]):
        rows = slice(starts[k + 1] - sizes[0], starts[k + 2] - sizes[0])
        before[rows, starts[k] : starts[k + 1]] = weight
        after[rows, starts[k + 1] : starts[k + 2]] = numpy.eye(sizes[k + 1])
    multipliers, square = cvxpy.Variable(units, nonneg=True), cvxpy.Variable(nonneg=True)
    diagonal = cvxpy.diag(multipliers)
    first, last = numpy.zeros((total, total)), numpy.zeros((total, total))
    first[: sizes[0], : sizes[0]] = numpy.eye(sizes[0])
    last[starts[-2] :, starts[-2] :] = weights[-1].T @ weights[-1]
    sector = before.T @ diagonal @ after + after.T @ diagonal @ before - 2 * after.T @ diagonal @ after
    cvxpy.Problem(cvxpy.Minimize(square), [sector + last - square * first << 0]).solve(solver="CLARABEL")
    return math.sqrt(float(square.value))


def timed(function: Callable[[], float]) -> tuple[float, float]:
    """A value and the seconds of the processor that it took."""
    start = time.process_time()
    value = function()
    return value, time.process_time() - start


def columns(network: nn.Sequential, args: argparse.Namespace) -> Sequence[tuple[float, float]]:
    """One pair (bound, seconds) per method."""
    units = sum(len(w) for w in matrices(network)[:-1])
    return (
        timed(lambda: math.prod(float(torch.linalg.matrix_norm(w, 2)) for w in matrices(network))),
        timed(lambda: eclipse_fast(network)),
        timed(lambda: eclipse(network)) if units <= args.eclipse else (math.nan, math.nan),
        timed(lambda: start(network)),
        timed(lambda: forms(network, EFFORTS[args.effort])),
        timed(lambda: semidefinite(network)) if units <= args.semidefinite else (math.nan, math.nan),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first network")
    parser.add_argument("--deepest", type=int, default=8, help="most hidden layers")
    parser.add_argument("--widest", type=int, default=200, help="most units of a layer")
    parser.add_argument("--effort", choices=[e for e, work in EFFORTS.items() if work], default="quick")
    parser.add_argument("--eclipse", type=int, default=0, help="most hidden units for ECLipsE")
    parser.add_argument("--semidefinite", type=int, default=0, help="most hidden units for the semidefinite optimum")
    args = parser.parse_args()
    torch.set_num_threads(1)
    names = ("product", "ECLipsE-Fast", "ECLipsE", "start", args.effort, "optimum")
    print(f"{'units per layer':44}" + "".join(f"{name:>13}{'s':>7}" for name in names))
    for number in range(args.first, args.first + args.networks):
        network = random_network(number, args.deepest, args.widest)
        sizes = "-".join(map(str, [matrices(network)[0].shape[1], *(len(w) for w in matrices(network))]))
        row = "".join(f"{value:13.5g}{seconds:7.2f}" for value, seconds in columns(network, args))
        print(f"{sizes:44}{row}", flush=True)


if __name__ == "__main__":
    main()
