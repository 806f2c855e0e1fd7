"""Recurrent layers: gradient ascent on the Jacobian's norm, cells in loops, initial states, ranges, long sequences."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.rules.effect import Settings, Status
from lipaudit.rules.rule import apply_rule, interval_of
from lipaudit.spectral.interval import Interval
from tests.nodes import data, operation
from tests.rules.ops.cases_recurrent import state, weights

# torch's recurrent layers collect their weights in a list while they are exported, and torch says so
pytestmark = pytest.mark.filterwarnings("ignore:The tensor attributes")

Layer = type[nn.LSTM] | type[nn.GRU] | type[nn.RNN]


class Part(nn.Module):
    """One output of a recurrent layer: the sequence, the last hidden or the last cell state."""

    def __init__(self, layer: nn.Module, part: int) -> None:
        super().__init__()
        self.layer, self.part = layer, part

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output, last = self.layer(x)
        states = last if isinstance(last, tuple) else (last,)
        return (output, *states)[self.part]


def build(kind: Layer, scale: float, seed: int = 0, **options: Any) -> nn.Module:
    torch.manual_seed(seed)
    layer = kind(3, 4, batch_first=True, **options).double().eval()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, dtype=torch.float64) * scale)
    return layer


def steepest(module: nn.Module, x: torch.Tensor, steps: int = 6) -> float:
    """The largest norm of a Jacobian met on a gradient ascent from ``x``."""
    best = 0.0
    x = x.clone().requires_grad_()
    optimiser = torch.optim.Adam([x], lr=0.2)
    for _ in range(steps):
        jacobian = torch.autograd.functional.jacobian(module, x, create_graph=True).reshape(-1, x.numel())
        norm = torch.linalg.svdvals(jacobian)[0]
        best = max(best, float(norm.detach()))
        optimiser.zero_grad()
        (-norm).backward()
        optimiser.step()
    return best


KINDS = [
    *((kind, options) for kind in (nn.LSTM, nn.GRU) for options in ({}, {"num_layers": 2, "bidirectional": True})),
    (nn.LSTM, {"proj_size": 2, "bias": False}),
    (nn.LSTM, {"proj_size": 1, "num_layers": 2}),
    (nn.GRU, {"bias": False}),
    (nn.RNN, {"num_layers": 2, "bidirectional": True}),
    (nn.RNN, {"nonlinearity": "relu"}),
]


@pytest.mark.parametrize("scale", [0.02, 1.0])
@pytest.mark.parametrize(("kind", "options"), KINDS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_gradient_ascent_stays_below_the_bound(kind: Layer, scale: float, options: dict[str, Any]) -> None:
    layer = build(kind, scale, **options)
    for part in range(3 if kind is nn.LSTM else 2):
        module = Part(layer, part)
        bound = lipaudit.audit(module, input_shape={"x": (1, 4, 3)}).network.upper_bound
        found = max(steepest(module, torch.randn(1, 4, 3, dtype=torch.float64) * s, 3) for s in (0.1, 2.0))
        assert found <= bound
        if scale == 0.02 and part == 0 and not {"num_layers", "proj_size"} & set(options):
            assert bound < 20 * found  # gates near 1/2 here, which the bound lets be 1


class Loop(nn.Module):
    """A cell that is called once per entry of the sequence, as code in a Python loop does it."""

    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = None
        for entry in x.unbind(1):
            state = self.cell(entry, state)
        return state[0] if isinstance(state, tuple) else state


@pytest.mark.parametrize("scale", [0.1, 1.0])
@pytest.mark.parametrize("make", [nn.RNNCell, lambda *n: nn.RNNCell(*n, nonlinearity="relu"), nn.GRUCell, nn.LSTMCell])
def test_cells_in_a_loop(make: Any, scale: float) -> None:
    cell = make(3, 4).double()
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.copy_(torch.randn(parameter.shape, dtype=torch.float64) * scale)
    loop = Loop(cell)
    report = lipaudit.audit(loop, input_shape={"x": (1, 4, 3)})
    assert [layer.status for layer in report.layers if "cell" in layer.op] == ["finite"] * 4
    found = max(steepest(loop, torch.randn(1, 4, 3, dtype=torch.float64) * s) for s in (0.1, 2.0))
    assert found <= report.network.upper_bound


@pytest.mark.parametrize("q", [0.5, 0.95, 1.3])
@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
def test_the_matrix_of_blocks_is_attained(q: float, nonlinearity: str) -> None:
    """One unit, h_t = tanh(3 x_t + q h_{t-1}) at 0 (relu far above 0): the Jacobian is the matrix of blocks itself."""
    layer = nn.RNN(1, 1, nonlinearity=nonlinearity, batch_first=True).double()
    with torch.no_grad():
        for parameter, value in zip(layer.parameters(), (3.0, q, 0.0, 0.0), strict=True):
            parameter.fill_(value)
    length = 40
    t = torch.arange(length, dtype=torch.float64)
    toeplitz = torch.where(t[:, None] >= t, 3.0 * q ** (t[:, None] - t).clamp(min=0), 0.0)
    truth = float(torch.linalg.matrix_norm(toeplitz, 2))
    point = torch.full((1, length, 1), 1.0 if nonlinearity == "relu" else 0.0, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(Part(layer, 0), point).reshape(length, length)
    assert float(torch.linalg.matrix_norm(jacobian, 2)) == pytest.approx(truth, rel=1e-9)
    bound = lipaudit.audit(Part(layer, 0), input_shape={"x": (1, length, 1)}).network.upper_bound
    assert truth <= bound <= truth * (1.02 if q == 0.95 else 1.001)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_the_bound_is_at_most_the_frobenius_norm_of_the_blocks(kind: Layer) -> None:
    from lipaudit.rules.ops import (
        recurrent_jacobian,
    )

    layer = build(kind, 0.05)
    smaller = lipaudit.audit(Part(layer, 0), input_shape={"x": (1, 60, 3)}).network.upper_bound
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recurrent_jacobian, "_LONGEST_MATRIX", 0)
        frobenius = lipaudit.audit(Part(layer, 0), input_shape={"x": (1, 60, 3)}).network.upper_bound
    assert smaller <= frobenius
    if kind is nn.RNN:
        assert smaller < frobenius / 4


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_one_step_of_one_unit(kind: Layer) -> None:
    """Of a single unit only the candidate reads the input: tanh(w x) times gates that are open."""
    layer = kind(1, 1, batch_first=True).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        layer.weight_ih_l0[2] = 3.0
        gates = {nn.LSTM: (0, 3), nn.GRU: ()}[kind]
        for gate in gates:
            layer.bias_ih_l0[gate] = 30.0
        if kind is nn.GRU:
            layer.bias_ih_l0[1] = -30.0
    module = Part(layer, 0)
    bound = lipaudit.audit(module, input_shape={"x": (1, 1, 1)}).network.upper_bound
    assert bound == pytest.approx(3.0, rel=1e-6)
    assert steepest(module, torch.zeros(1, 1, 1, dtype=torch.float64), 2) == pytest.approx(3.0, rel=1e-6)


class Started(nn.Module):
    """A layer whose initial states are functions of the input."""

    def __init__(self, layer: nn.Module, bounded: bool) -> None:
        super().__init__()
        self.layer, self.bounded = layer, bounded

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        start = x.mean(1, keepdim=True).repeat(1, 1, 2)[..., :4]
        start = 2 * torch.tanh(start) if self.bounded else start
        return self.layer(x, (start, start) if isinstance(self.layer, nn.LSTM) else start)[0]


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("scale", [0.1, 0.7])
def test_initial_states_that_depend_on_the_input(kind: Layer, scale: float) -> None:
    layer = build(kind, scale)
    bounded, free = Started(layer, True), Started(layer, False)
    assert lipaudit.audit(free, input_shape={"x": (1, 4, 3)}).network.status == "unbounded"
    report = lipaudit.audit(bounded, input_shape={"x": (1, 4, 3)})
    assert steepest(bounded, torch.randn(1, 4, 3, dtype=torch.float64)) <= report.network.upper_bound
    centre = torch.randn(1, 4, 3, dtype=torch.float64)
    local = lipaudit.audit(free, input_shape={"x": (1, 4, 3)}, domain="ball", around=centre, radius=0.5)
    assert local.network.status == "finite"
    assert local.network.rigor == "numerical"
    for _ in range(5):
        move = torch.randn(1, 4, 3, dtype=torch.float64)
        jacobian = torch.autograd.functional.jacobian(free, centre + 0.5 * move / move.norm()).reshape(-1, 12)
        assert float(torch.linalg.matrix_norm(jacobian, 2)) <= local.network.upper_bound


def test_ranges_of_the_outputs() -> None:
    lstm = operation(
        "aten.lstm.input", (data(1, 5, 3), [state(), state(size=2.0)], weights(4), True, 1, 0.0, False, False, True), {}
    )
    found = [interval_of(lstm.node, (), output) for output in range(3)]
    assert [(i.low, i.high) for i in found] == [(-1, 1), (-1, 1), (pytest.approx(-7), pytest.approx(7))]
    assert interval_of(lstm.node, ()).high == pytest.approx(7)
    gru = operation(
        "aten.gru.input", (data(1, 5, 3), state(size=2.0), weights(3), True, 1, 0.0, False, False, True), {}
    )
    assert interval_of(gru.node, ()).high == pytest.approx(2)


def test_ranges_of_cells_and_of_projected_states() -> None:
    x, start = data(1, 3), state(size=2.0)[0]
    cell = operation("aten.lstm_cell.default", (x, [start, start], *weights(4)), {}).node
    assert [interval_of(cell, (), output).high for output in range(2)] == [1, pytest.approx(3)]
    assert interval_of(operation("aten.gru_cell.default", (x, start, *weights(3)), {}).node, ()).high == pytest.approx(
        2
    )
    relu, tanh = (
        operation(f"aten.rnn_{name}_cell.default", (x, start, *weights(1)), {}).node for name in ("relu", "tanh")
    )
    assert interval_of(relu, ()) == Interval(0.0)
    assert interval_of(tanh, ()) == Interval(-1.0, 1.0)
    module = build(nn.LSTM, 1.0, proj_size=2)
    given = (data(1, 5, 3), [state(width=2), torch.zeros(1, 1, 4).double()], list(module.parameters()))
    node = operation("aten.lstm.input", (*given, True, 1, 0.0, False, False, True), {}).node
    rows = module.weight_hr_l0.detach().abs().sum(1)
    assert interval_of(node, (), 0).high == pytest.approx(float(rows.max()))
    with torch.no_grad():
        assert float(module(torch.randn(1, 200, 3).double() * 50)[0].abs().max()) <= interval_of(node, (), 0).high


def test_a_product_with_the_output_is_bounded_by_its_range() -> None:
    class Gate(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = build(nn.LSTM, 0.3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.layer(x)[0]
            return y * torch.sigmoid(y)

    module = Gate()
    plain = lipaudit.audit(Part(module.layer, 0), input_shape={"x": (1, 6, 3)}).network.upper_bound
    report = lipaudit.audit(module, input_shape={"x": (1, 6, 3)})
    assert report.network.upper_bound <= 1.25 * plain * (1 + 1e-6)
    assert steepest(module, torch.randn(1, 6, 3, dtype=torch.float64)) <= report.network.upper_bound


@pytest.mark.parametrize(("kind", "gates"), [("lstm", 4), ("gru", 3)])
def test_long_sequences_do_not_overflow(kind: str, gates: int) -> None:
    start = [state(), state()] if kind == "lstm" else state()
    arguments = (start, weights(gates, scale=4.0), True, 1, 0.0, False, False, True)
    logs = []
    for length in (200, 1000):
        effect = apply_rule(operation(f"aten.{kind}.input", (data(1, length, 3), *arguments), {}).node, Settings())
        assert effect.status is Status.FINITE
        logs.append(effect.factors[0].log_upper)
    assert math.isfinite(logs[1])
    assert logs[1] > max(710, 4 * logs[0])


def test_weights_that_do_not_fit_are_refused() -> None:
    given = (data(1, 5, 3), state(), weights(3), True, 1, 0.0, False, False, True)
    node = operation("aten.gru.input", given, {}).node
    short = replace(node, arguments={**node.arguments, "params": node["params"][:3]})  # type: ignore[index]
    effect = apply_rule(short, Settings())
    assert effect.status is Status.UNSUPPORTED
    assert "3 tensors of weights" in effect.reason


def test_structure_mode_reads_no_weights() -> None:
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        with torch.device("meta"):
            layer = kind(3, 4, 2, batch_first=True, bidirectional=True)
        report = lipaudit.audit(Part(layer, 0), input_shape={"x": (1, 4, 3)}, structure=True)
        assert report.network.status == "finite"
