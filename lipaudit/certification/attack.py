"""A search for the nearest image that is decided otherwise: projected gradients in the l2 norm with a radius that follows.

From an image x with the decision i, start s goes for the class j whose boundary is the s-th nearest to first order,
(f_i - f_j)(x) / ||grad (f_i - f_j)(x)||. Every step moves along the gradient of f_j - f_i and projects onto a sphere around x, whose
radius shrinks while the decision has changed and grows while it has not (Rony et al., *Decoupling Direction and Norm for Efficient
Gradient-Based L2 Adversarial Attacks and Defenses*, CVPR 2019). What is nearest is moved towards x by bisection, and counts only where
the captured graph in float64 decides otherwise by more than rounding: its distance is an upper bound of the image's true radius.

Points are not cut to [0, 1]: a certified radius holds for all inputs, and so does an attack against it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from lipaudit.certification.classifier import Classifier
from lipaudit.certification.margins import MarginMeter, Margins
from lipaudit.graph.evaluate import interpret

# with more classes only the largest logits are gone for
MOST_CLASSES = 20
_CANDIDATES = 9
_SHRINK = (0.2, 0.005)  # by which the radius of the sphere changes, at the first and at the last step
_STEP = (1.0, 0.01)  # length of a step, relative to the radius
_BISECTIONS = 12
_POWER_STEPS = 12
# how much farther a point is taken where float64 does not confirm what the search has found
_FARTHER = (1.0, 1 + 1e-6, 1 + 1e-4, 1 + 1e-3, 1 + 1e-2)
_ENTRIES = 2**26  # of all values of a batch


@dataclass(frozen=True, eq=False)
class Attacked:
    """The nearest image that was found: its distance (rounded up), the class that it is decided for, and the image."""

    radius: float
    decision: int
    image: torch.Tensor


@dataclass(frozen=True, eq=False)
class Linearised:
    """At an image: the norm of the Jacobian of all logits, and for the nearest classes distance and unit direction to their boundary."""

    norm: float
    classes: tuple[int, ...]
    distances: tuple[float, ...]
    directions: torch.Tensor


class Attack:
    """Attacks on one classifier.

    Args:
        classifier: the network.
        steps: gradient steps of every start.
        starts: how many starts an image has.
        seed: of the starts beyond the number of classes, which begin in a random direction.
    """

    def __init__(self, classifier: Classifier, steps: int, starts: int, seed: int = 0) -> None:
        self._classifier = classifier
        self._meter = MarginMeter(classifier)
        self._steps, self._starts, self._seed = steps, starts, seed
        node = next(node for node in classifier.values if node.name == classifier.input)
        self._dtype = torch.float64 if node.output.dtype == torch.float64 else torch.float32
        entries = sum(math.prod(o.shape) for node in classifier.values for o in node.outputs)
        self._most = max(1, _ENTRIES // max(1, entries))
        self._together = self._goes_together()

    def linearise(self, image: torch.Tensor, margins: Margins) -> Linearised:
        """The Jacobian at an image, in float64. With more than :data:`MOST_CLASSES` classes its norm is found by power iteration."""
        x = image.detach().clone().requires_grad_()
        with torch.enable_grad():
            logits = self._logits(x, torch.float64)
            chosen = _nearest_logits(margins, MOST_CLASSES if len(margins.logits) <= MOST_CLASSES else _CANDIDATES)
            if len(margins.logits) <= MOST_CLASSES:
                rows = torch.stack([_gradient(logits[k], x) for k in range(len(logits))])
                norm = float(torch.linalg.matrix_norm(rows, 2)) if bool(torch.isfinite(rows).all()) else math.inf
                differences = rows[chosen] - rows[margins.decision]
            else:
                norm = _largest_stretch(logits, x, self._seed)
                differences = torch.stack([_gradient(logits[k] - logits[margins.decision], x) for k in chosen])
        lengths = torch.linalg.vector_norm(differences, dim=1)
        gaps = margins.margins[chosen]
        distances = torch.where(lengths > 0, gaps / lengths.clamp(min=1e-300), torch.inf)
        order = torch.argsort(distances, stable=True).tolist()
        units = differences / lengths.clamp(min=1e-300)[:, None]
        return Linearised(
            norm,
            tuple(chosen[k] for k in order),
            tuple(float(distances[k]) for k in order),
            units[order].reshape(-1, *image.shape[1:]),
        )

    def search(
        self, images: Sequence[torch.Tensor], margins: Sequence[Margins], at: Sequence[Linearised]
    ) -> list[Attacked | None]:
        """The nearest images with other decisions that were found, None where there was none."""
        items = [(n, s) for n in range(len(images)) for s in range(self._starts)]
        found: list[list[torch.Tensor]] = [[] for _ in images]
        for begin in range(0, len(items), self._most):
            batch = items[begin : begin + self._most]
            for (n, _), offset in zip(batch, self._descend(batch, images, margins, at), strict=True):
                if offset is not None:
                    found[n].append(offset)
        return [self._confirmed(x, m, f) for x, m, f in zip(images, margins, found, strict=True)]

    def _descend(
        self,
        items: Sequence[tuple[int, int]],
        images: Sequence[torch.Tensor],
        margins: Sequence[Margins],
        at: Sequence[Linearised],
    ) -> list[torch.Tensor | None]:
        """The shortest offsets with another decision that every item met."""
        begun = [self._start(images[n], at[n], s) for n, s in items]
        x = torch.cat([images[n] for n, _ in items]).to(self._dtype)
        own = torch.tensor([margins[n].decision for n, _ in items])
        target = torch.tensor([j for j, _ in begun])
        offset = torch.cat([start for _, start in begun]).to(self._dtype)
        radius = _lengths(offset)
        best, nearest = torch.full_like(radius, torch.inf), torch.zeros_like(offset)
        for step in range(self._steps + 1):
            part = step / max(1, self._steps)
            moved = (x + offset).requires_grad_()
            with torch.enable_grad():
                logits = self._batch(moved)
                (gradient,) = torch.autograd.grad(_difference(logits, target, own).sum(), moved)
            changed = self._changed(logits.detach(), own)
            length = _lengths(offset)
            better = changed & (length < best)
            best, nearest = torch.where(better, length, best), torch.where(_wide(better, offset), offset, nearest)
            shrink, stride = _between(_SHRINK, part), _between(_STEP, part)
            radius = torch.where(changed, torch.minimum(radius, length) * (1 - shrink), radius * (1 + shrink))
            unit = gradient / _wide(_lengths(gradient).clamp(min=1e-30), gradient)
            offset = offset + _wide(stride * radius, offset) * torch.nan_to_num(unit)
            offset = offset * _wide(radius / _lengths(offset).clamp(min=1e-30), offset)
        nearest = self._shortened(x, nearest, own)
        return [nearest[k : k + 1].double() if math.isfinite(float(best[k])) else None for k in range(len(items))]

    def _start(self, image: torch.Tensor, at: Linearised, start: int) -> tuple[int, torch.Tensor]:
        """The class that a start goes for, and its first offset."""
        which = start % len(at.classes)
        direction = at.directions[which][None]
        if start >= len(at.classes) or not bool(direction.any()):
            generator = torch.Generator().manual_seed(self._seed * 1_000_003 + start)
            random = torch.randn(image.shape, generator=generator, dtype=torch.float64).to(image.device)
            direction = random / random.norm()
        distance = at.distances[which]
        size = float(image.norm()) or 1.0
        length = min(max(distance, 1e-6 * size), size) if math.isfinite(distance) else 0.1 * size
        return at.classes[which], 1.02 * length * direction

    def _shortened(self, x: torch.Tensor, offset: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
        """The offsets cut back towards 0 as far as bisection finds that the decision stays another one."""
        low, high = (
            torch.zeros(len(x), dtype=x.dtype, device=x.device),
            torch.ones(len(x), dtype=x.dtype, device=x.device),
        )
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            with torch.no_grad():
                changed = self._changed(self._batch(x + _wide(middle, offset) * offset), own)
            low, high = torch.where(changed, low, middle), torch.where(changed, middle, high)
        return _wide(high, offset) * offset

    def _confirmed(self, image: torch.Tensor, margins: Margins, offsets: Sequence[torch.Tensor]) -> Attacked | None:
        """The nearest of the points at which float64 decides otherwise by more than its rounding."""
        best: Attacked | None = None
        for offset in sorted(offsets, key=lambda o: float(o.norm())):
            for factor in _FARTHER:
                point = image + factor * offset
                radius = float((point - image).norm()) * (1 + 1e-12)
                if best is not None and radius >= best.radius:
                    break
                there = self._meter.measure(point)
                if there.decision is None or there.decision == margins.decision:
                    continue
                if float(there.margins[margins.decision]) > float(there.exact[margins.decision]):
                    best = Attacked(radius, there.decision, point)
                    break
        return best

    def _changed(self, logits: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
        mine = logits.gather(1, own[:, None]).squeeze(1)
        return logits.scatter(1, own[:, None], -torch.inf).amax(1) > mine

    def _batch(self, x: torch.Tensor) -> torch.Tensor:
        """The logits of many images, (N, K)."""
        if not self._together:
            return torch.stack([self._logits(x[k : k + 1], self._dtype) for k in range(len(x))])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # operations that torch batches by a loop
            result: torch.Tensor = torch.func.vmap(lambda image: self._logits(image, self._dtype))(x[:, None])
        return result

    def _logits(self, image: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        graph = self._classifier.values
        value = interpret(graph, {self._classifier.input: image}, None, dtype)[graph.outputs[0]]
        assert isinstance(value, torch.Tensor)
        return value[0]

    def _goes_together(self) -> bool:
        """Whether torch evaluates the graph for several images at once, with the results of one at a time."""
        generator = torch.Generator().manual_seed(0)
        x = torch.rand((2, *self._classifier.shape[1:]), generator=generator).to(self._dtype)
        one_by_one = torch.stack([self._logits(x[k : k + 1], self._dtype) for k in range(2)]).detach()
        self._together = True
        try:
            together = self._batch(x).detach()
        except (
            RuntimeError,
            NotImplementedError,
            ValueError,
        ):  # an operation that looks at its values, or writes in place
            return False
        return torch.allclose(
            together, one_by_one, rtol=1e-3, atol=1e-3 * float(one_by_one.abs().max()), equal_nan=True
        )


def _gradient(number: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    (gradient,) = torch.autograd.grad(number, x, retain_graph=True, allow_unused=True)
    return torch.zeros(x.numel(), dtype=x.dtype, device=x.device) if gradient is None else gradient.detach().flatten()


def _largest_stretch(logits: torch.Tensor, x: torch.Tensor, seed: int) -> float:
    """The norm of the Jacobian by power iteration, from below: J v is the derivative of w -> v . J^T w."""
    w = torch.zeros_like(logits, requires_grad=True)
    (pulled,) = torch.autograd.grad(logits, x, w, create_graph=True)
    generator = torch.Generator().manual_seed(seed)
    v = torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x.device)
    norm = 0.0
    for _ in range(_POWER_STEPS):
        v = v / v.norm().clamp(min=1e-300)
        if not pulled.requires_grad:
            return 0.0
        (image,) = torch.autograd.grad(pulled, w, v, retain_graph=True)
        norm = float(image.norm())
        (v,) = torch.autograd.grad(logits, x, image, retain_graph=True)
    return norm


def _nearest_logits(margins: Margins, most: int) -> list[int]:
    """The classes with the largest logits beside the decision."""
    order = torch.argsort(margins.margins, stable=True).tolist()
    return [j for j in order if j != margins.decision][:most]


def _difference(logits: torch.Tensor, target: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
    difference: torch.Tensor = logits.gather(1, target[:, None]) - logits.gather(1, own[:, None])
    return difference


def _lengths(x: torch.Tensor) -> torch.Tensor:
    lengths: torch.Tensor = torch.linalg.vector_norm(x.flatten(1), dim=1)
    return lengths


def _wide(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Values (N,) in the shape in which they meet (N, ...)."""
    return values.reshape(-1, *(1,) * (like.dim() - 1))


def _between(ends: tuple[float, float], part: float) -> float:
    """The geometric way from one number to another."""
    return float(ends[0] * (ends[1] / ends[0]) ** part)
