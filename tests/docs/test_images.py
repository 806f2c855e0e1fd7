"""What docs/images.md shows of the sample network and the test digits is what the command prints."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lipaudit.cli import main
from sample_models.data import load_classes
from tests.docs.test_domains import assert_printed, blocks
from tests.places import ROOT, SAMPLES

PAGE = (ROOT / "docs" / "images.md").read_text(encoding="utf-8")


def test_the_page_shows_the_bracket_and_the_norms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images, classes = load_classes("test")
    np.savez(tmp_path / "digits.npz", x=images.numpy(), y=classes.numpy())
    network = str(SAMPLES / "digits_resnet.onnx")
    assert main([network, "--images", str(tmp_path / "digits.npz"), "--max-images", "100", "--effort", "none"]) == 0
    assert_printed(blocks(PAGE)[0], capsys.readouterr().out.splitlines())
