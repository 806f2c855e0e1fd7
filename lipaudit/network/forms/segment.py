"""A part of a network between two metrics: the smallest t with <dy, Q dy> <= t <dx, P dx>, for given multipliers, and its derivatives.

Q and P are diagonal, one weight per unit of the tensors at its two ends; t is the largest eigenvalue of P^-1/2 H P^-1/2 over all
frequencies, H the form at the inputs. For a search it is smoothed: (1 / s) log sum_k exp(s log t_k) over the leading eigenvalues.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from lipaudit.network.forms.elimination import Eliminated, Form, InfeasibleError, core_at, eliminate, push_forward
from lipaudit.network.forms.multipliers import count, per_unit, slack, start
from lipaudit.network.forms.spaces import Space
from lipaudit.network.forms.steps import Constraint, Linear, Program, Tensor

# Leading eigenvectors per frequency, and how many matrices' eigenvalues are all computed: frequencies times size^3.
_LEADING, _ALL_EIGENVALUES = 4, 2e8
# Frequencies and eigenvectors of less weight than this have no part in a derivative.
_NEGLIGIBLE = 1e-6


@dataclass(eq=False)
class Segment:
    """A program in a space. ``places`` says where the multipliers of a constraint stand in the vector of all unknowns."""

    program: Program
    space: Space
    places: dict[str, slice] = field(default_factory=dict)
    _vectors: torch.Tensor | None = field(default=None, repr=False)

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

    def start(self, logs: torch.Tensor, outer: Mapping[str, torch.Tensor], how: str) -> torch.Tensor:
        """Fill in feasible multipliers from the outputs to the inputs; returns the form at the only input, (frequencies, n, n).

        Raises:
            InfeasibleError: where rounding leaves none.
        """

        def choose(step: Constraint, diagonal: torch.Tensor | None, columns: torch.Tensor | None) -> torch.Tensor:
            place = self.places[step.output.name]
            logs[place] = start(step, diagonal, columns, how, self.space)
            return logs[place].exp()

        form = self._outer(outer)
        eliminate(self.program, self.space, form, choose)
        return self._joined(form)

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
        form = self._outer(outer)
        eliminated = eliminate(
            self.program, self.space, form, lambda step, *_: logs[self.places[step.output.name]].exp()
        )
        matrix = self._joined(form)
        roots = self._roots(inner)
        matrix = roots[:, None] * matrix * roots
        values, vectors = self._leading(matrix)
        if not bool(torch.isfinite(values).all()):
            raise InfeasibleError("the input")
        log_values = values.clamp_min(1e-300).log()
        top = float(log_values.max())
        if math.isinf(sharpness):
            return top, torch.zeros_like(logs), {}, {}
        weights = torch.softmax(sharpness * (log_values - top).flatten(), 0).reshape(log_values.shape)
        smooth = top + float(torch.logsumexp(sharpness * (log_values - top).flatten(), 0)) / sharpness
        at = (weights.amax(1) > _NEGLIGIBLE).nonzero().flatten()
        columns = vectors[at] * (weights[at] / values[at].clamp_min(1e-300)).sqrt()[:, None, :]
        sizes = [self.space.positions(tensor) for tensor in self.program.inputs]
        names = [tensor.name for tensor in self.program.inputs]
        inputs = dict(zip(names, torch.split(roots[:, None] * columns, sizes, 1), strict=True))
        slope, out = self._derivatives(logs, outer, eliminated, inputs, core_at(form, inputs, at), at)
        shares = (weights[at][:, None, :] * vectors[at].abs() ** 2).sum((0, 2))
        parts = torch.split(shares, sizes)
        into = {
            tensor.name: -per_unit(part, self.space.metric_units(tensor), len(inner[tensor.name]))
            for tensor, part in zip(self.program.inputs, parts, strict=True)
        }
        return smooth, slope, out, into

    def _derivatives(
        self,
        logs: torch.Tensor,
        outer: Mapping[str, torch.Tensor],
        eliminated: Mapping[str, Eliminated],
        inputs: Mapping[str, torch.Tensor],
        core: torch.Tensor,
        at: torch.Tensor,
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        values = push_forward(self.program, self.space, eliminated, inputs, core, at)
        slope = torch.zeros_like(logs)
        for step in self.constraints:
            if step.output.name in eliminated and eliminated[step.output.name].passed is None:
                place = self.places[step.output.name]
                slope[place] = slack(step, logs[place].exp(), values[step.output.name], values, self.space)
        out: dict[str, torch.Tensor] = {}
        for output in self.program.outputs:
            squares = (values[output.name].abs() ** 2).sum((0, 2))
            part = outer[output.name] * per_unit(squares, self.space.metric_units(output), len(outer[output.name]))
            out[output.name] = out[output.name] + part if output.name in out else part
        return slope, out

    def _roots(self, inner: Mapping[str, torch.Tensor]) -> torch.Tensor:
        return torch.cat([inner[t.name][self.space.metric_units(t)] for t in self.program.inputs]).rsqrt()

    def _joined(self, form: Form) -> torch.Tensor:
        return joined(form, self.program.inputs, self.space)

    def _leading(self, matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The leading eigenvalues (frequencies, r) and their vectors; by subspace iteration from those of the last time if it is large."""
        size = matrix.shape[-1]
        r = min(_LEADING, size)
        if len(matrix) * size**3 <= _ALL_EIGENVALUES:
            values, vectors = torch.linalg.eigh(matrix)
            return values[:, -r:], vectors[:, :, -r:]
        vectors, rounds = self._vectors, 2
        if vectors is None:
            generator = torch.Generator().manual_seed(0)
            vectors = torch.randn(len(matrix), size, r, generator=generator, dtype=torch.float64).to(matrix.dtype)
            rounds = 12
        for _ in range(rounds):
            vectors = torch.linalg.qr(matrix @ vectors)[0]
        small = vectors.mH @ matrix @ vectors
        values, turned = torch.linalg.eigh((small + small.mH) / 2)
        self._vectors = vectors @ turned
        return values, self._vectors


def joined(form: Form, inputs: Sequence[Tensor], space: Space) -> torch.Tensor:
    """The form at the inputs as one matrix, the inputs one behind the other."""
    return form.matrix([each.name for each in inputs], [space.positions(each) for each in inputs])
