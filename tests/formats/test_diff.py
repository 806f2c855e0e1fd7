"""The layout of diffs: what is shown, in which order, and what it claims."""

from __future__ import annotations

import csv
import io
import math
import re
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from lipaudit.auditing.diff import diff as diff_reports
from lipaudit.formats import (
    diff as text,
)
from lipaudit.formats.layout import Layout
from lipaudit.formats.options import Options
from lipaudit.records.diff import ReportDiff
from lipaudit.records.report import AuditReport, LayerRecord
from tests.auditing.test_diff import chain, expected
from tests.records import (
    fakes,
)


def words(shown: str) -> str:
    return " ".join(shown.split())


def rows(shown: str) -> list[list[str]]:
    """The cells of the table, by its own rule of dashes."""
    lines = shown.splitlines()
    rule = next(i for i, line in enumerate(lines) if line.startswith("---"))
    spans = [match.span() for match in re.finditer("-+", lines[rule])]
    body = lines[rule + 1 : lines.index("", rule)]
    return [[line[start : end if end < len(lines[rule]) else None].strip() for start, end in spans] for line in body]


def moved() -> ReportDiff:
    """One row grew, one shrank, one stayed, one was renamed."""
    return diff_reports(chain([3.0, 0.5, 7.0]), chain([4.51441, 0.25, 7.0]))


def test_only_what_moved_is_listed_unless_everything_is_asked_for() -> None:
    shown = text.table(moved())
    assert [row[0] for row in rows(shown)] == ["l0", "l1"]
    assert "1 row has the same figures; --all lists it." in words(shown)
    everything = text.table(moved(), Options(Layout(every_row=True)))
    assert [row[0] for row in rows(everything)] == ["l0", "l1", "l2"]
    assert "lists it" not in words(everything)


def test_bounds_are_rounded_outward_and_the_factor_to_the_nearest() -> None:
    first, second = rows(text.table(moved()))
    assert first == ["l0", "conv2d", "2.997..3", "4.511..4.515", "1.505", "grew"]
    assert second == ["l1", "conv2d", "0.4996..0.5", "0.2498..0.25", "0.5", "shrank"]


def test_the_result_says_what_moved_the_network_and_claims_no_more() -> None:
    shown = words(text.table(moved()))
    assert (
        "The upper bound of the network fell (factor 0.7524): at most 10.5 (10^1.022) before, at most 7.901 (10^0.8977) after"
        in shown
    )
    assert (
        "l1 (conv2d): factor 0.5, shrank; the network's figure times 0.5 l0 (conv2d): factor 1.505, grew; the network's figure "
        "times 1.505 The other 1 row: the network's figure times 1 What" in shown
    )
    assert (
        "together they make 0.7524. The network's figure, which may be below that product, has the factor 0.7524"
        in shown
    )
    assert "3 rows in both reports: 1 grew, 1 shrank, 1 within brackets." in shown
    assert "the tolerance of the audits can explain the difference" in shown
    grown = words(text.table(diff_reports(chain([3.0]), chain([4.0]))))
    assert (
        "A larger upper bound does not prove that the network stretches more: less is guaranteed than before." in grown
    )
    assert (
        "A smaller upper bound does not prove that the network stretches less: more is guaranteed than before." in shown
    )
    assert "lower bound does not" not in shown


def test_a_report_beside_itself_says_that_nothing_moved() -> None:
    report = expected("digits_resnet")
    shown = text.table(diff_reports(report, report))
    assert "---" not in shown
    assert "11 rows have the same figures; --all lists them." in words(shown)
    assert "The upper bound of the network is the same: at most 7471 (10^3.874) before" in words(shown)
    assert "The same weights" in shown
    assert "Moved most" not in shown


def times(shown: str) -> list[float]:
    """The factors of the network that rows are said to have."""
    return [float(figure) for figure in re.findall(r"the network's figure times ([0-9.e+-]+)", words(shown))]


def test_rows_within_their_brackets_did_not_prove_to_move_and_still_count() -> None:
    """A loose bracket hides nothing: its part of the network's factor is listed, and the listed parts make the whole."""
    before, after = chain([2.0, 3.0, *[5.0] * 8]), chain([4.0, 3.3, *[5.0005] * 8])
    loose = fakes.changed(after.layers[1], lower_bound=1.0, log10_lower_bound=0.0)
    after = replace(after, layers=(after.layers[0], loose, *after.layers[2:]))
    shown = text.table(diff_reports(before, after))
    assert [row[0] for row in rows(shown)] == ["l0"]
    assert "9 rows are within their brackets (no move is proven); --all lists them." in words(shown)
    assert "l1 (conv2d): factor 1.1, within brackets; the network's figure times 1.1" in words(shown)
    assert "The other 8 rows: the network's figure times 1.001" in words(shown)
    parts = times(shown)
    assert len(parts) == 3
    assert math.prod(parts) == pytest.approx(2.0 * 1.1 * 1.0001**8, rel=2e-3)
    assert "did not move" not in words(shown)


def test_reasons_for_hiding_rows_are_counted_apart() -> None:
    before = (fakes.layer("a", 2.0), fakes.layer("b", 2.0), fakes.missing("gate", "unbounded", "mul", ""))
    after = (before[0], fakes.layer("b", 2.0002), before[2])
    shown = text.table(diff_reports(*(fakes.report(rows, status="unbounded") for rows in (before, after))))
    assert (
        "1 row is within its brackets (no move is proven), 1 row has the same figures, 1 row has no bound before and after; --all "
        "lists them." in words(shown)
    )


tight = st.floats(min_value=1e-9, max_value=0.5)


@settings(deadline=None, max_examples=100)
@given(st.floats(min_value=1e-9, max_value=1e9), tight, st.booleans(), st.booleans())
def test_a_proven_move_is_seen_in_the_figures_and_the_factor(c: float, move: float, up: bool, log: bool) -> None:
    """The brackets that are shown are apart as the true ones are, and each still holds what it stands for."""
    pair = [fakes.layer("a", c, lower_bound=c, log10_lower_bound=math.log10(c))]
    other = c * (1 + move)
    pair.append(fakes.layer("a", other, lower_bound=other, log10_lower_bound=math.log10(other)))
    bare = {"lower_bound": None, "upper_bound": None} if log else {}
    first, second = (fakes.changed(row, **bare) for row in (pair if up else pair[::-1]))
    found = diff_reports(fakes.report((first,)), fakes.report((second,)))
    ((_, _, before, after, factor, verdict),) = rows(text.table(found))
    assert verdict == ("grew" if up else "shrank")
    cells = (before, after) if up else (after, before)
    small, large = ([Decimal(end.removeprefix("10^")) for end in cell.split("..")] for cell in cells)
    true = [Decimal(math.log10(value) if log else value) for value in (c, other)]
    assert small[-1] < large[0] or len(large) == 1  # there is not room for both ends of long figures
    assert small[-1] < large[-1]
    assert small[-1] >= true[0]
    assert large[-1] >= true[1]
    assert len(large) == 1 or (small[0] <= true[0] and large[0] <= true[1])
    assert (float(factor) > 1) == up


def test_a_small_move_of_the_network_and_of_a_bare_bound_is_seen() -> None:
    bare = {"lower_bound": None, "log10_lower_bound": None, "share": None}
    before, after = (
        fakes.report((fakes.layer("a", c, **bare),), upper_bound=c, log10_upper_bound=math.log10(c))
        for c in (2.0, 2.0000099)
    )
    shown = text.table(diff_reports(before, after))
    assert rows(shown) == [["a", "conv2d", "2", "2.00001", "1.000005", "bound rose"]]
    said = "rose (factor 1.000005): at most 2 (10^0.3010300) before, at most 2.00001 (10^0.3010322) after"
    assert said in words(shown)


def test_lost_bounds_come_first_and_loudest() -> None:
    before = fakes.report((fakes.layer("a", 2.0), fakes.layer("b", 2.0), fakes.layer("gate", 2.0, "mul")))
    after = fakes.report(
        (fakes.layer("a", 9.0), fakes.layer("b", 2.0), fakes.missing("gate", "unbounded", "mul", "a product")),
        status="unbounded",
    )
    shown = text.table(diff_reports(before, after))
    first = words(shown.partition("Before")[0])
    assert first == (
        "BOUND LOST: the network had a proven bound before and has none after (unbounded); 1 row had a proven bound before and none "
        "after: gate."
    )
    assert [(row[0], row[3], row[5]) for row in rows(shown)] == [
        ("gate", "unbounded", "BOUND LOST"),
        ("a", "8.993..9", "grew"),
    ]
    assert "1 lost its bound, 1 grew, 1 within brackets" in words(shown)
    assert "The network LOST ITS BOUND" in words(shown)
    gained = text.table(diff_reports(after, before))
    assert not gained.startswith("BOUND")
    assert rows(gained)[0][5] == "BOUND GAINED"
    assert "The network GAINED A BOUND: unbounded before, at most" in words(gained)


def test_new_rows_without_a_bound_are_loud_too() -> None:
    before = fakes.report((fakes.layer("a", 2.0),), status="unbounded")
    after = fakes.report((fakes.layer("a", 2.0), fakes.missing("gate", "unbounded", "mul", "")), status="unbounded")
    shown = text.table(diff_reports(before, after))
    assert shown.startswith("NO BOUND: 1 row without a proven bound has come: gate.\n")
    assert "The network has no bound before and after: unbounded over all inputs." in words(shown)
    assert rows(shown) == [["gate", "mul", "", "unbounded", "", "added"]]


def test_added_removed_and_changed_rows_are_listed_and_named() -> None:
    before = fakes.report((fakes.layer("a", 2.0, weight_shape=(2, 2)), fakes.layer("gone", 2.0)))
    after = fakes.report((fakes.layer("a", 3.0, weight_shape=(4, 2), details="k3"), fakes.layer("new", 2.0, "mul")))
    shown = text.table(diff_reports(before, after))
    assert [(row[0], row[5]) for row in rows(shown)] == [("a", "changed"), ("gone", "removed"), ("new", "added")]
    assert "1 row of the same name is another operation or has another weight shape: a." in words(shown)
    assert "1 row only after: new. 1 row only before: gone." in words(shown)
    assert "a: conv2d 2x2 before, conv2d 4x2 k3 after." in words(shown)


def test_renamed_rows_are_said_to_be_matched_in_order() -> None:
    before, after = fakes.report((fakes.layer("a", 2.0),)), fakes.report((fakes.layer("/a/Conv", 9.0),))
    shown = words(text.table(diff_reports(before, after)))
    assert "1 row matched in order, because all operations, weight shapes and geometries" in shown
    assert "are equal: a is /a/Conv." in shown


def test_estimates_are_marked_and_never_called_bounds() -> None:
    before, after = fakes.estimate(), fakes.estimate(estimate=10**21.5, log10_estimate=21.5)
    row = fakes.changed(after.layers[0], estimate=9.0, log10_estimate=0.954242)
    shown = text.table(diff_reports(before, replace(after, layers=(row, *after.layers[1:]))))
    assert rows(shown) == [["conv1", "conv2d", "~4.751", "~9", "~1.894", "estimate rose"]]
    assert "The estimate for the network rose (factor ~1.105): about 2.862e+21 (10^21.46) (estimate) before" in words(
        shown
    )
    assert "An estimate (marked ~) proves nothing" in words(shown)
    assert "upper bound of" not in shown
    assert "higher bound" not in words(shown)


def test_a_bound_that_becomes_an_estimate_is_lost() -> None:
    before = fakes.report((fakes.layer("a", 2.0),))
    after = fakes.report((fakes.estimated("a", 2.0),))
    shown = text.table(diff_reports(before, after))
    assert shown.startswith("BOUND LOST: 1 row had a proven bound before and none after: a.")
    assert "Rigor certified before, estimate after: a." in words(shown)
    assert rows(shown)[0][2:] == ["1.998..2", "~2", "~1", "BOUND LOST"]


def test_another_rigor_is_said() -> None:
    before, after = fakes.report((fakes.layer("a", 2.0),)), fakes.report((fakes.layer("a", 2.0, rigor="numerical"),))
    assert "Rigor certified before, numerical after: a." in words(text.table(diff_reports(before, after)))
    grown = fakes.report((fakes.layer("a", 9.0, rigor="numerical"),))
    assert "up to rounding where a row is numerical" in words(text.table(diff_reports(before, grown)))


def test_other_domains_stand_beside_the_one_in_force() -> None:
    shown = words(text.table(diff_reports(fakes.gated(), fakes.gated())))
    pair = "at most 5.149e+08 (10^8.712)"
    assert f"Over all images with pixels in [0, 1]: {pair} before, {pair} after, a factor of 1." in shown
    shown = words(text.table(diff_reports(fakes.gated(other_domains=()), fakes.gated())))
    assert f"Over all images with pixels in [0, 1]: {pair} after; the first report says nothing of it." in shown


def test_the_tolerances_of_both_reports_are_named() -> None:
    before, after = chain([3.0]), chain([4.0])
    assert "Tolerance 0.001: how closely" in words(text.table(diff_reports(before, after)))
    after = replace(after, settings=replace(after.settings, tolerance=0.01))
    assert "Tolerance 0.001 and 0.01: how closely" in words(text.table(diff_reports(before, after)))


def test_without_shares_rows_are_ranked_by_their_own_factors() -> None:
    before, after = (
        fakes.report(tuple(fakes.layer(n, f, share=None) for n, f in zip("abc", factors, strict=True)))
        for factors in ((2.0, 2.0, 2.0), (3.0, 0.5, 2.0))
    )
    shown = words(text.table(diff_reports(before, after)))
    assert "Moved most b (conv2d): factor 0.25, shrank a (conv2d): factor 1.5, grew" in shown
    assert "network's figure" not in shown


def test_no_rows_at_all_is_said() -> None:
    assert "Neither report has a row." in text.table(diff_reports(fakes.report(()), fakes.report(())))


def test_markdown_is_one_table_that_a_parser_reads() -> None:
    strange = "a|b<script>`*_\x1b[2J"
    found = diff_reports(fakes.report((fakes.layer(strange, 2.0),)), fakes.report((fakes.layer(strange, 9.0),)))
    shown = text.markdown(found)
    tokens = MarkdownIt("commonmark").enable("table").parse(shown)
    cells = [tokens[i + 1] for i, token in enumerate(tokens) if token.type == "td_open"]
    read = ["".join(child.content for child in cell.children or ()) for cell in cells]
    assert read == ["a|b<script>`*_\\x1b[2J", "conv2d", "1.998..2", "8.993..9", "4.5", "grew"]
    assert not any(token.type in ("html_block", "html_inline") for token in tokens)
    assert "<script>" not in MarkdownIt("commonmark").enable("table").render(shown)
    lost = text.markdown(diff_reports(fakes.report(), fakes.gated()))
    assert lost.startswith("**BOUND LOST: ")


def test_the_tsv_has_every_row_and_raw_numbers() -> None:
    found = diff_reports(fakes.gated(), fakes.gated())
    read = list(csv.DictReader(io.StringIO(text.tsv(found)), delimiter="\t", quoting=csv.QUOTE_NONE))
    assert [row["scope"] for row in read[:3]] == ["network", "network over pixels", "layer"]
    assert len(read) == 2 + len(found.layers)
    assert (read[0]["verdict"], read[0]["status_after"], read[0]["lower_bound_after"]) == ("missing", "unbounded", "")
    assert float(read[1]["upper_bound_before"]) == 5.1487e8
    change, row = (
        moved().layers[0],
        next(
            csv.DictReader(
                io.StringIO(text.tsv(moved()).split("\n", 2)[0] + "\n" + text.tsv(moved()).split("\n")[2]),
                delimiter="\t",
            )
        ),
    )
    assert change.move is not None
    assert float(row["factor"]) == change.move.factor
    assert float(row["contribution"]) == change.contribution
    assert (float(row["upper_bound_before"]), float(row["upper_bound_after"])) == (3.0, 4.51441)


def test_an_empirical_lower_bound_of_the_network_is_no_bound_of_a_bracket() -> None:
    """What was found by trying is no bound of a bracket: it is not in the TSV, and makes no verdict."""
    before, after = (
        replace(r, network=fakes.changed(r.network, lower_bound=low))
        for r, low in ((chain([3.0]), 1.0), (chain([4.0]), 3.9))
    )
    found = diff_reports(before, after)
    assert found.network.verdict == "rose"
    (network,) = [line for line in text.tsv(found).split("\n") if line.startswith("network\t")]
    assert "3.9" not in network.split("\t")


names = st.text(min_size=1, max_size=60)
factors = st.floats(min_value=1e-300, max_value=1e300)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(names, names, factors, factors), min_size=1, max_size=4), st.booleans())
def test_any_names_and_figures_fit(entries: list[tuple[str, str, float, float]], huge: bool) -> None:
    def report(at: int) -> AuditReport:
        return fakes.report(
            tuple(row(entry, at) for entry in entries), upper_bound=None, log10_upper_bound=1234.5 + 999 * at
        )

    def row(entry: tuple[str, str, float, float], at: int) -> LayerRecord:
        changes: dict[str, Any] = {"share": None}
        if huge:
            logs = {"log10_lower_bound": -98765.4, "log10_upper_bound": 98765.4 + at}
            changes |= {"upper_bound": None, "lower_bound": None, "tightness": None, **logs}
        return fakes.layer(entry[0], entry[2 + at], entry[1], **changes)

    found = diff_reports(report(0), report(1))
    lines = text.table(found, Options(Layout(every_row=True))).split("\n")
    assert max(map(len, lines)) <= 100
    assert all(line.isprintable() for line in lines)
    assert {line.count("\t") for line in text.tsv(found).split("\n")} == {len(text.TSV_HEADER) - 1}
    assert all(line.isprintable() for line in text.markdown(found).split("\n"))
    assert len(rows("\n".join(lines))) == len(found.layers)
