"""Absolute paths stay out of reports unless they are asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.text.local_paths import without_folders

FOLDER = "someone-s-folder"


@pytest.mark.parametrize(
    "text", ["net.onnx", "a/net.onnx", "../net.onnx", "timm:resnet18", "package.module:factory", ""]
)
def test_other_texts_stay(text: str) -> None:
    assert without_folders(text) == text


def test_paths_below_the_working_directory_become_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert without_folders(str(tmp_path / "a" / "net.onnx")) == "a/net.onnx"
    assert without_folders(str(tmp_path / "a" / ".." / ".." / "net.onnx")) == "net.onnx"
    assert without_folders("~/net.onnx") == "net.onnx"


def test_no_folder_reaches_the_report(tmp_path: Path) -> None:
    folder = tmp_path / FOLDER
    folder.mkdir()
    net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)).eval()
    torch.export.save(torch.export.export(net, (torch.zeros(1, 4),)), folder / "net.pt2")
    torch.save(torch.zeros(1, 4), folder / "centre.pt")
    ball = {"domain": "ball", "around": str(folder / "centre.pt"), "radius": 1.0, "cache": folder / "cache"}
    for _ in range(2):  # the second time norms come from the cache, which a note says
        report = lipaudit.audit(str(folder / "net.pt2"), **ball)  # type: ignore[arg-type]
        assert FOLDER not in report.to_json()
    assert report.model.spec == "net.pt2"
    kept = lipaudit.audit(str(folder / "net.pt2"), **ball, absolute_paths=True)  # type: ignore[arg-type]
    assert kept.model.spec == str(folder / "net.pt2")
    assert kept.settings.around == str(folder / "centre.pt")
