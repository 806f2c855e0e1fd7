"""Losses on certified radii: torch's own losses on scaled logits, hand-made numbers, and what they refuse."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from lipaudit.errors import UsageError
from lipaudit.training import certified_radii, radius_cross_entropy, radius_hinge

BOUND = 2.5


def sample(n=20, classes=5):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(n, classes, generator=generator, dtype=torch.float64)
    return logits, torch.randint(classes, (n,), generator=generator)


def test_radii_are_the_distance_to_the_border_of_a_linear_classifier_with_orthogonal_rows():
    rows = BOUND * torch.eye(5, 7, dtype=torch.float64)  # of norm BOUND
    x = torch.randn(1, 7, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    first, second = (x @ rows.T)[0].topk(2).indices.tolist()
    radius = certified_radii(x @ rows.T, torch.tensor([first]), math.log(BOUND)).item()
    normal = functional.normalize(rows[second] - rows[first], dim=0)
    before, behind = ((x + step * radius * normal) @ rows.T for step in (1 - 1e-9, 1 + 1e-9))
    assert before.argmax().item() == first
    assert behind.argmax().item() == second


def test_hinge_is_that_of_torch_on_scaled_logits():
    logits, classes = sample()
    ours = radius_hinge(logits, classes, 0.4, math.log(BOUND))
    theirs = functional.multi_margin_loss(logits / (math.sqrt(2) * BOUND), classes, margin=0.4)
    torch.testing.assert_close(ours, 5 * theirs)  # torch's is a mean over the five classes
    wide = 100 * functional.one_hot(classes, 5).double()
    assert radius_hinge(wide, classes, 0.4, math.log(BOUND)).item() == 0


def test_cross_entropy_is_that_of_torch_on_scaled_logits_less_the_radius():
    logits, classes = sample()
    scores = logits / (math.sqrt(2) * BOUND)
    torch.testing.assert_close(
        radius_cross_entropy(logits, classes, 7.0, math.log(BOUND)), functional.cross_entropy(7.0 * scores, classes)
    )
    others = 1 - functional.one_hot(classes, 5)
    torch.testing.assert_close(
        radius_cross_entropy(logits, classes, 7.0, math.log(BOUND), radius=0.3),
        functional.cross_entropy(7.0 * (scores + 0.3 * others), classes),
    )


@pytest.mark.parametrize(
    "loss", [lambda *a: radius_hinge(*a[:2], 0.4, a[2]), lambda *a: radius_cross_entropy(*a[:2], 3.0, a[2])]
)
def test_a_loss_is_the_same_for_a_multiple_and_differentiable_in_logits_and_bound(loss):
    logits, classes = sample()
    bound = torch.tensor(0.3, dtype=torch.float64)
    torch.testing.assert_close(loss(9 * logits, classes, bound + math.log(9)), loss(logits, classes, bound))
    inputs = (logits.requires_grad_(), bound.requires_grad_())
    assert torch.autograd.gradcheck(lambda z, b: loss(z, classes, b), inputs)
    loss(logits, classes, bound).backward()
    # along multiples of the network nothing changes
    assert (logits.grad * logits).sum().item() == pytest.approx(-bound.grad.item())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda z, y: radius_hinge(z, y, 0.0), "radius must be a finite number above 0, got 0"),
        (lambda z, y: radius_cross_entropy(z, y, math.inf), "temperature must be a finite number above 0, got inf"),
        (
            lambda z, y: radius_cross_entropy(z, y, 1.0, radius=-1),
            "radius must be a finite number of 0 or more, got -1",
        ),
        (lambda z, y: certified_radii(z[0], y), r"logits must be floating-point numbers of shape \(n, classes\)"),
        (lambda z, y: certified_radii(z[:, :1], y), "two classes or more"),
        (lambda z, y: certified_radii(z, y[:3]), r"classes must be int64 numbers of shape \(20,\)"),
        (lambda z, y: certified_radii(z, y.double()), "got torch.float64"),
    ],
)
def test_bad_arguments_are_errors(call, message):
    with pytest.raises(UsageError, match=message):
        call(*sample())
