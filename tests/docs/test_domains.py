"""What docs/domains.md shows of the sample network with gates is what the command prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from torchvision.utils import save_image

import lipaudit
from lipaudit.cli import main
from sample_models.data import load_classes
from tests.places import ROOT

PAGE = (ROOT / "docs" / "domains.md").read_text(encoding="utf-8")
NETWORK = "sample_models/digits_se.onnx"


def blocks(text: str) -> list[list[str]]:
    return [block.splitlines() for block in re.findall(r"^```text\n(.*?)\n```$", text, re.MULTILINE | re.DOTALL)]


def assert_printed(shown: list[str], printed: list[str]) -> None:
    """The same lines, but for the last digits of figures, which may differ by machine."""
    start = (
        printed.index(shown[0])
        if shown[0] in printed
        else next(i for i, line in enumerate(printed) if line.split()[:2] == shown[0].split()[:2])
    )
    for expected, found in zip(shown, printed[start:], strict=False):
        for word, other in zip(expected.split(), found.split(), strict=True):
            digits = re.search(r"[0-9]+\.[0-9]+(e[+-][0-9]+)?", word)
            same = re.search(r"[0-9]+\.[0-9]+(e[+-][0-9]+)?", other)
            if digits and same and word != other:
                assert float(same[0]) == pytest.approx(float(digits[0]), rel=5e-3, abs=0.11 if "%" in word else None)
            else:
                assert word == other


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.usefixtures("root")
def test_the_page_shows_both_domains(capsys: pytest.CaptureFixture[str]) -> None:
    (command,) = re.findall(r"^`lipaudit (sample_models/digits_se.*?)` prints$", PAGE, re.MULTILINE)
    assert main(command.split()) == 0
    assert_printed(blocks(PAGE)[0], capsys.readouterr().out.splitlines())


@pytest.mark.usefixtures("root")
def test_the_page_shows_the_rows_over_pixels(capsys: pytest.CaptureFixture[str]) -> None:
    command = next(line for line in PAGE.splitlines() if line.startswith(f"lipaudit {NETWORK} --domain pixels"))
    assert main(shlex.split(command)[1:]) == 0
    *_, shown = blocks(PAGE)
    assert_printed(shown, capsys.readouterr().out.splitlines())


@pytest.mark.usefixtures("root")
def test_the_page_shows_several_balls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = next(line for line in PAGE.splitlines() if "--around digits.npy" in line)
    digits = tmp_path / "digits.npy"
    np.save(digits, load_classes("test").images[:4].numpy())
    assert main(shlex.split(command.replace("digits.npy", str(digits)))[1:]) == 0
    assert_printed(blocks(PAGE)[1], capsys.readouterr().out.splitlines())


@pytest.mark.usefixtures("root")
def test_the_page_shows_the_bounds_of_balls(tmp_path: Path) -> None:
    image = tmp_path / "digit.png"
    save_image(load_classes("test").images[0], image)
    rows = re.findall(r"^\| ([0-9.]+) \| ([0-9]+) \| ([0-9.]+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 5
    for radius, upper, _ in rows:
        options = {"around": str(image), "radius": float(radius), "mean": (0.0,), "std": (1.0,)}
        found = lipaudit.audit(NETWORK, domain="ball", effort="none", **options).network.upper_bound
        assert found == pytest.approx(float(upper), rel=5e-3)
