"""Names come from model files and must not drive a terminal: no rendering lets a control character through.

Every text of a report is spoilt, and the report is written in every way that lipaudit knows. Line ends, and the tabs
of tab-separated values, are the only characters without a glyph that may come out.
"""

from __future__ import annotations

import itertools
import traceback
from dataclasses import fields, is_dataclass, replace
from typing import TypeVar

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.text import Text
from torch import nn

import lipaudit
from lipaudit.auditing.diff import diff as diff_reports
from lipaudit.cli import main
from lipaudit.cli.terminal import Progress, complain, say_failure
from lipaudit.errors import LipauditError, NonFiniteWeightsError, UsageError
from lipaudit.escaping import printable, printable_lines
from lipaudit.fleet import render as fleet
from lipaudit.fleet.summary import Row
from lipaudit.formats.columns import COLUMNS
from lipaudit.formats.huggingface import update_card
from lipaudit.formats.layout import WHOLE, Layout
from lipaudit.formats.options import Audits, Options
from lipaudit.formats.plot import draw
from lipaudit.formats.registry import FORMATS, format_names
from lipaudit.frontends.load import load
from lipaudit.gates.report import Gates
from lipaudit.records.comparison import Comparison
from lipaudit.records.diff import ReportDiff
from lipaudit.records.failure import Failure
from lipaudit.records.report import AuditReport
from lipaudit.records.settings import SettingsRecord
from tests.formats.test_comparison import comparison as a_comparison
from tests.formats.test_comparison import figure, layer, method
from tests.records import (
    fakes,
)

# clears a screen, in seven and in eight bits; bell, carriage return, a line that runs backwards, two line separators
EVIL = "\x1b[2J\x9b2J\x07\r\n\u202e\u2028\x85\x7f"
WORDS = {
    "status",
    "rigor",
    "norm",
    "domain",
    "radius_in",
    "verdict",
    "created",
    "outcome",
    "network_status",
    "network_rigor",
}
T = TypeVar("T")


def spoilt(value: T, name: str = "") -> T:
    """The record with :data:`EVIL` in every text that is not one of a few words."""
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: spoilt(getattr(value, f.name), f.name) for f in fields(value)})
    if isinstance(value, tuple | list):
        return type(value)(spoilt(part, name) for part in value)  # type: ignore[call-arg, return-value]
    if isinstance(value, dict):
        return {spoilt(k): spoilt(v, name) for k, v in value.items()}  # type: ignore[return-value]
    return value + EVIL if isinstance(value, str) and name not in WORDS else value  # type: ignore[return-value]


def wicked() -> tuple[AuditReport, ...]:
    """Reports in which every sentence appears: bounds, domains, missing rows, estimates, the structure alone."""
    found = (
        fakes.report(),
        fakes.unsupported(),
        fakes.two_outputs(),
        fakes.gated(),
        fakes.on_pixels(),
        fakes.around_a_cat(),
        fakes.estimate(),
        fakes.estimated_on_pixels(),
        replace(fakes.report((), status="unbounded"), settings=SettingsRecord(structure=True)),
        fakes.report((), reasons=()),
    )
    return tuple(map(spoilt, found))


def strays(text: str, tabs: bool = False) -> set[str]:
    """The characters without a glyph in a text, but for line ends."""
    return {c for c in text.replace("\t", " " if tabs else "\t") if not c.isprintable() and c != "\n"}


@given(st.text())
def test_printable_text_cannot_drive_a_terminal(text: str) -> None:
    assert printable(text).isprintable()
    assert not strays(printable_lines(text))


LAYOUTS = {
    "whole table": ("table", replace(WHOLE, columns=tuple(COLUMNS))),
    "grouped": ("table", Layout(depth=1)),
    "whole markdown": ("markdown", Layout(columns=tuple(COLUMNS))),
}
PICTURES = ("png", "svg")  # see test_no_plot_shows_a_control_character


@pytest.mark.parametrize("name", LAYOUTS)
def test_no_layout_lets_a_control_character_through(name: str) -> None:
    for found in wicked():
        form, layout = LAYOUTS[name]
        text = FORMATS[form].render(Audits([found]), Options(layout))
        assert isinstance(text, str)
        assert "x1b" in text or not found.layers
        assert not strays(text), (name, found.network)


@pytest.mark.parametrize("name", [name for name in format_names(Audits) if name not in PICTURES])
def test_no_format_lets_a_control_character_through(name: str) -> None:
    gates = Gates(strict=True, max_layer=1.0, no_unbounded=True, max_log10_bound=1.0)
    options = Options(gates=gates, report_file=f"report{EVIL}.json", model_index=f"model{EVIL}")
    failed = [Failure(f"model{EVIL}.onnx", f"it is broken: {EVIL}")]
    for found in wicked():
        if found.settings.structure and FORMATS[name].gates:
            continue
        text = FORMATS[name].render(Audits([found], failed if FORMATS[name].several else ()), options)
        assert isinstance(text, str)
        assert "x1b" in text or "u001b" in text or not found.layers
        assert not strays(text, tabs=name == "tsv"), (name, found.network)


def test_a_card_that_was_there_is_left_as_it_is() -> None:
    assert "\x1b" in update_card("---\ntags: []\n---\n\x1b[1m bold\n", wicked()[0])


def test_no_comparison_of_reports_lets_a_control_character_through() -> None:
    compared = 0
    for before, after in itertools.product(wicked(), repeat=2):
        try:
            found = replace(diff_reports(before, after), tool_version=f"0.1.0{EVIL}")
        except UsageError:  # over other domains, or of the structure alone
            continue
        compared += 1
        for everything in (False, True):
            for form in format_names(ReportDiff):
                text = FORMATS[form].render(found, Options(Layout(every_row=everything)))
                assert not strays(str(text), tabs=form == "tsv"), form
    assert compared > 20


def test_no_comparison_of_methods_lets_a_control_character_through() -> None:
    layers = (layer("conv", figure("a"), figure("b", outcome="undefined", figure=None, reason="a stride")),)
    methods = (method("a"), method("b", network_status="unsupported", network_figure=None, reason="conv: a stride"))
    found = spoilt(replace(a_comparison(layers, methods), notes=("a note",)))
    for form in format_names(Comparison):
        assert not strays(str(FORMATS[form].render(found)), tabs=form == "tsv"), form


@pytest.mark.parametrize("form", ["table", "markdown", "tsv", "csv", "json"])
@pytest.mark.parametrize("wide", [False, True])
def test_no_summary_of_a_fleet_lets_a_control_character_through(form: str, wide: bool) -> None:
    rows = [
        Row("a.onnx", {"weights": "b"}, status="finite", domain="global", layers=2, costliest="conv", share=0.5),
        Row("c.onnx", problem="it is broken", gates=["strict"]),
    ]
    text = fleet.render([spoilt(row) for row in rows], {"tol": EVIL}, form, wide)
    assert not strays(text, tabs=form == "tsv")


@pytest.mark.parametrize("number", range(7))
def test_no_plot_shows_a_control_character(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    original = Text.set_text

    def remembered(self: Text, text: str) -> None:
        shown.append(str(text))
        original(self, text)

    monkeypatch.setattr(Text, "set_text", remembered)
    draw(wicked()[number], "svg")
    assert any("x1b" in text for text in shown)
    assert not strays("".join(shown))


def test_no_line_on_stderr_drives_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LipauditError) as raised:
        load(f"no-such-file{EVIL}.onnx")
    complain(raised.value, debug=False)
    complain(ValueError(EVIL), debug=True, spec=f"model{EVIL}")
    say_failure(f"model{EVIL}", f"it is broken{EVIL}")
    main([f"no-such-file{EVIL}.onnx", "--format", "tsv"])
    main(["diff", f"a{EVIL}.json", f"b{EVIL}.json"])
    main(["resnet18", "--around", EVIL, "--columns", EVIL])
    bar = Progress(f"model{EVIL}")
    bar(1, 2, f"layer{EVIL}")
    bar.finish()
    out, err = capsys.readouterr()
    assert "x1b" in err
    assert not strays(out + err)


def test_an_error_in_python_does_not_drive_a_terminal() -> None:
    """A traceback prints its message."""
    for error in (LipauditError(f"two\nlines{EVIL}"), NonFiniteWeightsError([f"conv{EVIL}.weight"])):
        assert not strays(str(error))
        assert not strays("".join(traceback.format_exception_only(error)))


def test_names_of_a_model_file_arrive_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    """Layers, what is folded into them, and outputs of a network whose modules have such names."""
    torch.manual_seed(0)
    network = nn.Sequential()
    for name, module in (("conv", nn.Conv2d(1, 2, 3)), ("norm", nn.BatchNorm2d(2)), ("last", nn.Conv2d(2, 1, 3))):
        network.add_module(name + EVIL.replace("\n", ""), module)
    found = lipaudit.audit(network, input_shape=(1, 8, 8))
    assert found.layers[0].folded
    print(found)
    for form in format_names(Audits):
        if form not in PICTURES:
            print(FORMATS[form].render(Audits([found])))
    assert not strays(capsys.readouterr().out, tabs=True)
