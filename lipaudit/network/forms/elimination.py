"""Elimination of the tensors of a network, from its outputs to its inputs, from a quadratic form that is kept as a diagonal and columns.

The form on the differences x_a of all tensors that are alive (those whose readers have all been eliminated) is

    sum_a <x_a, D_a x_a> + |sum_a U_a* x_a|^2,    D_a >= 0 diagonal, U_a (positions, k),

the second part the square of a *core* of k numbers. A linear step y = sum_i A_i x_i gives U_i += A_i* U_y; a diagonal D_y passes a
diagonal A_i as it is and becomes columns A_i* D_y^1/2 otherwise. A constraint with multipliers takes M_z = t from what z may gain. With
E = t - D_z, its cross term S between z and v and the Cholesky factor C of T = I - U_z* E^-1 U_z > 0,

    max_z (form - <z, t z> + 2 Re <z, S v>) = the rest with D_v += S^2 / E and U_a := (U_a + [a = v] S E^-1 U_z) C^-*,

because z = E^-1 (S v + U_z c) at the maximum for the core c before (Woodbury's identity: T > 0 and E > 0 if and only if
t - D_z - U_z U_z* > 0). Slopes in [a, b] have t, S = t (a + b) / 2 and add -t a b to D_v. So a tensor of many channels between tensors of
few never has a matrix of its own: k stays the number of the few. Columns are replaced by as many as there are positions alive where
there are more.

What is left at the inputs bounds the squared norm of the outputs' difference. The optimal z of every constraint gives the gradient by
the envelope theorem: d value / d t_i = c_i(z, v) at the optimum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from lipaudit.network.forms.multipliers import Terms, terms
from lipaudit.network.forms.pass_through import extremal_output, pass_through, passes_through
from lipaudit.network.forms.spaces import Space
from lipaudit.network.forms.steps import Constraint, Linear, Program

# What the diagonal of a matrix is raised by, relative to it, before it is factored.
_RAISED = 4e-15


class InfeasibleError(Exception):
    """The multipliers prove nothing: a matrix t - H_zz is not positive definite.

    Attributes:
        at: the frequencies where it is not, by their numbers; None for all.
    """

    def __init__(self, name: str, at: torch.Tensor | None = None) -> None:
        super().__init__(name)
        self.at = at


def where(failed: torch.Tensor) -> torch.Tensor | None:
    """The frequencies among (frequencies,) marks; None where there is one for all."""
    return failed.nonzero().flatten() if len(failed) > 1 else None


@dataclass(eq=False)
class Form:
    """A quadratic form: diagonals (frequencies, n) and columns (frequencies, n, width) by names of tensors; one frequency is for all."""

    diagonals: dict[str, torch.Tensor] = field(default_factory=dict)
    columns: dict[str, torch.Tensor] = field(default_factory=dict)
    width: int = 0

    def add_diagonal(self, name: str, diagonal: torch.Tensor) -> None:
        """Add real numbers (n,) or (frequencies, n) to D_a."""
        diagonal = diagonal if diagonal.dim() == 2 else diagonal[None]
        self.diagonals[name] = self.diagonals[name] + diagonal if name in self.diagonals else diagonal

    def add_columns(self, name: str, columns: torch.Tensor) -> None:
        """Add to U_a."""
        self.columns[name] = self.columns[name] + columns if name in self.columns else columns

    def take(self, name: str) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Remove a tensor: D_a and U_a."""
        return self.diagonals.pop(name, None), self.columns.pop(name, None)

    def append(self, count: int) -> None:
        """``count`` more columns, zero for every tensor."""
        self.width += count
        for name, columns in self.columns.items():
            self.columns[name] = torch.nn.functional.pad(columns, (0, count))

    def matrix(self, names: list[str], sizes: list[int]) -> torch.Tensor:
        """The whole form on some tensors, one behind the other: (frequencies, n, n)."""
        diagonals, stacked = self.stacked(names, sizes)
        matrix = stacked @ stacked.mH
        if len(diagonals) > len(matrix):
            matrix = matrix.expand(len(diagonals), -1, -1).clone()
        matrix.diagonal(dim1=-2, dim2=-1).add_(diagonals)
        return matrix

    def stacked(self, names: list[str], sizes: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """The diagonals (frequencies, n) and the columns (frequencies, n, width) of some tensors, one behind the other."""
        zeros = {name: torch.zeros(1, size, dtype=torch.float64) for name, size in zip(names, sizes, strict=True)}
        diagonals = together([self.diagonals.get(name, zeros[name])[:, :, None] for name in names])[:, :, 0]
        columns = together([
            self.columns.get(name, zeros[name][:, :, None].expand(-1, -1, self.width)) for name in names
        ])  # fmt: skip
        return diagonals, columns


def together(blocks: list[torch.Tensor]) -> torch.Tensor:
    """Blocks (frequencies, n, m) one below the other, those of one frequency repeated."""
    if len(blocks) == 1:
        return blocks[0]
    dtype = torch.complex128 if any(block.is_complex() for block in blocks) else torch.float64
    frequencies = max(len(block) for block in blocks)
    return torch.cat([block.to(dtype).expand(frequencies, -1, -1) for block in blocks], 1)


@dataclass(frozen=True, eq=False)
class Eliminated:
    """What the elimination of one step leaves for the way forward, from the core after it to the core before it.

    Attributes:
        before: (names, columns) of the tensors alive, of which the core before the step is made, where columns were replaced before it.
        after: the same where columns were replaced after the step.
        width: of the core between the two, without the columns that the step appended.
        factor: C of a constraint; z = inverse (cross v + columns C^-* c).
        kept: how many numbers of the core after it are C^-1 times the core before it, 0 where no other tensor has a part in it.
        inverse: of E, a diagonal (frequencies, n), or of a matrix (1, n, n).
        columns: U_z.
        cross: S, by the name of the tensor v.
        passed: the diagonal of z where it passed a constraint on norms (:mod:`lipaudit.network.forms.pass_through`).
    """

    width: int
    before: Mapping[str, torch.Tensor] | None = None
    after: Mapping[str, torch.Tensor] | None = None
    factor: torch.Tensor | None = None
    kept: int = 0
    inverse: torch.Tensor | None = None
    columns: torch.Tensor | None = None
    cross: Mapping[str, torch.Tensor] = field(default_factory=dict)
    passed: torch.Tensor | None = None


Choice = Callable[[Constraint, torch.Tensor | None, torch.Tensor | None], torch.Tensor]
"""The multipliers of a constraint, given D_z and U_z."""


def eliminate(
    program: Program, space: Space, form: Form, choose: Choice, *, kept: bool = False
) -> dict[str, Eliminated]:
    """Carry a form from the outputs of a program to its inputs; returns what was eliminated on the way, if it is to be kept.

    Args:
        program: the steps.
        space: where the form lives.
        form: the form at the outputs; at the inputs afterwards.
        choose: the multipliers of every constraint.

    Raises:
        InfeasibleError: if the multipliers of a constraint are too small.
    """
    eliminated = dict[str, Eliminated]()
    sizes = {tensor.name: space.positions(tensor) for tensor in program.tensors}
    for step in reversed(program.steps):
        if step.output.name not in form.diagonals and step.output.name not in form.columns:
            continue  # nothing reads it
        done = _put_in(form, step, space, sizes) if isinstance(step, Linear) else _maximise(form, step, choose, space)
        if kept:
            eliminated[step.output.name] = done
    return eliminated


def replaces_first(width: int, size: int, before: int, after: int) -> bool:
    """Whether columns are replaced before a diagonal of some size joins them, and not after the step, where fewer positions have any."""
    return width + size > before and after >= before


def _put_in(form: Form, step: Linear, space: Space, sizes: Mapping[str, int]) -> Eliminated:
    name, maps = step.output.name, space.maps(step)
    if name in form.diagonals and len(maps) == 1 and maps[0].squares is not None:
        form.add_diagonal(step.sources[0].name, maps[0].squares * form.diagonals.pop(name))
    replaced = None
    if name in form.diagonals:
        others = sum(sizes[other] for other in form.columns if other != name)
        before = others + sizes[name]
        after = others + sum(sizes[source.name] for source in step.sources if source.name not in form.columns)
        if replaces_first(form.width, sizes[name], before, after):
            replaced = _replace(form, name, sizes)
    width = form.width
    diagonal, columns = form.take(name)
    if diagonal is not None:
        form.append(sizes[name])
        for source, each in zip(step.sources, maps, strict=True):
            added = each.adjoint_of_diagonal(diagonal.sqrt())
            form.add_columns(source.name, torch.nn.functional.pad(added, (width, 0)))
    if columns is not None:
        for source, each in zip(step.sources, maps, strict=True):
            form.add_columns(source.name, torch.nn.functional.pad(each.adjoint(columns), (0, form.width - width)))
    later = None
    if form.width > sum(sizes[other] for other in form.columns):
        later = _replace(form, None, sizes)
    return Eliminated(width, replaced, later)


def _replace(form: Form, merged: str | None, sizes: Mapping[str, int]) -> dict[str, torch.Tensor]:
    """Replace the columns by as many as there are positions alive; those of ``merged`` take up its diagonal. Returns them as they were."""
    names = [name for name in sizes if name in form.columns or name == merged]
    former = dict(form.columns)
    kept = {name: diagonal for name, diagonal in form.diagonals.items() if name != merged}
    form.diagonals = {merged: form.diagonals[merged]} if merged is not None else {}
    matrix = form.matrix(names, [sizes[name] for name in names])
    form.diagonals = kept
    roots = matrix.diagonal(dim1=-2, dim2=-1).real.clamp_min(1e-280).sqrt()
    matrix = matrix / (roots[:, :, None] * roots[:, None, :])
    matrix.diagonal(dim1=-2, dim2=-1).add_(_RAISED * matrix.shape[-1])
    factor, info = torch.linalg.cholesky_ex(matrix)
    if bool((info != 0).any()):
        raise InfeasibleError(names[0])
    parts = torch.split(roots[:, :, None] * factor, [sizes[name] for name in names], 1)
    form.columns = dict(zip(names, parts, strict=True))
    form.width = factor.shape[-1]
    return former


def _maximise(form: Form, step: Constraint, choose: Choice, space: Space) -> Eliminated:
    diagonal, columns = form.take(step.output.name)
    if passes_through(step, columns):
        assert diagonal is not None
        for name, passed in pass_through(step, diagonal, space).items():
            form.add_diagonal(name, passed)
        return Eliminated(form.width, passed=diagonal)
    added = terms(step, choose(step, diagonal, columns), space)
    width = form.width
    if added.output.dim() > 1:
        return _maximise_groups(form, step, added, diagonal, columns)
    gap = added.output[None] if diagonal is None else added.output - diagonal
    if not bool((gap > 0).all()):
        raise InfeasibleError(step.output.name, where((gap <= 0).any(1)))
    for name, cross in added.cross.items():
        form.add_diagonal(name, cross**2 / gap)
    for name, square in added.sources.items():
        form.add_diagonal(name, square)
    if columns is None:
        return Eliminated(width, inverse=1 / gap, cross=added.cross)
    for name, cross in added.cross.items():
        form.add_columns(name, (cross / gap)[:, :, None] * columns)
    factor = _core(gap.rsqrt()[:, :, None] * columns, step.output.name)
    _solve(form, factor)
    return Eliminated(width, factor=factor, kept=form.width, inverse=1 / gap, columns=columns, cross=added.cross)


def _maximise_groups(
    form: Form, step: Constraint, added: Terms, diagonal: torch.Tensor | None, columns: torch.Tensor | None
) -> Eliminated:
    """The same for matrices M_z and M_v, without a cross term."""
    width, size = form.width, len(added.output)
    root = torch.linalg.cholesky(added.output)[None]
    if diagonal is not None:
        form.append(size)
        own = torch.diag_embed(diagonal.sqrt())
        columns = torch.cat(_alike([columns, own]), 2) if columns is not None else own
    assert columns is not None
    half = torch.linalg.solve_triangular(root.to(columns.dtype), columns, upper=False)
    factor = _core(half, step.output.name)
    _solve(form, factor)
    kept = form.width
    form.append(size)
    for name, matrix in added.sources.items():
        form.add_columns(name, torch.nn.functional.pad(torch.linalg.cholesky(matrix)[None], (kept, 0)))
    return Eliminated(width, factor=factor, kept=kept, inverse=torch.cholesky_inverse(root), columns=columns)


def _alike(blocks: list[torch.Tensor]) -> list[torch.Tensor]:
    frequencies = max(len(block) for block in blocks)
    dtype = torch.promote_types(blocks[0].dtype, blocks[1].dtype)
    return [block.to(dtype).expand(frequencies, -1, -1) for block in blocks]


def _core(half: torch.Tensor, name: str) -> torch.Tensor:
    """The Cholesky factor of I - half* half."""
    matrix = -(half.mH @ half)
    matrix.diagonal(dim1=-2, dim2=-1).add_(1.0)
    factor: torch.Tensor
    factor, info = torch.linalg.cholesky_ex(matrix)
    if bool((info != 0).any()):
        raise InfeasibleError(name, where(info != 0))
    return factor


def _solve(form: Form, factor: torch.Tensor) -> None:
    """U C^-* for all columns."""
    for name, columns in form.columns.items():
        dtype = torch.promote_types(columns.dtype, factor.dtype)
        form.columns[name] = torch.linalg.solve_triangular(
            factor.mH.to(dtype), columns.to(dtype), upper=True, left=False
        )
    if not form.columns:
        form.width = 0


def push_forward(
    program: Program,
    space: Space,
    eliminated: Mapping[str, Eliminated],
    inputs: Mapping[str, torch.Tensor],
    core: torch.Tensor,
    at: torch.Tensor,
) -> dict[str, torch.Tensor]:
    """The differences of every tensor at which the bound is attained.

    Args:
        inputs: columns (frequencies, positions, m) of differences of the inputs.
        core: what the core is there, (frequencies, k, m).
        at: the frequencies that these are of.
    """
    values = dict(inputs)
    some = next(iter(inputs.values()))
    for step in program.steps:
        done = eliminated.get(step.output.name)
        if isinstance(step, Linear):
            if done is not None and done.after is not None:
                core = _core_of(done.after, values, at)
            maps = space.maps(step)
            parts = [each.apply(values[source.name], at) for each, source in zip(maps, step.sources, strict=True)]
            values[step.output.name] = sum(parts[1:], start=parts[0])
            if done is not None:
                core = core[:, : done.width]
                if done.before is not None:
                    core = _core_of(done.before, values, at)
            continue
        z = some.new_zeros(len(at), space.positions(step.output), some.shape[-1])
        if done is not None and done.passed is not None:
            sources = {source.name: values[source.name] for source in step.sources}
            z = extremal_output(step, done.passed, sources, space)
        elif done is not None:
            core, z = _optimal(done, core, z, values, at)
        values[step.output.name] = z
    return values


def _optimal(
    done: Eliminated, core: torch.Tensor, z: torch.Tensor, values: Mapping[str, torch.Tensor], at: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The core before a constraint, and z = E^-1 (S v + U_z c)."""
    for name, cross in done.cross.items():
        z = z + cross[None, :, None] * values[name]
    if done.factor is not None and done.columns is not None:
        factor = _at(done.factor, at).to(z.dtype)
        core = torch.nn.functional.pad(core[:, : done.kept], (0, 0, 0, factor.shape[-1] - done.kept))
        core = torch.linalg.solve_triangular(factor.mH, core, upper=True)
        z = z + _at(done.columns, at).to(z.dtype) @ core
    core = core[:, : done.width]
    if done.inverse is None:
        return core, z
    inverse = _at(done.inverse, at)
    return core, inverse[:, :, None] * z if inverse.dim() == 2 else inverse.to(z.dtype) @ z


def _core_of(columns: Mapping[str, torch.Tensor], values: Mapping[str, torch.Tensor], at: torch.Tensor) -> torch.Tensor:
    parts = [_at(each, at).mH.to(values[name].dtype) @ values[name] for name, each in columns.items()]
    return sum(parts[1:], start=parts[0])


def core_at(form: Form, values: Mapping[str, torch.Tensor], at: torch.Tensor) -> torch.Tensor:
    """The core of a form at some differences, (frequencies, k, m)."""
    if form.columns:
        return _core_of(form.columns, values, at)
    some = next(iter(values.values()))
    return some.new_zeros(len(at), form.width, some.shape[-1])


def _at(blocks: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return blocks if len(blocks) == 1 else blocks[at]
