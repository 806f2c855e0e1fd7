from __future__ import annotations

import subprocess
import sys

import pytest

from lipaudit.errors import UsageError
from lipaudit.formats.markdown import render
from lipaudit.formats.registry import FORMATS, export_reports
from lipaudit.formats.settings import ExportSettings
from lipaudit.gates.report import Gates
from tests.places import ROOT
from tests.records import (
    fakes,
)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_renders(name: str) -> None:
    text = export_reports([fakes.report()], name)
    assert text
    assert not text.endswith("\n")
    assert text == export_reports([fakes.report()], name, ExportSettings())


@pytest.mark.parametrize("name", FORMATS)
def test_several_reports_where_the_format_takes_them(name: str) -> None:
    if FORMATS[name].several:
        text = export_reports([fakes.report(), fakes.estimate()], name)
        assert text.count("resnet50") > export_reports([fakes.report()], name).count("resnet50") > 0 or name in (
            "sarif",
            "html",
        )
    else:
        with pytest.raises(UsageError, match=f"{name} describes one model, and there are 2: pick one by --model SPEC"):
            export_reports([fakes.report(), fakes.report()], name)


@pytest.mark.parametrize("name", FORMATS)
def test_gates_show_where_the_format_says_so(name: str) -> None:
    plain, judged = (
        export_reports([fakes.report()], name, ExportSettings(gates)) for gates in (Gates(), Gates(max_layer=1.0))
    )
    assert (plain != judged) == FORMATS[name].judges


def test_markdown_is_that_of_an_audit() -> None:
    assert export_reports([fakes.report()], "markdown") == render(fakes.report())


def test_an_unknown_format_and_no_report_are_refused() -> None:
    with pytest.raises(UsageError, match="there is no format 'spdx'; choose from huggingface, "):
        export_reports([fakes.report()], "spdx")
    with pytest.raises(UsageError, match="no report to export"):
        export_reports([], "junit")


def test_no_format_imports_torch() -> None:
    code = (
        "import sys; from lipaudit.formats.registry import FORMATS, export_reports; from tests.records import fakes;"
        "[export_reports([fakes.gated()], name) for name in FORMATS]; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
