"""A network as its linearisation at the centre of a domain, and what the domain can add to it.

Every node z = F(u_1 ... u_p) is replaced by its derivative B_i at the centre, as automatic differentiation takes it. (Every argument below
holds for any other matrices B as well; with ``chords`` those of functions of each entry are the slopes of their chords on the domain.)
With D_i(x) the derivative at another input x, the chain rule for a tensor v of the network reads exactly

    J_v(x) = J_v + sum over nodes z, i of S_vz (D_i(x) - B_i) J_{u_i}(x),

J_v the Jacobian of v by the B alone and S_vz the derivative of v by z by the B alone (apply it node by node). Likewise for values,

    v(x) - v(c) = J_v (x - c) + sum over nodes z of S_vz w_z,   w_z what F differs by from its linearisation.

Both J_v and S_vz come from one backward pass per entry of v. How far D_i can be from B_i and how large w_z can be follows from how far the
operands stray (:mod:`lipaudit.rules.movement`), which is the same statement for an earlier tensor: for every v in topological order

- v(x) - v~ <= ``above`` = max of J_v (x - c) + sum over z of max of S_vz w_z, entry by entry, and ``below`` in the other direction,
- ``gradients`` the norm of every row of J_v(x), and ``norm`` that of J_v(x) as a whole,

hold on the whole domain. All of them grow with the radius where the centre, J and S do not depend on it (so without ``chords``). An
operation of which no movement is known is replaced by 0, and its derivative moves by its constant.

The values at the centre are computed in float64. Movements, choices of entries and sides of kinks are those of all values near the
computed v~ that the exact v can have on the domain, so that none of them is decided by a value that rounding may have moved: both
``below`` and ``above`` include a bound of the error

    |v(c) - v~| <= sum over z of |S_vz| (r_z + |w_z(c)|) + sum over affine nodes a of |S_va| r_a,

r what a node rounds itself (:mod:`lipaudit.network.rounding`, which says what is proved and what is assumed), and |w_z(c)| what the
derivative of z can move by, times the errors of its operands. The products of derivatives in J and S, norms and sums are computed in
float64 without a margin, so that figures are numerical.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from lipaudit.graph.evaluate import Value, can_interpret, evaluate, interpret
from lipaudit.graph.linear import CONVOLUTIONS
from lipaudit.graph.node import Constant, Graph, Node, parts
from lipaudit.network.affine import is_affine
from lipaudit.network.domain import Domain
from lipaudit.network.local.backward_passes import BackwardPasses
from lipaudit.network.local.constants import DETACHED, Constants, is_smooth
from lipaudit.network.local.pieces import in_pieces, written_out
from lipaudit.network.local.steps import Affine, Moving, Tensor
from lipaudit.network.local.sums import SLACK, Bounds, reach
from lipaudit.network.propagate import Propagation
from lipaudit.network.rounding import affine_error, entrywise_error, own_error, passed_error
from lipaudit.rules.effect import Status
from lipaudit.rules.entry_slopes import entry_slopes, is_entrywise
from lipaudit.rules.movement import Move, Movement, slice_norms
from lipaudit.rules.rule import has_movement, movement_of

# Weights that are known less closely than this have no Jacobian that is known.
_KNOWN = 2.0**-45


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
        whole: whether operations of which no movement is known are left as they are, and not written as others.

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
        whole: bool = False,
    ) -> None:
        if not can_interpret(graph):
            raise NotLinearisableError("it has operations that cannot be evaluated")
        self.domain, self.work, self._chords = domain, work, chords
        self._propagation, self._twins = propagation, {node.name: node for node in twins}
        self._constants_of = Constants(graph, propagation)
        pieces = in_pieces(graph)
        self._graph = pieces if whole else written_out(pieces, self._constants_of.are_followed)
        self.written_out = self._graph is not pieces
        self.steps: list[Affine | Moving] = []
        self._known: dict[str, Tensor] = {}
        self.values: dict[str, Value] = {}
        self._costs: dict[str, float] = {}
        # how far values are from the exact ones, and what affine nodes have added since the last point of a backward pass
        self._errors: dict[str, Value] = {}
        self._fresh: dict[str, Value] = {}
        if not domain.radii:
            raise NotLinearisableError("the domain has no centre")
        self._reach = reach(domain)
        self._passes = BackwardPasses(self._reach)
        if any(0 in output.shape for node in self._graph for output in node.outputs):
            raise NotLinearisableError("a tensor has no entries")
        shapes = {node.name: node.outputs[0].shape for node in self._graph}
        passes = sum(math.prod(shapes[name]) for name in self._graph.outputs)
        self.work -= passes * sum(map(_operations, self._graph))
        if self.work < 0:
            raise NotLinearisableError("a backward pass for each entry of its outputs takes more work than is allowed")
        self._walk()
        if self.written_out:
            self._compare(graph)

    def _compare(self, graph: Graph) -> None:
        """Refuse a graph in pieces that computes something else at the centre."""
        inputs = {node.name: self.value(node.name) for node in graph if node.op == "input"}
        for name, value in interpret(graph, inputs, dtype=torch.float64).items():
            own = self.values[name]
            if not isinstance(value, torch.Tensor) or not isinstance(own, torch.Tensor):
                continue  # refused where the outputs are joined
            if float((value - own.detach()).abs().max()) <= 1e-6 * float(value.abs().max()):
                continue
            raise NotLinearisableError(f"{name} computes something else when it is written as other operations")

    # forward: the values at the centre, and what every node that is no linear map adds

    def _walk(self) -> None:
        spent = 0.0
        for node in self._graph:
            spent += _operations(node)
            self._costs[node.name] = spent
            if node.op == "input":
                self.values[node.name] = leaf = self._leaf(node)
                self._errors[node.name] = self._fresh[node.name] = torch.zeros_like(leaf)
            elif node.op in DETACHED:
                for known in (self.values, self._errors, self._fresh):
                    known[node.name] = known[node.refs[0].name]
            else:
                with torch.enable_grad():
                    value = evaluate(node, self.values, torch.float64)
                if _is_affine(node):
                    self.steps.append(Affine(node))
                    self._errors[node.name] = affine_error(node, self.values, self._errors, value)
                    self._fresh[node.name] = affine_error(node, self.values, self._fresh, value)
                else:
                    value = self._nonlinear(node, value)
                    self._fresh[node.name] = _nothing(value)
                self.values[node.name] = value
        for name in self._graph.outputs:
            self._note_rounding(name)

    def _leaf(self, node: Node) -> torch.Tensor:
        centre = self.domain.centres.get(node.name)
        if centre is None or not node.output.dtype.is_floating_point:
            raise NotLinearisableError(f"the domain has no centre for {node.name}")
        leaf = centre.detach().clone().requires_grad_()
        self._passes.leaves.append(leaf)
        return leaf

    def _nonlinear(self, node: Node, value: Value) -> Value:
        if isinstance(value, torch.Tensor):
            value, self._errors[node.name] = self._output(node, value)
            return value
        outputs = [self._output(node, part, index) for index, part in enumerate(value)]
        self._errors[node.name] = tuple(error for _, error in outputs)
        return tuple(part for part, _ in outputs)

    def _output(self, node: Node, value: torch.Tensor, index: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """The value of an output, with a derivative by which it stands for the node, and the bound of its error."""
        if not value.is_floating_point():
            return value.detach(), torch.zeros(value.shape, dtype=torch.float64)
        step = None
        if index is None and is_entrywise(node):
            step = self._entrywise(node, value)
        elif not index:
            step = self._moving(node, value, index)
        step = step or self._replaced(node, value.detach(), index)
        self._passes.terms.append(step)
        self.steps.append(step)
        return step.value, self._passed_on(step)

    def _replaced(self, node: Node, value: torch.Tensor, index: int | None = None) -> Moving:
        """An output of a node that is replaced by 0: its derivatives move by the constants of the node."""
        value.requires_grad_()
        movement, operands, sources = self._constants(node, value)
        error = self._own_error(node, value, movement, operands)
        return Moving(node, value, movement, operands, sources, error, replaced=True, index=index)

    def _entrywise(self, node: Node, value: torch.Tensor) -> Moving | None:
        constant = self._entry_constant(node)
        if constant == math.inf:
            return None
        operand = self._operand(node, 0)
        slopes = entry_slopes(node, operand.neighbourhood, constant, self._chords)
        source = node.refs[0].name
        error = entrywise_error(node, operand.value.detach(), value.detach(), constant)
        error = error + slopes.line.abs() * _tensor(self._fresh[source]) + _moved(slopes.movement, (operand,))
        if self._chords:
            with torch.enable_grad():
                value = value.detach() + slopes.line * (operand.value - operand.value.detach())
        return Moving(node, value, slopes.movement, (operand,), (source,), error, slopes=slopes)

    def _moving(self, node: Node, value: torch.Tensor, index: int | None = None) -> Moving | None:
        """A node of which it is known how its derivative moves; of several outputs that is the first."""
        if not has_movement(node) or not all(ref.info.dtype.is_floating_point for ref in node.refs):
            return None
        operands = tuple(self._operand(node, i) for i in range(len(node.refs)))
        movement = movement_of(node, tuple(operand.neighbourhood for operand in operands))
        if movement is None:
            return None
        sources = tuple(ref.name for ref in node.refs)
        for name in sources:
            self._note_rounding(name)
        error = self._own_error(node, value, movement, operands)
        return Moving(node, value, movement, operands, sources, error, index=index)

    # how far values are from the exact ones

    def _note_rounding(self, name: str) -> None:
        """Count what affine nodes have added to a tensor, which is derived from then on like what other nodes add."""
        value, fresh = self.values[name], self._fresh[name]
        if isinstance(value, torch.Tensor) and value.requires_grad and bool((_tensor(fresh) != 0).any()):
            self._passes.rounded.append((value, _tensor(fresh)))
            self._fresh[name] = _nothing(value)

    def _own_error(
        self, node: Node, value: torch.Tensor, movement: Movement, operands: tuple[Tensor, ...]
    ) -> torch.Tensor:
        read = [_tensor(self.values[ref.name]).detach() for ref in node.refs]
        return own_error(node, value.detach(), read, self._constants_of.factors(node)) + _moved(movement, operands)

    def _passed_on(self, step: Moving) -> torch.Tensor:
        """The error of a node that is no affine map, from those of its operands alone."""
        if not bool(torch.isfinite(step.error).all()):
            raise NotLinearisableError(f"it is not known how far rounding moves {step.node.name} ({step.node.op})")
        if step.replaced:
            return step.error
        if step.slopes is not None:
            return step.error + step.slopes.line.abs() * step.operands[0].error
        node, value = step.node, step.value.detach()
        read = [operand.value.detach() for operand in step.operands]
        return step.error + passed_error(
            node, value, read, [o.error for o in step.operands], self._constants_of.factors(node)
        )

    def _entry_constant(self, node: Node) -> float:
        """The largest slope on the domain; infinite where it may jump."""
        effect = self._constants_of.effect(node)
        if effect is not None and effect.status is Status.FINITE and all(f.log_upper <= 700 for f in effect.factors):
            return math.fsum(f.upper for f in effect.factors)
        if not is_smooth(node):
            return math.inf
        slopes = entry_slopes(node, self._operand(node, 0).neighbourhood, math.inf)
        return float(torch.maximum(slopes.low.abs(), slopes.high.abs()).nan_to_num(nan=math.inf).max())

    def _constants(self, node: Node, value: torch.Tensor) -> tuple[Movement, tuple[Tensor, ...], tuple[str, ...]]:
        effect = self._constants_of.effect(node)
        twin = self._twins.get(node.name) if self._constants_of.are_own(node) else None
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
            self._known[ref.name] = known = self._bounded(value, self._product(node, index), ref.name)
            self._errors[ref.name] = known.error
        return self._known[ref.name]

    def _product(self, node: Node, index: int) -> float:
        """The constant of an operand by the product rule, infinite where it is not known."""
        twin = self._twins.get(node.name) if self._constants_of.are_own(node) else None
        if twin is None or len(twin.refs) != len(node.refs):
            return math.inf
        value = self._propagation.values[twin.refs[index].name]
        known = value.status is Status.FINITE and value.log_upper < 700
        return math.exp(value.log_upper) * SLACK if known else math.inf

    def _bounded(self, value: torch.Tensor, norm: float, name: str) -> Tensor:
        """The bounds of a tensor by a backward pass for each of its entries, or by its constant alone where that costs too much."""
        if not bool(torch.isfinite(value[~torch.isneginf(value)]).all()):
            raise NotLinearisableError("a value at the centre is not finite")
        cost, error = self._costs[name], _tensor(self._errors[name])
        if value.numel() * cost > self.work:
            if norm == math.inf:
                raise NotLinearisableError("the work that is allowed does not suffice for the ranges of its tensors")
            rows, most = torch.full(value.shape, norm, dtype=torch.float64), math.inf
            sides = (torch.full(value.shape, math.inf, dtype=torch.float64),) * 2
        else:
            self.work -= value.numel() * cost
            found = self.bounds(value)
            rows, most, sides = found.gradients, found.norm, (found.below, found.above)
            error = error.minimum(found.error + _tensor(self._fresh[name]))
        if not bool(torch.isfinite(error).all()):
            raise NotLinearisableError(f"it is not known how far rounding moves {name}")
        norm = min(norm, most, float(torch.linalg.vector_norm(rows)))
        rows = rows.clamp_max(norm)
        entries = torch.maximum(*sides)
        if self._reach.is_ball:
            entries = entries.minimum(rows * self._reach.length)
        radius = min(norm * self._reach.length, float(torch.linalg.vector_norm(entries)))
        entries = entries.clamp_max(radius)
        error = error * SLACK
        below, above = (side.minimum(entries) * SLACK + error for side in sides)
        radius = (radius + float(torch.linalg.vector_norm(error))) * SLACK
        return Tensor(value, error, below, above, radius, rows, norm)

    def bounds(self, value: torch.Tensor, rows: torch.Tensor | None = None) -> Bounds:
        """The bounds of ``rows @ value`` (default: of every entry).

        Args:
            value: a tensor of the network, or tensors joined.
            rows: (n, entries of the value).
        """
        return self._passes.bounds(value, rows)

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


def _tensor(value: Value) -> torch.Tensor:
    if not isinstance(value, torch.Tensor):
        raise NotLinearisableError("an operation reads several tensors as one")
    return value


def _nothing(value: Value) -> Value:
    """Zeros of the shapes of a value."""
    if isinstance(value, tuple):
        return tuple(torch.zeros(part.shape, dtype=torch.float64) for part in value)
    return torch.zeros(value.shape, dtype=torch.float64)


def _moved(movement: Movement, operands: tuple[Tensor, ...]) -> torch.Tensor:
    """What the derivatives of a node can move by times the errors of its operands, entry by entry."""
    total = torch.zeros((), dtype=torch.float64)
    for move, operand in zip(movement.moves, operands, strict=True):
        if move is not None:
            axes = None if move.gains is not None else move.axes
            error = operand.error
            total = total + move.scale * (torch.linalg.vector_norm(error) if axes is None else slice_norms(error, axes))
    return total


def _is_affine(node: Node) -> bool:
    if any(constant.error > _KNOWN for constant in parts(tuple(node.arguments.values()), Constant)):
        raise NotLinearisableError(f"the weights of {node.name} ({node.op}) are not known closely enough")
    return is_affine(node)


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
