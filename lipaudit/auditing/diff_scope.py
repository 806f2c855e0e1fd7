"""Whether the figures of two reports can be compared, and what else differs between the reports."""

from __future__ import annotations

from collections.abc import Iterator

from lipaudit.errors import UsageError
from lipaudit.escaping import printable
from lipaudit.records.report import PRODUCT, AuditReport, DomainRecord, NetworkRecord
from lipaudit.records.settings import HeldInput, ModelRecord
from lipaudit.text.domain import described
from lipaudit.text.held_inputs import shown, value_of
from lipaudit.text.numbers import count_text, names_text, shape_text

_SETTINGS = {
    "tolerance": "tolerance",
    "number of iterations or samples": "iterations",
    "effort of the search for a tighter bound": "effort",
    "certificate at which that search started": "warm_start_sha256",
    "dtype": "dtype",
    "device": "device",
}


class IncomparableError(UsageError):
    """The figures of two reports are not of the same kind: ``what`` differs, and ``remedy`` says how to audit both."""

    def __init__(self, what: str, first: str, second: str, remedy: str) -> None:
        super().__init__(f"the reports have different {what}: {first} in the first, {second} in the second: {remedy}")


def check_comparable(before: AuditReport, after: AuditReport) -> None:
    """Raise :class:`~lipaudit.errors.UsageError` where the figures of two reports are not of the same kind."""
    for report, which in ((before, "first"), (after, "second")):
        if report.settings.structure:
            raise UsageError(
                f"the {which} report ({report.model.spec}) is of the structure alone and has no figures: audit without --structure"
            )
    a, b = before.settings, after.settings
    if a.norm != b.norm:
        raise IncomparableError("norms", a.norm, b.norm, "audit both in the same norm")
    if _domain(before) != _domain(after):
        remedy = "audit both with the same --domain, --around, --radius, --norm-domain, --mean and --std"
        raise IncomparableError("domains", described(before), described(after), remedy)
    for name in dict.fromkeys((*a.fixed, *b.fixed)):
        held = a.fixed.get(name), b.fixed.get(name)
        if not _alike(*held):
            first, second = (printable(shown(value)) for value in held)
            raise IncomparableError(
                f"values of the input {printable(name)}", first, second, "audit both with the same --fix"
            )
    if a.method != b.method:
        remedy = "audit both with the same --method, or compare methods with `lipaudit compare MODEL`"
        raise IncomparableError("methods", printable(a.method), printable(b.method), remedy)
    if a.effort != b.effort and (_is_tightened(before) or _is_tightened(after)):
        remedy = "the search alone moves the network's bound: audit both with the same --effort"
        raise IncomparableError("efforts", printable(a.effort), printable(b.effort), remedy)


def differences(before: AuditReport, after: AuditReport) -> Iterator[str]:
    """What differs beside the figures, and does not keep them from being compared."""
    hashes = before.model.state_dict_sha256, after.model.state_dict_sha256
    if None in hashes:
        yield "Whether the weights are the same is not known: a report has no hash of them."
    elif hashes[0] == hashes[1]:
        yield f"The same weights: both reports have the SHA-256 {hashes[0]}."
    else:
        yield "The weights differ, or are named otherwise: their hashes are not the same."
    shapes = _shapes(before.model), _shapes(after.model)
    if shapes[0] != shapes[1]:
        yield f"Other input shapes: {shapes[0]} before, {shapes[1]} after. Constants of layers may depend on the size of their input."
    outputs = [[output.name for output in report.network.outputs] for report in (before, after)]
    if all(outputs) and outputs[0] != outputs[1]:
        said = [f"{count_text(len(names), 'output')} ({printable(names_text(names))})" for names in outputs]
        yield f"Other outputs: {said[0]} before, {said[1]} after. {_meaning(*outputs)}"
    for label, key in _SETTINGS.items():
        values = getattr(before.settings, key), getattr(after.settings, key)
        if values[0] != values[1]:
            yield f"Another {label}: {_said(values[0])} before, {_said(values[1])} after."
    for name, held in before.settings.fixed.items():
        other = after.settings.fixed[name]
        if (held.dtype, held.shape) != (other.dtype, other.shape):
            yield f"The held input {printable(name)} has the same value, as {_form(held)} before and {_form(other)} after."
        elif held.value is None and held.sha256 is None and held.dtype != "none":
            yield f"The values of the held input {printable(name)} are taken to be the same: reports do not keep a {printable(held.dtype)}."
    for report, which in ((before, "before"), (after, "after")):
        if any(bound.interrupted for bound in report.network.bounds):
            yield (
                f"The search for a tighter bound was interrupted {which}: a whole one may find less, and the network's bound may have "
                "moved by that alone."
            )
    versions = printable(before.tool_version), printable(after.tool_version)
    if versions[0] != versions[1]:
        yield f"Another version of lipaudit: {versions[0]} before, {versions[1]} after; rules may differ."
    if before.settings.domain == "ball":
        centre = before.settings.around
        named = f"both reports name {printable(centre)}" if centre else "both were given in Python, without a name"
        yield f"The centres of the balls are taken to be the same: {named}; reports do not keep what a centre holds."


def _alike(before: HeldInput | None, after: HeldInput | None) -> bool:
    """Whether an input is held at the same value in both; a number that fills a tensor may fill another size or type."""
    if before is None or after is None:
        return False
    filled = not isinstance(before.value, list) and before.sha256 is None
    return value_of(before) == value_of(after) and (filled or before.shape == after.shape)


def _form(held: HeldInput) -> str:
    return printable(f"{shape_text(held.shape)} of {held.dtype}" if held.shape else held.dtype)


def _domain(report: AuditReport) -> tuple[object, ...]:
    """Everything that a report says about its inputs; pixels are the same inputs only with the same normalisation."""
    settings, domain = report.settings, report.network.domain
    in_pixels = domain == "pixels" or settings.radius_in == "pixels"
    known = report.model.preprocessing if in_pixels else None
    ball = settings.around, settings.centres, settings.radius, settings.radius_in, settings.radius_norm or "l2"
    return domain, *ball, known


def _is_tightened(report: AuditReport) -> bool:
    """Whether the network's bound, over any domain, is below the product of layer norms."""
    records: list[NetworkRecord | DomainRecord] = [report.network, *report.network.other_domains]
    products = [(record, bound) for record in records for bound in record.bounds if bound.name == PRODUCT]
    return any(record.figure is not None and record.figure != bound.figure for record, bound in products)


def _shapes(model: ModelRecord) -> str:
    shapes = model.input_shapes or {"": model.input_shape}
    return ", ".join(f"{printable(n)}:{shape_text(s)}" if len(shapes) > 1 else shape_text(s) for n, s in shapes.items())


def _meaning(before: list[str], after: list[str]) -> str:
    """What other outputs do to the network's figure."""
    if len(before) == len(after):
        return "If only the names differ, the network's figures are of the same thing."
    return "The network's figure is of all outputs together, so that the two are not of the same thing."


def _said(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else "none" if value is None else printable(str(value))
