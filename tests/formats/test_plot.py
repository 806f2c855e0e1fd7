"""The picture of a report, and the option that draws it."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lipaudit.cli import main
from lipaudit.formats.plot import compose, draw
from lipaudit.records.report import AuditReport
from tests.formats.html.test_page import HOSTILE, REPORTS, chain, every_report, hostile
from tests.records import (
    fakes,
)
from tests.stand_in import replace_audit

pytest.importorskip("matplotlib")
PNG = b"\x89PNG\r\n\x1a\n"


@every_report
def test_every_report_can_be_drawn(report: AuditReport) -> None:
    assert draw(report, "png").startswith(PNG)


@pytest.mark.parametrize("form", ["svg", "png"])
def test_the_same_report_is_drawn_the_same_every_time(form: str) -> None:
    picture = draw(fakes.unsupported(), form)
    assert picture == draw(fakes.unsupported(), form)
    if form == "svg":
        assert ElementTree.fromstring(picture).tag.endswith("svg")
        assert b"dc:date" not in picture


@pytest.mark.parametrize("name", [*HOSTILE, "$\\frac{x$", "$x$ 50% _^{}", "\u4f60\u597d \U0001f600"])
def test_any_name_can_be_drawn(name: str) -> None:
    assert len(ElementTree.fromstring(draw(hostile(name), "svg"))) > 0


def test_names_are_no_formulas() -> None:
    axes, *_ = compose(fakes.report((fakes.layer("$a_b$"), fakes.layer("b")))).axes
    label = axes.get_xticklabels()[0]
    assert label.get_text() == "$a_b$"
    assert not label.get_parse_math()


def drawn(report: AuditReport, label: str) -> dict[float, float]:
    axes = compose(report).axes[0]
    (line,) = [line for line in axes.lines if line.get_label() == label]
    return dict(zip(line.get_xdata(), line.get_ydata(), strict=True))


def test_the_bounds_stand_at_their_logarithms() -> None:
    rows = (
        fakes.layer("a", 100.0, lower_bound=10.0, log10_lower_bound=1.0),
        fakes.layer("b", upper_bound=None, log10_upper_bound=412.0, lower_bound=None, log10_lower_bound=None),
        fakes.estimated("c", 1000.0),
        fakes.layer("d", upper_bound=0.0, log10_upper_bound=None, lower_bound=0.0, log10_lower_bound=None),
    )
    report = fakes.report(rows)
    assert drawn(report, "upper bound") == {1: 2.0, 2: 412.0}
    assert drawn(report, "lower bound") == {1: 1.0}
    assert drawn(report, "estimate, no bound") == {3: pytest.approx(3.0)}
    assert set(drawn(report, "0")) == {4}


def legend(report: AuditReport) -> list[str]:
    (found,) = compose(report).legends
    return [text.get_text() for text in found.get_texts()]


def test_the_legend_says_what_there_is() -> None:
    assert legend(fakes.report()) == ["lower bound", "upper bound"]
    assert legend(fakes.unsupported()) == ["lower bound", "upper bound", "unbounded", "unsupported"]
    assert "estimate, no bound" in legend(fakes.estimate())


@pytest.mark.parametrize(
    ("make", "title"),
    [
        (fakes.report, "resnet50: at most 2.863e+21 over all inputs (certified)"),
        (fakes.gated, "resnet50: UNBOUNDED over all inputs, no bound of the network"),
        (fakes.estimate, "resnet50: ESTIMATE (sedghi2019), no bound: ~2.862e+21 over all inputs"),
    ],
)
def test_the_title_has_a_figure_only_where_there_is_one(make: Callable[[], AuditReport], title: str) -> None:
    assert compose(make()).get_suptitle() == title


def test_names_of_many_rows_are_thinned() -> None:
    for axes in compose(fakes.report(chain(510))).axes:
        labels = [label.get_text() for label in axes.get_xticklabels()]
        assert 20 <= len(labels) <= 32
        assert labels[0] == "body.stage0.block0.conv0"


def test_a_network_that_is_no_chain_adds_up_its_shares() -> None:
    (_, right) = compose(REPORTS["digits_resnet"]).axes
    total = math.fsum(row.share or 0 for row in REPORTS["digits_resnet"].layers)
    assert right.get_title() == "Share of the stretching up to each row"
    assert right.lines[0].get_ydata()[-1] == pytest.approx(total)


@pytest.fixture
def audited(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The audit replaced; the names that were audited."""
    seen: list[str] = []
    modules: dict[str, object] = {}

    def audit(spec: str, **_options: object) -> AuditReport:
        seen.append(spec)
        return replace(fakes.report(), model=replace(fakes.report().model, spec=spec))

    replace_audit(audit, lambda spec: [spec + "18", spec + "50"] if spec == "several" else [spec], modules)
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return seen


@pytest.mark.parametrize(("suffix", "start"), [("png", PNG), ("svg", b"<?xml"), ("SVG", b"<?xml")])
def test_the_option_writes_the_picture_beside_the_report(
    audited: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str, start: bytes
) -> None:
    file = tmp_path / f"bounds.{suffix}"
    assert main(["net", "--plot", str(file)]) == 0
    assert file.read_bytes().startswith(start)
    printed = capsys.readouterr()
    assert "at most" in printed.out
    assert printed.err == f"lipaudit: plot written to {file}\n"
    assert [entry.name for entry in tmp_path.iterdir()] == [file.name]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["net", "--plot", "bounds.pdf"], "ends in .png or .svg"),
        (["net", "--plot", ""], "names no file"),
        (["net", "--plot", "bounds"], "ends in .png or .svg"),
        (["net", "--plot", "nowhere/bounds.png"], "there is no folder"),
        (["net", "--plot", "bounds.svg", "-o", "./bounds.svg", "--format", "json"], "name the same file"),
        (["net", "--plot", "bounds.svg", "--structure"], "computes no figures"),
        (["a", "b", "--plot", "bounds.svg"], "draws one model, got 2"),
        (["several", "--plot", "bounds.svg"], "draws one model, got 2"),
        (["model.onnx", "--plot", "model.svg"], "--plot model.svg would replace model.onnx"),
    ],
)
def test_what_cannot_be_drawn_is_refused_before_the_audit(
    audited: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.onnx").write_text("kept")
    (tmp_path / "model.svg").symlink_to("model.onnx")
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert audited == []
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["model.onnx", "model.svg"]
    assert (tmp_path / "model.svg").read_text() == "kept"


def test_a_missing_matplotlib_is_said_before_the_audit(
    audited: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("lipaudit.formats.matplotlib_.find_spec", lambda _name: None)
    assert main(["net", "--plot", str(tmp_path / "bounds.png")]) == 2
    assert "matplotlib is not installed" in capsys.readouterr().err
    assert audited == []


def test_drawing_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw(hostile("\u4f60\u597d"), "png")
