from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lipaudit.records.report import AuditReport
from lipaudit.records.settings import SettingsRecord
from lipaudit.text.domain import described, estimated_elsewhere, finite_elsewhere, may_be_finite_on_images, place
from tests.records import (
    fakes,
)


def test_global_and_pixels_in_words() -> None:
    assert described(fakes.report()) == "all inputs"
    assert described(fakes.on_pixels()) == (
        "all images with pixels in [0, 1], normalised by mean 0.485, 0.456, 0.406 and std 0.229, 0.224, 0.225"
    )
    bare = fakes.on_pixels()
    plain = replace(bare, model=replace(bare.model, preprocessing={"mean": (0.0,), "std": (1.0,)}))
    assert described(plain) == "all images with pixels in [0, 1], as the network reads them"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {},
            "all inputs within 0.5 (l2, in pixels in [0, 1]) of cat.png, resized to 224x224, "
            "normalised by mean 0.485, 0.456, 0.406 and std 0.229, 0.224, 0.225",
        ),
        (
            {"around": "x.npy", "radius_in": "input", "radius": 1.0},
            "all inputs within 1 (l2, in the network's own input) of x.npy",
        ),
        (
            {"around": None, "radius_in": "input"},
            "all inputs within 0.5 (l2, in the network's own input) of the given input",
        ),
    ],
)
def test_a_ball_in_words(settings: dict[str, Any], words: str) -> None:
    assert described(fakes.around_a_cat(**settings)) == words


def test_the_radius_is_shown_to_the_last_digit() -> None:
    # rounded up, the text would claim more inputs than the bound is for
    for radius in (0.1, 1 / 3, 0.12345678901):
        shown = place(SettingsRecord(radius=radius), "ball").split()[3]
        assert float(shown) == radius


def test_where_a_figure_could_be_had() -> None:
    assert finite_elsewhere(fakes.report()) is None
    assert finite_elsewhere(fakes.on_pixels()) is None
    found = finite_elsewhere(fakes.gated())
    assert found is not None
    assert found.domain == "pixels"
    assert not may_be_finite_on_images(fakes.gated())
    assert not may_be_finite_on_images(fakes.report(status="unbounded"))

    def unknown(report: AuditReport, **model: Any) -> AuditReport:
        return replace(report, model=replace(report.model, preprocessing=None, **model))

    assert may_be_finite_on_images(unknown(fakes.report(status="unbounded")))
    assert not may_be_finite_on_images(unknown(fakes.report(status="unsupported")))
    assert not may_be_finite_on_images(unknown(fakes.report(status="unbounded"), input_shapes={"ids": (1, 8)}))


def test_an_estimate_elsewhere_is_no_bound() -> None:
    report = fakes.estimated_on_pixels()
    assert finite_elsewhere(report) is None
    found = estimated_elsewhere(report)
    assert found is not None
    assert found.domain == "pixels"
    assert estimated_elsewhere(fakes.gated()) is None
    assert estimated_elsewhere(replace(report, network=replace(report.network, status="finite"))) is None
