"""Power iteration on the operator of a convolution itself: its zero or copied borders, stride, dilation and size.

The adjoint is the pullback of automatic differentiation, which is the transposed convolution with whatever output
padding the sizes ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch

from lipaudit.spectral.convolution import power_iteration
from lipaudit.spectral.convolution.geometry import Convolution

Map = Callable[[torch.Tensor], torch.Tensor]


def operator_and_adjoint(convolution: Convolution) -> tuple[Map, Map]:
    """The maps x -> K x and y -> K* y, for tensors of one sample (1, channels, *size)."""
    return partial(power_iteration.apply, convolution), partial(power_iteration.adjoint, convolution)


def random_input(convolution: Convolution, generator: torch.Generator) -> torch.Tensor:
    """A Gaussian input, drawn in float64 on the CPU."""
    return _gaussian(convolution, (convolution.channels[0], *convolution.input_size), generator)


def random_output(convolution: Convolution, generator: torch.Generator) -> torch.Tensor:
    """A Gaussian output, drawn in float64 on the CPU."""
    return _gaussian(convolution, (convolution.channels[1], *convolution.output_size), generator)


def rising_norms(
    forth: Map, back: Map, start: torch.Tensor, iterations: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """v <- forth(u) / ||.||, u <- back(v) / ||.||: yields ||back(v)|| and the new u, after each iteration.

    With ``back`` the adjoint of ``forth`` the norm is (forth(u))* v, which rises to the operator norm from below. A zero
    operator gives 0.
    """
    u = _normalised(start)
    for _ in range(iterations):
        u = back(_normalised(forth(u)))
        norm = torch.linalg.vector_norm(u)
        u = _normalised(u)
        yield norm, u


def _gaussian(convolution: Convolution, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return torch.randn(1, *shape, generator=generator, dtype=torch.float64).to(convolution.kernel)


def _normalised(x: torch.Tensor) -> torch.Tensor:
    length = torch.linalg.vector_norm(x)
    return x / torch.where(length > 0, length, torch.ones_like(length))
