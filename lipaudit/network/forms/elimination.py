"""Elimination of the tensors of a network, from its outputs to its inputs, from a quadratic form.

The form H stands for <dv, H dv> on the differences of all tensors that are alive: those whose readers have all been eliminated. A linear
step y = sum_i A_i x_i is put in: with G = H_yy and R_k = H_yk,

    H_ij += A_i* G A_j,    H_ik += A_i* R_k    (and its adjoint),

without any loss. A constraint c(z, v) >= 0 with multipliers adds X = M_z - H_zz to what z may gain, and

    max_z (form + c) = form of the rest + B* X^-1 B + M_v,    B_k = H_zk (+ S for k = v),

for X > 0 (the Schur complement): the maximum over all z bounds the form at the true z. With slopes in [a, b], M_z = t, S = t (a + b) / 2,
M_v = -t a b. What is left at the inputs bounds the squared norm of the outputs' difference.

The optimal z = X^-1 B x of every constraint gives the gradient by the envelope theorem: d value / d t_i = c_i(z, v) at the optimum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch

from lipaudit.network.forms.multipliers import terms
from lipaudit.network.forms.pass_through import extremal_output, pass_through, passes_through
from lipaudit.network.forms.spaces import Space
from lipaudit.network.forms.steps import Constraint, Linear, Program


class InfeasibleError(Exception):
    """The multipliers prove nothing: a matrix X = M_z - H_zz is not positive definite."""


@dataclass(frozen=True, eq=False)
class Eliminated:
    """What the elimination of one constraint leaves for the way forward: z = X^-1 sum_k B_k x_k.

    Where a diagonal form passed a constraint on norms (:mod:`lipaudit.network.forms.pass_through`) there are no rows, and ``factor``
    is H_zz.
    """

    factor: torch.Tensor
    rows: Mapping[str, torch.Tensor]
    passed: bool = False


class Form:
    """A Hermitian block matrix on the tensors that are alive; blocks (frequencies, rows, columns) that are missing are zero."""

    def __init__(self) -> None:
        self._blocks: dict[tuple[str, str], torch.Tensor] = {}

    def get(self, a: str, b: str) -> torch.Tensor | None:
        """The block H_ab, (frequencies, size of a, size of b)."""
        if (a, b) in self._blocks:
            return self._blocks[a, b]
        return self._blocks[b, a].mH if (b, a) in self._blocks else None

    def blocks(self) -> Iterator[tuple[tuple[str, str], torch.Tensor]]:
        """Every block that is kept, by the two tensors that it couples."""
        yield from self._blocks.items()

    def add(self, a: str, b: str, block: torch.Tensor) -> None:
        """Add a block to H_ab, and its adjoint to H_ba."""
        key, block = ((b, a), block.mH) if (b, a) in self._blocks and a != b else ((a, b), block)
        self._blocks[key] = self._blocks[key] + block if key in self._blocks else block

    def add_diagonal(self, a: str, diagonal: torch.Tensor) -> None:
        """Add a real diagonal (size of a) or a matrix to H_aa."""
        if diagonal.dim() == 1 and (a, a) in self._blocks:
            self._blocks[a, a] = self._blocks[a, a].clone()
            self._blocks[a, a].diagonal(dim1=-2, dim2=-1).add_(diagonal)
        else:
            self.add(a, a, (torch.diag_embed(diagonal) if diagonal.dim() == 1 else diagonal)[None])

    def take(self, a: str) -> tuple[torch.Tensor | None, dict[str, torch.Tensor]]:
        """Remove a tensor: H_aa, and the rows H_ak of the others that it is coupled with."""
        own = self._blocks.pop((a, a), None)
        rows = {}
        for first, second in [key for key in self._blocks if a in key]:
            block = self._blocks.pop((first, second))
            rows[second if first == a else first] = block if first == a else block.mH
        return own, rows


Choice = Callable[[Constraint, torch.Tensor | None], torch.Tensor]
"""The multipliers of a constraint, given H_zz."""


def eliminate(program: Program, space: Space, form: Form, choose: Choice) -> dict[str, Eliminated]:
    """Carry a form from the outputs of a program to its inputs; returns what was eliminated on the way.

    Args:
        program: the steps.
        space: where the form lives.
        form: the form at the outputs; at the inputs afterwards.
        choose: the multipliers of every constraint.

    Raises:
        InfeasibleError: if the multipliers of a constraint are too small.
    """
    eliminated = dict[str, Eliminated]()
    for step in reversed(program.steps):
        if isinstance(step, Linear):
            _put_in(form, step, space)
        else:
            done = _maximise(form, step, choose, space)
            if done is not None:
                eliminated[step.output.name] = done
    return eliminated


def _put_in(form: Form, step: Linear, space: Space) -> None:
    own, rows = form.take(step.output.name)
    maps = space.maps(step)
    for source, each in zip(step.sources, maps, strict=True):
        for name, row in rows.items():
            block = each.adjoint(row)
            form.add(source.name, name, block + block.mH if name == source.name else block)
    if own is None:
        return
    pulled = [each.adjoint(own) for each in maps]  # A_i* G
    for i, source in enumerate(step.sources):
        for k in range(i, len(step.sources)):
            block = maps[k].adjoint(pulled[i].mH).mH  # A_i* G A_k
            form.add(source.name, step.sources[k].name, (block + block.mH) / 2 if i == k else block)


def _maximise(form: Form, step: Constraint, choose: Choice, space: Space) -> Eliminated | None:
    own, rows = form.take(step.output.name)
    if own is None and not rows:
        return None  # nothing reads it
    if passes_through(step, own, rows):
        assert own is not None
        for name, diagonal in pass_through(step, own, space).items():
            form.add_diagonal(name, diagonal)
        return Eliminated(own, {}, passed=True)
    added = terms(step, choose(step, own), space)
    x = multiplier_matrix(added.output, own)
    factor, info = torch.linalg.cholesky_ex(x)
    if bool((info != 0).any()):
        raise InfeasibleError(step.output.name)
    for name, diagonal in added.cross.items():
        rows[name] = with_diagonal(rows.get(name), diagonal, x)
    names = list(rows)
    halves = [torch.linalg.solve_triangular(factor, rows[name].to(factor.dtype), upper=False) for name in names]
    for i, first in enumerate(names):
        for k in range(i, len(names)):
            form.add(first, names[k], halves[i].mH @ halves[k])
    for name, diagonal in added.sources.items():
        form.add_diagonal(name, diagonal)
    return Eliminated(factor, rows)


def multiplier_matrix(diagonal: torch.Tensor, own: torch.Tensor | None) -> torch.Tensor:
    """M_z - H_zz for a diagonal or a matrix M_z."""
    if own is None:
        return (torch.diag_embed(diagonal) if diagonal.dim() == 1 else diagonal)[None]
    if diagonal.dim() > 1:
        return diagonal - own
    x = -own
    x.diagonal(dim1=-2, dim2=-1).add_(diagonal)
    return x


def with_diagonal(row: torch.Tensor | None, diagonal: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """A block plus a diagonal; of all frequencies if the other tensor's block has them all."""
    if row is None:
        return torch.diag_embed(diagonal).to(like.dtype)[None]
    row = row.clone()
    row.diagonal(dim1=-2, dim2=-1).add_(diagonal)
    return row


def push_forward(
    program: Program,
    space: Space,
    eliminated: Mapping[str, Eliminated],
    inputs: Mapping[str, torch.Tensor],
    at: torch.Tensor,
) -> dict[str, torch.Tensor]:
    """The differences of every tensor at which the bound is attained.

    Args:
        inputs: columns (frequencies, positions, m) of differences of the inputs.
        at: the frequencies that these are of.
    """
    values = dict(inputs)
    some = next(iter(inputs.values()))
    for step in program.steps:
        if isinstance(step, Linear):
            maps = space.maps(step)
            parts = [each.apply(values[source.name], at) for each, source in zip(maps, step.sources, strict=True)]
            values[step.output.name] = sum(parts[1:], start=parts[0])
            continue
        done = eliminated.get(step.output.name)
        if done is not None and done.passed:
            sources = {source.name: values[source.name] for source in step.sources}
            values[step.output.name] = extremal_output(step, done.factor, sources, space)
            continue
        right = some.new_zeros(len(at), space.positions(step.output), some.shape[-1])
        if done is not None:
            for name, row in done.rows.items():
                right = right + _at(row, at).to(some.dtype) @ values[name]
            right = torch.cholesky_solve(right, _at(done.factor, at).to(some.dtype))
        values[step.output.name] = right
    return values


def _at(blocks: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return blocks if len(blocks) == 1 else blocks[at]
