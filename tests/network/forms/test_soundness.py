"""No form is below a Jacobian, and forms per frequency are above those on all entries with the same multipliers."""

from __future__ import annotations

import math

import pytest
import torch

from lipaudit.network.forms import parts
from lipaudit.network.forms.segment import Segment
from tests.network.forms.networks import (
    dense_cases,
    explicit,
    largest_stretch,
    one_segment,
    pixel_cases,
    proved,
    searched,
    steps_of,
)

DENSE, PIXELS = dense_cases(), pixel_cases()


@pytest.mark.parametrize("name", DENSE)
def test_dense_forms_are_above_every_jacobian(name: str) -> None:
    example = DENSE[name]
    chain = one_segment(steps_of(example), per_frequency=False)
    logs = searched(chain)
    bound = proved(chain, logs)
    assert largest_stretch(example) <= bound
    assert bound >= math.exp(chain.value(logs, math.inf)[0] / 2) * (1 - 1e-13)


@pytest.mark.parametrize("name", PIXELS)
def test_forms_per_frequency_are_above_every_jacobian_and_the_dense_form(name: str) -> None:
    example = PIXELS[name]
    program = steps_of(example)
    chain = one_segment(program, per_frequency=True)
    logs = searched(chain)
    bound = proved(chain, logs)
    assert largest_stretch(example) <= bound
    whole = explicit(program, chain, logs)
    assert whole is None or whole <= bound
    assert whole is not None or any(s.output.name.endswith("inside") for s in chain.parts[0].program.steps)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "name",
    ["residual", "silu and gelu", "softmax", "max of two", "sorted pairs", "slopes per entry", "slopes per channel"],
)
def test_the_gradient_of_dense_forms_is_that_of_differences(name: str) -> None:
    _check_gradient(name, per_frequency=False)


@pytest.mark.parametrize(
    "name",
    [
        "pre-activation",
        "stride",
        "transposed",
        "pooled head",
        "no activation",
        "pooled twice",
        "inverted residual",
        "slopes per channel, strided",
    ],
)
def test_the_gradient_of_forms_per_frequency_is_that_of_differences(name: str) -> None:
    _check_gradient(name, per_frequency=True)


def _check_gradient(name: str, *, per_frequency: bool) -> None:
    example = (PIXELS if per_frequency else DENSE)[name]
    chain = one_segment(steps_of(example), per_frequency)
    logs = chain.start("norm") + 0.05  # away from where X is singular
    _, slope = chain.value(logs, 20.0)
    generator = torch.Generator().manual_seed(3)
    for _ in range(3):
        step = torch.randn(logs.shape, generator=generator, dtype=torch.float64) * 1e-5
        ahead, behind = (chain.value(logs + sign * step, 20.0)[0] for sign in (1, -1))
        assert float(slope @ step) == pytest.approx((ahead - behind) / 2, rel=1e-4, abs=1e-10)


@pytest.mark.parametrize("name", ["inverted residual", "pooled head", "transposed"])
def test_a_proof_in_parts_is_the_proof_at_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = one_segment(steps_of(PIXELS[name]), per_frequency=True)
    logs = searched(chain)
    at_once = proved(chain, logs)
    monkeypatch.setattr(parts, "_ENTRIES_OF_A_PART", 1)
    (segment,) = chain.parts
    assert isinstance(segment, Segment)
    assert len(parts.in_parts(segment.program, segment.space, kept=False)) == segment.space.frequencies  # type: ignore[attr-defined]
    assert proved(chain, logs) == pytest.approx(at_once, rel=1e-6)
