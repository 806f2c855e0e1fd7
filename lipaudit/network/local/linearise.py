"""A network as its linearisation at the centre of a domain, and what the domain can add to it.

Every node z = F(u_1 ... u_p) is replaced by its derivative B_i at the centre, as automatic differentiation takes it. With D_i(x) the
derivative at another input x, the chain rule for a tensor v of the network reads exactly

    J_v(x) = J_v + sum over nodes z, i of S_vz (D_i(x) - B_i) J_{u_i}(x),

J_v the Jacobian of v by the B alone and S_vz the derivative of v by z by the B alone (apply it node by node). Likewise for values,

    v(x) - v(c) = J_v (x - c) + sum over nodes z of S_vz w_z,   w_z what F differs by from its linearisation.

Both J_v and S_vz come from one backward pass per entry of v. How far D_i can be from B_i and how large w_z can be follows from how far the
operands stray (:mod:`lipaudit.rules.movement`), which is the same statement for an earlier tensor: for every v in topological order

- ``entries`` |v(x) - v(c)| <= |J_v (x - c)| + sum_z |S_vz| |w_z|, entry by entry,
- ``gradients`` the norm of every row of J_v(x), and ``norm`` that of J_v(x) as a whole,

hold on the whole domain. All of them grow with the radius, because the centre, J and S do not depend on it. An operation of which no
movement is known is replaced by 0, and its derivative moves by its constant. Values and Jacobians are computed in float64 without a margin:
figures are numerical.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from lipaudit.graph.evaluate import Value, evaluate
from lipaudit.graph.linear import BATCH_NORMS, CONVOLUTIONS
from lipaudit.graph.node import Constant, Graph, Node, Ref, parts
from lipaudit.network.domain import Domain
from lipaudit.network.forms.program import is_linear
from lipaudit.network.local.pieces import in_pieces
from lipaudit.network.propagate import Propagation
from lipaudit.rules.effect import Status
from lipaudit.rules.entry_slopes import EntrySlopes, entry_slopes, is_entrywise
from lipaudit.rules.movement import Move, Movement, Neighbourhood, slice_norms
from lipaudit.rules.rule import has_movement, movement_of

# What float64 may have lost is far below this; figures are numerical.
_SLACK = 1 + 1e-9
_ROUNDING = 1e-12
# Entries of all tensors that backward passes hold at once; the shorter sides of matrices whose spectral norms are computed.
_HELD, _SIDE, _SIDE_OF_JACOBIAN = 2**24, 256, 1024
# Weights that are known less closely than this have no Jacobian that is known.
_KNOWN = 2.0**-45
_DETACHED = {"aten.detach.default", "aten.alias.default", "aten.lift_fresh_copy.default"}


class NotLinearisableError(Exception):
    """A network has no linearisation at the centre; the message says why."""


@dataclass(frozen=True, eq=False)
class Tensor:
    """What is known of a tensor on the domain.

    Attributes:
        value: at the centre, with its graph of automatic differentiation.
        entries: |v(x) - v(c)|, entry by entry.
        radius: ||v(x) - v(c)||.
        gradients: the norm of the gradient of every entry.
        norm: ||J_v(x)||.
    """

    value: torch.Tensor
    entries: torch.Tensor
    radius: float
    gradients: torch.Tensor
    norm: float

    @property
    def neighbourhood(self) -> Neighbourhood:
        """Where the tensor stays."""
        return Neighbourhood(self.value.detach(), self.entries, self.radius, self.gradients)


@dataclass(frozen=True, eq=False)
class Affine:
    """A node that is an affine map of its operands."""

    node: Node


@dataclass(frozen=True, eq=False)
class Moving:
    """A node, or one of its outputs, that is no affine map.

    Attributes:
        node: the node.
        value: at the centre, with its graph of automatic differentiation.
        movement: how its derivatives move.
        operands: what is known of the tensors that its moves are in.
        sources: the names of the nodes that compute them.
        replaced: whether 0 stands for the derivative at the centre.
        index: which of several outputs it is.
        slopes: of a function of each entry.
    """

    node: Node
    value: torch.Tensor
    movement: Movement
    operands: tuple[Tensor, ...]
    sources: tuple[str, ...]
    replaced: bool = False
    index: int | None = None
    slopes: EntrySlopes | None = None

    @property
    def moves(self) -> Iterator[tuple[Move, Tensor, str]]:
        """The moves that are not 0, with their operands."""
        for move, operand, source in zip(self.movement.moves, self.operands, self.sources, strict=True):
            if move is not None and bool((move.scale != 0).any()):
                yield move, operand, source


class Linearisation:
    """The linearisation of a recognised graph at the centre of a domain.

    Args:
        graph: the recognised graph, equal to the network in value.
        domain: a ball or a box.
        propagation: the product rule on the domain.
        twins: the simplified graph, whose nodes of the same names have the constants of ``propagation``.
        work: floating-point operations that the Jacobian of the outputs and the ranges of intermediate tensors may cost together.

    Raises:
        NotLinearisableError: if the network has none.
    """

    def __init__(self, graph: Graph, domain: Domain, propagation: Propagation, twins: Graph, work: float) -> None:
        self.domain, self.work = domain, work
        self._graph = in_pieces(graph)
        self._propagation, self._twins = propagation, {node.name: node for node in twins}
        self._leaves: list[torch.Tensor] = []
        self._terms: list[Moving] = []
        self.steps: list[Affine | Moving] = []
        self._known: dict[str, Tensor] = {}
        self.values: dict[str, Value] = {}
        self._costs: dict[str, float] = {}
        self._reach = _reach(domain)
        shapes = {node.name: node.outputs[0].shape for node in self._graph}
        passes = sum(math.prod(shapes[name]) for name in self._graph.outputs)
        self.work -= passes * sum(map(_operations, self._graph))
        if self.work < 0:
            raise NotLinearisableError("a backward pass for each entry of its outputs takes more work than is allowed")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # where rows cannot be taken all at once, it takes longer
            self._walk()

    # forward: the values at the centre, and what every node that is no linear map adds

    def _walk(self) -> None:
        spent = 0.0
        for node in self._graph:
            spent += _operations(node)
            self._costs[node.name] = spent
            if node.op == "input":
                self.values[node.name] = self._leaf(node)
            elif node.op in _DETACHED:
                self.values[node.name] = self.values[node.refs[0].name]
            else:
                with torch.enable_grad():
                    value = evaluate(node, self.values, torch.float64)
                if is_affine(node):
                    self.steps.append(Affine(node))
                else:
                    value = self._nonlinear(node, value)
                self.values[node.name] = value

    def _leaf(self, node: Node) -> torch.Tensor:
        centre = self.domain.centres.get(node.name)
        if centre is None or not node.output.dtype.is_floating_point:
            raise NotLinearisableError(f"the domain has no centre for {node.name}")
        leaf = centre.detach().clone().requires_grad_()
        self._leaves.append(leaf)
        return leaf

    def _nonlinear(self, node: Node, value: Value) -> Value:
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            step = self._entrywise(node, value) if is_entrywise(node) else self._moving(node, value)
            if step is not None:
                self._terms.append(step)
                self.steps.append(step)
                return value
        if isinstance(value, tuple):
            return tuple(self._replaced(node, part.detach(), index) for index, part in enumerate(value))
        return self._replaced(node, value.detach())

    def _replaced(self, node: Node, value: torch.Tensor, index: int | None = None) -> torch.Tensor:
        """An output of a node that is replaced by 0: its derivatives move by the constants of the node."""
        if value.is_floating_point():
            value.requires_grad_()
            movement, operands, sources = self._constants(node, value)
            step = Moving(node, value, movement, operands, sources, replaced=True, index=index)
            self._terms.append(step)
            self.steps.append(step)
        return value

    def _entrywise(self, node: Node, value: torch.Tensor) -> Moving | None:
        constant = self._entry_constant(node)
        if constant == math.inf:
            return None
        operand = self._operand(node, 0)
        slopes = entry_slopes(node, operand.neighbourhood, constant)
        return Moving(node, value, slopes.movement, (operand,), (node.refs[0].name,), slopes=slopes)

    def _moving(self, node: Node, value: torch.Tensor) -> Moving | None:
        if not has_movement(node) or not all(ref.info.dtype.is_floating_point for ref in node.refs):
            return None
        operands = tuple(self._operand(node, i) for i in range(len(node.refs)))
        movement = movement_of(node, tuple(operand.neighbourhood for operand in operands))
        if movement is None:
            return None
        return Moving(node, value, movement, operands, tuple(ref.name for ref in node.refs))

    def _entry_constant(self, node: Node) -> float:
        """The largest slope on the domain; infinite where it may jump. The pieces of attention and gates have 1 at most."""
        effect = self._propagation.effects.get(node.name)
        if effect is None:
            return 1.0 if node.op == "aten.sigmoid.default" else math.inf
        if effect.status is not Status.FINITE or any(f.log_upper > 700 for f in effect.factors):
            return math.inf
        return math.fsum(f.upper for f in effect.factors)

    def _constants(self, node: Node, value: torch.Tensor) -> tuple[Movement, tuple[Tensor, ...], tuple[str, ...]]:
        effect = self._propagation.effects.get(node.name)
        twin = self._twins.get(node.name)
        if effect is None or twin is None or len(twin.refs) != len(node.refs) or effect.status is not Status.FINITE:
            raise NotLinearisableError(f"{node.name} ({node.op}) has no finite constant on the domain")
        read = [(i, f) for i, f in enumerate(effect.factors) if f.log_upper != -math.inf]
        if any(f.log_upper > 700 for _, f in read):
            raise NotLinearisableError(f"the constant of {node.name} ({node.op}) is too large")
        moves = tuple(Move(torch.full(value.shape, f.upper, dtype=torch.float64)) for _, f in read)
        operands = tuple(self._operand(node, i) for i, _ in read)
        return Movement(moves), operands, tuple(node.refs[i].name for i, _ in read)

    # what is known of a tensor

    def _operand(self, node: Node, index: int) -> Tensor:
        ref = node.refs[index]
        if ref.name not in self._known:
            value = self.values[ref.name]
            if not isinstance(value, torch.Tensor) or not value.is_floating_point():
                raise NotLinearisableError(f"{node.name} ({node.op}) reads what is no tensor of real numbers")
            self._known[ref.name] = self._tensor(value, self._product(node, index), self._costs[ref.name])
        return self._known[ref.name]

    def _product(self, node: Node, index: int) -> float:
        """The constant of an operand by the product rule, infinite where it is not known."""
        twin = self._twins.get(node.name)
        if twin is None or len(twin.refs) != len(node.refs):
            return math.inf
        value = self._propagation.values[twin.refs[index].name]
        known = value.status is Status.FINITE and value.log_upper < 700
        return math.exp(value.log_upper) * _SLACK if known else math.inf

    def _tensor(self, value: torch.Tensor, norm: float, cost: float) -> Tensor:
        """The bounds of a tensor by a backward pass for each of its entries, or by its constant alone where that costs too much."""
        if not bool(torch.isfinite(value[~torch.isneginf(value)]).all()):
            raise NotLinearisableError("a value at the centre is not finite")
        if value.numel() * cost > self.work:
            if norm == math.inf:
                raise NotLinearisableError("the work that is allowed does not suffice for the ranges of its tensors")
            rows, most = torch.full(value.shape, norm, dtype=torch.float64), math.inf
            entries = torch.full(value.shape, math.inf, dtype=torch.float64)
        else:
            self.work -= value.numel() * cost
            rows, entries, most = self.bounds(value)
        norm = min(norm, most, float(torch.linalg.vector_norm(rows)))
        rows = rows.clamp_max(norm)
        radius = min(norm * self._reach.length, float(torch.linalg.vector_norm(entries)))
        if self._reach.is_ball:
            entries = entries.minimum(rows * self._reach.length)
        shift = _ROUNDING * float(value.detach().nan_to_num(neginf=0.0).abs().max()) if value.numel() else 0.0
        entries = entries.clamp_max(radius) * _SLACK + shift
        return Tensor(value, entries, radius * _SLACK + shift * math.sqrt(value.numel()), rows, norm)

    def bounds(self, value: torch.Tensor, rows: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor, float]:
        """Of ``rows @ value`` (default: of every entry) the norms of the gradients, how far it strays, and the norm of its Jacobian.

        Args:
            value: a tensor of the network, or tensors joined.
            rows: (n, entries of the value).
        """
        count = value.numel() if rows is None else len(rows)
        chunk = max(1, _HELD // max(1, sum(t.numel() for t in self._points)))
        gradients, entries = [], []
        norms = _Norms(chunk >= count)
        for first in range(0, count, chunk):
            size = min(chunk, count - first)
            if rows is None:
                part = torch.zeros(size, count, dtype=torch.float64)
                part[torch.arange(size), first + torch.arange(size)] = 1.0
            else:
                part = rows[first : first + size]
            jacobian, tails = self._pulled_back(value, part.reshape(size, *value.shape))
            gradient, entry = norms.add(jacobian, tails)
            gradients.append(gradient)
            entries.append(self._reach.farthest(jacobian) + entry)
        shape = value.shape if rows is None else (count,)
        return (
            torch.cat(gradients).reshape(shape) * _SLACK,
            torch.cat(entries).reshape(shape) * _SLACK,
            norms.total * _SLACK,
        )

    @property
    def _points(self) -> list[torch.Tensor]:
        return [*self._leaves, *(term.value for term in self._terms)]

    def _pulled_back(
        self, value: torch.Tensor, rows: torch.Tensor
    ) -> tuple[torch.Tensor, list[tuple[Moving, torch.Tensor]]]:
        """J_v (rows, inputs), and S_vz for the nodes that v depends on."""
        if not value.requires_grad:
            return torch.zeros(len(rows), sum(leaf.numel() for leaf in self._leaves), dtype=torch.float64), []
        pulled = torch.autograd.grad(
            value, self._points, rows, retain_graph=True, allow_unused=True, is_grads_batched=True
        )
        own, tails = pulled[: len(self._leaves)], pulled[len(self._leaves) :]
        jacobian = [
            torch.zeros(len(rows), leaf.numel(), dtype=torch.float64) if part is None else part.flatten(1)
            for part, leaf in zip(own, self._leaves, strict=True)
        ]
        return torch.cat(jacobian, 1), [
            (term, tail) for term, tail in zip(self._terms, tails, strict=True) if tail is not None
        ]

    @property
    def graph(self) -> Graph:
        """The graph that is linearised."""
        return self._graph

    def value(self, name: str) -> torch.Tensor:
        """The value of a node with one output at the centre."""
        value = self.values[name]
        assert isinstance(value, torch.Tensor)
        return value.detach()

    def outputs(self, names: Sequence[str]) -> torch.Tensor:
        """Outputs of the network joined to one vector."""
        values = [self.values[name] for name in names]
        if not all(isinstance(value, torch.Tensor) and value.is_floating_point() for value in values):
            raise NotLinearisableError("an output is no tensor of real numbers")
        return torch.cat([value.flatten() for value in values if isinstance(value, torch.Tensor)])


@dataclass(frozen=True, eq=False)
class _Reach:
    """How far inputs are from the centre: ``length`` in l2, or ``half`` entry by entry in a box."""

    length: float
    half: torch.Tensor | None

    @property
    def is_ball(self) -> bool:
        return self.half is None

    def farthest(self, jacobian: torch.Tensor) -> torch.Tensor:
        """|J (x - c)|, row by row."""
        farthest = (
            torch.linalg.vector_norm(jacobian, dim=1) * self.length if self.half is None else jacobian.abs() @ self.half
        )
        assert isinstance(farthest, torch.Tensor)
        return farthest


def _reach(domain: Domain) -> _Reach:
    if not domain.radii:
        raise NotLinearisableError("the domain has no centre")
    lengths = [radii.total.upper for radii in domain.radii.values()]
    if domain.reach:
        half = torch.cat([domain.reach[name].flatten() for name in domain.centres]) * _SLACK
        return _Reach(float(torch.linalg.vector_norm(half)) * _SLACK, half)
    return _Reach(max(lengths), None)


class _Norms:
    """Adds up what the nodes contribute to the bounds of a tensor, from chunks of the rows of J_v and S_vz."""

    def __init__(self, whole: bool) -> None:
        self._whole = whole
        self._squares, self.total = 0.0, math.inf

    def add(
        self, jacobian: torch.Tensor, tails: Sequence[tuple[Moving, torch.Tensor]]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The norms of the rows of J_v(x), and what the nodes add to the deviation of every row."""
        rows = torch.linalg.vector_norm(jacobian, dim=1)
        strays = torch.zeros_like(rows)
        together, apart = torch.zeros_like(rows), 0.0
        for term, tail in tails:
            strays = strays + _remainder(term, tail)
            for move, operand, _ in term.moves:
                own = _rows(move, operand, tail)
                together = together + own
                if self._whole:
                    apart += min(_spectral(move, operand, tail), float(torch.linalg.vector_norm(own)))
        self._squares += float((rows + together).square().sum())
        self.total = math.sqrt(self._squares)
        if self._whole:
            size = matrix_norm(jacobian, _SIDE_OF_JACOBIAN)
            self.total = min(self.total, size + apart, size + float(torch.linalg.vector_norm(together)))
        return rows + together, strays


def _gains(move: Move, operand: Tensor) -> torch.Tensor:
    """The norms of the slices of J_u(x) that a block reads."""
    assert move.axes is not None
    if move.gains is not None:
        return move.gains
    return slice_norms(operand.gradients, move.axes).clamp_max(operand.norm)


def _rows(move: Move, operand: Tensor, tail: torch.Tensor) -> torch.Tensor:
    """Row by row a bound of ||S diag(scale) E J_u(x)||."""
    scaled = tail * move.scale
    whole: torch.Tensor = torch.linalg.vector_norm(scaled.flatten(1), dim=1) * operand.norm
    if move.axes is None:
        return whole
    blocks = slice_norms(scaled, [axis + 1 for axis in move.axes]) * _gains(move, operand)
    return blocks.flatten(1).sum(1).minimum(whole)


def _remainder(term: Moving, tail: torch.Tensor) -> torch.Tensor:
    """Row by row a bound of |S w|."""
    if term.movement.remainder is not None:
        return (tail.abs() * term.movement.remainder).flatten(1).sum(1)
    total = torch.zeros(len(tail), dtype=torch.float64)
    for move, operand, _ in term.moves:
        scaled = tail * move.scale
        whole = torch.linalg.vector_norm(scaled.flatten(1), dim=1) * operand.radius
        if move.axes is not None:
            blocks = slice_norms(scaled, [axis + 1 for axis in move.axes]) * operand.neighbourhood.over(move.axes)
            whole = blocks.flatten(1).sum(1).minimum(whole)
        total = total + whole
    return total


def _spectral(move: Move, operand: Tensor, tail: torch.Tensor) -> float:
    """||S diag(scale)|| times the norm of the part of J_u(x) that the blocks with a scale read; or unit by unit."""
    scaled = tail * move.scale
    norm = operand.norm
    apart = math.inf
    if move.axes is not None:
        gains = _gains(move, operand)
        active = slice_norms(move.scale.expand(tail.shape[1:]), move.axes) > 0
        norm = min(norm, float(torch.linalg.vector_norm(gains[active])))
        columns = torch.linalg.vector_norm(scaled, dim=(0, *(axis + 1 for axis in move.axes)), keepdim=True)[0]
        apart = float((columns * gains).sum())
    return min(matrix_norm(scaled.flatten(1), _SIDE) * norm, apart)


def matrix_norm(matrix: torch.Tensor, side: int) -> float:
    """The spectral norm by the eigenvalues of the smaller Gram matrix, the Frobenius norm of a matrix whose sides are longer."""
    frobenius = float(torch.linalg.vector_norm(matrix))
    if min(matrix.shape) > side or frobenius == 0 or not math.isfinite(frobenius):
        return frobenius
    scaled = matrix / frobenius
    gram = scaled @ scaled.T if len(scaled) <= scaled.shape[1] else scaled.T @ scaled
    largest = float(torch.linalg.eigvalsh(gram)[-1])
    return min(frobenius, frobenius * math.sqrt(max(largest, 0.0) + 1e-14))


def is_affine(node: Node) -> bool:
    """Whether the output is an affine function of the data-dependent operands together."""
    if any(constant.error > _KNOWN for constant in parts(tuple(node.arguments.values()), Constant)):
        raise NotLinearisableError(f"the weights of {node.name} ({node.op}) are not known closely enough")
    if len(node.refs) == 1 and isinstance(node.get("input"), Ref):
        if node.op in CONVOLUTIONS:
            return all(ref.info.dtype.is_floating_point for ref in node.refs)
        if node.op in BATCH_NORMS:
            return not node.get("training") and len(node.outputs) == 1
    if node.op == "aten.einsum.default":
        return len(node.refs) == 1 and node.output.dtype.is_floating_point
    return is_linear(node)


def _operations(node: Node) -> float:
    """Floating-point operations of a backward pass through a node, roughly."""
    size = float(sum(math.prod(info.shape) for info in node.outputs))
    weights = [c.value for c in parts(tuple(node.arguments.values()), Constant)]
    if node.op in CONVOLUTIONS:
        return 2 * size * max((math.prod(w.shape[1:]) for w in weights), default=1)
    inner = [ref.info.shape[-1] for ref in node.refs if ref.info.shape]
    return (
        2 * size * max(inner, default=1)
        if ("linear" in node.op or "mm" in node.op or "matmul" in node.op)
        else 8 * size
    )
