"""Proof of a segment's bound from its multipliers and metrics, in float64 with margins for every rounding.

The elimination of :mod:`lipaudit.network.forms.elimination` is done once more, so that in exact arithmetic the computed diagonals D_a,
columns U_a, slacks e_a and the scale r always satisfy

    |dy|_Q^2 <= r (sum_a <x_a, (D_a + e_a) x_a> + |sum_a U_a* x_a|^2)

for the differences x_a of the tensors that are alive. Every frequency is a proof of its own, which is why they are taken in parts.

- Columns that are off by E_a: |sum_a (U_a + E_a)* x_a|^2 <= (1 + s) |sum_a U_a* x_a|^2 + (1 + 1 / s) m sum_a |E_a|^2 |x_a|^2 for m
  tensors and every s > 0: a scale 1 + s and slacks. Multipliers may be scaled with the form: all that are positive are allowed.
- Products: |fl(A* B) - A* B| <= gamma |A|* |B| (Higham, *Accuracy and Stability of Numerical Algorithms*, section 3.5; complex
  ones by :mod:`lipaudit.spectral.rounding`), in norm gamma |||A||| ||B||_F for a linear map, with |||A|||^2 the largest row sum of |A|
  times its largest column sum; weights that are known up to a relative error e are off by at most e |||A|||.
- T = I - U_z* E^-1 U_z: the Cholesky factor C of T - mu I satisfies C C* <= T if mu is at least the backward error (section 10.1) and
  what T itself is off by, so that T^-1 <= (C C*)^-1; the computed U C^-* is off by at most gamma ||C||_F ||U C^-*||_F / sigma_min(C)
  (section 8.1), and sigma_min(C) is bounded from below by a second factorisation.
- Columns are replaced by the Cholesky factor of U U* + D + mu I, in coordinates in which the rows have norms of about 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from lipaudit.network.forms.elimination import Form, InfeasibleError, replaces_first, together
from lipaudit.network.forms.multipliers import Terms, terms
from lipaudit.network.forms.parts import in_parts
from lipaudit.network.forms.pass_through import pass_through, passes_through
from lipaudit.network.forms.spaces import Space
from lipaudit.network.forms.steps import Constraint, Linear, Program
from lipaudit.spectral.matrix.cholesky_certificate import is_below
from lipaudit.spectral.rounding import UNIT_ROUNDOFF, product_error

# Sums of the norms below are sums of squares of computed numbers: their own rounding is far below this.
_UP = 1 + 2.0**-30
_TINY = 1e-290
# Frequencies whose eigenvalues are computed before the largest of them is compared with all; steps of the iteration that finds them.
_HIGHEST, _ROUNDS = 8, 8
# A few roundings of one number.
_FEW = 8 * UNIT_ROUNDOFF
# How much of the scale may be given for columns that are off, and how much is given relative to what they are off by.
_LEAST_SHARE, _MOST_SHARE, _PER_ERROR = 2.0**-40, 2.0**-24, 2.0**10


def certified_factor(
    program: Program,
    space: Space,
    multipliers: Mapping[str, torch.Tensor],
    outer: Mapping[str, torch.Tensor],
    inner: Mapping[str, torch.Tensor],
) -> float:
    """A proved t with <dy, Q dy> <= t <dx, P dx> for all pairs of inputs.

    Args:
        program: the steps.
        space: where the forms live.
        multipliers: of every constraint, positive numbers, by the name of its output.
        outer: the diagonal of Q, one weight per unit of every output.
        inner: the diagonal of P, one weight per unit of every input.

    Raises:
        InfeasibleError: if the multipliers prove nothing.
    """
    return max(_factor_of(program, part, multipliers, outer, inner) for part in in_parts(program, space, kept=False))


@dataclass(eq=False)
class _Upper(Form):
    """An upper bound of the form: ``scale`` times a form whose diagonals are larger by one number per tensor."""

    slacks: dict[str, float] = field(default_factory=dict)
    scale: float = 1.0

    def slacken(self, name: str, slack: float) -> None:
        self.slacks[name] = (self.slacks.get(name, 0.0) + slack) * _UP

    def add_diagonal(self, name: str, diagonal: torch.Tensor) -> None:
        """An upper bound of the sum."""
        super().add_diagonal(name, diagonal * (1 + _FEW))

    def make_up(self, errors: Mapping[str, float]) -> None:
        """Make up for columns that are off by so much in the Frobenius norm."""
        off = math.sqrt(sum(error**2 for error in errors.values()))
        if off == 0:
            return
        size = math.sqrt(sum(_norm(columns) ** 2 for columns in self.columns.values()))
        share = min(max(_PER_ERROR * off / max(size, _TINY), _LEAST_SHARE), _MOST_SHARE)
        self.scale *= (1 + share) * (1 + _FEW)
        for name, error in errors.items():
            self.slacken(name, len(errors) / share * error**2 + _TINY)


def _factor_of(
    program: Program,
    space: Space,
    multipliers: Mapping[str, torch.Tensor],
    outer: Mapping[str, torch.Tensor],
    inner: Mapping[str, torch.Tensor],
) -> float:
    form = _Upper()
    sizes = {tensor.name: space.positions(tensor) for tensor in program.tensors}
    for output in program.outputs:
        form.add_diagonal(output.name, outer[output.name][space.metric_units(output)].to(torch.float64))
    for step in reversed(program.steps):
        if step.output.name not in form.diagonals and step.output.name not in form.columns:
            continue
        if isinstance(step, Linear):
            _put_in(form, step, space, sizes)
        else:
            _maximise(form, step, multipliers[step.output.name], space)
    names = [tensor.name for tensor in program.inputs]
    diagonals, columns = form.stacked(names, [sizes[name] for name in names])
    slacks = torch.cat([torch.full((sizes[name],), form.slacks.get(name, 0.0), dtype=torch.float64) for name in names])
    roots = torch.cat([inner[t.name][space.metric_units(t)] for t in program.inputs]).rsqrt()
    diagonals = (diagonals + slacks) * roots**2
    if not form.columns:
        largest = float(diagonals.max()) * (1 + _FEW)
        if not math.isfinite(largest):
            raise InfeasibleError("the input")
        return (largest * form.scale + _TINY) * (1 + _FEW)
    columns = roots[:, None] * columns
    rest = 0.0
    if not form.diagonals and form.width < columns.shape[-2]:  # U* U has the eigenvalues of U U*
        matrix, rest = columns.mH @ columns, float(diagonals.max())
    else:
        matrix = columns @ columns.mH
        matrix = matrix + torch.diag_embed(diagonals)
    if not bool(torch.isfinite(torch.view_as_real(matrix) if matrix.is_complex() else matrix).all()):
        raise InfeasibleError("the input")
    size = _norm(columns) ** 2
    error = (product_error(max(columns.shape[-2:]), complex_entries=matrix.is_complex()) + 2 * _FEW) * size
    error += 2 * _FEW * (float(diagonals.max()) + size)
    return (_largest_eigenvalue(matrix, error * _UP) + rest) * form.scale * (1 + _FEW)


def _norm(matrix: torch.Tensor) -> float:
    """An upper bound of the Frobenius norm, over all frequencies."""
    real = torch.view_as_real(matrix.resolve_conj()) if matrix.is_complex() else matrix
    return float(torch.linalg.vector_norm(real.flatten(1), dim=-1).max()) * _UP


def _put_in(form: _Upper, step: Linear, space: Space, sizes: Mapping[str, int]) -> None:
    name, maps = step.output.name, space.maps(step)
    slack = form.slacks.pop(name, 0.0)
    if name in form.diagonals and len(maps) == 1 and (squares := maps[0].squares) is not None:
        entries = squares.sqrt() * (1 + _FEW) + maps[0].uncertainty
        form.add_diagonal(step.sources[0].name, (entries**2 * form.diagonals.pop(name)) * (1 + _FEW))
    if name in form.diagonals:
        others = sum(sizes[other] for other in form.columns if other != name)
        before = others + sizes[name]
        after = others + sum(sizes[source.name] for source in step.sources if source.name not in form.columns)
        if replaces_first(form.width, sizes[name], before, after):
            form.diagonals[name] = (form.diagonals[name] + slack) * (1 + _FEW)
            slack = 0.0
            _replace(form, name, sizes)
    width = form.width
    diagonal, columns = form.take(name)
    size, roots = 0.0, None
    if columns is not None:
        size = _norm(columns)
    if diagonal is not None:
        roots = ((diagonal + slack) * (1 + _FEW)).sqrt() * (1 + _FEW)
        slack = 0.0
        form.append(sizes[name])
        size = math.hypot(size, float(torch.linalg.vector_norm(roots, dim=-1).max()) * _UP)
    errors = {}
    for source, each in zip(step.sources, maps, strict=True):
        if columns is None and roots is None:
            break
        off = (each.rounding + each.uncertainty) * size
        blocks = [] if columns is None else [each.adjoint(columns)]
        if roots is not None:
            added = each.adjoint_of_diagonal(roots)
            blocks = [*blocks, added] if blocks else [torch.nn.functional.pad(added, (width, 0))]
        form.add_columns(source.name, beside(blocks))
        errors[source.name] = (off + 2 * UNIT_ROUNDOFF * _norm(form.columns[source.name])) * _UP
    if slack > 0:
        for source, each in zip(step.sources, maps, strict=True):
            form.slacken(source.name, len(maps) * (each.absolute + each.uncertainty) ** 2 * slack)
    form.make_up(errors)
    if form.width > sum(sizes[other] for other in form.columns):
        _replace(form, None, sizes)


def beside(blocks: list[torch.Tensor]) -> torch.Tensor:
    """Columns beside each other, those of one frequency repeated."""
    return together([block.mT for block in blocks]).mT


def _replace(form: _Upper, merged: str | None, sizes: Mapping[str, int]) -> None:
    """Columns as many as the positions that have any, whose squares are no smaller; those of ``merged`` take up its diagonal."""
    names = [name for name in sizes if name in form.columns or name == merged]
    kept = {name: diagonal for name, diagonal in form.diagonals.items() if name != merged}
    form.diagonals = {merged: form.diagonals[merged]} if merged is not None else {}
    diagonals, columns = form.stacked(names, [sizes[name] for name in names])
    form.diagonals = kept
    squares = torch.linalg.vector_norm(columns, dim=-1) ** 2 + diagonals
    _, exponents = torch.frexp(squares.sqrt().clamp_min(2.0**-400))
    scales = torch.exp2(exponents.to(torch.float64))
    columns, diagonals = columns / scales[:, :, None], diagonals / scales**2
    matrix = columns @ columns.mH
    matrix = matrix + torch.diag_embed(diagonals)
    error = product_error(columns.shape[-1], complex_entries=matrix.is_complex()) * _norm(columns) ** 2
    trace = float(matrix.diagonal(dim1=-2, dim2=-1).real.sum(-1).max())
    backward = 4 * product_error(matrix.shape[-1], complex_entries=matrix.is_complex()) * 1.01 * trace
    matrix.diagonal(dim1=-2, dim2=-1).add_((error + backward + _FEW * trace) * _UP)
    factor, info = torch.linalg.cholesky_ex(matrix)
    if bool((info != 0).any()):
        raise InfeasibleError(names[0])
    parts = torch.split(scales[:, :, None] * factor, [sizes[name] for name in names], 1)
    form.columns = dict(zip(names, parts, strict=True))
    form.width = factor.shape[-1]


def _maximise(form: _Upper, step: Constraint, multipliers: torch.Tensor, space: Space) -> None:
    name = step.output.name
    diagonal, columns = form.take(name)
    slack = form.slacks.pop(name, 0.0)
    own = torch.zeros(1, space.positions(step.output), dtype=torch.float64) if diagonal is None else diagonal
    own = (own + slack) * (1 + _FEW)
    if passes_through(step, columns):
        for source, passed in pass_through(step, own, space).items():
            form.add_diagonal(source, passed * (1 + 2.0**-40))  # sums over at most some thousand windows
        return
    added = terms(step, multipliers, space)
    if added.output.dim() > 1:
        _maximise_groups(form, step, added, own, columns)
        return
    # each entry of S and M_v was rounded a few times
    crossed = {source: 4 * UNIT_ROUNDOFF * cross.abs() for source, cross in added.cross.items()}
    gap = (added.output - own - sum(crossed.values(), start=torch.zeros(1, dtype=torch.float64))) * (1 - _FEW)
    if not bool((gap > 0).all()):
        raise InfeasibleError(name)
    for source, cross in added.cross.items():
        form.add_diagonal(source, (cross**2 / gap + crossed[source]) * (1 + _FEW))
    for source, square in added.sources.items():
        form.add_diagonal(source, square * (1 + _FEW))
    if columns is None:
        return
    errors = dict.fromkeys(form.columns, 0.0)
    for source, cross in added.cross.items():
        moved = (cross / gap)[:, :, None] * columns
        form.add_columns(source, moved)
        errors[source] = _FEW * (_norm(moved) + _norm(form.columns[source]))
    _solve(form, columns / gap.sqrt()[:, :, None], _FEW, errors, name)


def _maximise_groups(
    form: _Upper, step: Constraint, added: Terms, own: torch.Tensor, columns: torch.Tensor | None
) -> None:
    """Matrices M_z and M_v."""
    matrix, size = added.output, len(added.output)
    form.append(size)
    roots = torch.diag_embed(own.sqrt() * (1 + _FEW))
    columns = torch.nn.functional.pad(roots, (form.width - size, 0)) if columns is None else beside([columns, roots])
    off = _FEW * _norm(matrix[None])
    root, smallest = _factor(matrix[None], off, step.output.name)
    half = torch.linalg.solve_triangular(root.to(columns.dtype), columns, upper=False)
    unit = product_error(size, complex_entries=half.is_complex())
    relative = 2 * unit * _norm(root) / smallest + _FEW
    _solve(form, half, relative, dict.fromkeys(form.columns, 0.0), step.output.name)
    kept = form.width
    form.append(size)
    for name, inner in added.sources.items():
        above = inner[None].clone()
        trace = float(inner.diagonal().sum())
        backward = 4 * product_error(size, complex_entries=False) * 1.01 * trace
        above.diagonal(dim1=-2, dim2=-1).add_((_FEW * _norm(inner[None]) + backward + _FEW * trace) * _UP)
        form.add_columns(name, torch.nn.functional.pad(torch.linalg.cholesky(above), (kept, 0)))
        form.make_up({name: _FEW * _norm(form.columns[name])})


def _solve(form: _Upper, half: torch.Tensor, relative: float, errors: dict[str, float], name: str) -> None:
    """U C^-* for all columns, C C* <= I - half* half; ``half`` is off by ``relative``, the columns by ``errors``."""
    matrix = -(half.mH @ half)
    matrix.diagonal(dim1=-2, dim2=-1).add_(1.0)
    unit = product_error(half.shape[-2], complex_entries=half.is_complex())
    size = _norm(half) ** 2
    factor, smallest = _factor(matrix, ((unit + 3 * relative) * size + _FEW * (1 + size)) * _UP, name)
    unit = product_error(factor.shape[-1], complex_entries=factor.is_complex()) * _norm(factor)
    for other, columns in form.columns.items():
        dtype = torch.promote_types(columns.dtype, factor.dtype)
        solved = torch.linalg.solve_triangular(factor.mH.to(dtype), columns.to(dtype), upper=True, left=False)
        form.columns[other] = solved
        errors[other] = (errors[other] + 2 * unit * _norm(solved)) / smallest * _UP
    form.make_up(errors)
    if not form.columns:
        form.width = 0


def _factor(x: torch.Tensor, off: float, name: str) -> tuple[torch.Tensor, float]:
    """Cholesky factors C with C C* <= X, and a lower bound of their smallest singular value.

    ``off`` bounds the spectral norm by which X may be wrong.
    """
    n = x.shape[-1]
    trace = float(x.diagonal(dim1=-2, dim2=-1).real.abs().sum(-1).max())
    backward = 4 * product_error(n, complex_entries=x.is_complex()) * trace * _UP
    factor = _lowered(x, off + backward)
    if factor is None:
        raise InfeasibleError(name)
    lowest = _inverse_iteration(factor)
    for share in (0.1, 0.01, 0.001):
        square = share * lowest - 2 * backward
        # C C* = X' + error of norm at most backward for X' = X - (off + backward) I, and X' - share lowest I >= -backward
        if square > 0 and _lowered(x, off + backward + share * lowest) is not None:
            return factor, math.sqrt(square) * (1 - 2.0**-30)
    raise InfeasibleError(name)


def _lowered(x: torch.Tensor, shift: float) -> torch.Tensor | None:
    """The Cholesky factors of X - shift I, None where there are none."""
    shifted = x.clone()
    shifted.diagonal(dim1=-2, dim2=-1).sub_(shift)
    factor, info = torch.linalg.cholesky_ex(shifted)
    return None if bool((info != 0).any()) else factor


def _inverse_iteration(factor: torch.Tensor) -> float:
    """An estimate of the smallest eigenvalue of all C C*."""
    x = (
        torch.linspace(1.0, 2.0, factor.shape[-1], dtype=torch.float64)
        .to(factor.dtype)[:, None]
        .expand(len(factor), -1, 1)
    )
    growth = torch.ones(1, dtype=torch.float64)
    for _ in range(4):
        y = torch.cholesky_solve(x, factor)
        growth = torch.linalg.vector_norm(y, dim=(1, 2)) / torch.linalg.vector_norm(x, dim=(1, 2))
        x = y / torch.linalg.vector_norm(y, dim=(1, 2), keepdim=True)
    return 1 / float(growth.max())


def _largest_eigenvalue(matrix: torch.Tensor, error: float) -> float:
    """A proved upper bound of the largest eigenvalue, for a matrix that may be off by ``error`` in norm."""
    estimate = float(_estimate(matrix[_highest(matrix)]))
    for excess in (2.0**-44, 2.0**-40, 2.0**-34, 2.0**-28, 2.0**-22, 2.0**-16, 2.0**-12, 2.0**-8):
        bound = max(estimate, 0.0) * (1 + excess) + 2 * error + _TINY
        below = is_below(matrix, error, bound)
        if bool(below.all()):
            return bound
        estimate = max(estimate, float(_estimate(matrix[~below])))
    raise InfeasibleError("the input")


def _highest(matrix: torch.Tensor) -> torch.Tensor:
    """Some frequencies, among them very likely the one with the largest eigenvalue: the bound that they give is tried on all."""
    if len(matrix) <= _HIGHEST:
        return torch.arange(len(matrix))
    x = torch.randn(matrix.shape[-1], 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x = x.to(matrix.dtype).expand(len(matrix), -1, 1)
    for _ in range(_ROUNDS):
        x = matrix @ x
        size = torch.linalg.vector_norm(x, dim=(1, 2))
        x = x / size.clamp_min(_TINY)[:, None, None]
    highest: torch.Tensor = size.topk(_HIGHEST).indices
    return highest


def _estimate(matrix: torch.Tensor) -> torch.Tensor:
    if len(matrix) * matrix.shape[-1] ** 3 <= 1e9:
        values: torch.Tensor = torch.linalg.eigvalsh(matrix)
        return values.amax()
    x = torch.linspace(1.0, 2.0, matrix.shape[-1], dtype=torch.float64).to(matrix.dtype)[:, None]
    x = x.expand(len(matrix), -1, 1)
    for _ in range(100):
        x = matrix @ x
        x = x / torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True).clamp_min(_TINY)
    return (x.mH @ matrix @ x).real.amax()
