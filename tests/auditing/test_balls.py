"""Balls around several centres in one audit: each bound is that of an audit of its ball, and the report's figure is the largest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import lipaudit
from lipaudit.errors import GraphError, UsageError
from lipaudit.formats.html.page import render as html
from lipaudit.formats.markdown import render as markdown
from lipaudit.records.schema import load_schema


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 3)).double()


BATCH = torch.randn(4, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
OPTIONS = {"domain": "ball", "radius": 0.05, "effort": "none"}


def test_every_ball_has_the_bound_of_its_own_audit_and_the_largest_is_printed() -> None:
    net = network()
    report = lipaudit.audit(net, (1, 5), around=BATCH, **OPTIONS)
    alone = [lipaudit.audit(net, (1, 5), around=centre[None], **OPTIONS) for centre in BATCH]
    balls = report.network.balls
    assert [ball.centre for ball in balls] == ["0", "1", "2", "3"]
    assert [ball.upper_bound for ball in balls] == [one.network.upper_bound for one in alone]
    largest = max(range(4), key=lambda i: balls[i].log10)
    assert report.network.upper_bound == balls[largest].upper_bound
    assert report.network.bounds == alone[largest].network.bounds
    assert report.layers == alone[largest].layers
    assert report.settings.centres == 4
    assert alone[0].settings.centres is None
    assert alone[0].network.balls == ()
    for centre, ball in zip(BATCH, balls, strict=True):
        jacobian = torch.autograd.functional.jacobian(net, centre[None])
        norm = float(torch.linalg.matrix_norm(jacobian.reshape(3, 5), 2))
        assert ball.jacobian_norm == pytest.approx(norm, rel=1e-4)
        assert ball.jacobian_norm <= norm * (1 + 1e-9)
        assert ball.upper_bound is not None
        assert ball.log10_ratio == pytest.approx(np.log10(ball.upper_bound / ball.jacobian_norm))
    document = report.to_dict()
    jsonschema.validate(document, load_schema())
    assert lipaudit.AuditReport.from_json(report.to_json()) == report


def test_what_is_said_of_several_balls() -> None:
    report = lipaudit.audit(network(), (1, 5), around=BATCH, **OPTIONS)
    text = " ".join(str(report).split())
    assert "over each of 4 balls with the radius 0.05 (l2, in the network's own input) around the given inputs" in text
    assert "Two inputs of one ball that differ by d" in text
    assert "3 of 4 balls, the largest bound first" in text
    assert "Jacobian at centre" in text
    assert "two inputs of different balls are not compared" in markdown(report)
    for ball in report.network.balls:
        assert f"| {ball.centre} |" in markdown(report)
    assert "Balls, the largest bound first" in html(report)


def test_a_stretch_is_searched_in_the_ball_with_the_largest_bound() -> None:
    report = lipaudit.audit(network(), (1, 5), around=BATCH, lower_bound=True, **OPTIONS)
    largest = max(report.network.balls, key=lambda ball: ball.log10)
    assert report.network.lower_bound is not None
    assert largest.upper_bound is not None
    assert largest.jacobian_norm is not None
    assert largest.jacobian_norm * (1 - 1e-3) <= report.network.lower_bound <= largest.upper_bound


def test_a_ball_without_a_bound_leaves_the_network_without_one() -> None:
    class Inverse(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 1 / x

    centres = torch.tensor([[2.0, 3.0], [0.01, 1.0], [5.0, 4.0]], dtype=torch.float64)
    report = lipaudit.audit(Inverse(), (1, 2), around=centres, **OPTIONS)
    assert [ball.status for ball in report.network.balls] == ["finite", "unbounded", "finite"]
    assert report.network.status == "unbounded"
    assert "1 of 3 balls without a bound, the first around 1" in " ".join(str(report).split())


def test_the_structure_of_several_balls_has_no_figures() -> None:
    report = lipaudit.audit(network(), (1, 5), around=BATCH, domain="ball", radius=0.05, structure=True)
    assert [(ball.status, ball.figure, ball.jacobian_norm) for ball in report.network.balls] == [
        ("finite", None, None)
    ] * 4
    jsonschema.validate(report.to_dict(), load_schema())


def test_folders_of_images_and_of_folders(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 2))
    for name in ("b.png", "a/0.png", "a/1.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.fromarray(np.random.default_rng(0).integers(0, 255, (2, 2, 3), dtype=np.uint8)).save(tmp_path / name)
    (tmp_path / "readme.txt").write_text("no image")
    options = {**OPTIONS, "mean": 0.5, "std": (0.5, 0.25, 1.0), "input_shape": (3, 2, 2)}
    report = lipaudit.audit(net, around=str(tmp_path), **options)
    assert [ball.centre for ball in report.network.balls] == ["b.png", "a/0.png", "a/1.png"]
    assert (report.settings.radius_in, report.settings.around) == ("pixels", tmp_path.name)
    assert len({ball.upper_bound for ball in report.network.balls}) == 1
    assert f"{report.network.balls[0].upper_bound:.3f}"[:4] in str(report)
    one = tmp_path / "one"
    one.mkdir()
    (tmp_path / "b.png").rename(one / "b.png")
    alone = lipaudit.audit(net, around=str(one), **options)
    assert [ball.centre for ball in alone.network.balls] == ["b.png"]
    assert "over the ball with the radius 0.05" in " ".join(str(alone).split())


def test_a_report_whose_figure_is_not_the_largest_is_refused() -> None:
    report = lipaudit.audit(network(), (1, 5), around=BATCH, **OPTIONS)
    smallest = min(report.network.balls, key=lambda ball: ball.log10)
    network_of = report.network
    with pytest.raises(ValueError, match="network has another upper bound than the largest of"):
        replace(report, network=replace(network_of, balls=(smallest,))).to_dict()
    wrong = replace(smallest, jacobian_norm=1e9)
    with pytest.raises(ValueError, match="above its upper bound"):
        replace(report, network=replace(network_of, balls=(*network_of.balls, wrong))).to_dict()


def test_a_norm_at_a_centre_above_its_bound_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from lipaudit.auditing import lower_bound

    monkeypatch.setattr(lower_bound, "_at_centres", lambda *_: (1e9,) * 4)
    with pytest.raises(GraphError, match="no figure of this audit can be trusted"):
        lipaudit.audit(network(), (1, 5), around=BATCH, **OPTIONS)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (torch.zeros(3, 6), r"has the shape \(3, 6\), and the network's input \(1, 5\) \(several centres: \(N, 5\)\)"),
        (torch.zeros(0, 5), "is a batch without an input"),
        (torch.full((2, 5), float("nan")), r"number 0 \(from 0\) must have finite"),
        (torch.zeros(2, 5, dtype=torch.int64), "must have finite floating-point numbers"),
    ],
)
def test_batches_that_are_no_centres(batch: torch.Tensor, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        lipaudit.audit(network(), (1, 5), around=batch, **OPTIONS)
