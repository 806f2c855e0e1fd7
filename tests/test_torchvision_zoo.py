"""Every torchvision classifier audits from end to end: finite without gating or attention, else unbounded with places.

The heads of torchvision's vision transformers start as zeros: without trained weights they are constant, with bound 0.

Hours on two cores for the largest: ``pytest -m long tests/test_torchvision_zoo.py``; the small ones run always.
"""

from __future__ import annotations

import pytest
import torchvision

import lipaudit

GATED = ("efficientnet", "mobilenet_v3", "regnet_y", "maxvit", "swin", "vit")
SMALL = ("squeezenet1_1", "shufflenet_v2_x0_5", "mnasnet0_5", "mobilenet_v3_small", "resnet18")
NAMES = torchvision.models.list_models(module=torchvision.models)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in SMALL else (pytest.mark.long, pytest.mark.timeout(7200))) for n in NAMES]
)
def test_audit_of_the_structure(name: str) -> None:
    report = lipaudit.audit(name, weights="random")
    gated, constant = name.startswith(GATED), name.startswith("vit")
    assert report.network.status == ("unbounded" if gated and not constant else "finite")
    assert (report.network.upper_bound == 0) == constant
    assert all(row.status != "unsupported" for row in report.layers)
    assert bool(report.network.reasons) == gated
    for row in report.layers:
        assert row.reason if row.status != "finite" else row.upper_bound is not None
        if row.lower_bound is not None and row.upper_bound is not None:
            assert row.lower_bound <= row.upper_bound
    assert lipaudit.AuditReport.from_json(report.to_json()) == report
