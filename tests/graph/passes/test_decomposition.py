"""Operations without a rule in pieces: the same values, and a bound of what they compute."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from lipaudit.auditing.capture import graph_of
from lipaudit.graph.capture.export import capture
from lipaudit.graph.capture.layerwise import UNCAPTURED
from lipaudit.graph.evaluate import interpret
from lipaudit.graph.node import Graph
from lipaudit.graph.passes.decomposition import decompose
from lipaudit.graph.passes.decomposition_rules import DEFINITIONS
from lipaudit.graph.passes.table import fold, recognise
from lipaudit.network.domain import GLOBAL
from lipaudit.network.magnitudes import Extents
from lipaudit.network.propagate import Propagation, evaluate_rules, propagate
from lipaudit.rules.effect import Settings, Status
from lipaudit.rules.rule import has_rule
from tests.graph.interpreter import run
from tests.graph.networks import Function

torch.manual_seed(0)
MATRIX, SQUARE = torch.randn(3, 4).double(), torch.randn(4, 4).double()
REGULAR = SQUARE / 4 + 2 * torch.eye(4).double()
STACK, WINDOW = torch.randn(2, 3, 4).double(), torch.hann_window(8).double()

# on inputs of shape (2, 3, 4); a constant says that it is the least
PIECES: dict[str, tuple[Callable[[Tensor], Tensor | tuple[Tensor, ...]], float | None]] = {
    "addbmm, a constant stack": (lambda x: torch.addbmm(MATRIX[:, :3], x, STACK.mT, beta=0.5, alpha=2.0), None),
    "addbmm, constant factors": (lambda x: torch.addbmm(x[0, :, :3], STACK, STACK.mT, beta=-2.0), 2.0),
    "addmm of constants": (lambda x: torch.addmm(x[0], MATRIX, SQUARE, beta=3.0), 3.0),
    "addmv": (lambda x: torch.addmv(x[0, 0, :3], MATRIX, x[1, 1], beta=0.5, alpha=2.0), None),
    "addmv, beta zero": (lambda x: torch.addmv(x[0, 0, :3], MATRIX, x[1, 1], beta=0, alpha=1), "MATRIX"),
    "addr": (lambda x: torch.addr(x[0], MATRIX[:, 0], x[1, 0], alpha=2.0), None),
    "atleast_3d": (lambda x: torch.atleast_3d(x[0]), 1.0),
    "baddbmm": (lambda x: torch.baddbmm(x[:, :, :3], x, STACK.mT, beta=2.0, alpha=0.5), None),
    "bilinear": (lambda x: functional.bilinear(x[0].sigmoid(), x[1].sigmoid(), torch.ones(2, 4, 4).double()), None),
    "bilinear with a constant": (lambda x: functional.bilinear(x[0], MATRIX, SQUARE[None].expand(2, 4, 4), MATRIX[0, :2]), None),
    "block_diag": (lambda x: torch.block_diag(x[0], MATRIX), 1.0),
    "broadcast_tensors": (lambda x: torch.broadcast_tensors(x, torch.ones(2, 2, 1, 1))[0], 2**0.5),
    "cartesian_prod": (lambda x: torch.cartesian_prod(x[0, 0], x[0, 1, :2]), None),
    "column_stack": (lambda x: torch.column_stack((x[0], MATRIX)), 1.0),
    "combinations": (lambda x: torch.combinations(x[0, 0]), 3**0.5),
    "cosine_similarity": (lambda x: functional.cosine_similarity(x, x.flip(0), dim=-1, eps=0.5), None),
    "cosine_similarity with a row": (lambda x: functional.cosine_similarity(x, MATRIX[0], dim=-1, eps=0.5), 2.0),
    "cross with a constant": (lambda x: torch.cross(x[..., :3], STACK[..., :3]), None),
    "diff": (lambda x: x.diff(dim=-1), None),
    "diff, twice": (lambda x: x.diff(n=2, dim=1, prepend=x[:, :1]), None),
    "dist": (lambda x: torch.dist(x[0], MATRIX), 1.0),
    "dot with a constant": (lambda x: torch.dot(x[0, 0], SQUARE[0]), "SQUARE[0]"),
    "dsplit": (lambda x: torch.dsplit(x, 2)[1], 1.0),
    "einsum of three": (lambda x: torch.einsum("bij,jk,kl->bil", x, SQUARE, SQUARE), None),
    "einsum of a diagonal": (lambda x: torch.einsum("bii->b", x[:, :, :3]), 3**0.5),
    "einsum of one": (lambda x: torch.einsum("bij->ji", x), 2**0.5),
    "einsum with dots": (lambda x: torch.einsum("...ij,kj->...ik", x, SQUARE), "SQUARE"),
    "inner": (lambda x: torch.inner(x, MATRIX), "MATRIX"),
    "kron": (lambda x: torch.kron(x[0], torch.ones(2, 2).double()), 2.0),
    "meshgrid": (lambda x: torch.meshgrid(x[0, 0], x[0, 1], indexing="xy"), None),
    "mv": (lambda x: torch.mv(MATRIX, x[0, 0]), "MATRIX"),
    "nanmean": (lambda x: x.nanmean((0, 2), keepdim=True), 8**-0.5),
    "nansum": (lambda x: x.nansum(1), 3**0.5),
    "outer with a constant": (lambda x: torch.outer(x[0, 0], SQUARE[0]), "SQUARE[0]"),
    "pairwise_distance": (lambda x: functional.pairwise_distance(x[0], MATRIX, p=3.0, keepdim=True), 1.0),
    "put": (lambda x: x.put(torch.tensor([[1, 5]]), x[0, 0, :2][None]), None),
    "quantile": (lambda x: torch.quantile(x, 0.3, dim=1, keepdim=True), None),
    "quantile of everything": (lambda x: torch.quantile(x, 0.5), None),
    "smooth l1 loss": (lambda x: functional.l1_loss(x, STACK), 24**-0.5),
    "take of one entry": (lambda x: x.take(torch.tensor(5)), 1.0),
    "solve": (lambda x: torch.linalg.solve(REGULAR, x.mT), "REGULAR.inverse()"),
    "solve, from the right": (lambda x: torch.linalg.solve(REGULAR, x, left=False), "REGULAR.inverse()"),
    "solve, a vector": (lambda x: torch.linalg.solve(REGULAR, x[0, 0]), "REGULAR.inverse()"),
    "solve_triangular": (
        lambda x: torch.linalg.solve_triangular(REGULAR, x.mT, upper=False), "REGULAR.tril().inverse()",
    ),
    "solve_triangular, ones on the diagonal": (
        lambda x: torch.linalg.solve_triangular(REGULAR, x, upper=True, left=False, unitriangular=True),
        "(REGULAR.triu(1) + torch.eye(4).double()).inverse()",
    ),
    "cholesky_solve": (
        lambda x: torch.cholesky_solve(x[0].mT, torch.linalg.cholesky(REGULAR @ REGULAR.T)),
        "(REGULAR @ REGULAR.T).inverse()",
    ),
    "lu_solve": (lambda x: torch.linalg.lu_solve(*torch.linalg.lu_factor(REGULAR), x[0].mT), "REGULAR.inverse()"),
    "lu_solve, from the right": (
        lambda x: torch.linalg.lu_solve(*torch.linalg.lu_factor(REGULAR), x, left=False, adjoint=True),
        "REGULAR.T.inverse()",
    ),
    "lu_solve, older": (lambda x: torch.lu_solve(x[0].mT, *torch.linalg.lu_factor(REGULAR)), "REGULAR.inverse()"),
    "std_mean": (lambda x: torch.std_mean(x, dim=(0, 2), correction=2), None),
    "stft": (lambda x: torch.stft(x.flatten(1), 8, 4, window=WINDOW, return_complex=True).abs(), None),
    "stft, everything": (
        lambda x: torch.stft(
            x.flatten(), 8, 3, 6, WINDOW[:6], True, "constant", True, False, return_complex=True,
        ).abs(),
        None,
    ),
    "stft of real pairs": (
        lambda x: torch.view_as_real(
            torch.stft(x.flatten(1), 4, center=False, return_complex=True, window=WINDOW[:4])
        ),
        None,
    ),
    "take": (lambda x: x.take(torch.tensor([0, 5, 5, 5])), 3**0.5),
    "take from the end": (lambda x: x.take(torch.tensor([[-1, 0], [-1, -2]])), 2**0.5),
    "tensordot": (lambda x: torch.tensordot(x, MATRIX, dims=([1, 2], [0, 1])), "MATRIX.flatten()"),
    "trapezoid": (lambda x: torch.trapezoid(x, dx=0.5), None),
    "trapezoid with places": (lambda x: torch.trapezoid(x, torch.tensor([0.0, 1.0, 3.0, 4.0]).double()), None),
    "unflatten": (lambda x: unflattened(x), 1.0),
    "vdot": (lambda x: torch.vdot(SQUARE[0], x[0, 0]), "SQUARE[0]"),
}  # fmt: skip


def unflattened(x: Tensor) -> Tensor:
    return torch.nn.Unflatten(2, (2, 2))(x)


def _audited(graph: Graph) -> Propagation:
    recognised = recognise(graph)
    simple = fold(recognised)
    return propagate(simple, evaluate_rules(simple, Settings()), Extents(recognised, GLOBAL))


@pytest.mark.parametrize("name", PIECES)
def test_pieces_compute_the_operation_and_are_bounded(name: str) -> None:
    forward, least = PIECES[name]
    module = Function(lambda _, x: forward(x))
    x = {"x": torch.randn(2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3))}
    graph = decompose(capture(module, x), has_rule)
    expected = forward(x["x"])
    for found, wanted in zip(run(graph, x), expected if isinstance(expected, tuple) else (expected,), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    assert all(node.op in ("input", "getitem") or has_rule(node) for node in graph)
    network = _audited(graph).network
    assert network.status is Status.FINITE
    jacobian = torch.autograd.functional.jacobian(lambda t: _flat(forward(t)), x["x"]).reshape(-1, 24)
    norm = float(torch.linalg.matrix_norm(jacobian, 2))
    bound = float(torch.tensor(network.log_upper, dtype=torch.float64).exp())
    assert norm <= bound * (1 + 1e-12)
    if isinstance(least, str):
        constant = eval(least)
        least = float(torch.linalg.matrix_norm(constant if constant.dim() == 2 else constant[None], 2))
    if least is not None:
        assert bound == pytest.approx(least, rel=1e-3)


def _flat(value: Tensor | tuple[Tensor, ...]) -> Tensor:
    return torch.cat([v.flatten() for v in (value if isinstance(value, tuple) else (value,))])


@pytest.mark.parametrize(
    "forward",
    [
        lambda x: torch.heaviside(x, x.tanh()),
        lambda x: torch.linalg.inv(x[:, :, :3]),
        lambda x: torch.linalg.cholesky(x[:, :, :3]),
    ],
)
def test_an_operation_with_a_piece_that_has_no_rule_stays_whole(forward: Callable[[Tensor], Tensor]) -> None:
    graph = capture(Function(lambda _, x: forward(x)), {"x": torch.zeros(2, 3, 4, dtype=torch.float64)})
    whole = [node.op for node in graph if node.op != "input" and not has_rule(node)]
    kept = [node.op for node in decompose(graph, has_rule) if node.op != "input" and not has_rule(node)]
    assert kept
    assert set(kept) <= set(whole)


def test_what_needs_no_decomposition_is_left_alone() -> None:
    graph = capture(Function(lambda _, x: x.relu() + x), {"x": torch.zeros(2, 3, 4)})
    assert decompose(graph, has_rule) is graph


def test_constant_pieces_are_folded_into_what_follows() -> None:
    def forward(x: Tensor) -> Tensor:
        _, ones = torch.broadcast_tensors(x, torch.ones(4, dtype=x.dtype))
        return x * (ones.cumsum(-1).floor() + 1)

    graph = decompose(capture(Function(lambda _, x: forward(x)), {"x": torch.zeros(2, 3, 4).double()}), has_rule)
    assert [node.op for node in graph] == ["input", "aten.mul.Tensor"]


def test_constant_outputs_are_counted() -> None:
    module = Function(lambda _, x: torch.broadcast_tensors(x, torch.ones(2, 3, 4)))
    graph = decompose(capture(module, {"x": torch.zeros(2, 3, 4)}), has_rule)
    assert (graph.outputs, graph.output_names, graph.constant_outputs) == (("x",), ("0",), 1)


def test_pieces_keep_the_module_and_get_names_of_their_own() -> None:
    class Distance(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return functional.pairwise_distance(x[0], x[1])

    module = Function(lambda m, x: m.inner(x) + functional.pairwise_distance(x[0], x[1]), inner=Distance())
    graph = decompose(capture(module, {"x": torch.zeros(2, 3, 4)}), has_rule)
    norms = [node for node in graph if "norm" in node.op]
    assert [node.module for node in norms] == ["inner", ""]
    assert len({node.name for node in graph}) == len(graph)


def test_pieces_that_compute_something_else_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DEFINITIONS, "aten.nansum.default", lambda x, *_, **__: x.mean((0, 1, 2)))  # type: ignore[misc]
    graph = graph_of(Function(lambda _, x: x.nansum()), {"x": torch.zeros(2, 3, 4, dtype=torch.float64)})
    reasons = [node.payload for node in graph if node.op == UNCAPTURED]
    assert reasons
    assert all("decomposed wrongly" in reason for reason in reasons)


def test_a_scatter_that_adds_is_a_scatter_add() -> None:
    """torch has no derivative of the older spelling."""
    places, x = torch.tensor([[0, 1, 1]] * 3), {"x": torch.ones(2, 3, 4, dtype=torch.float64)}
    module = Function(lambda _, x: x[0].scatter(1, places, STACK[0], reduce="add"))
    graph = decompose(capture(module, x), has_rule)
    assert [node.op for node in graph][-1] == "aten.scatter_add.default"
    assert torch.equal(run(graph, x)[0], x["x"][0].scatter_add(1, places, STACK[0]))
    multiplied = capture(Function(lambda _, x: x[0].scatter(1, places, STACK[0], reduce="multiply")), x)
    assert any(node.op == "aten.scatter.reduce" for node in decompose(multiplied, has_rule))


class OfAComputedWeight(torch.nn.Module):
    """Its matrix is float32 in the network, and a constant in float64."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4))

    def forward(self, x: Tensor) -> Tensor:
        return torch.mv(torch.outer(self.weight, self.weight), x[0])


def test_the_pieces_read_a_computed_weight_in_the_type_of_the_network() -> None:
    net, x = OfAComputedWeight(), torch.randn(1, 4)
    graph = graph_of(net, {"x": torch.zeros(1, 4)})
    (output,) = interpret(graph, {"x": x}).values()
    assert torch.allclose(output, net(x), atol=1e-6)
