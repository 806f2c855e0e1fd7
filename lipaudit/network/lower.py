"""Empirical lower bound of a network: the largest Jacobian norm found.

At a point where the network is differentiable the norm of its Jacobian J is a lower bound of its Lipschitz constant (up to rounding,
so its rigor is ``estimate``). ||J|| is found by power iteration with vector-Jacobian and Jacobian-vector products, never
writing J out; then the point moves along its own singular direction while the norm grows. (Most networks are
piecewise linear, so that the gradient of ||J v|| in the point is zero and steps of finite length are needed.)
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from lipaudit.network.domain import GLOBAL, Domain

POINTS = 2
POWER_STEPS = 5
ASCENT_STEPS = 3
# Length of the first uphill step relative to the point's own norm.
STEP = 0.1


def jacobian_lower_bound(
    module: nn.Module, inputs: Mapping[str, torch.Tensor], seed: int = 0, domain: Domain = GLOBAL
) -> float:
    """The largest ||J(x) v|| / ||v|| found at the given inputs and at random ones (standard normal, seeded).

    On a domain only its points count: every point is moved to the nearest one of the domain, the first to its centre.

    Several inputs and outputs count as one vector each. The module is left as it was found. Attention runs without its
    fused kernels, which have no forward derivative.

    Returns:
        a plain number, 0 for a network whose outputs do not depend on its floating-point inputs.
    """
    generator = torch.Generator().manual_seed(seed)
    names = list(inputs)

    def inside(x: list[torch.Tensor]) -> list[torch.Tensor]:
        return list(domain.nearest(dict(zip(names, x, strict=True))).values())

    with _frozen(module), sdpa_kernel(SDPBackend.MATH), warnings.catch_warnings():
        # torch's own forward-mode differentiation loads decompositions through torch.jit
        warnings.filterwarnings("ignore", message=r"`torch\.jit\.\w+` is deprecated", category=FutureWarning)
        trials = []
        for point in range(POINTS):
            x = [
                t.detach().clone()
                if point == 0 and (domain.centres or bool(t.any()))
                else torch.randn(t.shape, generator=generator).to(t)
                for t in inputs.values()
            ]
            x = inside(x)
            v = _normalised([torch.randn(t.shape, generator=generator).to(t) for t in x])
            trials.append((*_power_iteration(module, x, v, POWER_STEPS), x))
        best, v, x = max(trials, key=lambda trial: trial[0])
        return _ascend(module, best, v, x, inside)


@contextmanager
def _frozen(module: nn.Module) -> Iterator[None]:
    modes = {m: m.training for m in module.modules()}
    gradients = {p: p.requires_grad for p in module.parameters()}
    try:
        module.eval().requires_grad_(False)
        yield
    finally:
        for m, training in modes.items():
            m.training = training
        for p, needed in gradients.items():
            p.requires_grad_(needed)


def _ascend(
    module: nn.Module,
    best: float,
    v: list[torch.Tensor],
    x: list[torch.Tensor],
    inside: Callable[[list[torch.Tensor]], list[torch.Tensor]],
) -> float:
    step = STEP * max(1e-3, _norm(x))
    for _ in range(ASCENT_STEPS):
        trials = []
        for sign in (1, -1):
            moved = inside([a + sign * step * d for a, d in zip(x, v, strict=True)])
            trials.append((*_power_iteration(module, moved, v, 2), moved))
        size, direction, moved = max(trials, key=lambda trial: trial[0])
        if size > best:
            best, v, x = size, direction, moved
        else:
            step /= 4
    return best


def _power_iteration(
    module: nn.Module, x: list[torch.Tensor], v: list[torch.Tensor], steps: int
) -> tuple[float, list[torch.Tensor]]:
    """The largest ||J v|| for unit vectors v met on the way, and the last v."""
    best = 0.0
    for _ in range(steps):
        image = _jvp(module, x, v)
        size = _norm(image)
        if not math.isfinite(size):
            break
        best = max(best, size)
        pulled = _vjp(module, x, image)
        length = _norm(pulled)
        if not math.isfinite(length) or length == 0:
            break
        v = [t / length for t in pulled]
    return best, v


def _outputs(module: nn.Module, x: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    leaves = torch.utils._pytree.tree_leaves(module(*x))
    return tuple(t for t in leaves if isinstance(t, torch.Tensor) and t.is_floating_point())


def _jvp(module: nn.Module, x: list[torch.Tensor], v: list[torch.Tensor]) -> list[torch.Tensor]:
    return list(torch.func.jvp(lambda *inputs: _outputs(module, inputs), tuple(x), tuple(v))[1])


def _vjp(module: nn.Module, x: list[torch.Tensor], image: list[torch.Tensor]) -> list[torch.Tensor]:
    pull = torch.func.vjp(lambda *inputs: _outputs(module, inputs), *x)[1]
    return list(pull(tuple(image)))


def _norm(parts: Sequence[torch.Tensor]) -> float:
    return math.sqrt(math.fsum(float(t.detach().double().square().sum()) for t in parts))


def _normalised(parts: list[torch.Tensor]) -> list[torch.Tensor]:
    length = _norm(parts)
    return [t / length for t in parts] if length else parts
