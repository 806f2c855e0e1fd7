"""Soundness in the large: nothing sampled lies above what is claimed, for the network and every node of it."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch

from lipaudit.network.domain import GLOBAL, Domain, pixel_box
from lipaudit.rules.effect import Status
from tests.network.sampling import F64, Audited, Point, audited, excesses, jacobian_norm
from tests.network.zoo import FAMILIES, QUICK, build

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def pairs(
    domain: Domain, shape: tuple[int, ...], count: int, generator: torch.Generator
) -> Iterator[tuple[Point, Point]]:
    """Points of the domain with neighbours at distances from far to infinitesimal, flat and saturated images among them."""
    for i in range(count):
        x = torch.randn(shape, generator=generator, dtype=F64) * (0.01, 1.0, 30.0)[i % 3]
        if i % 4 == 3:
            x = x.mean() + 1e-4 * x  # nearly constant: variances next to nothing
        y = torch.randn(shape, generator=generator, dtype=F64)
        for step in (1.0, 1e-2, 1e-5):
            first = domain.nearest({"x": x})
            second = domain.nearest({"x": x + step * y})
            if not torch.equal(first["x"], second["x"]):
                yield first, second


def check(spec: str, count: int) -> None:
    module, size = build(spec)
    shape = (1, 3, size, size)
    box = pixel_box({"x": shape}, MEAN, STD)
    everywhere, pixels = audited(module, {"x": shape}, GLOBAL, box)
    assert pixels.found.network.status is Status.FINITE, reasons(pixels)
    for audit, domain in ((everywhere, GLOBAL), (pixels, box)):
        generator = torch.Generator().manual_seed(1)
        assert excesses(audit, pairs(domain, shape, count, generator)) == []
        if audit.found.network.status is Status.FINITE:
            below(audit, domain, shape, count, generator)


def below(audit: Audited, domain: Domain, shape: tuple[int, ...], count: int, generator: torch.Generator) -> None:
    bound = math.exp(min(700.0, audit.found.network.log_upper))
    for x, _ in pairs(domain, shape, -(-count // 3), generator):
        found = jacobian_norm(audit, x, generator, steps=3)
        assert found <= bound * (1 + 1e-8)


def reasons(audit: Audited) -> list[str]:
    return [
        f"{name}: {effect.reason}" for name, effect in audit.found.effects.items() if effect.status is not Status.FINITE
    ]


@pytest.mark.parametrize("spec", QUICK)
def test_quick(spec: str) -> None:
    check(spec, 4)


@pytest.mark.long
@pytest.mark.parametrize("spec", FAMILIES)
def test_families(spec: str) -> None:
    check(spec, 20)
