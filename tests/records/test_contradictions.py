"""Reports that contradict themselves: refused by the reader, and by the schema where it can say so."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from lipaudit.auditing.diff import diff as diff_reports
from lipaudit.errors import UsageError
from lipaudit.gates.report import Gates, gate_problems
from lipaudit.records.contradictions import LARGEST_LOG10, contradiction
from lipaudit.records.diff import ReportDiff
from lipaudit.records.figure import Figure
from lipaudit.records.report import AuditReport, OutputRecord
from lipaudit.records.schema import load_schema
from lipaudit.text.numbers import log10_lower_text, log10_upper_text, share_text
from tests.records import (
    fakes,
)

VALIDATOR = Draft202012Validator(load_schema())
BARE = dict.fromkeys(("upper_bound", "log10_upper_bound", "lower_bound", "log10_lower_bound", "tightness"))
PIXELS = dict.fromkeys(("pixel_upper_bound", "pixel_log10_upper_bound"))


def changed(place: str, **values: Any) -> dict[str, Any]:
    """A report of two outputs with other values in its network, its first output or its first row."""
    document = copy.deepcopy(fakes.two_outputs().to_dict())
    places = {
        "network": document["network"],
        "output": document["network"]["outputs"][0],
        "row": document["layers"][0],
    }
    places[place].update(values)
    return document


# the last entry says whether the schema can say so, too
WRONG: list[tuple[dict[str, Any], str, bool]] = [
    (
        changed("network", upper_bound=1e300, log10_upper_bound=1.0),
        "network has the upper_bound 1e+300 and the ",
        False,
    ),
    (changed("row", upper_bound=2.0, log10_upper_bound=300.0), r"layers[0] has the upper_bound 2.0 and the ", False),
    (changed("row", upper_bound=0.0, log10_upper_bound=-400.0, lower_bound=0.0), "which are not the same", True),
    (changed("network", pixel_log10_upper_bound=3.0), "pixel_log10_upper_bound 3.0, which are not the same", False),
    (changed("network", pixel_upper_bound=0.0), "network has the pixel_upper_bound 0.0", True),
    (changed("row", lower_bound=4.0, log10_lower_bound=0.1), "layers[0] has the lower_bound 4.0 and the ", False),
    (changed("output", upper_bound=38.0), "network.outputs[0] has the upper_bound 38.0", False),
    (changed("row", **BARE | {"estimate": 2.0, "log10_estimate": 3.0, "rigor": "estimate"}), "has the estimate", False),
    (
        changed("output", status="unbounded", upper_bound=None, log10_upper_bound=None),
        "but network.outputs[0] is unb",
        True,
    ),
    (
        changed("output", **BARE | {"estimate": 2.0, "rigor": "estimate"}),
        "network is certified but network.outputs[0] is an estimate",
        True,
    ),
    (changed("row", rigor=None), "layers[0] is finite but has no rigor", True),
    (changed("network", rigor=None), "network is finite but has no rigor", True),
    (changed("row", rigor="guess"), "layers[0].rigor is 'guess'", True),
    (changed("row", rigor=["certified"]), "layers[0].rigor is ['certified']", True),
    (changed("row", **BARE | {"estimate": 9.0, "rigor": None}), "layers[0] is finite but has no rigor", True),
    (changed("row", **BARE | {"estimate": 9.0, "rigor": "certified"}), "layers[0] is certified but has a estim", True),
    (changed("network", upper_bound=-5.0, log10_upper_bound=None), "network.upper_bound is -5.0, which is neg", True),
    (changed("row", upper_bound=-5.0, log10_upper_bound=None), "layers[0].upper_bound is -5.0", True),
    (changed("row", lower_bound=-1.0, log10_lower_bound=None), "layers[0].lower_bound is -1.0", True),
    (changed("row", lower_bound=4.752, log10_lower_bound=None), "layers[0] has a lower bound (10^0.676", False),
    (changed("row", lower_bound=None, log10_lower_bound=0.68), "layers[0] has a lower bound (10^0.68)", False),
    (changed("network", lower_bound=1e22), "network has a lower bound (10^22) above its upper bound", False),
    (changed("row", **BARE | {"log10_upper_bound": 1e6}), "layers[0].log10_upper_bound is 1000000.0, beyond", True),
    (changed("network", **BARE | PIXELS | {"log10_upper_bound": -1e300}), "network.log10_upper_bound is -1e+300", True),
    (changed("row", share=1e308), "layers[0].share is 1e+308", True),
    (changed("row", share=-1e31), "layers[0].share is -1e+31", True),
]


@pytest.mark.parametrize(("document", "message", "in_schema"), WRONG)
def test_what_contradicts_itself_is_not_read(document: dict[str, Any], message: str, in_schema: bool) -> None:
    with pytest.raises(UsageError) as caught:
        AuditReport.from_json(json.dumps(document))
    assert str(caught.value).startswith("the report contradicts itself: ")
    assert message in str(caught.value)
    assert VALIDATOR.is_valid(document) is not in_schema


RIGHT = [
    changed("row"),
    changed("row", upper_bound=2e-323, log10_upper_bound=-360.0, lower_bound=0.0, log10_lower_bound=-360.1),
    changed("row", upper_bound=0.0, log10_upper_bound=None, lower_bound=0.0, log10_lower_bound=None),
    changed(
        "row", **BARE | {"log10_upper_bound": 400.0, "lower_bound": 1.7976931348623157e308, "log10_lower_bound": 399.9}
    ),
    changed("row", lower_bound=math.nextafter(4.7512, 5.0), log10_lower_bound=None),
    changed("row", **BARE | {"log10_upper_bound": LARGEST_LOG10}, share=-1e30),
    changed("row", **BARE | {"log10_upper_bound": -LARGEST_LOG10}),
    changed("network", **BARE | PIXELS | {"log10_upper_bound": LARGEST_LOG10}),
]


@pytest.mark.parametrize("document", RIGHT)
def test_what_rounding_and_the_range_of_floats_explain_is_read_and_shown(document: dict[str, Any]) -> None:
    assert contradiction(document) == ""
    assert VALIDATOR.is_valid(document)
    report = AuditReport.from_json(json.dumps(document))
    assert report.network.upper_bound is None or str(report)
    gate_problems(report, Gates(5.0, 3.0, True, True))
    assert str(diff_reports(report, report))


def test_the_largest_numbers_can_be_shown() -> None:
    assert log10_upper_text(LARGEST_LOG10) == log10_lower_text(LARGEST_LOG10) == "999999"
    assert share_text(1e30).startswith("1000000000000000")


@pytest.mark.parametrize("factor", [1e-200, 5e-324, 1e-308, 1.0, 2.0, 1e200, 1.7976931348623157e308])
def test_the_figures_of_an_audit_agree(factor: float) -> None:
    torch = pytest.importorskip("torch")
    import lipaudit

    layers = [torch.nn.Linear(2, 2, bias=False).double() for _ in range(2)]
    for layer in layers:
        layer.weight.data.copy_(torch.eye(2, dtype=torch.float64) * factor)
    report = lipaudit.audit(torch.nn.Sequential(*layers), input_shape=(1, 2))
    assert AuditReport.from_json(report.to_json()) == report


def test_a_network_of_outputs_without_figures_is_judged_as_one() -> None:
    outputs = (OutputRecord("a", "unbounded"), OutputRecord("b", "finite", Figure.of(2.0)))
    report = fakes.report((), status="unbounded", outputs=outputs)
    assert AuditReport.from_json(report.to_json()) == report


def test_the_domain_of_the_figures_is_the_one_that_was_asked_for_and_pixels_have_a_normalisation() -> None:
    document = fakes.on_pixels().to_dict()
    assert not contradiction(document)
    document["model"]["preprocessing"] = None
    assert "model.preprocessing is missing" in contradiction(document)
    document["settings"]["domain"] = "global"
    assert contradiction(document) == "network.domain is 'pixels' and settings.domain 'global'"


def with_bounds(place: str, *bounds: dict[str, Any]) -> dict[str, Any]:
    """A report that lists bounds of its network, over the domain in force or over another one."""
    document = copy.deepcopy(fakes.around_a_cat().to_dict())
    network = document["network"]
    owner = network if place == "network" else network["other_domains"][0]
    known = {key: owner[key] for key in ("status", "rigor", "upper_bound", "log10_upper_bound")}
    owner["bounds"] = [{"name": "product", **known, **bound} for bound in bounds]
    return document


SMALLER = {"upper_bound": 2.0, "log10_upper_bound": math.log10(2)}
NOTHING = {"status": "not applicable", "rigor": None, "upper_bound": None, "log10_upper_bound": None}
GUESS = {"rigor": "estimate", "upper_bound": None, "log10_upper_bound": None, "estimate": 2.0}


@pytest.mark.parametrize("place", ["network", "network.other_domains[0]"])
def test_the_figure_of_a_network_is_the_least_of_its_bounds(place: str) -> None:
    for right in ([{}], [NOTHING, {}], [GUESS, {}], []):
        document = with_bounds(place, *right)
        assert contradiction(document) == ""
        assert VALIDATOR.is_valid(document)
    for wrong in ([SMALLER], [{}, SMALLER], [NOTHING], [GUESS]):
        assert contradiction(with_bounds(place, *wrong)).startswith(f"{place} has another upper bound than the least")
    assert contradiction(with_bounds(place, {"status": "unknown"})) == f"{place}.bounds[0].status is 'unknown'"
    assert "is not applicable but has a upper_bound" in contradiction(with_bounds(place, {"status": "not applicable"}))
    assert not VALIDATOR.is_valid(with_bounds(place, {"status": "not applicable"}))


def test_a_diff_of_records_that_contradict_themselves_is_not_read() -> None:
    document = json.loads(diff_reports(fakes.report(), fakes.report()).to_json())
    document["layers"][0]["after"]["upper_bound"] = 1.0
    with pytest.raises(
        UsageError, match=r"the diff contradicts itself: diff.layers\[0\].after has the upper_bound 1.0"
    ):
        ReportDiff.from_json(json.dumps(document))
    document["before"]["network"]["rigor"] = "guess"
    with pytest.raises(UsageError, match=r"diff.before.network.rigor is 'guess'"):
        ReportDiff.from_json(json.dumps(document))
