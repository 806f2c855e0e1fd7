"""Audits that start from a user's images: the norms beside the bound, in every form of the report, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from jsonschema import Draft202012Validator
from torch import nn
from torchvision.utils import save_image

import lipaudit
from lipaudit.cli import main
from lipaudit.errors import UsageError
from lipaudit.records.report import AuditReport
from lipaudit.records.schema import load_schema
from sample_models.data import load_classes
from tests.places import SAMPLES

RESNET = str(SAMPLES / "digits_resnet.onnx")


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    images, classes = load_classes("test")
    for number in range(6):
        place = folder / str(int(classes[number]))
        place.mkdir(exist_ok=True)
        save_image(images[number], place / f"{number}.png")
    return folder


@pytest.fixture(scope="module")
def report(digits: Path) -> AuditReport:
    return lipaudit.audit(RESNET, images=digits, mean=0, std=1, max_images=4, seed=1, effort="none")


def test_the_norms_lie_between_nothing_and_the_bound(report: AuditReport) -> None:
    network, images = report.network, report.network.images
    assert images is not None
    assert (images.count, images.total, images.from_pixels) == (4, 6, True)
    found = sorted(entry.norm for entry in images.norms)
    assert images.median == (found[1] + found[2]) / 2
    assert images.percentile_90 == images.largest == found[-1]
    assert {entry.norm for entry in images.norms if entry.image == images.largest_image} == {images.largest}
    assert network.lower_bound is not None
    assert network.upper_bound is not None
    assert images.largest <= network.lower_bound <= network.upper_bound
    assert network.log10_ratio == pytest.approx(np.log10(network.upper_bound / network.lower_bound))


def test_the_search_goes_on_from_the_steepest_image(report: AuditReport) -> None:
    alone = lipaudit.audit(RESNET, lower_bound=True, effort="none").network
    assert alone.images is None
    assert alone.lower_bound is not None
    assert report.network.images is not None
    assert report.network.lower_bound is not None
    assert report.network.lower_bound > max(alone.lower_bound, 1.5 * report.network.images.largest)


def test_the_same_seed_gives_the_same_report(report: AuditReport, digits: Path) -> None:
    again = lipaudit.audit(RESNET, images=str(digits), mean=0, std=1, max_images=4, seed=1, effort="none")
    assert again.network == report.network
    other = lipaudit.audit(RESNET, images=str(digits), mean=0, std=1, max_images=4, seed=2, effort="none")
    assert other.network.images is not None
    assert report.network.images is not None
    assert [e.image for e in other.network.images.norms] != [e.image for e in report.network.images.norms]


def test_the_report_is_written_and_read(report: AuditReport) -> None:
    document = json.loads(report.to_json())
    assert list(Draft202012Validator(load_schema()).iter_errors(document)) == []
    assert AuditReport.from_json(report.to_json()) == report
    assert report.network.images is not None
    assert document["network"]["images"]["source"] == report.network.images.source
    assert "/" not in (report.network.images.source or "")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"count": 3}, "network.images.count is 3, and there are 4 norms"),
        ({"largest": 1.0}, "which is not the largest of its norms"),
    ],
)
def test_a_report_whose_images_contradict_themselves_is_refused(
    report: AuditReport, change: dict[str, Any], problem: str
) -> None:
    document = json.loads(report.to_json())
    document["network"]["images"] |= change
    with pytest.raises(UsageError, match=problem):
        AuditReport.from_document(document)


def test_norms_above_the_lower_bound_and_another_ratio_are_refused(report: AuditReport) -> None:
    document = json.loads(report.to_json())
    lower = document["network"]["lower_bound"]
    document["network"] |= {"lower_bound": 1e-3, "log10_ratio": None}
    with pytest.raises(UsageError, match="a norm above the lower bound"):
        AuditReport.from_document(document)
    document["network"] |= {"lower_bound": lower, "log10_ratio": 0.5}
    with pytest.raises(UsageError, match=r"log10_ratio is 0\.5, which is not that of its bounds"):
        AuditReport.from_document(document)


@pytest.mark.parametrize("name", ["table", "markdown", "html", "card"])
def test_every_rendering_shows_the_distribution(report: AuditReport, name: str, tmp_path: Path) -> None:
    from lipaudit.records.rendering import render

    images = report.network.images
    assert images is not None
    text = render(report, name)
    assert images.largest_image in text
    assert "median" in text


def test_a_linear_network_has_one_norm_everywhere() -> None:
    torch.manual_seed(0)
    net = nn.Linear(6, 4)
    network = lipaudit.audit(net, input_shape=(1, 6), images=torch.randn(7, 6)).network
    assert network.images is not None
    assert network.upper_bound is not None
    norm = float(torch.linalg.matrix_norm(net.weight.detach().double(), 2))
    assert [entry.norm for entry in network.images.norms] == pytest.approx([norm] * 7, rel=1e-6)
    assert network.images.largest <= network.upper_bound
    assert network.images.source is None
    assert not network.images.from_pixels


def test_images_stay_inside_of_the_pixel_box() -> None:
    class Square(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * x

    options: dict[str, Any] = {"input_shape": (1, 2, 2), "domain": "pixels", "mean": 0, "std": 1}
    network = lipaudit.audit(Square(), images=torch.full((1, 1, 2, 2), 9.0), **options).network
    assert network.lower_bound is not None
    assert network.upper_bound is not None
    assert network.lower_bound <= network.upper_bound < 2.01


def test_the_command_reads_images_and_saves_the_pair(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = tmp_path / "pair.npz"
    assert (
        main(
            [
                RESNET,
                "--images",
                str(digits),
                *["--effort", "none", "--mean", "0", "--std", "1", "--max-images", "2", "--save-pair"],
                str(pair),
            ]
        )
        == 0
    )
    assert "Jacobian at images     2 of 6: median" in capsys.readouterr().out
    assert set(np.load(pair)) == {"x.image", "y.image"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--images", "nowhere.npy"], "--images nowhere.npy: there is no file"),
        (["--max-images", "2"], "--max-images requires --images FOLDER"),
        (["--images", "x.npy", "--max-images", "0"], "--max-images must be a whole number from 1"),
        (["--images", "x.npy", "--structure"], "--images cannot be combined with --structure"),
        (
            ["--images", "x.npy", "--domain", "ball", "--around", "y.npy", "--radius", "1"],
            "--images cannot be combined with --domain ball",
        ),
    ],
)
def test_images_that_cannot_be_are_refused(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([RESNET, *arguments]) == 2
    assert words in capsys.readouterr().err


def test_images_of_another_kind_are_refused_in_python() -> None:
    with pytest.raises(UsageError, match="images must be the name of a file or folder, or a tensor, got a ndarray"):
        lipaudit.audit(nn.ReLU(), input_shape={"x": (1, 3)}, images=np.zeros((2, 3)))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="max_images must be an integer from 1, got 0"):
        lipaudit.audit(nn.ReLU(), input_shape={"x": (1, 3)}, images=torch.zeros(2, 3), max_images=0)


def test_the_files_of_a_folder_belong_to_the_request(digits: Path) -> None:
    from lipaudit.auditing.request import AuditOptions

    files = AuditOptions(images=str(digits)).request(RESNET).files()
    assert len(files) == 7
    assert all(Path(file).is_file() for file in files)
