"""Recurrent layers: directions, layers, biases, and initial states of every kind, at weights of several sizes."""

from __future__ import annotations

import torch

from tests.nodes import Data, data
from tests.rules.ops.cases import case, unbounded, unsupported

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
recurrent("lstm", x, [state(), state()], [data(4 * HIDDEN, INPUT), *weights(4)[1:]], register=unsupported)

# plain recurrent layers: no state has to be bounded
for kind in ("rnn_tanh", "rnn_relu"):
    for scale in (0.1, 1.0):
        recurrent(kind, x, zero, weights(1, scale=scale))
        recurrent(kind, x, [state(4, 2.0)], weights(1, 2, 2, scale=scale), layers=2, both=True)
    recurrent(kind, data(STEPS, 1, INPUT), zero, weights(1, bias=False), first=False)
    recurrent(kind, x, [data(2, 1, HIDDEN)], weights(1, 2, scale=0.7), layers=2)
    recurrent(kind, x, zero, weights(1), register=unsupported, train=True)


def projected(layers: int = 1, directions: int = 1, bias: bool = True, scale: float = 1.0) -> list[torch.Tensor]:
    """Weights of an LSTM whose hidden state is projected to one entry."""
    generator, found = torch.Generator().manual_seed(8), []
    for layer in range(layers):
        width = INPUT if layer == 0 else directions
        for _ in range(directions):
            shapes = [(4 * HIDDEN, width), (4 * HIDDEN, 1), *[(4 * HIDDEN,)] * (2 * bias), (1, HIDDEN)]
            found += [torch.randn(shape, generator=generator, dtype=torch.float64) * scale for shape in shapes]
    return found


for scale in (0.1, 1.0):
    for bias in (True, False):
        options = (bias, 2, 0.0, False, True, True)
        start = [state(4, 0.5, 1), state(4, 2.0)]
        case("aten.lstm.input", x, start, projected(2, 2, bias, scale), *options, scales=(1.0, 0.1, 3.0))
    start = [data(1, 1, 1), state(1, 2.0)]
    case("aten.lstm.input", x, start, projected(scale=scale), True, 1, 0.0, False, False, True, scales=(1.0, 0.1))

# cells: a layer of one step, with and without biases
for bias in (True, False):
    for scale in (0.1, 1.0, 3.0):
        given = [data(3, INPUT), data(3, HIDDEN), *weights(1, bias=bias, scale=scale)]
        case("aten.rnn_tanh_cell.default", *given)
        case("aten.rnn_relu_cell.default", *given)
        fixed = state(3, 2.0)[:, 0]
        case("aten.gru_cell.default", data(3, INPUT), fixed, *weights(3, bias=bias, scale=scale))
        case("aten.lstm_cell.default", data(3, INPUT), [data(3, HIDDEN), fixed], *weights(4, bias=bias, scale=scale))
unbounded("aten.gru_cell.default", data(3, INPUT), data(3, HIDDEN), *weights(3))
unbounded("aten.lstm_cell.default", data(3, INPUT), [data(3, HIDDEN), data(3, HIDDEN)], *weights(4))

# the operations of ONNX that torch does not have
for scale in (0.1, 1.0):
    for clip in (None, 0.7):
        steps, drawn = data(STEPS, 1, INPUT), {"scales": (1.0, 0.1, 3.0)}
        peepholes = [state(size=size).flip(-1) for size in (1.0, 2.0, 0.5)]
        for bias, peep in ((True, peepholes), (False, [])):
            case(
                "lipaudit.lstm.default",
                steps,
                [state(), state(1, 1.5)],
                weights(4, bias=bias, scale=scale),
                bias,
                peep,
                clip,
                **drawn,
            )
        for bias, first in ((True, True), (True, False), (False, True)):
            case(
                "lipaudit.gru.default",
                steps,
                [state(1, 1.5)],
                weights(3, bias=bias, scale=scale),
                bias,
                first,
                clip,
                **drawn,
            )
        for relu in (True, False):
            case(
                "lipaudit.rnn.default", steps, [data(1, 1, HIDDEN)], weights(1, scale=scale), True, relu, clip, **drawn
            )
unbounded("lipaudit.gru.default", data(STEPS, 1, INPUT), [data(1, 1, HIDDEN)], weights(3), True, True, None)
unbounded("lipaudit.lstm.default", data(STEPS, 1, INPUT), [state(), data(1, 1, HIDDEN)], weights(4), True, [], None)
