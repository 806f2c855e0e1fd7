"""Proof of a segment's bound from its multipliers and metrics, in float64 with margins for every rounding.

The elimination of :mod:`lipaudit.network.forms.elimination` is done once more. What a computed block may be off by is bounded in the
Frobenius norm and added to the diagonal of the form, 2 |x_a* E x_b| <= ||E|| (s |x_a|^2 + |x_b|^2 / s) for every s > 0, so that the
form stays an upper bound in exact arithmetic:

- products: |fl(A* B) - A* B| <= gamma |A|* |B| (Higham, *Accuracy and Stability of Numerical Algorithms*, section 3.5; complex
  ones by :mod:`lipaudit.spectral.rounding`), in norm gamma ||A||_F ||B||_F, or gamma |||A||| ||B||_F for a linear map, with
  |||A|||^2 the largest row sum of |A| times its largest column sum;
- weights that are known up to a relative error e: an operator that is off by at most e |||A|||;
- X = M - H: the Cholesky factor C of X - mu I satisfies C C* <= X if mu is at least the backward error (section 10.1), so that
  B* X^-1 B <= B* (C C*)^-1 B; the computed W = C^-1 B is off by at most gamma ||C||_F ||W||_F / sigma_min(C) (section 8.1), and
  sigma_min(C) is bounded from below by a second factorisation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from lipaudit.network.forms.elimination import Form, InfeasibleError, multiplier_matrix, with_diagonal
from lipaudit.network.forms.multipliers import terms
from lipaudit.network.forms.pass_through import pass_through, passes_through
from lipaudit.network.forms.segment import joined
from lipaudit.network.forms.spaces import Space
from lipaudit.network.forms.steps import Constraint, Linear, Program
from lipaudit.spectral.matrix.cholesky_certificate import is_below
from lipaudit.spectral.rounding import UNIT_ROUNDOFF, product_error

# Sums of the norms below are sums of squares of computed numbers: their own rounding is far below this.
_UP = 1 + 2.0**-30
_TINY = 1e-290


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
    form = Form()
    for output in program.outputs:
        form.add_diagonal(output.name, outer[output.name][space.metric_units(output)].to(torch.float64))
    for step in reversed(program.steps):
        if isinstance(step, Linear):
            _put_in(form, step, space)
        else:
            _maximise(form, step, multipliers[step.output.name], space)
    roots = torch.cat([inner[t.name][space.metric_units(t)] for t in program.inputs]).rsqrt()
    matrix = joined(form, program.inputs, space)
    if not bool(torch.isfinite(torch.view_as_real(matrix) if matrix.is_complex() else matrix).all()):
        raise InfeasibleError("the input")
    # the roots and both products: five roundings of every entry
    error = (
        8 * UNIT_ROUNDOFF * float((matrix.abs() * (roots[:, None] * roots)).square().sum((-1, -2)).sqrt().max()) * _UP
    )
    return _largest_eigenvalue(roots[:, None] * matrix * roots, error)


def _norm(matrix: torch.Tensor) -> float:
    """An upper bound of the Frobenius norm, over all frequencies."""
    return float(torch.linalg.vector_norm(matrix, dim=(-2, -1)).max()) * _UP


def _rows(diagonal: torch.Tensor) -> torch.Tensor:
    return diagonal[None] if diagonal.dim() == 1 else diagonal


def _put_in(form: Form, step: Linear, space: Space) -> None:
    own, rows = form.take(step.output.name)
    maps = space.maps(step)
    names = [source.name for source in step.sources]
    errors: dict[tuple[str, str], float] = {}

    def off(a: str, b: str, error: float) -> None:
        errors[a, b] = errors.get((a, b), 0.0) + error * _UP

    for source, each in zip(names, maps, strict=True):
        for name, row in rows.items():
            block = each.adjoint(row)
            off(source, name, (each.rounding + each.uncertainty) * _norm(row) * (2 if name == source else 1))
            off(source, name, _added(form, source, name, block + block.mH if name == source else block))
    if own is not None:
        size = _norm(own)
        pulled = [each.adjoint(own) for each in maps]
        for i, first in enumerate(names):
            for k in range(i, len(names)):
                block = maps[k].adjoint(pulled[i].mH).mH
                inner = (maps[i].rounding + maps[i].uncertainty) * size  # of A_i* G
                outer = (maps[k].rounding + maps[k].uncertainty) * (_norm(pulled[i]) + inner)
                off(first, names[k], inner * (maps[k].absolute + maps[k].uncertainty) + outer)
                off(first, names[k], _added(form, first, names[k], (block + block.mH) / 2 if i == k else block))
    _add_errors(form, errors)


def _added(form: Form, a: str, b: str, block: torch.Tensor) -> float:
    """Add a block, itself a sum of two perhaps, to the form; how far rounding may take the block of the form by that."""
    form.add(a, b, block)
    result = form.get(a, b)
    assert result is not None
    return 4 * UNIT_ROUNDOFF * (_norm(block) + _norm(result))


def _add_errors(form: Form, errors: Mapping[tuple[str, str], float]) -> None:
    """Make up for blocks that are off."""
    diagonals: dict[str, float] = {}
    sizes: dict[str, int] = {}
    for (a, b), error in errors.items():
        block = form.get(a, b)
        if block is None:
            raise InfeasibleError(a)
        sizes[a], sizes[b] = block.shape[-2], block.shape[-1]
        first, second = (_scale(form.get(name, name)) for name in (a, b))
        weight = math.sqrt(first / second) if first > 0 and second > 0 else 1.0
        if a == b:
            diagonals[a] = diagonals.get(a, 0.0) + error
        else:
            diagonals[a] = diagonals.get(a, 0.0) + error * weight
            diagonals[b] = diagonals.get(b, 0.0) + error / weight
    for name, error in diagonals.items():
        # the addition itself is rounded
        error = error * _UP + 4 * UNIT_ROUNDOFF * _scale(form.get(name, name)) + _TINY
        form.add_diagonal(name, torch.full((sizes[name],), error, dtype=torch.float64))


def _scale(own: torch.Tensor | None) -> float:
    return 0.0 if own is None else float(own.diagonal(dim1=-2, dim2=-1).abs().max())


def _maximise(form: Form, step: Constraint, multipliers: torch.Tensor, space: Space) -> None:
    own, rows = form.take(step.output.name)
    if own is None and not rows:
        return
    if passes_through(step, own, rows):
        assert own is not None
        for name, diagonal in pass_through(step, own, space).items():
            form.add_diagonal(name, diagonal * (1 + 2.0**-40))  # sums over at most some thousand windows
            _add_errors(form, {(name, name): 0.0})
        return
    added = terms(step, multipliers, space)
    n = space.positions(step.output)
    x = multiplier_matrix(added.output, own)
    for name, diagonal in added.cross.items():
        rows[name] = with_diagonal(rows.get(name), diagonal, x)
    # each entry of X was rounded a few times (a product, a sum over a group, the difference); so were S and what it was added to
    off = 8 * UNIT_ROUNDOFF * (_norm(_rows(added.output)) + _norm(x))
    crossed = {
        name: 4 * UNIT_ROUNDOFF * (float(diagonal.abs().max()) + float(rows[name].abs().max())) * _UP
        for name, diagonal in added.cross.items()
    }
    off += sum(crossed.values())
    factor, smallest = _factor(x, off, step.output.name)
    names = list(rows)
    halves = {name: torch.linalg.solve_triangular(factor, rows[name].to(factor.dtype), upper=False) for name in names}
    norms = {name: _norm(half) for name, half in halves.items()}
    unit = product_error(n, complex_entries=factor.is_complex())
    solved = {name: 2 * unit * _norm(factor) * norms[name] / smallest * _UP for name in names}
    errors: dict[tuple[str, str], float] = {}
    for i, first in enumerate(names):
        for second in names[i:]:
            a, b = norms[first], norms[second]
            errors[first, second] = _added(form, first, second, halves[first].mH @ halves[second])
            errors[first, second] += (unit * a * b + solved[first] * (b + solved[second]) + a * solved[second]) * _UP
    for name, diagonal in added.sources.items():
        form.add_diagonal(name, diagonal)
        errors[name, name] = errors.get((name, name), 0.0) + 8 * UNIT_ROUNDOFF * _norm(_rows(diagonal))
    for name, error in crossed.items():  # what the rounding of S may cost the input
        errors[name, name] = errors.get((name, name), 0.0) + error
    _add_errors(form, errors)


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
    for share in (0.5, 0.1, 0.01):
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
    for _ in range(12):
        y = torch.cholesky_solve(x, factor)
        growth = torch.linalg.vector_norm(y, dim=(1, 2)) / torch.linalg.vector_norm(x, dim=(1, 2))
        x = y / torch.linalg.vector_norm(y, dim=(1, 2), keepdim=True)
    return 1 / float(growth.max())


def _largest_eigenvalue(matrix: torch.Tensor, error: float) -> float:
    """A proved upper bound of the largest eigenvalue, for a matrix that may be off by ``error`` in norm."""
    estimate = float(_estimate(matrix))
    for excess in (2.0**-44, 2.0**-40, 2.0**-34, 2.0**-28, 2.0**-22, 2.0**-16, 2.0**-12, 2.0**-8):
        bound = max(estimate, 0.0) * (1 + excess) + 2 * error + _TINY
        if bool(is_below(matrix, error, bound).all()):
            return bound
    raise InfeasibleError("the input")


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
