from __future__ import annotations

from dataclasses import replace

from jsonschema import Draft202012Validator

from lipaudit.auditing.structure import layers_without_figures, network_without_figures
from lipaudit.records.report import AuditReport
from lipaudit.records.schema import load_schema
from tests.records import (
    fakes,
)


def test_no_figure_is_left_over_any_domain() -> None:
    report = fakes.gated()
    report = replace(
        report,
        settings=replace(report.settings, structure=True),
        network=network_without_figures(report.network),
        layers=layers_without_figures(report.layers),
    )
    other = report.network.other_domains[0]
    assert (other.status, other.rigor, other.upper_bound, other.log10_upper_bound) == ("finite", None, None, None)
    assert (other.pixel_upper_bound, other.pixel_log10_upper_bound) == (None, None)
    assert Draft202012Validator(load_schema()).is_valid(report.to_dict())
    assert AuditReport.from_json(report.to_json()) == report
    assert "over pixels in [0, 1] finite" in " ".join(str(report).split())


def test_a_figure_over_another_domain_is_rejected() -> None:
    report = fakes.gated()
    bare = replace(network_without_figures(report.network), other_domains=report.network.other_domains)
    broken = replace(
        report,
        settings=replace(report.settings, structure=True),
        network=bare,
        layers=layers_without_figures(report.layers),
    )
    document = replace(broken, network=network_without_figures(report.network)).to_dict()
    document["network"]["other_domains"][0]["upper_bound"] = 2.0
    assert not Draft202012Validator(load_schema()).is_valid(document)
