"""Where a tensor that spills over its domain is cut back to it before it is read.

On the lattice the output of a padded convolution does not vanish outside of the domain, while the network's next convolution reads
zeros there. The restriction to the domain is an operation with slopes in {0, 1}. Nothing is needed where an activation stands
between, whose constraint holds for an output of 0 at any input, and where the reader sees the domain only: a convolution of one
pixel, or one without padding.
"""

from __future__ import annotations

from dataclasses import replace

from lipaudit.network.forms.filters import Filter, as_filters, is_pool
from lipaudit.network.forms.spaces import is_spatial
from lipaudit.network.forms.steps import Linear, Program, Slopes, Step, Tensor

INSIDE = " inside"
"""What is added to the name of a tensor that is cut back."""


def with_restrictions(program: Program) -> Program:
    """The program with a step with slopes in [0, 1] wherever a tensor that spills over is read beyond its domain."""
    spilled: set[str] = set()
    cut: dict[str, Tensor] = {}
    steps: list[Step] = []
    for step in program.steps:
        if not isinstance(step, Linear):
            steps.append(step)
            continue
        sources = list(step.sources)
        reads = [True] if is_pool(step) else None
        filters = [] if reads or not is_spatial(step.output) else as_filters(step)
        for i, source in enumerate(step.sources):
            if source.name not in spilled:
                continue
            if filters and _reads_inside(filters[i], source, step.output):
                continue
            if source.name not in cut:
                cut[source.name] = replace(source, name=source.name + INSIDE)
                steps.append(Slopes(cut[source.name], (source,), 0.0, 1.0, step.node))
            sources[i] = cut[source.name]
        if is_spatial(step.output) and (
            any(source.name in spilled for source in sources) or not all(_stays_inside(f) for f in filters)
        ):
            spilled.add(step.output.name)
        steps.append(step if tuple(sources) == step.sources else replace(step, sources=tuple(sources)))
    return replace(program, steps=tuple(steps))


def _stays_inside(filter_: Filter) -> bool:
    """Whether nothing is written beyond the domain."""
    return filter_.circular or _is_pointwise(filter_)


def _is_pointwise(filter_: Filter) -> bool:
    return not filter_.transposed and len(filter_.offsets) == 1 and not filter_.offsets.any()


def _reads_inside(filter_: Filter, source: Tensor, output: Tensor) -> bool:
    """Whether every pixel of the output reads pixels of the source's domain only; all of the lattice where it is circular."""
    if filter_.circular:
        return True
    if filter_.transposed:
        return _is_pointwise(filter_)
    first, last = filter_.offsets.amin(0).tolist(), filter_.offsets.amax(0).tolist()
    axes = zip(first, last, filter_.stride, source.shape[2:], output.shape[2:], strict=True)
    return all(low >= 0 and (n - 1) * s + high <= size - 1 for low, high, s, size, n in axes)
