"""Pairs that are reflected on one side of a line have the constant of their matrices, and what jumps is not claimed."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.graph.capture.export import capture
from lipaudit.graph.evaluate import interpret
from lipaudit.graph.passes.sector_pairs import SECTOR_PAIRS
from lipaudit.graph.passes.table import recognise
from tests.graph.networks import OfOneInput

Map = Callable[[torch.Tensor], torch.Tensor]
Pair = tuple[torch.Tensor, torch.Tensor]
ANGLES = torch.tensor([0.3, -2.0, 3.1]).reshape(1, 3, 1)


def reflected(a: torch.Tensor, b: torch.Tensor, c: object, s: object) -> Pair:
    return (2 * c * c - 1) * a + 2 * c * s * b, 2 * c * s * a - (2 * c * c - 1) * b


def chosen(
    x: torch.Tensor, c: object = 0.8, s: object = 0.6, side: object = 0.0, mirror: object = None
) -> torch.Tensor:
    """The Householder activation; with another ``mirror`` or ``side`` it jumps."""
    a, b = x.chunk(2, 1)
    keep = s * a - c * b <= side
    u, v = reflected(a, b, c if mirror is None else mirror, s)
    return torch.cat([torch.where(keep, a, u), torch.where(keep, b, v)], 1)


def masked(x: torch.Tensor, strict: bool = False) -> torch.Tensor:
    """By products with truth values, one angle per channel; where both comparisons are strict, the boundary itself is 0."""
    a, b = x.split(3, 1)
    angles = ANGLES.to(x.dtype)
    side = a * torch.sin(angles / 2) - b * torch.cos(angles / 2)
    here, there = side < 0 if strict else side <= 0, side > 0
    u = a * torch.cos(angles) + b * torch.sin(angles)
    v = a * torch.sin(angles) - b * torch.cos(angles)
    return torch.cat([a * here + u * there, b * here + v * there], 1)


def arctangent(y: torch.Tensor, x: torch.Tensor, half: float = math.pi, above: float = 1.0) -> torch.Tensor:
    """atan2 as exporters write it; with another ``half`` or ``above`` it is another angle."""
    angle = torch.atan(y / x)
    return torch.where(x < 0, torch.where(y > 0, angle + above * half, angle - half), angle)


def by_floor(angle: torch.Tensor, turn: float, beside: float = 0.0) -> torch.Tensor:
    return angle - torch.floor((angle + beside if beside else angle) / turn) * turn


def by_angle(
    x: torch.Tensor,
    turn: float = 2 * math.pi,
    last: float = 1.0,
    angle_of: Callable[..., torch.Tensor] = torch.atan2,
    reduced: Callable[..., torch.Tensor] = torch.remainder,
) -> torch.Tensor:
    """Four sectors: the pair, reflected, turned, reflected."""
    a, b = x.split(3, 1)
    angles = ANGLES.to(x.dtype)
    first, second = (torch.tensor(each, dtype=x.dtype).reshape(1, 3, 1) for each in ([0.7, 2.0, 0.0], [1.5, 0.4, 2.2]))
    place = reduced(angle_of(b, a) - angles / 2, turn)
    ends = [first / 2, (first + second) / 2, math.pi + second / 2]
    sectors = [
        place < ends[0],
        (place >= ends[0]) & (place < ends[1]),
        (place >= ends[1]) & (place < ends[2]),
        place >= ends[2],
    ]
    mirrors = angles + first, second, angles
    us = [a, *(a * m.cos() + b * m.sin() for m in mirrors)]
    vs = [b, *(sign * (a * m.sin() - b * m.cos()) for m, sign in zip(mirrors, (1, -1, last), strict=True))]
    return torch.cat(
        [sum(u * k for u, k in zip(us, sectors, strict=True)), sum(v * k for v, k in zip(vs, sectors, strict=True))], 1
    )


PAIRS: dict[str, tuple[Map, float]] = {
    "Householder, chosen": (chosen, 1.0),
    "Householder, angles of the channels": (masked, 1.0),
    "of order 2, by the angle": (by_angle, 1.0),
    "of order 2, by an arctangent": (lambda x: by_angle(x, angle_of=arctangent), 1.0),
    "of order 2, reduced by the whole turns": (lambda x: by_angle(x, reduced=by_floor), 1.0),
    "of order 2, as exporters write it": (
        lambda x: by_angle(
            x, angle_of=lambda y, z: torch.where((w := arctangent(y, z)).isnan(), 0.0, w), reduced=by_floor
        ),
        1.0,
    ),
    "of order 2, whole turns off": (lambda x: by_angle(x, angle_of=lambda y, z: arctangent(y, z, above=-1.0)), 1.0),
    "stacked": (lambda x: torch.stack(torch.chunk(chosen(x), 2, 1), 2), 1.0),
    "scaled": (lambda x: chosen(x) / math.sqrt(2), 1 / math.sqrt(2)),
    "positive and negative parts": (lambda x: torch.cat([torch.relu(x), torch.relu(-x)], 1), 1.0),
    "positive and negative parts, clamped": (lambda x: torch.cat([(-x).clamp(min=0), x.clamp_min(0)], 1), 1.0),
    "a pair and its absolute values": (lambda x: torch.cat([x, x.abs()], 1), math.sqrt(2)),
    "shrunk on one side": (lambda x: torch.cat([torch.where(x[:, :3] > 0, x[:, :3], 0.5 * x[:, :3]), x[:, 3:]], 1), 1.0),
}  # fmt: skip


def small_beside_large(x: torch.Tensor) -> torch.Tensor:
    """The second part jumps, by little beside the first."""
    a, b = x.chunk(2, 1)
    return torch.cat([torch.where(a > 0, a, a + 0 * b), 1e-7 * torch.where(a > 0, b, -b)], 1)


JUMPS: dict[str, Map] = {
    "a small part beside a large one": small_beside_large,
    "the mirror of another angle": lambda x: chosen(x, mirror=0.81),
    "a line that is no mirror": lambda x: chosen(x, c=0.8, s=0.61),
    "a condition beside the mirror": lambda x: chosen(x, side=1e-3),
    "nothing on the boundary": lambda x: masked(x, strict=True),
    "a turn that is no full one": lambda x: by_angle(x, turn=6.0),
    "a sector turned the wrong way": lambda x: by_angle(x, last=-1.0),
    "an arctangent without the half turn": lambda x: by_angle(x, angle_of=lambda y, z: arctangent(y, z, above=0.0)),
    "an arctangent with less than half a turn": lambda x: by_angle(x, angle_of=lambda y, z: arctangent(y, z, half=3.1)),
    "an arctangent alone": lambda x: by_angle(x, angle_of=lambda y, z: torch.atan(y / z)),
    "an arctangent of twice the quotient": lambda x: by_angle(x, angle_of=lambda y, z: arctangent(2 * y, z)),
    "the whole turns of another angle": lambda x: by_angle(x, reduced=lambda a, turn: by_floor(a, turn, 1.0)),
    "the whole turns of another length": lambda x: by_angle(x, reduced=lambda a, _: by_floor(a, 6.0)),
    "an arctangent that is not reduced": lambda x: by_angle(x, angle_of=arctangent, reduced=lambda a, _: a),
    "a condition of another tensor": lambda x: torch.cat([torch.where(x.roll(1, 1) > 0, x, -x), x], 1),
}  # fmt: skip


def points() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(1, 6, 4, generator=generator).double() for _ in range(20)]


@pytest.mark.parametrize("name", PAIRS)
def test_the_constant_is_that_of_the_matrices(name: str) -> None:
    function, constant = PAIRS[name]
    graph = recognise(capture(OfOneInput(function).double(), {"x": torch.zeros(1, 6, 4).double()}))
    for x in points():
        torch.testing.assert_close(
            interpret(graph, {graph.inputs[0]: x}, dtype=torch.float64)[graph.outputs[0]], function(x)
        )
    if name != "stacked":
        assert SECTOR_PAIRS in [node.op for node in graph]
    bound = lipaudit.audit(OfOneInput(function), input_shape={"x": (1, 6, 4)}).network.upper_bound
    steepest = max(
        float(torch.linalg.matrix_norm(torch.autograd.functional.jacobian(function, x).reshape(-1, 24), 2))
        for x in points()
    )
    assert steepest <= bound
    assert constant * (1 - 1e-9) <= bound <= constant * (1 + 1e-9)
    assert steepest >= constant * (1 - 1e-6)


@pytest.mark.parametrize("name", JUMPS)
def test_what_jumps_has_no_constant(name: str) -> None:
    network = lipaudit.audit(OfOneInput(JUMPS[name]), input_shape={"x": (1, 6, 4)}).network
    assert network.status in ("unbounded", "unsupported")


def test_a_householder_activation_is_never_called_certified() -> None:
    """Its two sides agree up to rounding of the angles, which no margin covers."""
    assert lipaudit.audit(OfOneInput(chosen), input_shape={"x": (1, 6, 4)}).network.rigor == "numerical"


def test_angles_that_were_rounded_to_float32_still_fit() -> None:
    class Rounded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            angle = torch.rand(1, 3, 1, generator=torch.Generator().manual_seed(0)) * 6
            self.c, self.s = nn.Parameter(torch.cos(angle / 2)), nn.Parameter(torch.sin(angle / 2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return chosen(x, self.c, self.s)

    assert lipaudit.audit(Rounded(), input_shape={"x": (1, 6, 4)}).network.upper_bound <= 1 + 1e-6


def test_a_join_of_functions_of_tensors_of_their_own_stays_a_join() -> None:
    def joined(x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, 1)
        return torch.cat([torch.relu(a), -torch.relu(-b)], 1)

    network = OfOneInput(joined)
    graph = recognise(capture(network, {"x": torch.zeros(1, 6, 4)}))
    assert SECTOR_PAIRS not in {node.op for node in graph}
    found = lipaudit.audit(network, input_shape={"x": (1, 6, 4)}).network
    assert found.rigor == "certified"
    assert found.upper_bound == pytest.approx(1.0)  # the halves are disjoint
