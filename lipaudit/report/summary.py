"""What an audit found, in sentences for a reader who never read the theory; the table and Markdown lay them out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lipaudit.report.columns import factor_text
from lipaudit.report.display import (
    estimate_text,
    log10_estimate_text,
    log10_upper_text,
    lower_text,
    printable,
    reciprocal_text,
    shape_text,
    share_text,
    upper_bound_text,
    upper_text,
)
from lipaudit.report.domains import described, finite_elsewhere, may_be_finite_on_images, pixels_are_the_input, place
from lipaudit.report.methods import cited, has_estimates, is_ours, is_refuted, is_undefined
from lipaudit.report.record import AuditReport, DomainRecord, LayerRecord, ModelRecord, NetworkRecord, OutputRecord

MOST = 5  # names and layers shown before "and n more"
# notes of rows whose maximum over frequencies is not found to the tolerance
_LOOSER = ("flat spectrum", "reshaped kernel")
# log10 of a figure that is far above the true constant of any network that works
_ASTRONOMICAL = 25.0
_NORMALIZATIONS = ("normalization", "layer_norm", "group_norm", "instance_norm", "rms_norm")
# why rows of these rules are large, whatever the network does on usual inputs
_CAUSES = {
    "normalization": "normalisations, which divide by a size that for some input is as small as eps allows",
    "attention": "attention, whose factor grows with the largest keys and values",
    "product": "products of two signals, whose factors are as large as the signals can become",
}


@dataclass(frozen=True)
class Section:
    """A label and its sentences."""

    label: str
    lines: tuple[str, ...]


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
            f"ESTIMATE ({method}): the figures of these rows are estimates, not proven bounds: {_names(estimated)}."
        )
    return ""


def sections(report: AuditReport) -> tuple[Section, ...]:
    """Every section that has something to say, in reading order."""
    candidates = (
        Section("Result", tuple(_result(report))),
        Section("Scope", tuple(_scope(report))),
        Section("Costs most", tuple(_costs(report))),
        Section("Missing", tuple(_missing(report))),
        Section("What to do", tuple(_advice(report))),
        Section("Remarks", tuple(_remarks(report))),
        Section("Time", tuple(_time(report.timings))),
    )
    return tuple(section for section in candidates if section.lines)


def headline(report: AuditReport) -> str:
    """The network's figure in one sentence; never a number where the status is not finite."""
    network, where = report.network, place(report.settings, report.network.domain)
    if network.status != "finite":
        counts = _counts(report)
        because = f", because {' and '.join(counts)}" if counts else ""
        if network.status == "unbounded":
            return f"UNBOUNDED: no finite bound can be given for the network over {where}{because}."
        return f"NOT AVAILABLE: nothing is claimed for the network as a whole{because}."
    if report.settings.structure:
        return f"FINITE: every operation has a finite constant over {where}, so the network has a bound."
    if network.upper_bound == 0:
        return "The output does not depend on the input: the bound is 0."
    if network.rigor == "estimate":
        return (
            "The largest change of the output for a change of the input by 1 (l2) is estimated to be "
            f"{_said(network)}, over {where}: an estimate by {printable(report.settings.method)}, not a bound"
            + (
                f", and too small: a stretching by {lower_text(network.lower_bound or 0.0)} was found."
                if is_refuted(network)
                else "."
            )
        )
    return f"A change of the input by 1 (l2) can change the output by {_said(network)}, over {where}."


def _counts(report: AuditReport) -> list[str]:
    """How many operations stand in the way of a finite figure, and why."""
    undefined = [layer for layer in report.layers if is_undefined(report, layer)]
    missing = [layer.status for layer in report.layers if layer not in undefined]
    counts = [f"{printable(report.settings.method)} is not defined for {_number(len(undefined), 'operation')}"]
    return (counts if undefined else []) + [
        f"{_number(count, 'operation')} {'has' if count == 1 else 'have'} {what}"
        for status, what in (("unsupported", "no rule"), ("unbounded", "no finite constant"))
        if (count := missing.count(status))
    ]


def _result(report: AuditReport) -> Iterable[str]:
    network = report.network
    yield headline(report)
    if network.status == "finite" and not report.settings.structure:
        reciprocal = reciprocal_text(network.upper_bound, network.log10_upper_bound)
        if reciprocal:
            yield f"Read it so: a change of the input of at most {reciprocal} moves the output by at most 1."
        if pixel := _in_pixels(report, network):
            yield f"Measured in pixels in [0, 1], before the model's own normalisation: {pixel}."
    for other in network.other_domains:
        yield printable(_elsewhere(report, other))
    if network.lower_bound is not None:
        yield (
            "Lower bound found by trying (empirical): near some input, a small change of the input is stretched about "
            f"{lower_text(network.lower_bound)} times, so the true constant is at least that (up to rounding)."
        )
    if len(network.outputs) > 1:
        for output in network.outputs:
            said = _said(output) if output.status == "finite" else output.status
            yield printable(f"Output {output.name}: {said}.")


def _in_pixels(report: AuditReport, record: NetworkRecord | DomainRecord) -> str:
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
        return f"{start}: {other.status}" + (f", because of {_names(named)}." if named else ".")
    said = _said(other)
    if not said:
        return f"{start}: finite."
    pixel = _in_pixels(report, other)
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
        yield "Published methods have no lower bounds: for weights the columns lower and ratio are blank, or left out."
    products = any(layer.rigor == "numerical" and layer.weight_shape is None for layer in report.layers)
    if (ours or products) and "numerical" in (network.rigor, *(other.rigor for other in network.other_domains)):
        yield (
            "Numerical, because products of signals (gating, attention) stretch by as much as the signals are large: how "
            "large they become follows from their values at one input, computed in float64 without a margin for rounding, "
            "and a radius around them."
        )
    two_sided = any(layer.tightness is not None for layer in report.layers)
    if two_sided and not ours:
        yield (
            f"Tolerance {report.settings.tolerance:g}: so closely the norms of pooling and resizing are found, which have no "
            "weights and are certified whatever the method."
        )
    if two_sided and ours:
        yield (
            f"Tolerance {report.settings.tolerance:g}: so closely the norm of a matrix, or a convolution's maximum over "
            "frequencies, is found. The ratio is what is left between a row's own upper and lower bound; for "
            "zero-padded convolutions that includes the effect of the border."
        )
    looser = [layer.name for layer in report.layers if any(word in layer.note for word in _LOOSER)]
    if looser:
        yield printable(f"Not found that closely, as their notes say: {_names(looser)}.")
    folded = [name for layer in report.layers for name in layer.folded]
    if folded:
        hosts = sum(bool(layer.folded) for layer in report.layers)
        yield f"Folded exactly: {_number(len(folded), 'operation')} into {_number(hosts, 'row')} ({_names(folded)})."


def _costs(report: AuditReport) -> Iterable[str]:
    stretching = _stretching(report)
    shared = any(layer.share for layer in stretching)
    for layer in stretching[:MOST]:
        factor = factor_text(layer)
        if shared:
            share = share_text(layer.share or 0.0)
            yield printable(f"{share} of the stretching (log scale): {layer.name} ({layer.op}, factor {factor})")
        else:
            yield printable(f"{layer.name} ({layer.op}): factor {factor}")
    if shared:
        yield (
            "A share is the row's part of everything that stretches, counted in logarithms because factors multiply: "
            "positive shares add up to 100%, a row that shrinks has a negative one."
        )
    if report.layers and not stretching and not report.settings.structure:
        branches = "; what is above 1 comes from adding or joining branches" if _above(report.network, 0.0) else ""
        none = "No row is estimated to stretch" if has_estimates(report) else "No row stretches"
        yield f"{none}: none of the finite factors is above 1{branches}."


def _stretching(report: AuditReport) -> list[LayerRecord]:
    """The rows that make the bound larger, most first: by their shares, or where there are none by their factors."""
    finite = [layer for layer in report.layers if layer.status == "finite"]
    shared = [layer for layer in finite if (layer.share or 0.0) > 0]
    if shared:
        return sorted(shared, key=lambda layer: -(layer.share or 0.0))
    above_one = [layer for layer in finite if _log10(layer) > 0]
    return sorted(above_one, key=lambda layer: -_log10(layer))


def _missing(report: AuditReport) -> Iterable[str]:
    places: dict[tuple[str, str, str], list[str]] = {}
    for layer in report.layers:
        if layer.status != "finite":
            places.setdefault((layer.status, layer.op, layer.reason), []).append(layer.name)
    for (status, op, reason), names in places.items():
        yield printable(f"{status}: {op} at {_names(names)}" + (f": {reason}" if reason else ""))
    told = [reason for _, _, reason in places if reason]
    for reason in report.network.reasons:
        if not any(known in reason for known in told):
            yield printable(reason)


def _advice(report: AuditReport) -> Iterable[str]:
    network = report.network
    statuses = {network.status, *(layer.status for layer in report.layers)}
    undefined = [layer.name for layer in report.layers if is_undefined(report, layer)]
    if undefined:
        method = printable(report.settings.method)
        yield printable(
            f"The method {method} is not defined for {_names(undefined)}; lipaudit has a rule for these operations. Choose "
            "--method gram, or another method that is defined there (see Missing)."
        )
    if "unsupported" in statuses and (not undefined or _without_rule(report)):
        yield (
            f"Unsupported operations stand between input and output; none is counted as 1. {_others(report)}. Write the model "
            "with operations that have a rule, or ask for a rule and quote the lines under Missing."
        )
    elif undefined:
        yield f"Nothing is counted as 1 in their place. {_others(report)}."
    if "unbounded" in statuses:
        yield (
            "Unbounded operations stretch without limit as their input grows (a product of two signals, a jump). Bound "
            "what enters them (a clamp, a sigmoid, a norm) or audit the part of the network before them."
        )
    if (other := finite_elsewhere(report)) is not None:
        yield (
            f"Over {place(report.settings, other.domain)} every operation has a finite constant: --domain {other.domain} "
            "shows each of them, and is what a gate can judge."
        )
    elif may_be_finite_on_images(report):
        yield (
            "If the inputs are images, --domain pixels may give a bound, because there the signals are bounded: add --mean "
            "and --std, the normalisation in front of the network (0 and 1 if it reads pixels in [0, 1] as they are)."
        )
    if network.rigor == "estimate":
        yield "An estimate proves nothing and passes neither --max-log10-bound nor --strict: --method gram gives a bound."
    elif network.status == "finite" and _stretching(report):
        yield (
            "The bound multiplies layer by layer, so the rows under Costs most are where to lower it: regularise or "
            "normalise their weights in training, then audit again. --max-log10-bound X makes a build fail above 10^X."
        )
    if network.rigor != "estimate" and _above(network, _ASTRONOMICAL):
        yield _astronomical(report)
    if network.lower_bound is None and network.rigor != "estimate" and _above(network, 1.0):
        yield "A large bound does not prove a fragile network: --lower-bound shows how far the network does stretch."


def _others(report: AuditReport) -> str:
    """What the rows are worth that have a figure, beside rows that have none."""
    if has_estimates(report):
        return "The figures of the other rows stand, those marked ~ as estimates"
    return "The bounds of the other rows hold"


def _without_rule(report: AuditReport) -> bool:
    return any(layer.status == "unsupported" and not is_undefined(report, layer) for layer in report.layers)


def _astronomical(report: AuditReport) -> str:
    shares = {
        cause: sum(layer.share or 0.0 for layer in report.layers if _kind(layer) == kind)
        for kind, cause in _CAUSES.items()
    }
    causes = [
        f"{cause} ({share_text(share)})"
        for cause, share in sorted(shares.items(), key=lambda entry: -entry[1])
        if share >= 0.1
    ]
    why = f" What makes it large: {'; '.join(causes)}." if causes else " Its depth makes it large: factors multiply."
    return f"A figure this large is a true bound and says nothing useful about typical inputs.{why}"


def _kind(layer: LayerRecord) -> str:
    """The part that a row plays in a bound without measure."""
    if layer.rule == "attention":
        return "attention"
    if layer.rule in _NORMALIZATIONS:
        return "normalization"
    return "product" if layer.rigor == "numerical" else ""


def _remarks(report: AuditReport) -> Iterable[str]:
    unused = report.model.unused_parameters
    if unused:
        yield printable(f"{_number(len(unused), 'parameter')} never used in the output: {_names(unused)}.")
    yield from map(printable, report.notes)


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


def _above(network: NetworkRecord, log10: float) -> bool:
    """Whether the network has a finite figure above 10^log10."""
    return network.status == "finite" and _log10(network) > log10


def _log10(record: NetworkRecord | LayerRecord) -> float:
    """The decimal logarithm of a figure, bound or estimate; minus infinity for 0 and for none."""
    found = record.log10_estimate if record.rigor == "estimate" else record.log10_upper_bound
    return -math.inf if found is None else found


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MOST])
    return shown + (f" and {len(names) - MOST} more" if len(names) > MOST else "")


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
