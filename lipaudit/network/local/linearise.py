"""A network as its linearisation at the centre of a domain, and what the domain can add to it.

Every node z = F(u_1 ... u_p) is replaced by its derivative B_i at the centre, as automatic differentiation takes it. (Every argument below
holds for any other matrices B as well; with ``chords`` those of functions of each entry are the slopes of their chords on the domain.)
With D_i(x) the derivative at another input x, the chain rule for a tensor v of the network reads exactly

    J_v(x) = J_v + sum over nodes z, i of S_vz (D_i(x) - B_i) J_{u_i}(x),

J_v the Jacobian of v by the B alone and S_vz the derivative of v by z by the B alone (apply it node by node). Likewise for values,

    v(x) - v(c) = J_v (x - c) + sum over nodes z of S_vz w_z,   w_z what F differs by from its linearisation.

Both J_v and S_vz come from one backward pass per entry of v. How far D_i can be from B_i and how large w_z can be follows from how far the
operands stray (:mod:`lipaudit.rules.movement`), which is the same statement for an earlier tensor: for every v in topological order

- v(x) - v(c) <= ``above`` = max of J_v (x - c) + sum over z of max of S_vz w_z, entry by entry, and ``below`` in the other direction,
- ``gradients`` the norm of every row of J_v(x), and ``norm`` that of J_v(x) as a whole,

hold on the whole domain. All of them grow with the radius where the centre, J and S do not depend on it (so without ``chords``). An
operation of which no movement is known is replaced by 0, and its derivative moves by its constant. Values and Jacobians are computed in
float64 without a margin: figures are numerical.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import torch

from lipaudit.graph.evaluate import Value, can_interpret, evaluate
from lipaudit.graph.linear import BATCH_NORMS, CONVOLUTIONS
from lipaudit.graph.node import Constant, Graph, Node, Ref, parts
from lipaudit.network.domain import Domain
from lipaudit.network.forms.program import is_linear
from lipaudit.network.local.pieces import in_pieces
from lipaudit.network.local.steps import Affine, Moving, Tensor
from lipaudit.network.local.sums import SLACK, Bounds, Sums, as_rows, reach
from lipaudit.network.propagate import Propagation
from lipaudit.rules.effect import Status
from lipaudit.rules.entry_slopes import entry_slopes, is_entrywise
from lipaudit.rules.movement import Move, Movement
from lipaudit.rules.rule import has_movement, movement_of

_ROUNDING = 1e-12
# Entries of all tensors that backward passes hold at once.
_HELD = 2**24
# Weights that are known less closely than this have no Jacobian that is known.
_KNOWN = 2.0**-45
_DETACHED = {"aten.detach.default", "aten.alias.default", "aten.lift_fresh_copy.default"}


class NotLinearisableError(Exception):
    """A network has no linearisation at the centre; the message says why."""


class Linearisation:
    """The linearisation of a recognised graph at the centre of a domain.

    Args:
        graph: the recognised graph, equal to the network in value.
        domain: a ball or a box.
        propagation: the product rule on the domain.
        twins: the simplified graph, whose nodes of the same names have the constants of ``propagation``.
        work: floating-point operations that the Jacobian of the outputs and the ranges of intermediate tensors may cost together.
        chords: whether functions of each entry are replaced by their chords, which bounds better how far values stray.

    Raises:
        NotLinearisableError: if the network has none.
    """

    def __init__(
        self,
        graph: Graph,
        domain: Domain,
        propagation: Propagation,
        twins: Graph,
        work: float,
        chords: bool = False,
    ) -> None:
        if not can_interpret(graph):
            raise NotLinearisableError("it has operations that cannot be evaluated")
        self.domain, self.work, self._chords = domain, work, chords
        self._graph = in_pieces(graph)
        self._propagation, self._twins = propagation, {node.name: node for node in twins}
        self._leaves: list[torch.Tensor] = []
        self._terms: list[Moving] = []
        self.steps: list[Affine | Moving] = []
        self._known: dict[str, Tensor] = {}
        self.values: dict[str, Value] = {}
        self._costs: dict[str, float] = {}
        if not domain.radii:
            raise NotLinearisableError("the domain has no centre")
        self._reach = reach(domain)
        if any(0 in output.shape for node in self._graph for output in node.outputs):
            raise NotLinearisableError("a tensor has no entries")
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
                self._add(step)
                return step.value
        if isinstance(value, tuple):
            first = self._moving(node, value[0], 0) if value[0].is_floating_point() else None
            if first is not None:
                self._add(first)
                return first.value, *(self._replaced(node, v.detach(), i) for i, v in enumerate(value[1:], 1))
            return tuple(self._replaced(node, part.detach(), index) for index, part in enumerate(value))
        return self._replaced(node, value.detach())

    def _replaced(self, node: Node, value: torch.Tensor, index: int | None = None) -> torch.Tensor:
        """An output of a node that is replaced by 0: its derivatives move by the constants of the node."""
        if value.is_floating_point():
            value.requires_grad_()
            movement, operands, sources = self._constants(node, value)
            step = Moving(node, value, movement, operands, sources, replaced=True, index=index)
            self._add(step)
        return value

    def _add(self, step: Moving) -> None:
        self._terms.append(step)
        self.steps.append(step)

    def _entrywise(self, node: Node, value: torch.Tensor) -> Moving | None:
        constant = self._entry_constant(node)
        if constant == math.inf:
            return None
        operand = self._operand(node, 0)
        slopes = entry_slopes(node, operand.neighbourhood, constant, self._chords)
        if self._chords:
            with torch.enable_grad():
                value = value.detach() + slopes.line * (operand.value - operand.value.detach())
        return Moving(node, value, slopes.movement, (operand,), (node.refs[0].name,), slopes=slopes)

    def _moving(self, node: Node, value: torch.Tensor, index: int | None = None) -> Moving | None:
        """A node of which it is known how its derivative moves; of several outputs that is the first."""
        if not has_movement(node) or not all(ref.info.dtype.is_floating_point for ref in node.refs):
            return None
        operands = tuple(self._operand(node, i) for i in range(len(node.refs)))
        movement = movement_of(node, tuple(operand.neighbourhood for operand in operands))
        if movement is None:
            return None
        return Moving(node, value, movement, operands, tuple(ref.name for ref in node.refs), index=index)

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
        return math.exp(value.log_upper) * SLACK if known else math.inf

    def _tensor(self, value: torch.Tensor, norm: float, cost: float) -> Tensor:
        """The bounds of a tensor by a backward pass for each of its entries, or by its constant alone where that costs too much."""
        if not bool(torch.isfinite(value[~torch.isneginf(value)]).all()):
            raise NotLinearisableError("a value at the centre is not finite")
        if value.numel() * cost > self.work:
            if norm == math.inf:
                raise NotLinearisableError("the work that is allowed does not suffice for the ranges of its tensors")
            rows, most = torch.full(value.shape, norm, dtype=torch.float64), math.inf
            sides = (torch.full(value.shape, math.inf, dtype=torch.float64),) * 2
        else:
            self.work -= value.numel() * cost
            found = self.bounds(value)
            rows, most, sides = found.gradients, found.norm, (found.below, found.above)
        norm = min(norm, most, float(torch.linalg.vector_norm(rows)))
        rows = rows.clamp_max(norm)
        entries = torch.maximum(*sides)
        if self._reach.is_ball:
            entries = entries.minimum(rows * self._reach.length)
        radius = min(norm * self._reach.length, float(torch.linalg.vector_norm(entries)))
        entries = entries.clamp_max(radius)
        shift = _ROUNDING * float(value.detach().nan_to_num(neginf=0.0).abs().max()) if value.numel() else 0.0
        below, above = (side.minimum(entries) * SLACK + shift for side in sides)
        return Tensor(value, below, above, radius * SLACK + shift * math.sqrt(value.numel()), rows, norm)

    def bounds(self, value: torch.Tensor, rows: torch.Tensor | None = None) -> Bounds:
        """The bounds of ``rows @ value`` (default: of every entry).

        Args:
            value: a tensor of the network, or tensors joined.
            rows: (n, entries of the value).
        """
        count = value.numel() if rows is None else len(rows)
        chunk = max(1, _HELD // max(1, sum(t.numel() for t in self._points)))
        sums = Sums(self._reach, chunk >= count)
        for first in range(0, count, chunk):
            size = min(chunk, count - first)
            if rows is None:
                part = torch.zeros(size, count, dtype=torch.float64)
                part[torch.arange(size), first + torch.arange(size)] = 1.0
            else:
                part = rows[first : first + size]
            sums.add(*self._pulled_back(value, part.reshape(size, *value.shape)))
        return sums.bounds(value.shape if rows is None else torch.Size((count,)))

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
            torch.zeros(len(rows), leaf.numel(), dtype=torch.float64) if part is None else as_rows(part)
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
