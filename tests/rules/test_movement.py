"""What operations differ by from their linearisation at the centre of a box: never outside of the remainder, and up to its ends."""

import itertools

import pytest
import torch
from torch import nn

import lipaudit.rules  # noqa: F401  registers the rules
from lipaudit.graph.capture.export import capture
from lipaudit.graph.evaluate import evaluate
from lipaudit.graph.node import Node
from lipaudit.graph.passes.table import recognise
from lipaudit.rules.movement import Movement, Neighbourhood
from lipaudit.rules.rule import movement_of
from tests.graph.networks import OfOneInput


class MaxMin(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, 1)
        return torch.cat((torch.maximum(a, b), torch.minimum(a, b)), 1)


OPERATIONS: dict[str, tuple[nn.Module, str, tuple[int, ...]]] = {
    "max pooling": (nn.MaxPool1d(2), "aten.max_pool1d.default", (1, 1, 6)),
    "max pooling of channels": (nn.MaxPool1d(2), "aten.max_pool1d.default", (1, 2, 4)),
    "max pooling of volumes": (nn.MaxPool3d((2, 1, 2)), "aten.max_pool3d.default", (1, 1, 2, 2, 2)),
    "pairs": (MaxMin(), "lipaudit.ordered_pairs", (1, 6)),
    "prelu": (nn.PReLU(6, 0.3).double(), "aten.prelu.default", (1, 6)),
    "steep prelu": (nn.PReLU(1, -1.5).double(), "aten.prelu.default", (1, 6)),
}


# Of these the remainder is a bound that no corner need reach.
LOOSER: dict[str, tuple[OfOneInput, str, tuple[int, ...]]] = {
    "sort": (OfOneInput(lambda x: x.sort(-1).values), "aten.sort.default", (2, 4)),
    "falling order, first axis": (OfOneInput(lambda x: x.sort(0, descending=True).values), "aten.sort.default", (3, 2)),
    "topk": (OfOneInput(lambda x: x.topk(2, -1).values), "aten.topk.default", (2, 3)),
    "least of all": (OfOneInput(lambda x: x.topk(1, -1, largest=False).values), "aten.topk.default", (2, 3)),
    "largest along an axis": (OfOneInput(lambda x: x.max(1).values), "aten.max.dim", (2, 3)),
    "largest over two axes": (OfOneInput(lambda x: x.amax((0, 2))), "aten.amax.default", (2, 2, 2)),
    "smallest of all": (OfOneInput(lambda x: x.min()), "aten.min.default", (2, 3)),
    "median": (OfOneInput(lambda x: x.median(-1, keepdim=True).values), "aten.median.dim", (2, 4)),
    "k-th value": (OfOneInput(lambda x: x.kthvalue(2, -1).values), "aten.kthvalue.default", (2, 3)),
    "adaptive max pooling": (nn.AdaptiveMaxPool1d(2), "aten.adaptive_max_pool1d.default", (1, 1, 5)),
    "norm": (OfOneInput(lambda x: torch.linalg.vector_norm(x, dim=-1)), "aten.linalg_vector_norm.default", (2, 3)),
    "pooled squares": (
        OfOneInput(lambda x: torch.nn.functional.avg_pool1d(x.square(), 3, 2).sqrt()),
        "lipaudit.power_mean",
        (1, 1, 7),
    ),
    "pooled squares, not below a number": (
        OfOneInput(lambda x: torch.nn.functional.avg_pool1d(x.square(), 2, 1).clamp_min(0.3).sqrt()),
        "lipaudit.power_mean",
        (1, 1, 5),
    ),
    "a norm of two parts": (
        OfOneInput(lambda x: (x[:, :3].square() + 0.5 * x[:, 3:].sin().square() + 1e-3).sqrt()),
        "lipaudit.power_mean",
        (1, 6),
    ),
    "standard deviation": (OfOneInput(lambda x: x.std(-1)), "aten.std.dim", (2, 3)),
    "variance": (OfOneInput(lambda x: x.var(-1, correction=0)), "aten.var.correction", (2, 3)),
    "logsumexp": (OfOneInput(lambda x: x.logsumexp(-1)), "aten.logsumexp.default", (2, 3)),
    "log softmax": (OfOneInput(lambda x: x.log_softmax(-1)), "aten.log_softmax.int", (2, 3)),
    "larger of two": (OfOneInput(lambda x: torch.maximum(x[:, :3], x[:, 3:].sin())), "aten.maximum.default", (1, 6)),
    "smaller of two": (OfOneInput(lambda x: torch.minimum(x[:, :3], x[:, 3:].sin())), "aten.minimum.default", (1, 6)),
    "clamp from above": (OfOneInput(lambda x: x[:, :3].clamp(max=x[:, 3:].sin())), "aten.clamp.Tensor", (1, 6)),
    "quotient": (OfOneInput(lambda x: x[:, :3] / (4 + x[:, 3:].square())), "aten.div.Tensor", (1, 6)),
    "quotient by one entry": (OfOneInput(lambda x: x[:, :3] / (4 + x[:, 3:].exp())), "aten.div.Tensor", (1, 4)),
}


def test_roots_of_squares_that_are_0_have_no_movement() -> None:
    module, op, shape = LOOSER["pooled squares"]
    (node,) = (n for n in recognise(capture(module, {"input": torch.rand(shape, dtype=torch.float64)})) if n.op == op)
    assert movement_of(node, neighbourhoods(node, 0)) is None


def neighbourhoods(node: Node, seed: int) -> tuple[Neighbourhood, ...]:
    """Random ones of the operands; with the seed 0 all entries of a centre are equal, with the last ones little can move."""
    torch.manual_seed(seed)
    found = []
    for ref in node.refs:
        centre = torch.randn(ref.info.shape, dtype=torch.float64)
        if seed == 0:
            centre = torch.zeros_like(centre)
        if "div" in node.op and found:
            centre = 3 + centre.abs()
        size = 1.0 if seed < 4 else 0.05
        below, above = torch.rand_like(centre) * size, torch.rand_like(centre) * size
        radius = float(torch.maximum(below, above).norm())
        found.append(Neighbourhood(centre, below, above, radius, torch.rand_like(centre)))
    return tuple(found)


@pytest.mark.parametrize("name", LOOSER)
@pytest.mark.parametrize("seed", range(6))
def test_derivatives_and_remainders_stay_within_their_bounds(name: str, seed: int) -> None:
    module, op, shape = LOOSER[name]
    (node,) = (n for n in recognise(capture(module, {"input": torch.rand(shape, dtype=torch.float64)})) if n.op == op)
    operands = neighbourhoods(node, seed)
    movement = movement_of(node, operands)
    if name == "pooled squares" and seed == 0:
        return  # no derivative at the centre
    assert movement is not None

    def value(*tensors: torch.Tensor) -> torch.Tensor:
        known = {ref.name: tensor for ref, tensor in zip(node.refs, tensors, strict=True)}
        result = evaluate(node, known, torch.float64)
        result = result[0] if isinstance(result, tuple) else result
        assert isinstance(result, torch.Tensor)
        return result

    centres = tuple(operand.centre for operand in operands)
    start = value(*centres)
    jacobians = torch.autograd.functional.jacobian(value, centres)
    for k in range(40):
        shares = [torch.rand_like(c) if k % 2 else torch.rand_like(c).round() for c in centres]
        away = [t * o.above - (1 - t) * o.below for t, o in zip(shares, operands, strict=True)]
        point = tuple(c + a for c, a in zip(centres, away, strict=True))
        excess = value(*point) - start
        pairs = zip(torch.autograd.functional.jacobian(value, point), jacobians, away, strict=True)
        for i, (there, here, step) in enumerate(pairs):
            excess = excess - (here.reshape(start.numel(), -1) @ step.flatten()).reshape(start.shape)
            check_move(movement, i, (there - here).reshape(start.numel(), -1), operands[i])
        if movement.remainder is not None:
            least, most = movement.remainder
            assert bool((least - 1e-12 <= excess).all())
            assert bool((excess <= most + 1e-12).all())


def check_move(movement: Movement, index: int, moved: torch.Tensor, operand: Neighbourhood) -> None:
    """D - B = diag(scale) E with ||E|| <= 1, and with gains ||e_i diag(gradients)|| <= gain_i."""
    move = movement.moves[index]
    assert move is not None
    scale = move.scale.flatten()
    assert bool((moved[scale == 0].abs() <= 1e-12).all())
    inner = moved[scale > 0] / scale[scale > 0, None]
    assert float(torch.linalg.matrix_norm(inner, 2)) <= 1 + 1e-9 if inner.numel() else True
    if move.gains is not None:
        gains = torch.linalg.vector_norm(inner * operand.gradients.flatten(), dim=1)
        assert bool((gains <= move.gains.flatten()[scale > 0] + 1e-9).all())


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("seed", range(6))
def test_remainders_hold_at_every_corner_and_are_reached(name: str, seed: int) -> None:
    module, op, shape = OPERATIONS[name]
    torch.manual_seed(seed)
    centre = torch.randn(shape, dtype=torch.float64)
    if seed == 0:
        centre = torch.zeros_like(centre)  # nothing is decided
    below, above = torch.rand_like(centre), torch.rand_like(centre)
    (node,) = (node for node in recognise(capture(module, {"input": centre})) if node.op == op)
    read = node.refs[0].name
    centre, below, above = (t.reshape(node.refs[0].info.shape) for t in (centre, below, above))
    radius = float(torch.maximum(below, above).norm())
    movement = movement_of(node, (Neighbourhood(centre, below, above, radius, torch.ones_like(centre)),))
    assert movement is not None
    assert movement.remainder is not None

    def value(x: torch.Tensor) -> torch.Tensor:
        result = evaluate(node, {read: x}, torch.float64)
        assert isinstance(result, torch.Tensor)
        return result

    jacobian = torch.autograd.functional.jacobian(value, centre).flatten(centre.dim() * -1)
    start, (least, most) = value(centre), movement.remainder
    lowest, highest = torch.zeros_like(start), torch.zeros_like(start)
    for corner in itertools.product((0.0, 1.0), repeat=centre.numel()):
        t = torch.tensor(corner, dtype=torch.float64).reshape(centre.shape)
        away = t * above - (1 - t) * below
        excess = value(centre + away) - start - (jacobian @ away.flatten())
        assert bool((least - 1e-12 <= excess).all())
        assert bool((excess <= most + 1e-12).all())
        lowest, highest = lowest.minimum(excess), highest.maximum(excess)
    if seed:
        assert torch.allclose(lowest, least, atol=1e-9)
        assert torch.allclose(highest, most, atol=1e-9)
