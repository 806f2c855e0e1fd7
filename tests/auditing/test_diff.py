"""Which rows are the same, what their brackets say, and what two reports must share to be compared."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lipaudit
from lipaudit.auditing.diff import diff as diff_reports
from lipaudit.auditing.diff_contributions import elasticities
from lipaudit.errors import UsageError
from lipaudit.records.diff import ReportDiff
from lipaudit.records.figure import Figure
from lipaudit.records.report import AuditReport, DomainRecord, LayerRecord, OutputRecord
from tests.places import SAMPLES
from tests.records import (
    fakes,
)

EXPECTED = SAMPLES / "expected"


def expected(name: str) -> AuditReport:
    document = json.loads((EXPECTED / f"{name}.json").read_text())
    return AuditReport.from_json(json.dumps({**document, "created": "2026-11-27T20:28:00Z"}))


def verdicts(found: ReportDiff) -> list[str | None]:
    return [change.move.verdict if change.move else None for change in found.layers]


def one(before: LayerRecord, after: LayerRecord) -> Any:
    (change,) = diff_reports(fakes.report((before,)), fakes.report((after,))).layers
    return change


def bracket(lower: float | None, upper: float) -> LayerRecord:
    logs = {"log10_lower_bound": lower and math.log10(lower), "tightness": lower and upper / lower}
    return fakes.layer("a", upper, lower_bound=lower, **logs)


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ((2.0, 2.1), (2.2, 2.3), "grew"),
        ((2.2, 2.3), (2.0, 2.1), "shrank"),
        ((2.0, 2.2), (2.1, 2.3), "within brackets"),
        ((2.0, 2.2), (2.2, 2.3), "within brackets"),  # they touch
        ((2.0, 2.2), (2.05, 2.1), "within brackets"),
        ((2.0, 2.2), (2.0, 2.2), "within brackets"),
        ((None, 2.0), (None, 2.5), "rose"),
        ((None, 2.5), (None, 2.0), "fell"),
        ((None, 2.0), (None, 2.0), "same"),
        ((None, 2.0), (None, 2.0 * (1 + 1e-14)), "same"),
        ((None, 2.0), (2.1, 2.5), "grew"),  # the lower bound that matters is known
        ((2.1, 2.5), (None, 2.0), "shrank"),
        ((None, 2.0), (1.9, 2.5), "rose"),
        ((1.9, 2.5), (None, 2.0), "fell"),
    ],
)
def test_the_verdict_is_what_the_brackets_prove(
    before: tuple[float | None, float], after: tuple[float | None, float], verdict: str
) -> None:
    change = one(bracket(*before), bracket(*after))
    assert change.move.verdict == verdict
    assert change.move.factor == pytest.approx(after[1] / before[1], rel=1e-12)
    assert change.move.log10_factor == pytest.approx(math.log10(after[1] / before[1]), abs=1e-12)


positive = st.floats(min_value=1e-300, max_value=1e300)


@settings(deadline=None)
@given(positive, positive, positive, positive)
def test_a_proven_verdict_holds_for_every_pair_of_true_constants(a: float, b: float, c: float, d: float) -> None:
    (low, high), (low_after, high_after) = sorted((a, b)), sorted((c, d))
    verdict = one(bracket(low, high), bracket(low_after, high_after)).move.verdict
    exact = [tuple(map(Fraction, pair)) for pair in ((low, high), (low_after, high_after))]
    assert (verdict == "grew") == (exact[1][0] > exact[0][1])
    assert (verdict == "shrank") == (exact[1][1] < exact[0][0])


def test_constants_beyond_floats_are_compared_by_their_logarithms() -> None:
    def huge(lower: float, upper: float) -> LayerRecord:
        none = {"upper_bound": None, "lower_bound": None, "tightness": None}
        return fakes.layer("a", 2.0, **none, log10_lower_bound=lower, log10_upper_bound=upper)

    change = one(huge(400.0, 400.1), huge(800.0, 800.1))
    assert (change.move.verdict, change.move.factor, change.move.log10_factor) == ("grew", None, 800.1 - 400.1)
    assert one(huge(800.0, 800.1), huge(400.0, 400.1)).move.verdict == "shrank"
    assert one(huge(400.0, 400.2), huge(400.1, 400.3)).move.verdict == "within brackets"
    assert one(fakes.layer("a", 2.0), huge(400.0, 400.1)).move.verdict == "grew"


def test_figures_of_zero_have_no_logarithm_and_still_a_verdict() -> None:
    zero = fakes.layer("a", 1.0, upper_bound=0.0, log10_upper_bound=None, lower_bound=0.0, log10_lower_bound=None)
    two = fakes.layer("a", 2.0)
    assert one(zero, two).move == lipaudit.records.diff.Move("grew")
    assert one(two, zero).move == lipaudit.records.diff.Move("shrank", 0.0)
    assert one(zero, zero).move == lipaudit.records.diff.Move("within brackets", 1.0, 0.0)


def test_changes_of_status_have_verdicts_of_their_own() -> None:
    bound, guess = fakes.layer("a", 2.0), fakes.estimated("a", 2.0)
    gate = fakes.missing("a", "unbounded", "conv2d", "a product")
    unknown = fakes.missing("a", "unsupported", "conv2d", "no rule")
    assert one(bound, gate).move == lipaudit.records.diff.Move("lost")
    assert one(gate, bound).move == lipaudit.records.diff.Move("gained")
    assert one(gate, unknown).move == lipaudit.records.diff.Move("status")
    assert one(gate, gate).move == lipaudit.records.diff.Move("missing")
    assert one(bound, guess).move.verdict == "lost"  # an estimate is no bound
    assert one(guess, bound).move.verdict == "gained"
    assert one(guess, gate).move.verdict == "status"
    assert one(guess, fakes.estimated("a", 3.0)).move.verdict == "rose"
    assert one(guess, guess).move.verdict == "same"


def rows(*names: str, **changes: Any) -> tuple[LayerRecord, ...]:
    return tuple(fakes.layer(name, 2.0, **changes) for name in names)


def matched(before: tuple[LayerRecord, ...], after: tuple[LayerRecord, ...]) -> list[tuple[str, str, str]]:
    found = diff_reports(fakes.report(before), fakes.report(after)).layers
    return [(c.match, c.before.name if c.before else "", c.after.name if c.after else "") for c in found]


def test_rows_match_by_name_wherever_they_stand() -> None:
    assert matched(rows("a", "b"), rows("b", "a")) == [("name", "b", "b"), ("name", "a", "a")]


def test_another_shape_or_operation_under_the_same_name_is_a_change() -> None:
    small, large = rows("a", weight_shape=(4, 4)), rows("a", weight_shape=(8, 4))
    assert matched(small, large) == [("changed", "a", "a")]
    assert matched(small, rows("a", op="linear", weight_shape=(4, 4))) == [("changed", "a", "a")]
    assert matched(small, rows("a", weight_shape=(4, 4), details="k3 s2")) == [("name", "a", "a")]


def test_renamed_rows_match_in_order_only_where_the_whole_sequence_is_equal() -> None:
    names = (("a", "/a/Conv"), ("b", "/b/Conv"), ("c", "/c/Conv"))
    before, after = (tuple(fakes.layer(pair[i], 2.0, details=f"k{n}") for n, pair in enumerate(names)) for i in (0, 1))
    assert matched(before, after) == [("shape", *pair) for pair in names]
    both = (*rows("same"), *before), (*after, *rows("same"))
    assert matched(*both) == [*(("shape", *pair) for pair in names), ("name", "same", "same")]
    for other in (after[:2], after[::-1], (*after, *rows("d")), (*after[:2], replace(after[2], details="k9"))):
        found = matched(before, other)
        assert [name for kind, name, _ in found if kind == "removed"] == ["a", "b", "c"]
        assert [name for kind, _, name in found if kind == "added"] == [row.name for row in other]


def test_removed_rows_stand_where_they_stood() -> None:
    assert matched(rows("a", "b", "c"), rows("a", "c")) == [
        ("name", "a", "a"),
        ("removed", "b", ""),
        ("name", "c", "c"),
    ]
    assert matched(rows("x", "y", "c"), rows("c")) == [("removed", "x", ""), ("removed", "y", ""), ("name", "c", "c")]
    assert matched((), rows("a")) == [("added", "", "a")]
    assert matched((), ()) == []


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 2)), max_size=8), st.data())
def test_no_row_is_dropped_or_used_twice(entries: list[tuple[str, int]], data: st.DataObject) -> None:
    others = data.draw(st.permutations(entries)) + data.draw(
        st.lists(st.sampled_from(entries or [("z", 1)]), max_size=2)
    )
    before, after = (tuple(fakes.layer(n, 2.0, weight_shape=(w,)) for n, w in part) for part in (entries, others))
    found = diff_reports(fakes.report(before), fakes.report(after)).layers
    assert [c.after for c in found if c.after] == list(after)
    kept = [c.before for c in found if c.before]
    assert sorted(map(repr, kept)) == sorted(map(repr, before))
    for change in found:
        assert (change.move is None) == (change.match in ("added", "removed"))


def test_a_report_beside_itself_has_not_moved() -> None:
    for name in ("digits_resnet", "digits_vit", "digits_se", "digits_unet", "digits_mobile"):
        report = expected(name)
        found = lipaudit.diff(report, report)
        assert set(verdicts(found)) <= {"within brackets", "same", "missing"}
        assert found.network.verdict == ("missing" if name == "digits_se" else "same")
        assert all(change.contribution in (None, 0.0) for change in found.layers)
        assert any("The same weights" in note for note in found.notes)
        assert found.tool_version == lipaudit.__version__


def test_beside_the_domain_in_force_others_are_compared() -> None:
    report = expected("digits_se")
    (pixels,) = report.network.other_domains
    doubled = fakes.changed(pixels, log10_upper_bound=pixels.log10_upper_bound + math.log10(2))
    after = replace(report, network=replace(report.network, other_domains=(doubled,)))
    (other,) = diff_reports(report, after).other_domains
    assert (other.domain, other.move.verdict) == ("pixels", "rose")
    assert other.move.factor == pytest.approx(2)
    darker = replace(after, model=replace(after.model, preprocessing={"mean": (0.5,), "std": (1.0,)}))
    assert diff_reports(report, darker).other_domains[0].move is None
    bare = replace(report, network=replace(report.network, other_domains=()))
    (gone,) = diff_reports(report, bare).other_domains
    assert (gone.before, gone.after, gone.move) == (pixels, None, None)


def chain(factors: list[float]) -> AuditReport:
    """A network whose bound is the product of its rows, with the shares that the audit gives it."""
    logs = [math.log10(c) for c in factors]
    total = math.fsum(log for log in logs if log > 0)
    layers = tuple(
        fakes.layer(f"l{i}", c, share=log / total) for i, (c, log) in enumerate(zip(factors, logs, strict=True))
    )
    return fakes.report(layers, upper_bound=10 ** sum(logs), log10_upper_bound=sum(logs))


def test_in_a_chain_the_contributions_are_the_move() -> None:
    found = diff_reports(chain([3.0, 0.5, 7.0]), chain([4.0, 0.25, 7.0]))
    parts = [change.contribution for change in found.layers]
    assert parts == pytest.approx([math.log10(4 / 3), math.log10(0.5), 0.0], abs=1e-12)
    assert sum(filter(None, parts)) == pytest.approx(found.network.log10_factor)
    longer = diff_reports(chain([3.0, 0.5]), chain([3.0, 0.5, 7.0]))
    assert [c.match for c in longer.layers] == ["name", "name", "added"]
    assert longer.layers[2].contribution == pytest.approx(math.log10(7))
    shorter = diff_reports(chain([3.0, 0.5, 7.0]), chain([3.0, 0.5]))
    assert shorter.layers[2].contribution == pytest.approx(-math.log10(7))


def test_in_a_real_network_contributions_add_up_to_first_order() -> None:
    report = expected("digits_resnet")
    parts = [change.contribution for change in diff_reports(report, expected("digits_resnet")).layers]
    assert len(parts) == 11
    assert None not in parts
    by_name = {row.name: row for row in report.layers}
    # the only row of a side branch weighs less than those that every path passes
    weights = elasticities(report.layers)
    named = {row.name: weights[i] for i, row in enumerate(report.layers)}
    assert named["/head/Gemm"] == pytest.approx(1, abs=1e-6)
    assert named["/stem/stem.0/Conv"] == pytest.approx(1, abs=1e-6)
    assert 0 < named["/block2/shortcut/shortcut.0/Conv"] < 0.5
    assert set(named) == set(by_name)


def test_without_a_bound_of_the_network_there_are_no_contributions() -> None:
    gated = fakes.gated()
    assert {change.contribution for change in diff_reports(gated, gated).layers} == {None}
    assert {c.contribution for c in diff_reports(fakes.report(), gated).layers} == {None}


def with_settings(report: AuditReport, **changes: Any) -> AuditReport:
    return replace(report, settings=replace(report.settings, **changes))


def normalised(report: AuditReport, mean: float) -> AuditReport:
    return replace(report, model=replace(report.model, preprocessing={"mean": (mean,), "std": (1.0,)}))


def without_centre(radius: float) -> AuditReport:
    return fakes.around_a_cat(around=None, radius=radius, radius_in="input")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            fakes.report(),
            fakes.on_pixels(),
            r"domains: all inputs in the first, all images .* in the second: .* same --domain",
        ),
        (fakes.around_a_cat(), fakes.around_a_cat(around="dog.png"), r"of cat.png.*of dog.png"),
        (fakes.around_a_cat(), fakes.around_a_cat(radius=0.25), r"within 0.5 .*within 0.25 "),
        (fakes.around_a_cat(), fakes.around_a_cat(radius_in="input"), r"in pixels.*network's own input"),
        (without_centre(0.5), without_centre(0.25), "within 0.5 .* within 0.25"),
        (normalised(fakes.on_pixels(), 0.0), normalised(fakes.on_pixels(), 0.5), r"by mean 0.5"),
        (
            fakes.report(),
            fakes.estimate(),
            "different methods: gram in the first, sedghi2019 in the second: .* same --method",
        ),
        (
            fakes.report(),
            with_settings(fakes.report(), norm="linf"),
            "different norms: l2 in the first, linf in the second",
        ),
        (fakes.report(), with_settings(fakes.report(), structure=True), r"the second report \(resnet50\).*--structure"),
        (with_settings(fakes.report(), structure=True), fakes.report(), r"the first report"),
        (
            fakes.report(),
            fakes.estimate(),
            "different methods: gram in the first, sedghi2019 in the second: audit both with the same --method",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(before: AuditReport, after: AuditReport, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        diff_reports(before, after)


def test_over_all_inputs_the_normalisation_does_not_matter() -> None:
    assert diff_reports(normalised(fakes.report(), 0.0), normalised(fakes.report(), 0.5)).network.verdict == "same"


def test_what_is_no_report_is_refused() -> None:
    with pytest.raises(UsageError, match=r"must be an AuditReport, got 'a.json': AuditReport\.load reads a file"):
        lipaudit.diff("a.json", fakes.report())  # type: ignore[arg-type]


def test_what_else_differs_is_said() -> None:
    before = fakes.report()
    wide = {"input_shape": (1, 3, 64, 64), "input_shapes": {"x": (1, 3, 64, 64)}, "state_dict_sha256": "aa" * 32}
    after = replace(
        with_settings(before, tolerance=0.01, device="cuda"), tool_version="0.2.0", model=replace(before.model, **wide)
    )
    notes = "\n".join(diff_reports(before, after).notes)
    assert "weights differ" in notes
    assert "1x3x224x224 before, 1x3x64x64 after" in notes
    assert "Another tolerance: 0.001 before, 0.01 after." in notes
    assert "Another device: cpu before, cuda after." in notes
    assert "0.1.0 before, 0.2.0 after" in notes
    same = diff_reports(before, before).notes
    assert same == (f"The same weights: both reports have the SHA-256 {'0f' * 32}.",)
    unknown = replace(before, model=replace(before.model, state_dict_sha256=None))
    assert diff_reports(before, unknown).notes == (
        "Whether the weights are the same is not known: a report has no hash of them.",
    )
    assert diff_reports(unknown, unknown).notes == diff_reports(before, unknown).notes


def test_what_a_ball_is_around_is_taken_from_its_name_and_said() -> None:
    assert "both reports name cat.png" in diff_reports(fakes.around_a_cat(), fakes.around_a_cat()).notes[-1]
    assert "given in Python, without a name" in diff_reports(without_centre(0.5), without_centre(0.5)).notes[-1]


def test_iterations_of_a_method_are_said() -> None:
    found = diff_reports(fakes.estimate("ryu2019", 10), fakes.estimate("ryu2019", 50))
    assert "Another number of iterations or samples: 10 before, 50 after." in found.notes
    assert found.network.verdict == "same"


def test_the_order_of_the_layers_does_not_change_the_verdicts() -> None:
    layers = list(fakes.resnet_layers())
    moved = [
        fakes.changed(row, upper_bound=2 * row.upper_bound, log10_upper_bound=row.log10_upper_bound + math.log10(2))
        for row in layers
    ]
    random.Random(0).shuffle(moved)
    found = diff_reports(fakes.report(tuple(layers)), fakes.report(tuple(moved)))
    assert {change.match for change in found.layers} == {"name"}
    assert [change.after for change in found.layers] == moved


def test_other_domains_of_fakes_are_records() -> None:
    gated = fakes.gated(other_domains=(DomainRecord("pixels", "unbounded"),))
    (other,) = diff_reports(fakes.gated(), gated).other_domains
    assert other.move.verdict == "lost"


def test_other_outputs_are_said() -> None:
    def of(*names: str) -> AuditReport:
        return fakes.report(outputs=tuple(OutputRecord(name, "finite", Figure.of(2.0)) for name in names))

    def said(before: AuditReport, after: AuditReport) -> list[str]:
        return [note for note in diff_reports(before, after).notes if "outputs" in note]

    assert said(of("a", "b"), of("a", "b")) == said(of(), of("a")) == said(of("a"), of()) == []
    assert said(of("a", "b\x1b"), of("a")) == [
        "Other outputs: 2 outputs (a, b\\x1b) before, 1 output (a) after. The network's figure is of all outputs together, so that "
        "the two are not of the same thing."
    ]
    assert said(of("logits"), of("output")) == [
        "Other outputs: 1 output (logits) before, 1 output (output) after. If only the names differ, the network's figures are of "
        "the same thing."
    ]
