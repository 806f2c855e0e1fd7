"""Reports that exports are tested with: real ones of the sample models, and ones whose names no format expects."""

from __future__ import annotations

import json
from dataclasses import replace

from lipaudit.records.report import AuditReport
from tests.places import SAMPLES as SAMPLE_FOLDER
from tests.records import (
    fakes,
)

EXPECTED = SAMPLE_FOLDER / "expected"
SAMPLES = ("digits_mobile", "digits_resnet", "digits_se", "digits_unet", "digits_vit")
HOSTILE = "a<b>|\"'&`]]>-->\x00\x1b[2J\r\n\u2028\ufffe\udc80{0}[x](y) \U0001f600\n```\n<!-- lipaudit:end -->\n---\n"


def sample(name: str) -> AuditReport:
    """The expected report of a sample model, with the parts that differ from run to run."""
    document = json.loads((EXPECTED / f"{name}.json").read_text(encoding="utf-8"))
    volatile = {"created": "2026-11-27T20:28:00Z", "timings": {"load": 0.5, "norms": 1.25}, "environment": {}}
    return AuditReport.from_json(json.dumps({**document, **volatile}))


def hostile(report: AuditReport | None = None) -> AuditReport:
    """A report in which every text from outside holds what formats give a meaning."""
    report = report or fakes.unsupported()
    layers = tuple(
        replace(row, name=f"{row.name}{HOSTILE}", module=HOSTILE, op=f"mul{HOSTILE}", reason=row.reason and HOSTILE)
        for row in report.layers
    )
    model = replace(report.model, spec=HOSTILE, source=HOSTILE, weights=HOSTILE, input_shapes={HOSTILE: (1, 3)})
    network = replace(report.network, reasons=(HOSTILE,))
    return replace(report, model=model, network=network, layers=layers, notes=(HOSTILE,), tool_version=HOSTILE)


def later(report: AuditReport) -> AuditReport:
    """The same figures, found at another time."""
    return replace(report, created="2027-01-01T00:00:00Z", timings={"load": 9.0}, environment={"python": "3.13.0"})


def structure() -> AuditReport:
    """Statuses and no figures."""
    rows = tuple(replace(row, figure=None, lower=None, tightness=None, share=None) for row in fakes.resnet_layers())
    found = fakes.report(rows)
    network = replace(found.network, figure=None, pixel_figure=None)
    return replace(found, network=network, settings=replace(found.settings, structure=True))
