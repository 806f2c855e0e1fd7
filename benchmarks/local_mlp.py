"""Bounds of random networks on balls: interval slopes, ECLipsE-Gen-Local, the Jacobian at the centre, forms, and a stretch that was found.

    python -m benchmarks.local_mlp --networks 20

Interval slopes are where FastLip (Weng et al., 2018) and RecurJac (Zhang et al., 2019) start: ranges of the units by interval arithmetic
behind the first layer, slopes on these ranges, and the smaller of the product of norms and of the norm of the interval matrix that holds
every Jacobian. ECLipsE-Gen-Local is the package ``eclipse-nn``. Seconds are those of the processor, on one thread.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import math
import random
import time
from collections.abc import Callable

import torch
from torch import nn

import lipaudit.rules  # noqa: F401  registers the rules
from lipaudit.graph.capture.export import capture
from lipaudit.graph.passes.table import fold, recognise
from lipaudit.network.bound import NetworkBound, Problem
from lipaudit.network.domain import ball
from lipaudit.network.local.bound import jacobian_at_centre, problem_on
from lipaudit.network.local.forms import forms_on_domain
from lipaudit.network.propagate import evaluate_rules
from lipaudit.rules.effect import Settings
from lipaudit.spectral.oracle import CertifiedNorms

RADII = (0.01, 0.1, 0.5)
_WORK = 1e10


def random_network(number: int) -> nn.Sequential:
    """2 or 3 hidden layers of 8 to 40 units with ReLU, weights drawn as N(0, 2 / inputs), by the seed ``number``."""
    draw = random.Random(number)
    sizes = [draw.randint(2, 16), *(draw.randint(8, 40) for _ in range(draw.randint(2, 3))), draw.randint(2, 6)]
    generator = torch.Generator().manual_seed(number)
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        linear = nn.Linear(inputs, outputs, dtype=torch.float64)
        weight = torch.randn(outputs, inputs + 1, generator=generator, dtype=torch.float64) * math.sqrt(2 / inputs)
        linear.weight.data, linear.bias.data = weight[:, 1:].contiguous(), weight[:, 0].contiguous()
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1]).eval()


def interval_slopes(network: nn.Sequential, centre: torch.Tensor, radius: float) -> float:
    """The smaller of prod ||W_k diag(largest slopes)|| and ||C|| + ||R|| for the interval matrix C +- R of all Jacobians."""
    layers = [layer for layer in network if isinstance(layer, nn.Linear)]
    value = layers[0](centre)[0]
    away = layers[0].weight.norm(dim=1) * radius
    middle, rest = layers[0].weight, torch.zeros_like(layers[0].weight)
    product = float(torch.linalg.matrix_norm(layers[0].weight, 2))
    for layer in layers[1:]:
        low, high = (value - away > 0).double(), (value + away > 0).double()
        mid, half = (low + high) / 2, (high - low) / 2
        rest = layer.weight.abs() @ (mid[:, None] * rest + half[:, None] * (middle.abs() + rest))
        middle = layer.weight @ (mid[:, None] * middle)
        product *= float(torch.linalg.matrix_norm(layer.weight * high, 2))
        ends = [end.clamp_min(0.0) for end in (value - away, value + away)]
        value, away = (ends[0] + ends[1]) / 2, (ends[1] - ends[0]) / 2
        value, away = layer.weight @ value + layer.bias, layer.weight.abs() @ away
    return min(product, sum(float(torch.linalg.matrix_norm(m, 2)) for m in (middle, rest)))


def eclipse(network: nn.Sequential, centre: torch.Tensor, radius: float) -> float:
    """ECLipsE-Gen-Local with its fast choice of multipliers; NaN where it fails."""
    from eclipse_nn.local_lipschitz import get_lip_estimates

    layers = [layer for layer in network if isinstance(layer, nn.Linear)]
    weights, biases = ([getattr(layer, name).detach() for layer in layers] for name in ("weight", "bias"))
    with contextlib.redirect_stdout(io.StringIO()):
        bound, _, failed = get_lip_estimates(
            weights, centre.numpy().reshape(-1, 1), radius, "relu", [b[:, None] for b in biases], "Fast"
        )
    return math.nan if failed else float(bound)


def largest_stretch(network: nn.Sequential, centre: torch.Tensor, radius: float) -> float:
    """The largest norm of the Jacobian among 2000 inputs of the ball."""
    generator = torch.Generator().manual_seed(0)
    away = torch.randn(2000, centre.shape[1], generator=generator, dtype=torch.float64)
    size = radius * torch.rand(2000, 1, generator=generator, dtype=torch.float64) ** (1 / centre.shape[1])
    x = (centre + size * nn.functional.normalize(away, dim=1)).requires_grad_()
    y = network(x)
    rows = [torch.autograd.grad(y[:, k].sum(), x, retain_graph=True)[0] for k in range(y.shape[1])]
    return float(torch.linalg.matrix_norm(torch.stack(rows, 1), 2).max())


def problem_of(network: nn.Sequential, centre: torch.Tensor, radius: float) -> Problem:
    """The network on the ball."""
    recognised = recognise(capture(network, {"input": centre}))
    simple, norms = fold(recognised), CertifiedNorms(1e-3)
    effects = evaluate_rules(simple, Settings(norms))
    return problem_on(ball({simple.inputs[0]: centre}, radius), recognised, simple, effects, norms, work=_WORK)


def timed(function: Callable[[], float]) -> tuple[float, float]:
    """A value and the processor's seconds for it."""
    start = time.process_time()
    return function(), time.process_time() - start


def upper(bound: Callable[[Problem], object], problem: Problem) -> float:
    """The bound of a method, infinite where it has none."""
    result = bound(problem)
    return math.exp(result.network.log_upper) if isinstance(result, NetworkBound) else math.inf


def main() -> None:
    """Print one row per network and radius, and on how many of them lipaudit is at or below the others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=int, default=10)
    count = parser.parse_args().networks
    torch.set_num_threads(1)
    print(f"{'network':>7} {'radius':>6} {'found':>8} {'slopes':>14} {'eclipse':>14} {'centre':>14} {'forms':>14}")
    wins = {"slopes": 0, "eclipse": 0}
    for number in range(count):
        network = random_network(number)
        centre = torch.randn(
            1, network[0].in_features, generator=torch.Generator().manual_seed(number), dtype=torch.float64
        )
        for radius in RADII:
            with torch.no_grad():
                slopes = timed(lambda: interval_slopes(network, centre, radius))  # noqa: B023
                other = timed(lambda: eclipse(network, centre, radius))  # noqa: B023
            problem = problem_of(network, centre, radius)
            own = timed(lambda: upper(jacobian_at_centre, problem))  # noqa: B023
            forms = timed(lambda: upper(forms_on_domain, problem))  # noqa: B023
            best = min(own[0], forms[0])
            wins["slopes"] += best <= slopes[0] * (1 + 1e-9)
            wins["eclipse"] += not best > other[0] * (1 + 1e-9)
            found = largest_stretch(network, centre, radius)
            columns = " ".join(f"{value:8.4g} {seconds:4.1f}s" for value, seconds in (slopes, other, own, forms))
            print(f"{number:7} {radius:6g} {found:8.4g} {columns}", flush=True)
    total = count * len(RADII)
    print(", ".join(f"at or below {name} on {wins[name]} of {total}" for name in wins))


if __name__ == "__main__":
    main()
