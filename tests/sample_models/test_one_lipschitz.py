"""The 1-Lipschitz sample network: its claim is proved, its decisions are certified, and an attack within the radii changes none."""

from __future__ import annotations

import json
import math

import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.training import certified_radii
from sample_models import data, train
from tests.sample_models.test_files import load_torch

NAME = "digits_one_lipschitz"


@pytest.fixture(scope="module")
def report():
    return lipaudit.audit(str(train.FOLDER / f"{NAME}.onnx"), effort="none")


@pytest.fixture(scope="module")
def network():
    return load_torch(NAME).double()


@pytest.fixture(scope="module")
def split():
    images, classes = data.load_classes("test")
    return images.double(), classes


def attack(network, images, classes, radii, starts, steps=10):
    """Images within a radius of each that minimise the margin of the right class: ascent by normalised gradients, several starts."""
    radii = radii.reshape(-1, 1, 1, 1)
    least = torch.full_like(classes, math.inf, dtype=images.dtype)
    for seed in range(starts):
        moves = torch.randn(images.shape, generator=torch.Generator().manual_seed(seed), dtype=images.dtype)
        moves = radii * nn.functional.normalize(moves.flatten(1)).view_as(images)
        for _ in range(steps):
            moves.requires_grad_()
            margins = certified_radii(network(images + moves), classes)
            (slope,) = torch.autograd.grad(margins.sum(), moves)
            least = torch.minimum(least, margins.detach())
            with torch.no_grad():
                moves = moves - 0.3 * radii * nn.functional.normalize(slope.flatten(1)).view_as(images)
                sizes = moves.flatten(1).norm(dim=1).reshape(-1, 1, 1, 1)
                moves = moves * (radii / sizes).clamp(max=1)
    return least


def test_the_claim_is_proved_far_below_the_tolerance(report):
    assert report.network.rigor == "certified"
    assert lipaudit.claim(report, 1.0, 1e-4).verdict == "proved"


def test_rows_of_every_matrix_are_orthonormal(network):
    for layer in (network.dense1, network.dense2, network.head):
        products = layer.weight @ layer.weight.T
        torch.testing.assert_close(products, torch.eye(len(products), dtype=torch.float64), rtol=0, atol=1e-5)


def test_certified_accuracy_is_as_recorded_and_above_95_per_cent(report, network, split):
    images, classes = split
    with torch.no_grad():
        radii = certified_radii(network(images), classes, math.log(report.network.upper_bound))
    recorded = json.loads((train.FOLDER / "accuracy.json").read_text())[NAME]["certified_accuracy"]
    for name, radius in train.RADII.items():
        measured = (radii > radius).double().mean().item()
        assert measured == pytest.approx(recorded[name], abs=1.5 / len(classes)), name
    assert (radii > 36 / 255).double().mean() > 0.95


def test_an_attack_changes_no_decision_within_the_certified_radius_and_some_beyond(report, network, split):
    images, classes = split
    with torch.no_grad():
        radii = certified_radii(network(images), classes, math.log(report.network.upper_bound))
    right = radii > 0
    images, classes, radii = images[right], classes[right], radii[right]
    assert attack(network, images, classes, radii, starts=3).min() > 0
    beyond = attack(network, images[:100], classes[:100], 2 * radii[:100], starts=1)
    assert (beyond < 0).double().mean() > 0.5


def test_certify_has_these_radii_and_its_attack_comes_close_to_them(network, split):
    images, classes = (part[:6] for part in split)
    with torch.no_grad():
        expected = certified_radii(network(images), classes)
    records = lipaudit.certify(str(train.FOLDER / f"{NAME}.onnx"), images.float(), labels=classes, effort="none").images
    for record, radius in zip(records, expected.tolist(), strict=True):
        assert record.decision == record.label
        assert radius * (1 - 1e-3) < record.radius < record.attack_radius < 1.1 * radius
