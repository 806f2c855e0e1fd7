"""Small networks of every kind of step that a quadratic form passes, and what is known of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import nn
from torch.nn import functional

from lipaudit.network.bound import Problem
from lipaudit.network.domain import GLOBAL
from lipaudit.network.forms.chain import Chain
from lipaudit.network.forms.elimination import Form, InfeasibleError, eliminate
from lipaudit.network.forms.program import program_of
from lipaudit.network.forms.restrictions import with_restrictions
from lipaudit.network.forms.search import minimise
from lipaudit.network.forms.segment import Segment, joined
from lipaudit.network.forms.spaces import DenseSpace, is_spatial
from lipaudit.network.forms.steps import Constraint, Program, Slopes
from lipaudit.network.forms.symbol_space import SymbolSpace
from lipaudit.spectral.oracle import CertifiedNorms
from tests.network.sampling import audited

F64 = torch.float64
Shape = tuple[int, ...]
Formula = Callable[..., torch.Tensor | tuple[torch.Tensor, ...]]


class Formed(nn.Module):
    """A function of x and of some layers."""

    def __init__(self, formula: Formula, *layers: nn.Module) -> None:
        super().__init__()
        self.formula, self.layers = formula, nn.ModuleList(layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        return self.formula(x, *self.layers)


@dataclass(frozen=True)
class Case:
    """A network, the shape of its input, and a point near which it stretches most (a random one if None)."""

    net: nn.Module
    shape: Shape
    peak: torch.Tensor | None = None


def case(shape: Shape, formula: Formula, *layers: nn.Module, peak: torch.Tensor | None = None) -> Case:
    """A network in float64 whose weights are not trained."""
    return Case(Formed(formula, *layers).double().eval().requires_grad_(False), shape, peak)


def dense(inputs: int, outputs: int) -> nn.Linear:
    return nn.Linear(inputs, outputs)


def conv(inputs: int, outputs: int, size: int = 3, **options: object) -> nn.Module:
    return nn.Conv2d(inputs, outputs, size, bias=False, **{"padding": size // 2, **options})  # type: ignore[arg-type]


def kernel(layer: nn.Module, values: object) -> nn.Module:
    """A layer with given weights."""
    layer.weight = nn.Parameter(torch.tensor(values, dtype=F64))
    return layer


def prelu(*slopes: float) -> nn.Module:
    layer = nn.PReLU(len(slopes))
    layer.weight = nn.Parameter(torch.tensor(slopes, dtype=F64))
    return layer


def orthogonal(size: int) -> nn.Linear:
    layer = nn.Linear(size, size, bias=False)
    nn.init.orthogonal_(layer.weight)
    return layer


def max_min(x: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, 1)
    return torch.cat([torch.maximum(a, b), torch.minimum(a, b)], 1)


@cache
def dense_cases() -> dict[str, Case]:
    """Networks that are one dense segment."""
    torch.manual_seed(0)
    r = torch.relu
    return {
        "residual": case(
            (1, 8), lambda x, a, b, c: c(r(x + b(r(a(x))))), dense(8, 16), dense(16, 8), dense(8, 3)
        ),
        "leaky": case(
            (1, 8), lambda x, a, b: b(functional.leaky_relu(a(x), 0.3)), dense(8, 16), dense(16, 4)
        ),
        "negative leaky": case((1, 6), lambda x, a, b: b(functional.leaky_relu(a(x), -0.5)), dense(6, 9), dense(9, 4)),
        "slopes per entry": case(
            (1, 6), lambda x, a, p, b: b(p(a(x))), dense(6, 5), prelu(-0.9, 0.0, 0.3, 1.0, 1.7), dense(5, 4)
        ),
        "slopes per channel": case(
            (1, 1, 5, 5), lambda x, a, p, b: b(p(a(x)).flatten(1)), conv(1, 3), prelu(-1.2, 0.2, 1.0), dense(75, 4)
        ),
        "sine": case((1, 6), lambda x, a, b: b(torch.sin(a(x))), dense(6, 9), dense(9, 4)),
        "scaled number": case(
            (1, 5), lambda x, a, b: 0.3 * torch.logsumexp(b(r(a(x))).flatten(), 0), dense(5, 7), dense(7, 4)
        ),
        "softsign and a constant": case(
            (1, 6), lambda x, a, b: b(torch.minimum(functional.softsign(a(x)), torch.linspace(-0.2, 0.4, 9))), dense(6, 9), dense(9, 4)
        ),
        "soft shrinkage": case((1, 6), lambda x, a, b: b(functional.softshrink(a(x), 0.1)), dense(6, 9), dense(9, 4)),
        "silu and gelu": case(
            (1, 8), lambda x, a, b: b(functional.gelu(functional.silu(a(x)))), dense(8, 16), dense(16, 4)
        ),
        "tanh and sigmoid": case((1, 8), lambda x, a, b: b(torch.sigmoid(torch.tanh(a(x)))), dense(8, 16), dense(16, 4)),
        "absolute value": case((1, 8), lambda x, a, b: b(a(x).abs()).abs(), dense(8, 8), dense(8, 8)),
        "softmax": case((1, 8), lambda x, a, b: b(functional.softmax(a(x), -1)), dense(8, 16), dense(16, 4)),
        "layer norm": case((1, 6), lambda x, n, a, b: b(r(a(n(x)))), nn.LayerNorm(6), dense(6, 8), dense(8, 3)),
        "two outputs": case((1, 8), lambda x, a, b: (r(a(x)), b(x)), dense(8, 8), dense(8, 3)),
        "one output twice": case((1, 5), lambda x, a: (a(x), a(x)), dense(5, 5)),
        "max of two": case(
            (1, 6), lambda x, a, b, c: torch.maximum(a(x), b(c(x))), dense(6, 4), dense(9, 4), dense(6, 9)
        ),
        "product of bounded": case(
            (1, 6), lambda x, a, b: torch.tanh(a(x)) * torch.sigmoid(b(x)), dense(6, 4), dense(6, 4)
        ),
        "max pooling": case(
            (1, 1, 6, 6), lambda x, a: functional.max_pool2d(a(x), 3, 2, 1), conv(1, 2)
        ),
        "sorted pairs": case((1, 8), lambda x, a, b: b(max_min(a(x))), dense(8, 8), dense(8, 8)),
        "parts": case(
            (1, 8), lambda x, a: r(a(x).chunk(2, 1)[0]) + 3 * a(x).split([2, 4, 2], 1)[1], dense(8, 8)
        ),
        "shared layer": case((1, 6), lambda x, a: a(r(a(r(a(x))))), dense(6, 6)),
    }  # fmt: skip


@cache
class Circular(nn.Module):
    """A convolution that goes around the image."""

    def __init__(self, c_in: int, c_out: int, kernel: tuple[int, int] = (3, 3), stride: int = 1) -> None:
        super().__init__()
        self.layer = nn.Conv2d(c_in, c_out, kernel, stride, bias=False)
        self.pad = [side for k in reversed(kernel) for side in ((k - 1) // 2, k // 2)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(functional.pad(x, self.pad, mode="circular"))


def pixel_cases() -> dict[str, Case]:
    """Networks that are one segment per frequency."""
    torch.manual_seed(0)
    r = torch.relu

    def two(x: torch.Tensor, a: nn.Module, b: nn.Module) -> torch.Tensor:
        return b(r(a(x)))

    def up(x: torch.Tensor, a: nn.Module, b: nn.Module, c: nn.Module) -> torch.Tensor:
        return c(r(b(r(a(x)))))

    def pooled(x: torch.Tensor, a: nn.Module, b: nn.Module, c: nn.Module, d: nn.Module) -> torch.Tensor:
        return d(r(c(functional.adaptive_avg_pool2d(r(b(r(a(x)))), 1).flatten(1))))

    def inverted(x: torch.Tensor, *layers: nn.Module) -> torch.Tensor:
        wide, own, narrow, then, half, last = layers
        x = x + narrow(functional.relu6(own(functional.relu6(wide(x)))))
        return last(functional.relu6(half(functional.relu6(then(x)))))

    small, last = (1, 2, 6, 6), conv(3, 2)
    transposed = nn.ConvTranspose2d(3, 2, 4, stride=2, padding=1, bias=False)
    odd = nn.ConvTranspose2d(3, 2, 3, stride=2, padding=2, output_padding=1, bias=False)
    return {
        "no activation": case(small, lambda x, a, b: b(a(x)), conv(2, 3), last),
        "activation": case(small, two, conv(2, 3), last),
        "stride": case((1, 2, 8, 8), two, conv(2, 3, stride=2), last),
        "odd size": case((1, 2, 7, 7), two, conv(2, 3, stride=2), last),
        "dilation": case(small, two, conv(2, 3, padding=2, dilation=2), last),
        "even kernel": case(small, two, conv(2, 3, 2, padding=1), conv(3, 2, 2, padding=0)),
        "groups": case((1, 4, 5, 5), two, conv(4, 4, groups=2), conv(4, 2)),
        "wide padding": case((1, 2, 4, 4), two, conv(2, 3, padding=3), conv(3, 2, padding=2)),
        "one-sided padding": case(
            (1, 2, 6, 6), lambda x, a, b: b(r(a(functional.pad(x, (0, 3, 0, 3))))), conv(2, 3, padding=0), last
        ),
        "residual": case((1, 3, 5, 5), lambda x, a, b: r(x + b(r(a(x)))), conv(3, 4), conv(4, 3)),
        "pre-activation": case(
            (1, 3, 5, 5), lambda x, a, b, c: r(x + b(r(a(r(x))))) + c(x), conv(3, 4), conv(4, 3), conv(3, 3, 1)
        ),
        "inverted residual": case(
            (1, 2, 6, 6), inverted, conv(2, 9, 1), conv(9, 9, groups=9), conv(9, 2, 1), conv(2, 7, 1),
            conv(7, 7, 5, groups=7, stride=2), conv(7, 3, 1),
        ),
        "channels by themselves, transposed": case(
            (1, 3, 4, 4), two, nn.ConvTranspose2d(3, 3, 4, stride=2, padding=1, groups=3, bias=False), conv(3, 2)
        ),
        "leaky": case(small, lambda x, a, b: b(functional.leaky_relu(a(x), 0.3)), conv(2, 3), last),
        "slopes per channel": case(small, lambda x, a, p, b: b(p(a(x))), conv(2, 3), prelu(-1.2, 0.2, 1.0), last),
        "slopes per channel, strided": case(
            (1, 2, 6, 6), lambda x, a, p, b, q, c: c(q(b(p(a(x))))), conv(2, 3), prelu(1.4, -0.3, 0.6),
            conv(3, 4, stride=2), prelu(0.1, -0.7, 1.0, 0.5), conv(4, 2),
        ),
        "transposed": case((1, 2, 4, 4), up, conv(2, 3), transposed, conv(2, 1)),
        "transposed, cropped": case((1, 2, 4, 4), up, conv(2, 3), odd, conv(2, 1)),
        "pooled head": case((1, 2, 6, 6), pooled, conv(2, 3), conv(3, 4, stride=2), dense(4, 3), dense(3, 2)),
        "pooled twice": case(
            small,
            lambda x, a, b, c: c(torch.cat([r(a(x)).mean((2, 3)), r(b(r(a(x)))).mean((2, 3))], 1)),
            conv(2, 3),
            conv(3, 2),
            dense(5, 4),
        ),
        "max pooling": case(small, lambda x, a, b: b(functional.max_pool2d(r(a(x)), 3, 2, 1)), conv(2, 3), last),
        "average pooling": case(small, lambda x, a, b: b(functional.avg_pool2d(r(a(x)), 2)), conv(2, 3), last),
        "concatenation": case(
            small, lambda x, a, b: b(torch.cat([x, r(a(x))], 1)), conv(2, 3), conv(5, 2)
        ),
        "channels picked": case(
            small, lambda x, a, b: b(r(a(x))[:, 1:]) - 2 * a(x)[:, :2], conv(2, 3), conv(2, 2)
        ),
        "split channels": case(
            small, lambda x, a, b: b(r(a(x).chunk(2, 1)[1])), conv(2, 4), conv(2, 2)
        ),
        "circular": case(
            (1, 2, 6, 5),
            lambda x, a, b, c: x + c(r(b(r(a(x))))),
            Circular(2, 3),
            Circular(3, 3, (6, 5)),
            Circular(3, 2),
        ),
        "circular, stride": case((1, 2, 6, 6), two, Circular(2, 3, stride=2), Circular(3, 2)),
        "signals": case(
            (1, 2, 9),
            two,
            nn.Conv1d(2, 3, 3, padding=1, bias=False),
            nn.Conv1d(3, 2, 3, padding=1, bias=False),
        ),
    }  # fmt: skip


@cache
def network_problem(net: nn.Module, shape: Shape) -> Problem:
    """What a network bound is given of a network over all inputs."""
    audit = audited(net, {"input" if isinstance(net, nn.Sequential) else "x": shape}, GLOBAL)[0]
    return Problem(audit.simple, GLOBAL, audit.found, audit.extents, CertifiedNorms(), 1e10)


def steps_of(example: Case) -> Program:
    """The steps of a network."""
    problem = network_problem(example.net, example.shape)
    return program_of(problem.graph, problem.propagation)


def one_segment(program: Program, per_frequency: bool) -> Chain:
    """The network as one segment."""
    if not per_frequency:
        return Chain([Segment(program, DenseSpace())])
    restricted = with_restrictions(program)
    return Chain([Segment(restricted, SymbolSpace(restricted))])


def searched(chain: Chain, evaluations: int = 15, sharpness: float = 50.0) -> torch.Tensor:
    """Logarithms of multipliers after a short search from norms."""

    def objective(x: torch.Tensor) -> tuple[float, torch.Tensor] | None:
        try:
            return chain.value(x, sharpness)
        except InfeasibleError:
            return None

    logs = chain.start("norm")
    return minimise(objective, logs, evaluations).point if chain.unknowns else logs


def proved(chain: Chain, logs: torch.Tensor) -> float:
    """The proved bound."""
    return math.exp(chain.certified(logs)[0])


def jacobian(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """The Jacobian of all outputs together, (outputs, inputs)."""

    def flat(point: torch.Tensor) -> torch.Tensor:
        result = net(point)
        return torch.cat([part.flatten() for part in (result if isinstance(result, tuple) else (result,))])

    whole = torch.autograd.functional.jacobian(flat, x, vectorize=True)
    assert isinstance(whole, torch.Tensor)
    return whole.reshape(len(whole), -1)


def largest_stretch(example: Case, points: int = 8) -> float:
    """The largest norm of the Jacobian at some points."""
    generator = torch.Generator().manual_seed(1)
    inputs = [
        torch.randn(example.shape, generator=generator, dtype=F64) * (0.01, 0.3, 1.0, 10.0)[k % 4]
        for k in range(points)
    ]
    if example.peak is not None:
        inputs.append(example.peak.to(F64))
    return max(float(torch.linalg.matrix_norm(jacobian(example.net, x), 2)) for x in inputs)


def _with_0(step: Slopes) -> Slopes:
    """The step with 0 among its slopes, as per frequency."""
    low, high = (torch.as_tensor(slope, dtype=F64) for slope in (step.low, step.high))
    return replace(step, low=low.clamp_max(0.0), high=high.clamp_min(0.0))


def explicit(program: Program, chain: Chain, logs: torch.Tensor) -> float | None:
    """The bound by forms on all entries with the multipliers of a segment per frequency; None where that has steps of its own."""
    (segment,) = chain.parts
    assert isinstance(segment, Segment)
    if len(segment.program.steps) != len(program.steps):
        return None
    places: Mapping[str, slice] = segment.places
    steps = tuple(_with_0(step) if isinstance(step, Slopes) else step for step in program.steps)
    widened, space, form = replace(program, steps=steps), DenseSpace(), Form()

    def choose(step: Constraint, *_form: torch.Tensor | None) -> torch.Tensor:
        t = logs[places[step.output.name]].exp()
        return t.repeat_interleave(math.prod(step.output.shape[2:])) if is_spatial(step.output) else t

    for output in widened.outputs:
        form.add_diagonal(output.name, torch.ones(output.size, dtype=F64))
    eliminate(widened, space, form, choose)
    return math.sqrt(float(torch.linalg.eigvalsh(joined(form, widened.inputs, space)).max()))
