"""What an audit found, in sentences for a reader who never read the theory; the table and Markdown lay them out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lipaudit.escaping import printable
from lipaudit.records.report import AuditReport, DomainRecord, NetworkRecord, OutputRecord, SegmentRecord
from lipaudit.records.settings import ModelRecord
from lipaudit.records.stretching import costs, stretching
from lipaudit.text.advice import advice
from lipaudit.text.balls import balls_text
from lipaudit.text.domain import described, pixels_are_the_input, place
from lipaudit.text.figures import factor_text
from lipaudit.text.images import jacobian_norms
from lipaudit.text.method import cited, has_estimates, is_ours, is_refuted, is_undefined
from lipaudit.text.numbers import (
    MOST,
    count_text,
    estimate_text,
    log10_estimate_text,
    log10_upper_text,
    lower_text,
    names_text,
    ratio_text,
    reciprocal_text,
    shape_text,
    share_text,
    upper_bound_text,
    upper_text,
)

ADVICE = "What to do"
"""The label of the section for those who can change the model or repeat the audit."""
_MOST_REASONS = 2
_FORMS = {
    "entries": "form on all entries",
    "frequencies": "form per frequency",
    "constant": "its constants multiplied",
}
# notes of rows whose maximum over frequencies is not found to the tolerance
_LOOSER = ("flat spectrum", "reshaped kernel")


@dataclass(frozen=True)
class Section:
    """A label and its sentences."""

    label: str
    lines: tuple[str, ...]

    @classmethod
    def of(cls, label: str, lines: Iterable[str]) -> Section:
        """The sentences with what could drive a terminal escaped: they hold names from model files."""
        return cls(label, tuple(map(printable, lines)))


def title(model: ModelRecord) -> str:
    """One line that says which model this is."""
    shapes = model.input_shapes or {"": model.input_shape}
    inputs = ", ".join(
        f"{name}:{shape_text(shape)}" if len(shapes) > 1 else shape_text(shape) for name, shape in shapes.items()
    )
    weights = f", weights {model.weights}" if model.weights else ""
    return printable(f"{model.spec} ({model.source}{weights}), input {inputs}, {model.num_parameters:,} parameters")


def warning(report: AuditReport) -> str:
    """The line that goes first where a figure is an estimate and no bound; empty otherwise."""
    method = printable(report.settings.method)
    if report.network.rigor == "estimate":
        return f"ESTIMATE ({method}): the network's figure below is an estimate, not a proven bound."
    estimated = [layer.name for layer in report.layers if layer.rigor == "estimate"]
    if estimated:
        return printable(
            f"ESTIMATE ({method}): the figures of these rows are estimates, not proven bounds: {names_text(estimated)}."
        )
    return ""


def sections(report: AuditReport, gated: bool = False) -> tuple[Section, ...]:
    """Every section that has something to say, in reading order; ``gated`` says that the bound has a limit already."""
    candidates = (
        Section.of("Result", _result(report)),
        Section.of("Scope", _scope(report)),
        Section.of("Costs most", _costs(report)),
        Section.of("Segments", _segments(report.network)),
        Section.of("Missing", missing(report)),
        Section.of(ADVICE, advice(report, gated)),
        Section.of("Remarks", remarks(report)),
        Section.of("Time", _time(report.timings)),
    )
    return tuple(section for section in candidates if section.lines)


def headline(report: AuditReport) -> str:
    """The network's figure in one sentence; never a number where the status is not finite."""
    network, where = report.network, place(report.settings, report.network.domain)
    if network.status != "finite":
        counts = _obstacles(report)
        because = f", because {' and '.join(counts)}" if counts else ""
        if network.status == "unbounded":
            return f"UNBOUNDED: no finite bound can be given for the network over {where}{because}."
        return f"NOT AVAILABLE: nothing is claimed for the network as a whole{because}."
    if report.settings.structure:
        return f"FINITE: every operation has a finite constant over {where}, so the network has a bound."
    if network.upper_bound == 0:
        zero = [layer.name for layer in report.layers if layer.upper_bound == 0]
        because = f" Zero: {names_text(zero)}." if zero else ""
        return printable(f"The output does not depend on the input: the bound is 0.{because}")
    if network.rigor == "estimate":
        return (
            f"The largest change of the output for a change of the input by 1 ({unit(report)}) is estimated to be "
            f"{_said(network)}, over {where}: an estimate by {printable(report.settings.method)}, not a bound"
            + (
                f", and too small: a stretching by {lower_text(network.lower_bound or 0.0)} was found."
                if is_refuted(network)
                else "."
            )
        )
    return f"A change of the input by 1 ({unit(report)}) can change the output by {_said(network)}, over {where}."


def unit(report: AuditReport) -> str:
    """In what a change of the input counts: where the domain is one of pixels, they are normalised before the network reads them."""
    pixels = report.network.domain == "pixels" or report.settings.radius_in == "pixels"
    normalised = report.model.preprocessing is not None and not pixels_are_the_input(report)
    norm = report.settings.norm
    return f"{norm}, after normalisation" if pixels and normalised else norm


def _obstacles(report: AuditReport) -> list[str]:
    """How many operations stand in the way of a finite figure, and why."""
    undefined = [layer for layer in report.layers if is_undefined(report, layer)]
    missing = [layer.status for layer in report.layers if layer not in undefined]
    counts = [f"{printable(report.settings.method)} is not defined for {count_text(len(undefined), 'operation')}"]
    return (counts if undefined else []) + [
        f"{count_text(count, 'operation')} {'has' if count == 1 else 'have'} {what}"
        for status, what in (("unsupported", "no rule"), ("unbounded", "no finite constant"))
        if (count := missing.count(status))
    ]


def _result(report: AuditReport) -> Iterable[str]:
    network = report.network
    yield headline(report)
    if network.status == "finite" and not report.settings.structure:
        reciprocal = reciprocal_text(network.upper_bound, network.log10_upper_bound)
        if reciprocal:
            yield f"That is: a change of the input of at most {reciprocal} moves the output by at most 1."
        if pixel := in_pixels(report, network):
            yield f"Measured in pixels in [0, 1], before the model's own normalisation: {pixel}."
    if network.balls and not report.settings.structure:
        yield (
            f"Ball by ball: {balls_text(network.balls)}. The figures and rows of this report are those of the largest; two inputs of "
            "different balls are not compared."
        )
    for other in network.other_domains:
        yield printable(_elsewhere(report, other))
    if network.lower_bound is not None:
        yield _found_by_trying(network, network.lower_bound)
        if network.log10_ratio is not None:
            yield f"The bound is {ratio_text(network.log10_ratio)} times that; the true constant lies between the two."
    if network.images is not None:
        yield printable(jacobian_norms(network.images))
    if network.output_diameter is not None and network.upper_bound != 0:
        yield (
            f"The outputs are bounded: whatever the inputs, two of them differ by at most {upper_text(network.output_diameter)} (l2, up to "
            "rounding), which bounds every change, large ones too."
        )
    if len(network.outputs) > 1:
        for output in network.outputs:
            said = _said(output) if output.status == "finite" else output.status
            yield printable(f"Output {output.name}: {said}.")


def _found_by_trying(network: NetworkRecord, lower: float) -> str:
    if network.lower_bound_distance is None:  # a report from before lower bounds were measured
        return (
            "Lower bound found by trying (empirical): near some input, a small change of the input is stretched about "
            f"{lower_text(lower)} times, so the true constant is at least that (up to rounding)."
        )
    return (
        f"Lower bound found by trying, and measured: two inputs at a distance of {network.lower_bound_distance:.4g} have outputs that "
        f"differ by at least {lower_text(lower)} times as much, so the true constant is at least that."
    )


def in_pixels(report: AuditReport, record: NetworkRecord | DomainRecord) -> str:
    """The figure with respect to pixels; empty where there is none or pixels are the network's input."""
    if pixels_are_the_input(report):
        return ""
    if record.pixel_upper_bound is not None or record.pixel_log10_upper_bound is not None:
        return _at_most(record.pixel_upper_bound, record.pixel_log10_upper_bound) + _rounding(record)
    return _about(record.pixel_estimate, record.pixel_log10_estimate)


def _elsewhere(report: AuditReport, other: DomainRecord) -> str:
    """What holds over another domain than the one in force."""
    start = f"Over {place(report.settings, other.domain)} (--domain {other.domain})"
    if other.status != "finite":
        named = [reason.partition("): ")[0] + ")" for reason in other.reasons]
        return f"{start}: {other.status}" + (f", because of {names_text(named)}." if named else ".")
    said = _said(other)
    if not said:
        return f"{start}: finite."
    pixel = in_pixels(report, other)
    return f"{start}: {said}" + (f"; measured in pixels in [0, 1] {pixel}." if pixel else ".")


def _scope(report: AuditReport) -> Iterable[str]:
    network = report.network
    meaning = {
        "certified": "certified: a theorem, with a margin for floating-point rounding",
        "numerical": "numerical: a theorem, but floating-point rounding is not accounted for",
        "estimate": "estimate: no theorem stands behind it",
    }
    rigor = f"; {meaning[network.rigor]}" if network.rigor in meaning and network.status == "finite" else ""
    yield printable(f"Norm {report.settings.norm}, domain {network.domain} ({described(report)}){rigor}.")
    ours = is_ours(report.settings)
    if not ours:
        yield printable(f"Norms of weights by {cited(report.settings)}. Rounding is not accounted for.")
        yield "Published methods have no lower bounds: for weights the columns lower and tightness are blank, or left out."
    products = any(layer.rigor == "numerical" and layer.weight_shape is None for layer in report.layers)
    if (ours or products) and "numerical" in (network.rigor, *(other.rigor for other in network.other_domains)):
        yield printable(_why_numerical(report))
    two_sided = any(layer.tightness is not None for layer in report.layers)
    if two_sided and not ours:
        yield (
            f"Tolerance {report.settings.tolerance:g}: so closely the norms of pooling and resizing are found, which have no "
            "weights and are certified whatever the method."
        )
    if two_sided and ours:
        yield (
            f"Tolerance {report.settings.tolerance:g}: how closely the norm of a matrix, or a convolution's maximum over frequencies, "
            "is found (`lipaudit explain tolerance`)."
        )
    looser = [layer.name for layer in report.layers if any(word in layer.note for word in _LOOSER)]
    if looser:
        yield printable(f"Not found that closely, as their notes say: {names_text(looser)}.")
    folded = [name for layer in report.layers for name in layer.folded]
    if folded:
        hosts = sum(bool(layer.folded) for layer in report.layers)
        yield f"Folded exactly: {count_text(len(folded), 'operation')} into {count_text(hosts, 'row')} ({names_text(folded)})."


def _why_numerical(report: AuditReport) -> str:
    """What the rounding is in that a numerical figure does not account for."""
    rows = [layer.name for layer in report.layers if layer.rigor == "numerical"]
    if not rows:
        return "Numerical, because rounding is not accounted for in values at one input that it rests on (`lipaudit explain rigor`)."
    return (
        f"Numerical, because rounding is not accounted for in {names_text(rows)}: in the sizes of signals that are multiplied, in "
        "functions that are written out, or in weights that the network computes itself (`lipaudit explain rigor`)."
    )


def _costs(report: AuditReport) -> Iterable[str]:
    listed = costs(report)
    if any(cost.block for cost in listed):
        for cost in listed[:MOST]:
            names = names_text([row.name for row in cost.rows])
            said = cost.block or f"{cost.rows[0].op}, factor {factor_text(cost.rows[0])}"
            yield printable(f"{names} ({said})")
        yield (
            "Rows in a block count together, by its constant (`lipaudit explain block`). The column share leaves blocks out: it "
            "divides what the other rows stretch."
        )
        return
    rows = stretching(report)
    shared = any(layer.share for layer in rows)
    for layer in rows[:MOST]:
        factor = factor_text(layer)
        if shared:
            share = share_text(layer.share or 0.0)
            yield printable(f"{share} of the stretching (log scale): {layer.name} ({layer.op}, factor {factor})")
        else:
            yield printable(f"{layer.name} ({layer.op}): factor {factor}")
    if shared:
        of = " of the product of layer norms, not of the bound above" if _printed_segments(report.network) else ""
        yield f"Shares are counted in logarithms{of}; positive ones add up to 100% (`lipaudit explain share`)."
    if report.layers and not rows and not report.settings.structure:
        branches = "; what is above 1 comes from adding or joining branches" if report.network.log10 > 0.0 else ""
        none = "No row is estimated to stretch" if has_estimates(report) else "No row stretches"
        beside = " but those of rows in blocks" if any(layer.block for layer in report.layers) else ""
        yield f"{none}: none of the finite factors is above 1{beside}{branches}."
    if blocks := list(dict.fromkeys(layer.block for layer in report.layers if layer.block)):
        yield printable(f"Rows in blocks cost nothing by themselves, the blocks count: {names_text(blocks)}.")


def _segments(network: NetworkRecord) -> Iterable[str]:
    """The factors of the segments whose product is the printed bound, and what the product of layer norms gives the same parts."""
    segments = _printed_segments(network)
    if len(segments) > 1:
        (costliest, *_) = sorted(segments, key=lambda segment: -segment.log10_factor)
        yield (
            f"The bound is the product of the factors of {len(segments)} segments. The largest is that from "
            f"{names_text(costliest.inputs)} to {costliest.output} (`lipaudit explain segment`)."
        )
    for segment in segments:
        product = "0" if segment.log10_product is None else f"10^{log10_upper_text(segment.log10_product)}"
        yield (
            f"{names_text(segment.inputs)} to {segment.output} ({count_text(segment.operations, 'operation')}): "
            f"10^{log10_upper_text(segment.log10_factor)}, {_FORMS.get(segment.form, segment.form)}; product of norms {product}"
        )


def _printed_segments(network: NetworkRecord) -> tuple[SegmentRecord, ...]:
    """The segments of the bound that is printed; none where it is the product of layer norms."""
    tight = [bound for bound in network.bounds if bound.segments and bound.figure == network.figure]
    return tight[0].segments if tight else ()


def missing(report: AuditReport, brief: bool = False) -> tuple[str, ...]:
    """Which operations have no finite figure, where and why; ``brief`` names one place of each, and two reasons."""
    lines = tuple(map(printable, _missing(report, brief)))
    if not brief or len(lines) <= _MOST_REASONS:
        return lines
    return (*lines[:_MOST_REASONS], f"and {count_text(len(lines) - _MOST_REASONS, 'reason')} more (-v)")


def _missing(report: AuditReport, brief: bool) -> Iterable[str]:
    places: dict[tuple[str, str, str], list[str]] = {}
    for layer in report.layers:
        if layer.status != "finite":
            places.setdefault((layer.status, layer.op, layer.reason), []).append(layer.name)
    for (status, op, reason), names in places.items():
        where = (
            names_text(names)
            if not brief
            else names[0]
            if len(names) == 1
            else f"{len(names)} places, first {names[0]}"
        )
        yield f"{status}: {op} at {where}" + (f": {reason.partition(': ')[0] if brief else reason}" if reason else "")
    told = [reason for _, _, reason in places if reason]
    for reason in report.network.reasons:
        if not any(known in reason for known in told):
            yield reason


def remarks(report: AuditReport) -> tuple[str, ...]:
    """What a reader must know beside the figures."""
    unused = report.model.unused_parameters
    first = f"{count_text(len(unused), 'parameter')} never used in the output: {names_text(unused)}."
    return tuple(map(printable, (*([first] if unused else []), *report.notes)))


def _time(timings: dict[str, float]) -> Iterable[str]:
    if timings:
        phases = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in timings.items())
        yield f"{sum(timings.values()):.1f} s ({phases})."


def _said(record: NetworkRecord | DomainRecord | OutputRecord) -> str:
    """A finite figure as what it is: at most so much (up to rounding), or about; empty where there is none."""
    if record.upper_bound is not None or record.log10_upper_bound is not None:
        return _at_most(record.upper_bound, record.log10_upper_bound) + _rounding(record)
    return _about(record.estimate, record.log10_estimate)


def _at_most(value: float | None, log10: float | None) -> str:
    if value is None:
        return f"at most {upper_bound_text(None, log10)}"
    return f"at most {upper_text(value)}" + ("" if log10 is None else f" (10^{log10_upper_text(log10)})")


def _rounding(record: NetworkRecord | DomainRecord | OutputRecord) -> str:
    """What a bound leaves out whose rounding is not accounted for."""
    numerical = not isinstance(record, OutputRecord) and record.rigor == "numerical"
    return ", up to rounding" if numerical else ""


def _about(value: float | None, log10: float | None) -> str:
    if value is None and log10 is None:
        return ""
    text = f"about {estimate_text(value, log10)[1:]}"
    return text if value is None or log10 is None else f"{text} (10^{log10_estimate_text(log10)})"
