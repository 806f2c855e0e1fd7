"""What docs/norms.md shows of the sample network is what the command prints."""

from __future__ import annotations

import pytest

from lipaudit.cli import main
from tests.docs.test_domains import assert_printed, blocks
from tests.places import ROOT, SAMPLES

PAGE = (ROOT / "docs" / "norms.md").read_text(encoding="utf-8")


def test_the_page_shows_the_bound_in_the_largest_entry(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(SAMPLES / "digits_resnet.onnx"), "--norm", "linf", "--lower-bound"]) == 0
    assert_printed(blocks(PAGE)[0], capsys.readouterr().out.splitlines())
