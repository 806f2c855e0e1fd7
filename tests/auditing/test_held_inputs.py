"""Held inputs in a report, and in a diff of two reports."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.auditing.diff import diff as diff_reports
from lipaudit.auditing.held_inputs import held_inputs
from lipaudit.errors import UsageError
from lipaudit.formats import (
    markdown,
)
from lipaudit.formats.html.page import render as html
from lipaudit.formats.huggingface import update_card
from lipaudit.formats.options import Audits
from lipaudit.formats.registry import FORMATS
from lipaudit.records.report import AuditReport
from lipaudit.records.schema import load_schema
from tests.records import (
    fakes,
)


class Gained(nn.Module):
    def forward(self, x: torch.Tensor, gain: Any, flag: bool = False) -> torch.Tensor:
        return x * gain


def holding(**fixed: object) -> AuditReport:
    report = fakes.report((fakes.layer("a", 2.0),))
    return replace(report, settings=replace(report.settings, fixed=held_inputs(fixed)))


def test_a_report_has_what_is_held_and_reads_it_back() -> None:
    gain = torch.linspace(1, 2, 20)
    report = lipaudit.audit(Gained(), {"x": (1, 20)}, fix={"gain": gain, "flag": True})
    document = json.loads(report.to_json())
    digest = hashlib.sha256(gain.numpy().tobytes()).hexdigest()
    assert document["settings"]["fixed"] == {
        "gain": {"shape": [20], "dtype": "float32", "value": None, "sha256": digest},
        "flag": {"shape": [], "dtype": "bool", "value": True, "sha256": None},
    }
    jsonschema.validate(document, load_schema())
    assert AuditReport.from_json(report.to_json()) == report


@pytest.mark.parametrize(
    ("value", "shape", "dtype", "shown"),
    [
        (16000, (), "int", 16000),
        (None, (), "none", None),
        ([[1, 2], [3, 4]], (2, 2), "int64", [[1, 2], [3, 4]]),
        (torch.full((3, 40), 2), (3, 40), "int64", 2),
        (torch.zeros(0), (0,), "float32", []),
    ],
)
def test_short_values_are_there_as_they_are(value: object, shape: object, dtype: str, shown: object) -> None:
    held = held_inputs({"v": value})["v"]
    assert (held.shape, held.dtype, held.value, held.sha256) == (shape, dtype, shown, None)


def test_what_json_has_no_number_for_is_hashed() -> None:
    for value in (float("inf"), torch.tensor([1.0, -torch.inf]), torch.tensor([1j])):
        assert held_inputs({"v": value})["v"].sha256 is not None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"ids": 1}, {"ids": 2}),
        ({"ids": 1}, {}),
        ({}, {"ids": 1}),
        ({"ids": torch.arange(40)}, {"ids": torch.arange(1, 41)}),
        ({"ids": torch.arange(40)}, {"ids": torch.arange(40).reshape(1, 40)}),
        ({"ids": None}, {"ids": 0}),
    ],
)
def test_a_diff_refuses_other_values(before: dict[str, object], after: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=r"different values of the input ids: .*audit both with the same --fix"):
        diff_reports(holding(**before), holding(**after))


def test_a_diff_says_that_one_number_fills_another_size() -> None:
    found = diff_reports(holding(mask=torch.ones(1, 8)), holding(mask=torch.ones(1, 9)))
    assert any("mask has the same value, as 1x8 of float32 before and 1x9 of float32 after" in n for n in found.notes)
    assert not any("held input" in n for n in diff_reports(holding(mask=None), holding(mask=None)).notes)


def test_every_rendering_says_what_is_held() -> None:
    report = holding(rate=16000, ids=torch.arange(40))
    bill = str(FORMATS["cyclonedx"].render(Audits([report])))
    said = "rate held at 16000 and ids held at 40 numbers of int64 \\(SHA-256"
    for text in (str(report), markdown.render(report), update_card("", report), html(report), bill):
        assert re.search(said, " ".join(text.split()))
    assert "lipaudit:fixed:rate" in bill
    assert "<dt>rate held at</dt><dd><bdi>16000</bdi></dd>" in html(report)
