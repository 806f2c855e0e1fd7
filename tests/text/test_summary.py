from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest

from lipaudit.formats.table import render
from lipaudit.records.figure import ESTIMATE, Figure
from lipaudit.records.report import AuditReport, BoundRecord, DomainRecord, LayerRecord, OutputRecord, SegmentRecord
from lipaudit.text.summary import headline, sections, title, warning
from tests.records import (
    fakes,
)


def section(report: AuditReport, label: str) -> tuple[str, ...]:
    return next((entry.lines for entry in sections(report) if entry.label == label), ())


def test_over_pixels_a_change_counts_after_a_known_normalisation() -> None:
    def start(report: AuditReport) -> str:
        return headline(report).split(")")[0]

    found = fakes.on_pixels()
    bare = replace(found, model=replace(found.model, preprocessing=None))
    plain, scaled = (
        replace(found, model=replace(found.model, preprocessing={"mean": (0.5,), "std": (std,)})) for std in (1.0, 0.5)
    )
    assert start(scaled) == "A change of the input by 1 (l2, after normalisation"
    assert start(plain) == start(bare) == "A change of the input by 1 (l2"
    guess = replace(scaled, network=replace(fakes.estimate().network, domain="pixels"))
    assert start(guess).endswith("a change of the input by 1 (l2, after normalisation")
    everywhere = replace(scaled, network=replace(scaled.network, domain="global"))
    assert start(everywhere) == "A change of the input by 1 (l2"
    assert "that differ by d (l2, after normalisation) have" in render(scaled)


def test_headline_of_a_finite_network_rounds_up() -> None:
    report = fakes.report(upper_bound=24.5961, log10_upper_bound=1.390866)
    assert headline(report) == (
        "A change of the input by 1 (l2) can change the output by at most 24.6 (10^1.391), over all inputs."
    )


@pytest.mark.parametrize(("status", "word"), [("unbounded", "UNBOUNDED"), ("unsupported", "NOT AVAILABLE")])
def test_headline_without_a_finite_bound_holds_no_figure(status: str, word: str) -> None:
    lines = section(fakes.report(status=status, reasons=("a product of two signals",)), "Result")
    assert lines[0].startswith(word)
    assert not re.search(r"[0-9]", "".join(lines).replace("(l2)", ""))


def test_headline_counts_what_stands_in_the_way() -> None:
    assert headline(fakes.unsupported()).endswith(
        ", because 1 operation has no rule and 2 operations have no finite constant."
    )


def test_nothing_that_is_said_of_an_estimate_claims_a_bound() -> None:
    others = (DomainRecord("pixels", "finite", Figure(0.5119, ESTIMATE, 3.25)),)
    outputs = (
        OutputRecord("a", "finite", Figure.of(3.0, ESTIMATE)),
        OutputRecord("b", "finite", Figure.of(0.0, ESTIMATE)),
    )
    report = fakes.estimate("sedghi2019", outputs=outputs, other_domains=others)
    assert section(report, "Result") == (
        "The largest change of the output for a change of the input by 1 (l2) is estimated to be about 2.862e+21 (10^21.46), "
        "over all inputs: an estimate by sedghi2019, not a bound.",
        "Measured in pixels in [0, 1], before the model's own normalisation: about 1.274e+22 (10^22.11).",
        "Over all images with pixels in [0, 1] (--domain pixels): about 3.25 (10^0.5119).",
        "Output a: about 3 (10^0.4771).",
        "Output b: about 0.",
    )
    text = " ".join(line for entry in sections(report) for line in entry.lines)
    assert "at most" not in text
    assert "true bound" not in text
    assert "A large bound" not in text
    assert "--max-log10-bound makes" not in text
    assert warning(report) == ("ESTIMATE (sedghi2019): the network's figure below is an estimate, not a proven bound.")


def test_estimates_of_rows_are_marked_among_the_most_expensive() -> None:
    assert section(fakes.estimate(), "Costs most")[0] == (
        "3.9% of the stretching (log scale): conv1 (conv2d, factor ~4.751)"
    )
    bare = tuple(replace(row, share=None) for row in fakes.estimate().layers)
    assert "conv1 (conv2d): factor ~4.751" in section(fakes.report(bare, status="unbounded"), "Costs most")


def test_the_scope_names_a_published_method_its_source_and_what_the_tolerance_is_of() -> None:
    _, method, lower, tolerance = section(fakes.estimate("sedghi2019", 20), "Scope")
    assert method.startswith(
        "Norms of weights by sedghi2019 (Sedghi, Gupta, Long: The Singular Values of Convolutional "
    )
    assert ", 20 iterations or samples; exact for circular padding at stride 1" in method
    assert "stride is ignored" in method
    assert lower.startswith(
        "Published methods have no lower bounds: for weights the columns lower and tightness are blank"
    )
    assert ", 1 iteration or sample; " in section(fakes.estimate("ryu2019", 1), "Scope")[1]
    assert not any("no lower bounds" in line for line in section(fakes.report(), "Scope"))
    assert tolerance.startswith("Tolerance 0.001: so closely the norms of pooling and resizing")
    numerical = fakes.report(rigor="numerical")
    numerical = replace(numerical, settings=replace(numerical.settings, method="sedghi2019"))
    assert "Numerical, because" not in " ".join(section(numerical, "Scope"))


def test_a_constant_network_is_said_to_be_one() -> None:
    assert headline(fakes.report(upper_bound=0.0, log10_upper_bound=None)) == (
        "The output does not depend on the input: the bound is 0."
    )


def test_result_names_the_pixel_constant_the_lower_bound_and_every_output() -> None:
    lines = section(fakes.two_outputs(), "Result")
    assert "Measured in pixels in [0, 1], before the model's own normalisation: at most 1.275e+22 (10^22.11)." in lines
    assert lines[3] == (
        "Lower bound found by trying (empirical): near some input, a small change of the input is stretched about "
        "37.57 times, so the true constant is at least that (up to rounding)."
    )
    assert "Output boxes: at most 37.26 (10^1.572)." in lines


def test_a_measured_lower_bound_says_between_which_inputs() -> None:
    report = fakes.two_outputs()
    network = replace(report.network, lower_bound_distance=0.25)
    assert section(replace(report, network=network), "Result")[3] == (
        "Lower bound found by trying, and measured: two inputs at a distance of 0.25 have outputs that differ by at least 37.57 times "
        "as much, so the true constant is at least that."
    )


def test_missing_operations_are_grouped_with_places_and_reasons() -> None:
    assert section(fakes.unsupported(), "Missing") == (
        "unbounded: mul at blocks.3.se.mul, blocks.4.se.mul: a product of two signals has no constant over all inputs",
        "unsupported: fft_rfft2 at head.fft: no rule for aten.fft_rfft2.default",
    )


def test_reasons_of_the_network_that_no_row_tells_are_shown() -> None:
    report = fakes.report(status="unsupported", reasons=("the graph cannot be captured",))
    assert section(report, "Missing") == ("the graph cannot be captured",)


def test_the_five_most_expensive_layers_are_named_in_order() -> None:
    lines = section(fakes.report(), "Costs most")
    shares = [float(line.split("%")[0]) for line in lines[:-1]]
    assert len(shares) == 5
    assert shares == sorted(shares, reverse=True)
    assert lines[0] == "3.9% of the stretching (log scale): conv1 (conv2d, factor 4.752)"
    assert lines[-1].startswith("Shares are counted in logarithms")


def test_shares_are_said_to_be_those_of_the_product_where_a_smaller_bound_is_printed() -> None:
    segment = SegmentRecord(("input",), "fc", 9, "entries", 2.0, 3.0)
    low = BoundRecord("forms", "finite", Figure(2.0, "certified"), segments=(segment,))
    report = fakes.report(
        figure=Figure(2.0, "certified"), bounds=(BoundRecord("product", "finite", Figure(3.0, "certified")), low)
    )
    assert "of the product of layer norms, not of the bound above" in section(report, "Costs most")[-1]
    assert "of the product" not in section(fakes.report(), "Costs most")[-1]
    assert section(report, "Segments") == (
        "input to fc (9 operations): 10^2.000, form on all entries; product of norms 10^3.000",
    )


def test_rows_that_shrink_do_not_cost() -> None:
    layers = (fakes.layer("a", 4.0, share=1.0), fakes.layer("pool", 0.5, "mean", share=-0.5))
    lines = section(fakes.report(layers), "Costs most")
    assert [line for line in lines if "factor " in line] == [
        "100.0% of the stretching (log scale): a (conv2d, factor 4)"
    ]


@pytest.mark.parametrize(
    ("upper", "said"),
    [
        (0.25, "No row stretches: none of the finite factors is above 1."),
        (
            1.5,
            "No row stretches: none of the finite factors is above 1; what is above 1 comes from adding or joining branches.",
        ),
    ],
)
def test_a_network_whose_rows_all_shrink_is_said_to_be_one(upper: float, said: str) -> None:
    report = fakes.report((fakes.layer("a", 0.5),), upper_bound=upper, log10_upper_bound=math.log10(upper))
    assert section(report, "Costs most") == (said,)
    assert section(report, "What to do") == ()


@pytest.mark.parametrize(("log10", "warned"), [(1.0, False), (1.1, True), (400.0, True)])
def test_only_a_large_bound_comes_with_the_remark_on_large_bounds(log10: float, warned: bool) -> None:
    upper = 10**log10 if log10 < 300 else None
    advice = section(fakes.report(upper_bound=upper, log10_upper_bound=log10), "What to do")
    assert any("A large bound" in line for line in advice) is warned


def test_without_shares_the_largest_factors_are_named() -> None:
    assert section(fakes.unsupported(), "Costs most")[0] == "conv1 (conv2d): factor 4.752"


def test_scope_names_domain_rigor_tolerance_and_what_is_folded() -> None:
    scope, tolerance, folded = section(fakes.report(), "Scope")
    assert "all inputs" in scope
    assert "certified: a theorem" in scope
    assert tolerance.startswith("Tolerance 0.001: ")
    assert folded.startswith("Folded exactly: 28 operations into 28 rows (bn1, ")
    assert folded.endswith("and 23 more).")


def test_rows_that_miss_the_tolerance_are_named() -> None:
    layers = (fakes.layer("a", note="torus, flat spectrum"), fakes.layer("b", note="torus"))
    assert section(fakes.report(layers), "Scope")[2] == "Not found that closely, as their notes say: a."


def test_remarks_and_time() -> None:
    remarks = section(fakes.report(), "Remarks")
    assert remarks[0] == "1 parameter never used in the output: aux.weight."
    assert remarks[1] == "The input size comes from the weights' own preprocessing."
    assert section(fakes.report(), "Time") == ("12.8 s (load 0.6 s, capture 2.2 s, norms 10.0 s, propagation 0.0 s).",)


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (fakes.report(), ["Regularise", "--lower-bound"]),
        (fakes.unsupported(), ["none is counted as 1", "Bound what enters them"]),
    ],
)
def test_advice_fits_the_outcome(report: AuditReport, words: list[str]) -> None:
    text = " ".join(section(report, "What to do"))
    assert all(word in text for word in words)


def test_a_constant_network_names_the_weight_that_stops_the_input() -> None:
    rows = (
        fakes.layer("stem"),
        fakes.changed(fakes.layer("head"), upper_bound=0.0, log10_upper_bound=None, share=None),
    )
    found = fakes.report(rows, upper_bound=0.0, log10_upper_bound=None)
    assert headline(found).endswith("the bound is 0. Zero: head.")
    (advice,) = section(found, "What to do")
    assert "Nothing of the input passes head" in advice
    assert "egularise" not in advice


def test_weights_are_to_be_trained_only_where_the_costly_rows_have_some() -> None:
    norm = replace(fakes.layer("norm", 300.0, "layer_norm"), rule="layer_norm", weight_shape=None)
    text = " ".join(section(fakes.report((norm,)), "What to do"))
    assert "A normalisation (norm) stretches by up to max|gamma| / sqrt(eps)" in text
    assert "egularise" not in text


def test_a_bounded_output_is_said_to_bound_every_change() -> None:
    (line,) = [
        line for line in section(fakes.report(output_diameter=1.4142135), "Result") if "The outputs are bounded" in line
    ]
    assert "two of them differ by at most 1.415 " in line
    assert not any("The outputs are bounded" in line for line in section(fakes.report(), "Result"))


def test_title_says_which_model_it_is() -> None:
    assert title(fakes.report().model) == (
        "resnet50 (torchvision, weights IMAGENET1K_V2), input 1x3x224x224, 25,557,032 parameters"
    )


def test_pixels_stand_beside_an_unbounded_global_result() -> None:
    lines = section(fakes.gated(), "Result")
    assert lines == (
        "UNBOUNDED: no finite bound can be given for the network over all inputs, because 2 operations have no finite "
        "constant.",
        "Over all images with pixels in [0, 1] (--domain pixels): at most 5.149e+08 (10^8.712), up to rounding; measured "
        "in pixels in [0, 1] at most 2.249e+09 (10^9.352), up to rounding.",
    )
    assert any("--domain pixels shows each of them" in line for line in section(fakes.gated(), "What to do"))
    assert section(fakes.gated(), "Missing")[0].startswith(
        "unbounded: mul at blocks.3.se.mul, blocks.4.se.mul: product"
    )


def test_global_stands_beside_a_result_on_pixels_and_says_why_it_is_unbounded() -> None:
    first, _, pixels, beside = section(fakes.on_pixels(), "Result")
    assert first.endswith("at most 5.149e+08 (10^8.712), up to rounding, over all images with pixels in [0, 1].")
    assert pixels.startswith("Measured in pixels in [0, 1], before the model's own normalisation: at most 2.3")
    assert pixels.endswith(", up to rounding.")
    assert beside == (
        "Over all inputs (--domain global): unbounded, because of blocks.3.se.mul (mul), blocks.4.se.mul (mul)."
    )


def test_a_finite_global_result_stands_beside_a_ball() -> None:
    lines = section(fakes.around_a_cat(), "Result")
    assert lines[0].endswith("over all inputs within 0.5 (l2, in pixels in [0, 1]) of cat.png.")
    assert lines[-1] == "Over all inputs (--domain global): at most 3.5e+21 (10^21.55)."


def test_pixels_that_are_the_input_are_measured_once() -> None:
    report = fakes.on_pixels()
    report = replace(report, model=replace(report.model, preprocessing={"mean": (0.0,), "std": (1.0,)}))
    assert not any("Measured" in line or "measured" in line for line in section(report, "Result"))


def test_scope_says_the_domain_in_words_and_what_numerical_means() -> None:
    first, second, *_ = section(fakes.on_pixels(), "Scope")
    assert first.startswith("Norm l2, domain pixels (all images with pixels in [0, 1], normalised by mean 0.485, ")
    assert "numerical: a theorem, but floating-point rounding is not accounted for" in first
    assert second.startswith("Numerical, because rounding is not accounted for in ")
    assert section(fakes.gated(), "Scope")[1].startswith("Numerical, because")
    assert not any("Numerical" in line for line in section(fakes.report(), "Scope"))


def test_a_network_of_unknown_normalisation_is_sent_to_pixels() -> None:
    report = fakes.gated(other_domains=())
    report = replace(report, model=replace(report.model, preprocessing=None))
    (line,) = (line for line in section(report, "What to do") if "--domain pixels" in line)
    assert "add --mean and --std" in line


@pytest.mark.parametrize(("log10", "told"), [(5.9, False), (6.1, True), (26.0, True), (200.0, True), (412.0, True)])
def test_an_astronomical_figure_is_said_to_tell_nothing(log10: float, told: bool) -> None:
    lines = [line for line in section(fakes.on_pixels(log10), "What to do") if "figure this large" in line]
    assert bool(lines) is told
    assert (
        not told or "products of two signals, whose factors are as large as the signals can become (40.0%)" in lines[0]
    )


def test_what_makes_a_figure_astronomical() -> None:
    norm = fakes.layer("norm1", 1e3, "layer_norm", rule="normalization", share=0.6)
    attention = fakes.layer("attn", 1e4, "attention", rule="attention", rigor="numerical", share=0.4)
    lines = section(fakes.report((norm, attention), log10_upper_bound=200.0, upper_bound=1e200), "What to do")
    (line,) = (line for line in lines if "figure this large" in line)
    assert line.index("normalisations, which divide") < line.index("attention, whose factor")
    deep = section(fakes.report(log10_upper_bound=200.0, upper_bound=1e200), "What to do")
    assert any("Its depth makes it large" in line for line in deep)


def test_the_name_of_a_centre_cannot_drive_the_terminal() -> None:
    report = fakes.around_a_cat(around="cat\x1b[2J.png")
    assert not any("\x1b" in line for entry in sections(report) for line in entry.lines)


def undefined(*others: LayerRecord, **network: Any) -> AuditReport:
    """sedghi2019 on a network in which it is not defined for one convolution."""
    reason = "sedghi2019 is not defined for reflect padding; choose ryu2019, farnia2019, gouk2021 or gram"
    gap = replace(fakes.missing("up", "unsupported", "conv2d", reason), rule="convolution", weight_shape=(4, 2, 3, 3))
    found = fakes.report((*others, gap), status="unsupported", reasons=(reason,))
    return replace(found, settings=replace(found.settings, method="sedghi2019"))


def test_a_method_that_is_not_defined_somewhere_is_not_a_missing_rule() -> None:
    report = undefined(fakes.estimated("first"))
    assert headline(report) == (
        "NOT AVAILABLE: nothing is claimed for the network as a whole, because sedghi2019 is not defined for 1 operation."
    )
    advice = section(report, "What to do")
    assert advice == (
        "The method sedghi2019 is not defined for up; lipaudit has a rule for these operations. Choose --method gram, or another "
        "method that is defined there (see Missing).",
        "Nothing is counted as 1 in their place. The figures of the other rows stand, those marked ~ as estimates.",
        "An estimate (marked ~) proves nothing, and rows of estimates fail --strict: --method gram gives bounds of them.",
    )
    assert section(undefined(fakes.layer("first")), "What to do")[1].endswith("The bounds of the other rows hold.")


def test_a_method_that_is_not_defined_and_a_missing_rule_are_told_apart() -> None:
    fft = fakes.missing("fft", "unsupported", "fft_rfft2", "no rule for aten.fft_rfft2.default")
    report = undefined(fakes.estimated("first"), fft)
    assert headline(report).endswith("because sedghi2019 is not defined for 1 operation and 1 operation has no rule.")
    method, rule, _ = section(report, "What to do")
    assert method.startswith("The method sedghi2019 is not defined for up;")
    assert "those marked ~ as estimates. Write the model with operations that have a rule" in rule
    # too few samples are the method's as well, though the reason does not begin with its name
    few = replace(
        undefined().layers[0], reason="2 samples per axis give no bound for a kernel of 3 taps: take at least 3"
    )
    assert "is not defined for up" in " ".join(section(replace(report, layers=(few,)), "What to do"))
    # with lipaudit's own norms there is no method to blame
    ours = replace(report, settings=replace(report.settings, method="gram"))
    assert headline(ours).endswith("because 2 operations have no rule.")
    assert not any("The method" in line for line in section(ours, "What to do"))


def test_rows_without_a_bound_of_their_own_do_not_hold() -> None:
    gap = fakes.missing("fft", "unsupported", "fft_rfft2", "no rule")
    text = render(fakes.report((fakes.estimated("first"), gap), status="unsupported"))
    assert "bounds of the other rows hold" not in " ".join(text.split())
    assert "The bounds of the other rows hold" in " ".join(section(fakes.unsupported(), "What to do"))


def test_an_estimate_that_a_jacobian_refutes_is_called_too_small_at_once() -> None:
    estimate = {"estimate": 2.0, "log10_estimate": 0.3010}
    assert headline(fakes.estimate("ryu2019", lower_bound=2.5, **estimate)).endswith(
        "an estimate by ryu2019, not a bound, and too small: a stretching by 2.5 was found."
    )
    for lower in (1.5, 2.001, None):  # a hair above is the rounding of the Jacobian
        assert headline(fakes.estimate("ryu2019", lower_bound=lower, **estimate)).endswith("not a bound.")


def test_rows_that_only_seem_to_shrink_are_not_said_to() -> None:
    report = fakes.estimate("ryu2019", estimate=0.5, log10_estimate=math.log10(0.5))
    report = replace(report, layers=(fakes.estimated("a", 0.5),))
    assert section(report, "Costs most") == ("No row is estimated to stretch: none of the finite factors is above 1.",)


def test_rows_that_are_estimates_are_told_from_bounds_whatever_the_network_has() -> None:
    rows = (fakes.estimated("a", 3.0), fakes.layer("b", 2.0))
    for found in (fakes.report(rows, status="unbounded"), fakes.report(rows)):
        text = " ".join(section(found, "What to do"))
        assert "An estimate (marked ~) proves nothing" in text
        assert "The bounds of the other rows hold" not in text
    assert "An estimate" not in " ".join(section(fakes.report(), "What to do"))


def test_an_estimate_over_another_domain_is_not_sent_to_a_gate() -> None:
    advice = " ".join(section(fakes.estimated_on_pixels(), "What to do"))
    assert "is what a gate can judge" not in advice
    assert "ryu2019 only estimates some of them, and no gate can judge that" in advice
    assert "--domain pixels --method gram may give a bound" in advice
    assert "is what a gate can judge" in " ".join(section(fakes.gated(), "What to do"))
