"""Recurrent layers: directions, layers, biases, and initial states of every kind, at weights of several sizes."""

from __future__ import annotations

import torch

from tests.nodes import Data, data
from tests.rules.cases import case, unbounded, unsupported

STEPS, INPUT, HIDDEN = 4, 3, 2


def weights(
    gates: int, layers: int = 1, directions: int = 1, bias: bool = True, scale: float = 1.0
) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(7)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64) * scale

    found = []
    for layer in range(layers):
        width = INPUT if layer == 0 else HIDDEN * directions
        for _ in range(directions):
            found += [draw(gates * HIDDEN, width), draw(gates * HIDDEN, HIDDEN)]
            found += [draw(gates * HIDDEN), draw(gates * HIDDEN)] if bias else []
    return found


def state(count: int = 1, size: float = 0.0, width: int = HIDDEN) -> torch.Tensor:
    return torch.linspace(-size, size, count * width, dtype=torch.float64).reshape(count, 1, width)


def recurrent(
    kind: str,
    source: Data | torch.Tensor,
    start: list[Data | torch.Tensor],
    params: list[torch.Tensor],
    layers: int = 1,
    both: bool = False,
    first: bool = True,
    register=case,  # type: ignore[no-untyped-def]
    train: bool = False,
) -> None:
    states = start if kind == "lstm" else start[0]
    bias = len(params) == 4 * layers * (1 + both)
    dropout = 0.5 if train else 0.0
    register(
        f"aten.{kind}.input", source, states, params, bias, layers, dropout, train, both, first, scales=(1.0, 0.1, 3.0)
    )


for kind, gates in (("lstm", 4), ("gru", 3)):
    x = data(1, STEPS, INPUT)
    zero = [state(), state()]
    for scale in (0.01, 0.1, 0.5, 1.0, 3.0):
        recurrent(kind, x, zero, weights(gates, scale=scale))
    recurrent(kind, x, zero, weights(gates, bias=False))
    recurrent(kind, x, zero, weights(gates, scale=0.0))
    recurrent(kind, data(STEPS, 1, INPUT), zero, weights(gates), first=False)
    recurrent(kind, data(1, 1, INPUT), zero, weights(gates, scale=0.5))
    recurrent(kind, data(2, STEPS, INPUT), [torch.zeros(1, 2, HIDDEN).double()] * 2, weights(gates, scale=0.5))
    for scale in (0.1, 1.0):
        recurrent(kind, x, [state(2), state(2)], weights(gates, 2, scale=scale), layers=2)
        recurrent(kind, x, [state(2), state(2)], weights(gates, 1, 2, scale=scale), both=True)
        recurrent(kind, x, [state(6), state(6)], weights(gates, 3, 2, False, scale), layers=3, both=True)
        recurrent(kind, x, [state(size=5.0), state(size=5.0)], weights(gates, scale=scale))
        recurrent(kind, x, [state(4, 2.0), state(4, 2.0)], weights(gates, 2, 2, scale=scale), layers=2, both=True)
    recurrent(kind, x, zero, weights(gates), register=unsupported, train=True)
    moving = data(2, 1, HIDDEN)
    for source in (x, torch.ones(1, STEPS, INPUT).double()):
        two = weights(gates, 2, scale=0.3)
        recurrent(kind, source, [moving, moving], two, layers=2, register=unbounded)
recurrent("lstm", x, [data(4, 1, HIDDEN), state(4, 1.5)], weights(4, 2, 2, scale=0.5), layers=2, both=True)
recurrent(
    "lstm", x, [state(4, 1.5), data(4, 1, HIDDEN)], weights(4, 2, 2, scale=0.5), layers=2, both=True, register=unbounded
)
recurrent("gru", x, [state(), state()], [w * torch.inf for w in weights(3)], register=unsupported)
PROJECTED = [*weights(4)[:1], torch.ones(4 * HIDDEN, 1).double(), *weights(4)[2:], torch.ones(1, HIDDEN).double()]
unsupported("aten.lstm.input", x, [state(width=1), state()], PROJECTED, True, 1, 0.0, False, False, True)
