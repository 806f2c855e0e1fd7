"""The search for a tighter bound: when it runs by default, what a report keeps of it, and what gates and diffs judge."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.auditing.diff_scope import IncomparableError
from lipaudit.auditing.request import AuditOptions, AuditRequest
from lipaudit.auditing.run import run_audit
from lipaudit.cli import main
from lipaudit.gates.report import gate_problem
from lipaudit.network.efforts import DEFAULT_EFFORT, EFFORTS
from lipaudit.network.forms import bound as forms
from lipaudit.network.forms.tighten import Tightened
from lipaudit.network.forms.watch import Watch
from lipaudit.records.report import AuditReport, SegmentRecord
from tests.places import SAMPLES


def mlp(*sizes: int, seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1]).eval()


@pytest.fixture(scope="module")
def audits() -> dict[str, AuditReport]:
    net = mlp(4, 8, 8, 3)
    return {effort: lipaudit.audit(net, (1, 4), effort=effort) for effort in ("none", "quick")}


def test_an_audit_searches_quickly_unless_told_otherwise(audits: dict[str, AuditReport]) -> None:
    assert DEFAULT_EFFORT == "quick"
    report = lipaudit.audit(mlp(4, 8, 8, 3), (1, 4))
    assert report.settings.effort == "quick"
    assert report.network == audits["quick"].network
    assert audits["none"].settings.effort == "none"


@pytest.mark.parametrize("options", [{"structure": True}, {"method": "sedghi2019"}])
def test_where_there_are_no_norms_to_start_from_nothing_is_searched(options: dict[str, object]) -> None:
    assert AuditOptions(**options).search_effort == "none"  # type: ignore[arg-type]
    report = lipaudit.audit(mlp(4, 8, 3), (1, 4), **options)  # type: ignore[arg-type]
    assert report.settings.effort == "none"
    assert [bound.name for bound in report.network.bounds] == ["product"]


@pytest.mark.parametrize(
    ("net", "shape"),
    [
        (nn.Linear(4, 4), (1, 4)),
        (nn.Sequential(nn.LeakyReLU(-2.0), nn.Linear(4, 6), nn.GELU()), (1, 4)),
        (nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten()), (1, 2, 5, 5)),
    ],
)
def test_nothing_is_searched_where_slopes_attain_the_product(net: nn.Module, shape: tuple[int, ...]) -> None:
    (_, forms) = lipaudit.audit(net.eval(), shape).network.bounds
    assert (forms.status, forms.reason[:41]) == ("not applicable", "The product of the operations' constants ")


@pytest.mark.parametrize(
    ("net", "shape"),
    [
        (nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), (1, 4)),
        (nn.Sequential(nn.Conv2d(2, 3, 3), nn.AvgPool2d(3)), (1, 2, 5, 5)),
        (nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.MaxPool2d(3, 1)), (1, 2, 5, 5)),
    ],
)
def test_two_maps_are_searched(net: nn.Module, shape: tuple[int, ...]) -> None:
    (_, forms) = lipaudit.audit(net.eval(), shape).network.bounds
    assert forms.status == "finite"


def test_a_report_has_the_factor_of_every_segment_and_its_part_of_the_product() -> None:
    report = lipaudit.audit(str(SAMPLES / "digits_resnet.onnx"))
    product, forms = report.network.bounds
    assert AuditReport.from_json(report.to_json()) == report
    assert product.segments == ()
    assert len(forms.segments) > 1
    for before, after in pairwise(forms.segments):
        assert after.inputs == (before.output,)
    assert math.fsum(segment.log10_factor for segment in forms.segments) == pytest.approx(forms.log10, abs=1e-12)
    parts = [segment.log10_product for segment in forms.segments if segment.log10_product is not None]
    assert math.fsum(parts) == pytest.approx(product.log10, abs=1e-6)
    shown = lipaudit.audit(str(SAMPLES / "digits_resnet.onnx"), effort="none")
    assert "segments" not in shown._repr_html_()
    assert f"{len(forms.segments)} segments" in report._repr_html_()


def test_one_segment_is_told_from_its_ends(audits: dict[str, AuditReport]) -> None:
    (segment,) = audits["quick"].network.bounds[1].segments
    assert isinstance(segment, SegmentRecord)
    assert (segment.inputs, segment.output, segment.operations, segment.form) == (("input",), "4", 5, "entries")
    assert segment.log10_factor == pytest.approx(audits["quick"].network.log10)
    assert segment.log10_product == pytest.approx(audits["none"].network.log10, abs=1e-12)


def test_gates_judge_the_printed_bound(audits: dict[str, AuditReport]) -> None:
    none, quick = audits["none"], audits["quick"]
    limit = (none.network.log10 + quick.network.log10) / 2
    assert gate_problem(none, limit)
    assert not gate_problem(quick, limit)


def test_a_diff_judges_the_printed_bound() -> None:
    first, second = (lipaudit.audit(mlp(4, 8, 8, 3, seed=seed), (1, 4)) for seed in (1, 2))
    change = lipaudit.diff(first, second)
    assert change.network.log10_factor == pytest.approx(second.network.log10 - first.network.log10)


def test_a_search_is_no_improvement_of_the_network(audits: dict[str, AuditReport], tmp_path: Path) -> None:
    with pytest.raises(IncomparableError, match="different efforts: none in the first, quick in the second"):
        lipaudit.diff(audits["none"], audits["quick"])
    for effort, report in audits.items():
        report.save(tmp_path / f"{effort}.json")
    assert main(["diff", str(tmp_path / "none.json"), str(tmp_path / "quick.json")]) == 2


def test_efforts_that_made_no_difference_can_be_compared() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    first, second = (lipaudit.audit(net, (1, 4), effort=effort) for effort in ("none", "quick"))
    change = lipaudit.diff(first, second)
    assert change.network.verdict == "same"
    assert "Another effort of the search for a tighter bound: none before, quick after." in change.notes


def test_two_runs_are_equal_and_threads_change_nothing_that_counts() -> None:
    net = mlp(6, 20, 20, 5)
    first, second = (lipaudit.audit(net, (1, 6)) for _ in range(2))
    assert first.network == second.network
    threads = torch.get_num_threads()
    torch.set_num_threads(2 if threads == 1 else 1)
    try:
        other = lipaudit.audit(net, (1, 6))
    finally:
        torch.set_num_threads(threads)
    assert other.network.log10 == pytest.approx(first.network.log10, abs=1e-9)


def test_a_diff_says_that_a_search_was_interrupted() -> None:
    class Ended(Watch):
        def evaluated(self, operations: float, log_upper: float) -> None:
            super().evaluated(operations, log_upper)
            self.end()

    request = AuditRequest(model=mlp(4, 8, 8, 3), input_shape=(1, 4))
    whole, interrupted = run_audit(request), run_audit(request, watch=Ended())
    assert whole.network.log10 < interrupted.network.log10
    read = lipaudit.AuditReport.from_json(interrupted.to_json())
    assert [bound.interrupted for bound in read.network.bounds if bound.name == "forms"] == [True]
    assert not any(bound.interrupted for bound in whole.network.bounds)
    (note,) = (note for note in lipaudit.diff(interrupted, whole).notes if "interrupted" in note)
    assert note.startswith("The search for a tighter bound was interrupted before: ")
    assert not any("interrupted" in note for note in lipaudit.diff(whole, whole).notes)


def test_more_effort_is_never_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    search, spent = forms._tightened, list[float]()

    def worse_with_more_work(*arguments: object) -> Tightened:
        spent.append(arguments[1].work)  # type: ignore[attr-defined]
        result = search(*arguments)  # type: ignore[arg-type]
        return result if len(spent) == 1 else replace(result, log_upper=result.log_upper + 0.1)

    net = mlp(4, 8, 8, 3)
    quick = lipaudit.audit(net, (1, 4), effort="quick").network.upper_bound
    monkeypatch.setattr(forms, "_tightened", worse_with_more_work)
    assert lipaudit.audit(net, (1, 4), effort="thorough").network.upper_bound == quick
    allowed = [EFFORTS[effort] for effort in ("quick", "standard", "thorough")]
    units = allowed[0] - spent[0]  # what the norms in other units took
    assert 0 < units < 0.01 * allowed[0]
    assert spent == [work - units for work in allowed]
