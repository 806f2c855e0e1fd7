"""How many points a lattice needs, and what filters of splits and slices pick."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from lipaudit.network.forms.filters import NotRepresentableError, as_filters
from lipaudit.network.forms.symbol_space import SymbolSpace
from tests.network.forms.networks import Circular, case, conv, pixel_cases, steps_of


@pytest.mark.parametrize(
    ("options", "points"),
    [
        ({"padding": 1}, 7), ({"padding": 0}, 6), ({"padding": 3}, 9), ({"padding": 1, "stride": 2}, 7),
        ({"padding": 2, "dilation": 2}, 8),
    ],
)  # fmt: skip
def test_a_lattice_holds_what_is_read_beyond_the_domain(options: dict[str, int], points: int) -> None:
    step = steps_of(case((1, 1, 6, 6), lambda x, a: a(x), conv(1, 1, **options))).steps[0]
    (one,) = as_filters(step)  # type: ignore[arg-type]
    assert one.points(step.sources[0].shape[2:], step.output.shape[2:]) == (points, points)


def test_a_strided_filter_couples_the_aliases() -> None:
    program = steps_of(pixel_cases()["stride"])
    space = SymbolSpace(program)
    assert [space.aliases(t) for t in program.tensors] == [4, 1, 1, 1]
    assert space.base == (5, 5)


def test_a_convolution_with_a_reflected_border_has_no_matrix_per_frequency() -> None:
    step = steps_of(case((1, 2, 5, 5), lambda x, a: a(x), nn.Conv2d(2, 2, 3, padding=1, padding_mode="reflect"))).steps[
        0
    ]
    with pytest.raises(NotRepresentableError, match="reflect"):
        as_filters(step)  # type: ignore[arg-type]


def test_circular_padding_takes_the_lattice_of_the_domain() -> None:
    space = SymbolSpace(steps_of(pixel_cases()["circular"]))
    assert space.periodic
    assert space.base == (6, 5)
    assert not SymbolSpace(steps_of(pixel_cases()["activation"])).whole


@pytest.mark.parametrize(
    ("after", "size"), [(conv(3, 2), 6), (conv(3, 2, 2, padding=0), 6), (Circular(3, 2, stride=2), 5)]
)
def test_circular_padding_and_another_border_have_no_lattice(after: nn.Module, size: int) -> None:
    program = steps_of(case((1, 2, size, size), lambda x, a, b: b(torch.relu(a(x))), Circular(2, 3), after))
    with pytest.raises(NotRepresentableError, match="circular"):
        SymbolSpace(program)


def test_a_split_keeps_its_tensor_and_a_part_picks_channels() -> None:
    program = steps_of(pixel_cases()["split channels"])
    split, part = (step for step in program.steps if getattr(step, "part", None) is not None)
    assert split.output.shape == split.sources[0].shape
    (one,) = as_filters(part)  # type: ignore[arg-type]
    assert torch.equal(one.kernel[:, :, 0], torch.eye(4, dtype=torch.float64)[2:])
