"""A part of a network between two metrics: the smallest t with <dy, Q dy> <= t <dx, P dx>, for given multipliers, and its derivatives.

Q and P are diagonal, one weight per unit of the tensors at its two ends; t is the largest eigenvalue of P^-1/2 H P^-1/2 over all
frequencies, H the form at the inputs. For a search it is smoothed: (1 / s) log sum_k exp(s log t_k) over the leading eigenvalues.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from lipaudit.network.forms.cost import ALL_EIGENVALUES
from lipaudit.network.forms.elimination import (
    Choice,
    Eliminated,
    Form,
    InfeasibleError,
    core_at,
    eliminate,
    push_forward,
)
from lipaudit.network.forms.multipliers import count, per_unit, slack, start
from lipaudit.network.forms.parts import fitting, in_parts
from lipaudit.network.forms.spaces import Space
from lipaudit.network.forms.steps import Constraint, Linear, Program, Tensor
from lipaudit.network.forms.symbol_space import SymbolSpace

# Leading eigenvectors per frequency.
_LEADING = 4
# Frequencies and eigenvectors of less weight than this have no part in a derivative.
_NEGLIGIBLE = 1e-6


@dataclass(eq=False)
class Segment:
    """A program in a space. ``places`` says where the multipliers of a constraint stand in the vector of all unknowns.

    A search may look at some of the frequencies only (``chosen``); :meth:`by_frequency` looks at all of them.
    """

    program: Program
    space: Space
    places: dict[str, slice] = field(default_factory=dict)
    chosen: torch.Tensor | None = None
    _parts: list[Space] = field(default_factory=list, repr=False)
    _vectors: dict[int, torch.Tensor] = field(default_factory=dict, repr=False)

    def choose(self, frequencies: torch.Tensor | None) -> None:
        """Search on some of the frequencies, by their numbers; None for all."""
        self.chosen, self._parts = frequencies, []
        self.forget()

    def forget(self) -> None:
        """Forget the eigenvectors of the last point, from which those of a point nearby are found."""
        self._vectors.clear()

    @property
    def searched(self) -> Space:
        """The frequencies that are searched on."""
        if self.chosen is not None and isinstance(self.space, SymbolSpace):
            return self.space.at(self.chosen)
        return self.space

    @property
    def parts(self) -> list[Space]:
        """The frequencies that are searched on, in parts that fit into memory."""
        if not self._parts:
            space = self.searched
            self._parts = in_parts(self.program, space, kept=True)
        return self._parts

    @property
    def constraints(self) -> list[Constraint]:
        """The steps with multipliers."""
        return [step for step in self.program.steps if not isinstance(step, Linear)]

    def number(self, first: int) -> int:
        """Give the multipliers places from ``first`` on; the next free place."""
        for step in self.constraints:
            self.places[step.output.name] = slice(first, first + count(step, self.space))
            first = self.places[step.output.name].stop
        return first

    def start(self, logs: torch.Tensor, outer: Mapping[str, torch.Tensor], how: str) -> tuple[Form, Space]:
        """Fill in multipliers from the outputs to the inputs that are feasible at the frequencies that are searched on.

        Where their forms do not fit into memory at once, each part raises the multipliers to what it needs, in two rounds: what a later
        part raises makes the forms of an earlier one larger, by less than the room that a start leaves.

        Returns:
            the form at the inputs of the last part, and the frequencies that it is of.

        Raises:
            InfeasibleError: where rounding leaves none.
        """
        spaces = in_parts(self.program, self.searched, kept=False)
        begun = set[str]()
        for space in spaces if len(spaces) == 1 else (*spaces, *spaces):
            form = self._outer(outer)

            def choose(
                step: Constraint,
                diagonal: torch.Tensor | None,
                columns: torch.Tensor | None,
                space: Space = space,
                form: Form = form,
            ) -> torch.Tensor:
                place = self.places[step.output.name]
                needed = start(step, diagonal, columns, how, space, coupled=bool(form.columns))
                logs[place] = torch.maximum(logs[place], needed) if step.output.name in begun else needed
                begun.add(step.output.name)
                return logs[place].exp()

            eliminate(self.program, space, form, choose)
        return form, space

    def _outer(self, outer: Mapping[str, torch.Tensor]) -> Form:
        """The form at the outputs: the weights of the metric, one per unit; an output that is returned twice counts twice."""
        form = Form()
        for output in self.program.outputs:
            form.add_diagonal(output.name, outer[output.name][self.space.metric_units(output)].to(torch.float64))
        return form

    def value(
        self, logs: torch.Tensor, outer: Mapping[str, torch.Tensor], inner: Mapping[str, torch.Tensor], sharpness: float
    ) -> tuple[float, torch.Tensor, dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """log t, and its derivatives in the logarithms of the multipliers, of the outer and of the inner weights.

        Raises:
            InfeasibleError: if the multipliers prove nothing.
        """
        peaks: list[_Peak] = []
        for number, space in enumerate(self.parts):
            highest = max((peak.top for peak in peaks), default=-math.inf)
            peaks.append(self._peak(number, space, logs, outer, inner, sharpness, highest))
        top = max(peak.top for peak in peaks)
        if math.isinf(sharpness):
            return top, torch.zeros_like(logs), {}, {}
        shares = [math.exp(max(sharpness * (peak.top - top), -700.0)) for peak in peaks]
        total = math.fsum(share * peak.weight for share, peak in zip(shares, peaks, strict=True))
        slope = torch.zeros_like(logs)
        out: dict[str, torch.Tensor] = {}
        into: dict[str, torch.Tensor] = {}
        for share, peak in zip(shares, peaks, strict=True):
            if peak.slope is None:
                continue
            slope += share / total * peak.slope
            for sums, each in ((out, peak.out), (into, peak.into)):
                for name, derivative in each.items():
                    sums[name] = sums.get(name, torch.zeros_like(derivative)) + share / total * derivative
        return top + math.log(total) / sharpness, slope, out, into

    def _peak(
        self,
        number: int,
        space: Space,
        logs: torch.Tensor,
        outer: Mapping[str, torch.Tensor],
        inner: Mapping[str, torch.Tensor],
        sharpness: float,
        highest: float,
    ) -> _Peak:
        """The value and derivatives of one part; no derivatives where it is so far below the highest one that they have no weight."""
        form = self._outer(outer)
        eliminated = eliminate(self.program, space, form, self._multipliers(logs), kept=not math.isinf(sharpness))
        roots = self._roots(inner)
        values, vectors = self._leading(form, space, roots, number)
        if not bool(torch.isfinite(values).all()):
            raise InfeasibleError("the input")
        log_values = values.clamp_min(1e-300).log()
        top = float(log_values.max())
        if math.isinf(sharpness):
            return _Peak(top)
        weights = (sharpness * (log_values - top)).exp()
        if sharpness * (top - highest) < math.log(_NEGLIGIBLE):
            return _Peak(top, float(weights.sum()))
        at = (weights.amax(1) > _NEGLIGIBLE).nonzero().flatten()
        columns = vectors[at] * (weights[at] / values[at].clamp_min(1e-300)).sqrt()[:, None, :]
        sizes = [space.positions(tensor) for tensor in self.program.inputs]
        names = [tensor.name for tensor in self.program.inputs]
        inputs = dict(zip(names, torch.split(roots[:, None] * columns, sizes, 1), strict=True))
        differences = push_forward(self.program, space, eliminated, inputs, core_at(form, inputs, at), at)
        slope, out = self._derivatives(space, logs, outer, eliminated, differences)
        shares = (weights[at][:, None, :] * vectors[at].abs() ** 2).sum((0, 2))
        into = {
            tensor.name: -per_unit(part, space.metric_units(tensor), len(inner[tensor.name]))
            for tensor, part in zip(self.program.inputs, torch.split(shares, sizes), strict=True)
        }
        return _Peak(top, float(weights.sum()), slope, out, into)

    def _derivatives(
        self,
        space: Space,
        logs: torch.Tensor,
        outer: Mapping[str, torch.Tensor],
        eliminated: Mapping[str, Eliminated],
        values: Mapping[str, torch.Tensor],
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        slope = torch.zeros_like(logs)
        for step in self.constraints:
            if step.output.name in eliminated and eliminated[step.output.name].passed is None:
                place = self.places[step.output.name]
                slope[place] = slack(step, logs[place].exp(), values[step.output.name], values, space)
        out: dict[str, torch.Tensor] = {}
        for output in self.program.outputs:
            squares = (values[output.name].abs() ** 2).sum((0, 2))
            part = outer[output.name] * per_unit(squares, space.metric_units(output), len(outer[output.name]))
            out[output.name] = out[output.name] + part if output.name in out else part
        return slope, out

    def by_frequency(
        self, logs: torch.Tensor, outer: Mapping[str, torch.Tensor], inner: Mapping[str, torch.Tensor]
    ) -> torch.Tensor:
        """log t at every frequency, (frequencies,), infinite where the multipliers prove nothing."""
        if not isinstance(self.space, SymbolSpace):
            return torch.tensor([self.value(logs, outer, inner, math.inf)[0]], dtype=torch.float64)
        whole = torch.full((self.space.frequencies,), math.inf, dtype=torch.float64)
        count = fitting(self.program, self.space, kept=False)
        roots = self._roots(inner)
        left = list(torch.split(torch.arange(self.space.frequencies), count))
        while left:
            part = left.pop(0)
            space, form = self.space.at(part), self._outer(outer)
            try:
                eliminate(self.program, space, form, self._multipliers(logs))
            except InfeasibleError as error:
                if error.at is not None and len(error.at) < len(part):
                    kept = torch.ones(len(part), dtype=torch.bool)
                    kept[error.at] = False
                    left.insert(0, part[kept])
                continue
            if not form.columns:
                largest = (diagonals(form, self.program.inputs, space) * roots**2).amax(1)
            elif is_narrow(form, self.program.inputs, space):
                columns = roots[:, None] * stacked_columns(form, self.program.inputs, space)
                largest = largest_of_each(columns.mH @ columns)
            else:
                matrix = joined(form, self.program.inputs, space)
                largest = largest_of_each(roots[:, None] * matrix * roots)
            whole[part] = largest.clamp_min(1e-300).log()
        return whole

    def _multipliers(self, logs: torch.Tensor) -> Choice:
        return lambda step, *_: logs[self.places[step.output.name]].exp()

    def _roots(self, inner: Mapping[str, torch.Tensor]) -> torch.Tensor:
        return torch.cat([inner[t.name][self.space.metric_units(t)] for t in self.program.inputs]).rsqrt()

    def _leading(self, form: Form, space: Space, roots: torch.Tensor, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The leading eigenvalues (frequencies, r) and their vectors; by subspace iteration from those of the last time if it is large."""
        if not form.columns:
            diagonal = diagonals(form, self.program.inputs, space) * roots**2
            largest, places = diagonal.topk(min(_LEADING, diagonal.shape[1]))
            unit = torch.zeros(*diagonal.shape, largest.shape[1], dtype=torch.float64)
            return largest, unit.scatter_(1, places[:, None, :], 1.0)
        if is_narrow(form, self.program.inputs, space):
            columns = roots[:, None] * stacked_columns(form, self.program.inputs, space)
            values, vectors = torch.linalg.eigh(columns.mH @ columns)
            values, vectors = values[:, -_LEADING:].clamp_min(1e-300), vectors[:, :, -_LEADING:]
            return values, (columns @ vectors) * values.rsqrt()[:, None, :]
        matrix = roots[:, None] * joined(form, self.program.inputs, space) * roots
        size = matrix.shape[-1]
        r = min(_LEADING, size)
        if len(matrix) * size**3 <= ALL_EIGENVALUES:
            values, vectors = torch.linalg.eigh(matrix)
            return values[:, -r:], vectors[:, :, -r:]
        vectors, rounds = self._vectors.get(number), 2
        if vectors is None:
            generator = torch.Generator().manual_seed(0)
            vectors = torch.randn(len(matrix), size, r, generator=generator, dtype=torch.float64).to(matrix.dtype)
            rounds = 12
        for _ in range(rounds):
            vectors = torch.linalg.qr(matrix @ vectors)[0]
        small = vectors.mH @ matrix @ vectors
        values, turned = torch.linalg.eigh((small + small.mH) / 2)
        self._vectors[number] = vectors @ turned
        return values, self._vectors[number]


@dataclass(frozen=True, eq=False)
class _Peak:
    """Of some frequencies log t, the sum of exp(s (log t_k - log t)) over the eigenvalues t_k, and the derivatives of log t times it."""

    top: float
    weight: float = 1.0
    slope: torch.Tensor | None = None
    out: Mapping[str, torch.Tensor] = field(default_factory=dict)
    into: Mapping[str, torch.Tensor] = field(default_factory=dict)


def largest_of_each(matrix: torch.Tensor) -> torch.Tensor:
    """The largest eigenvalue of every matrix, to some digits from below where they are large."""
    if len(matrix) * matrix.shape[-1] ** 3 <= ALL_EIGENVALUES:
        values: torch.Tensor = torch.linalg.eigvalsh(matrix)
        return values[:, -1]
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(len(matrix), matrix.shape[-1], _LEADING, generator=generator, dtype=torch.float64).to(matrix.dtype)
    for _ in range(10):
        x = torch.linalg.qr(matrix @ x)[0]
    small = x.mH @ matrix @ x
    largest: torch.Tensor = torch.linalg.eigvalsh((small + small.mH) / 2)[:, -1]
    return largest


def diagonals(form: Form, inputs: Sequence[Tensor], space: Space) -> torch.Tensor:
    """The diagonals at the inputs beside each other, (frequencies, n): the form where it has no columns."""
    parts, _ = form.stacked([each.name for each in inputs], [space.positions(each) for each in inputs])
    return parts


def stacked_columns(form: Form, inputs: Sequence[Tensor], space: Space) -> torch.Tensor:
    """The columns at the inputs one below the other, (frequencies, n, width)."""
    _, columns = form.stacked([each.name for each in inputs], [space.positions(each) for each in inputs])
    return columns


def is_narrow(form: Form, inputs: Sequence[Tensor], space: Space) -> bool:
    """Whether U* U, whose eigenvalues are those of the form U U*, is the smaller matrix."""
    return not form.diagonals and form.width < sum(space.positions(each) for each in inputs)


def joined(form: Form, inputs: Sequence[Tensor], space: Space) -> torch.Tensor:
    """The form at the inputs as one matrix, the inputs one behind the other."""
    return form.matrix([each.name for each in inputs], [space.positions(each) for each in inputs])
