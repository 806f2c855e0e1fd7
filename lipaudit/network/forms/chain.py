"""A network as a chain of segments with free metrics at the cuts between them: L^2 <= product of the segments' t."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import torch

from lipaudit.network.forms.certificate import Certificate
from lipaudit.network.forms.elimination import InfeasibleError
from lipaudit.network.forms.forward import forward_multipliers
from lipaudit.network.forms.multipliers import perron_weights
from lipaudit.network.forms.proof import Part, proved_terms
from lipaudit.network.forms.restrictions import INSIDE
from lipaudit.network.forms.segment import Segment, joined
from lipaudit.network.forms.spaces import channels
from lipaudit.network.forms.steps import Bounded, Program, Tensor


@dataclass(frozen=True, eq=False)
class Scalar:
    """A part of a network of which only its constant is used: |dy| <= exp(log_constant) |dx|."""

    program: Program
    log_constant: float

    @property
    def output(self) -> Tensor:
        """The tensor at its end."""
        return self.program.outputs[0]

    @property
    def source(self) -> Tensor:
        """The tensor that it reads."""
        return self.program.inputs[0]


@dataclass(eq=False)
class Chain:
    """Segments from the network's inputs to its outputs, and where their unknowns stand in one vector of logarithms.

    The metric at a cut has one weight per channel, or per entry of a tensor without pixels; at the network's inputs and outputs it is 1.
    So it is behind and before a constraint on the norm of the whole tensor, which passes the largest weight on: no other weights do better.
    """

    parts: list[Segment | Scalar]
    places: dict[str, slice] = field(default_factory=dict)
    unknowns: int = 0

    def __post_init__(self) -> None:
        for part in self.parts:
            if isinstance(part, Segment):
                self.unknowns = part.number(self.unknowns)
        for before, part in pairwise(self.parts):
            (cut,) = part.program.inputs
            first, *others = part.program.steps
            alone = isinstance(first, Bounded) and all(cut not in step.sources for step in others)
            if alone or isinstance(before.program.steps[-1], Bounded):
                continue
            self.places[cut.name] = slice(self.unknowns, self.unknowns + channels(cut))
            self.unknowns = self.places[cut.name].stop

    def start(self, how: str) -> torch.Tensor:
        """Feasible multipliers and metrics: "norm" and "perron" from the outputs to the inputs, "forward" from the inputs on.

        Raises:
            InfeasibleError: if there are none; "forward" has some for one segment that is a chain of layers.
        """
        logs = torch.zeros(self.unknowns, dtype=torch.float64)
        if how == "forward":
            return self._forward(logs)
        for part in reversed(self.parts):
            if isinstance(part, Scalar):
                continue  # its metric stays 1
            form, space = part.start(logs, self._metrics(part.program.outputs, logs), how)
            (source, *others) = part.program.inputs
            if how == "perron" and not others and source.name in self.places:
                own = _by_channel(joined(form, [source], space), part, source)
                logs[self.places[source.name]] = perron_weights(own, own.shape[-1], channels(source)).log()
        return logs

    def _forward(self, logs: torch.Tensor) -> torch.Tensor:
        part = self.parts[0]
        if not isinstance(part, Segment) or len(self.parts) > 1:
            raise InfeasibleError("a network of several segments")
        multipliers = forward_multipliers(part.program, part.parts[0])
        if multipliers is None:
            raise InfeasibleError("a network that is no chain of layers")
        for name, t in multipliers.items():
            logs[part.places[name]] = math.log(t)
        return logs

    def value(self, logs: torch.Tensor, sharpness: float) -> tuple[float, torch.Tensor]:
        """log of the bound of L^2, smoothed, and its gradient; for an infinite sharpness the bound itself, and zeros.

        Raises:
            InfeasibleError: if the multipliers of a segment prove nothing.
        """
        slope = torch.zeros_like(logs)
        terms = []
        for part in self.parts:
            if isinstance(part, Scalar):
                term, moves = self._scalar(part, logs, sharpness)
            else:
                term, own, out, into = part.value(logs, *self._ends(part, logs), sharpness)
                slope += own
                moves = [*out.items(), *into.items()]
            terms.append(term)
            for name, derivative in moves:
                if name in self.places:
                    slope[self.places[name]] += derivative
        return math.fsum(terms), slope

    def terms(self, logs: torch.Tensor) -> list[float]:
        """log t of every part, on the frequencies that are searched on.

        Raises:
            InfeasibleError: if the multipliers of a segment prove nothing.
        """
        return [
            self._scalar(part, logs, math.inf)[0]
            if isinstance(part, Scalar)
            else part.value(logs, *self._ends(part, logs), math.inf)[0]
            for part in self.parts
        ]

    def by_frequency(self, logs: torch.Tensor) -> list[torch.Tensor]:
        """log t of every part at every frequency, infinite where the multipliers prove nothing."""
        return [
            torch.tensor([self._scalar(part, logs, math.inf)[0]], dtype=torch.float64)
            if isinstance(part, Scalar)
            else part.by_frequency(logs, *self._ends(part, logs))
            for part in self.parts
        ]

    def absolute(self, logs: torch.Tensor, terms: Sequence[float]) -> torch.Tensor:
        """The same multipliers and metrics, scaled so that log t, which ``terms`` has of every part, becomes 0.

        A segment's inequality is linear in its multipliers and both metrics together, so that those for which it holds with t = 1 make
        up a convex set.
        """
        scaled, gained = logs.clone(), 0.0
        for part, term in zip(reversed(self.parts), reversed(terms), strict=True):
            if isinstance(part, Segment):
                for place in part.places.values():
                    scaled[place] += gained
            gained += term
            for source in part.program.inputs:
                if source.name in self.places:
                    scaled[self.places[source.name]] += gained
        return scaled

    def depths(self) -> torch.Tensor:
        """How many constraints of its segment are at or behind that of each multiplier; 0 for the weights of metrics.

        The form before a constraint is homogeneous in its multipliers and the form behind it. Multipliers times (1 + e)^k, k their depths,
        are as feasible for forms that have grown by up to a factor 1 + e per constraint, and inside of the feasible set for the others.
        """
        depths = torch.zeros(self.unknowns, dtype=torch.float64)
        for part in self.parts:
            if isinstance(part, Segment):
                for k, step in enumerate(reversed(part.constraints), start=1):
                    depths[part.places[step.output.name]] = k
        return depths

    def taken_over(self, other: Chain, absolute: torch.Tensor) -> torch.Tensor | None:
        """A point of this chain from one of a chain of the same network with more cuts, in absolute terms; None if the spaces differ.

        Where two segments meet without a metric, a tensor that is cut back to its domain gets twice the metric's weights, with which
        it keeps a diagonal form.
        """
        logs = torch.zeros(self.unknowns, dtype=torch.float64)
        given = {
            name: place for part in other.parts if isinstance(part, Segment) for name, place in part.places.items()
        }
        for part in self.parts:
            for name, place in part.places.items() if isinstance(part, Segment) else ():
                former = given.get(name)
                weights = other.places.get(name.removesuffix(INSIDE))
                if former is not None:
                    taken = absolute[former]
                elif name.endswith(INSIDE) and weights is not None:
                    taken = absolute[weights] + math.log(2.0)
                else:
                    return None
                if len(taken) != place.stop - place.start:
                    return None
                logs[place] = taken
        for name, place in self.places.items():
            if name not in other.places:
                return None
            logs[place] = absolute[other.places[name]]
        return logs

    def _ends(self, part: Segment, logs: torch.Tensor) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        return self._metrics(part.program.outputs, logs), self._metrics(part.program.inputs, logs)

    def _scalar(
        self, part: Scalar, logs: torch.Tensor, sharpness: float
    ) -> tuple[float, list[tuple[str, torch.Tensor]]]:
        """log t = 2 log c + log max q - log min p."""
        outer, inner = (self._logs(tensor, logs) for tensor in (part.output, part.source))
        if math.isinf(sharpness):
            return 2 * part.log_constant + float(outer.max()) - float(inner.min()), []
        smooth = torch.logsumexp(sharpness * outer, 0) + torch.logsumexp(-sharpness * inner, 0)
        return 2 * part.log_constant + float(smooth) / sharpness, [
            (part.output.name, torch.softmax(sharpness * outer, 0)),
            (part.source.name, -torch.softmax(-sharpness * inner, 0)),
        ]

    def _logs(self, tensor: Tensor, logs: torch.Tensor) -> torch.Tensor:
        place = self.places.get(tensor.name)
        return torch.zeros(channels(tensor), dtype=torch.float64) if place is None else logs[place]

    def _metrics(self, tensors: Sequence[Tensor], logs: torch.Tensor) -> dict[str, torch.Tensor]:
        return {tensor.name: self._logs(tensor, logs).exp() for tensor in tensors}

    def proof_parts(self) -> list[Part]:
        """The parts as a proof takes them."""
        return [
            Part(part.program, part.space, -math.inf)
            if isinstance(part, Segment)
            else Part(part.program, None, part.log_constant)
            for part in self.parts
        ]

    def multipliers(self, logs: torch.Tensor) -> dict[str, torch.Tensor]:
        """The multipliers of all constraints, by the names of their outputs."""
        places = {
            name: place for part in self.parts if isinstance(part, Segment) for name, place in part.places.items()
        }
        return {name: logs[place].exp() for name, place in places.items()}

    def metrics(self, logs: torch.Tensor) -> dict[str, torch.Tensor]:
        """The weights at all cuts, by the names of their tensors."""
        return {name: logs[place].exp() for name, place in self.places.items()}

    def certificate(self, logs: torch.Tensor) -> Certificate:
        """The cuts and numbers that prove what :meth:`certified` says."""
        forms = tuple(
            "constant" if isinstance(part, Scalar) else "frequencies" if part.space.extends_by_zero else "entries"
            for part in self.parts
        )
        cuts = tuple(part.program.inputs[0].name for part in self.parts[1:])
        return Certificate(cuts, forms, self.multipliers(logs), self.metrics(logs))

    def certified(self, logs: torch.Tensor) -> tuple[float, tuple[float, ...]]:
        """A proved upper bound of log L, and of the square root's logarithm of every part's t.

        Raises:
            InfeasibleError: if the multipliers of a segment prove nothing.
        """
        return proved_terms(self.proof_parts(), self.multipliers(logs), self.metrics(logs))


def _by_channel(form: torch.Tensor, part: Segment, source: Tensor) -> torch.Tensor:
    """A bound of the entries of a form by those between channels: of dense forms the sums over pixels."""
    units, number = part.space.metric_units(source), channels(source)
    if len(units) == number or bool((units[:number] == torch.arange(number)).all()):
        return form
    pixels = len(units) // number
    return form.abs().amax(0).reshape(number, pixels, number, pixels).sum(3).amax(1)[None]
