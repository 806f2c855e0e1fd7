"""What to do about what an audit found, in sentences for a reader who never read the theory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lipaudit.escaping import printable
from lipaudit.records.report import AuditReport, LayerRecord
from lipaudit.records.stretching import Cost, costs
from lipaudit.text.domain import (
    estimated_elsewhere,
    finite_elsewhere,
    is_not_lowered_by_its_ball,
    may_be_finite_on_images,
    place,
)
from lipaudit.text.method import has_estimates, is_undefined
from lipaudit.text.numbers import MOST, names_text, share_text

# log10 of a figure that says nothing useful about typical inputs
UNINFORMATIVE = 6.0
# log10 of a figure that is far above the true constant of any network that works
ASTRONOMICAL = 25.0
_NORMALIZATIONS = ("normalization", "layer_norm", "group_norm", "instance_norm", "rms_norm")
# log10 of the constant of a block that is worth a word
_WORTH_IT = 1e-4
# why rows of these rules are large, whatever the network does on usual inputs
_CAUSES = {
    "normalization": "normalisations, which divide by a size that for some input is as small as eps allows",
    "attention": "attention, whose factor grows with the largest keys and values",
    "product": "products of two signals, whose factors are as large as the signals can become",
}


def advice(report: AuditReport, gated: bool = False) -> Iterable[str]:
    """What a reader can do about a result, most pressing first; ``gated`` says that the bound has a limit already."""
    network = report.network
    if network.status == "finite" and network.upper_bound == 0:
        yield from _why_constant(report)
        return
    statuses = {network.status, *(layer.status for layer in report.layers)}
    undefined = [layer.name for layer in report.layers if is_undefined(report, layer)]
    if undefined:
        method = printable(report.settings.method)
        yield printable(
            f"The method {method} is not defined for {names_text(undefined)}; lipaudit has a rule for these operations. Choose "
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
    elif (guess := estimated_elsewhere(report)) is not None:
        yield printable(
            f"Over {place(report.settings, guess.domain)} every operation has a finite constant, but {report.settings.method} only "
            f"estimates some of them, and no gate can judge that: --domain {guess.domain} --method gram may give a bound."
        )
    elif may_be_finite_on_images(report):
        yield (
            "If the inputs are images, --domain pixels may give a bound, because there the signals are bounded: add --mean "
            "and --std, the normalisation in front of the network (0 and 1 if it reads pixels in [0, 1] as they are)."
        )
    if network.rigor == "estimate":
        yield "An estimate proves nothing and passes neither --max-log10-bound nor --strict: --method gram gives a bound."
    elif has_estimates(report):
        yield "An estimate (marked ~) proves nothing, and rows of estimates fail --strict: --method gram gives bounds of them."
    if network.rigor != "estimate" and network.status == "finite":
        yield from map(printable, _where_to_lower(costs(report)[:MOST], gated))
    if network.domain == "ball" and (network.status != "finite" or is_not_lowered_by_its_ball(report)):
        yield "A smaller --radius may lower the bound: this ball does not."
    if network.rigor != "estimate" and network.log10 > UNINFORMATIVE:
        yield _astronomical(report)
    if network.lower_bound is None and network.rigor != "estimate" and network.log10 > 1.0:
        yield "A large bound does not prove a fragile network: --lower-bound shows how far the network does stretch."


def _why_constant(report: AuditReport) -> Iterable[str]:
    zero = [layer.name for layer in report.layers if layer.upper_bound == 0]
    if zero:
        yield printable(
            f"Nothing of the input passes {names_text(zero)}, whose factor is 0: a weight of zeros, or entries that nothing "
            "reads. Is that meant? A checkpoint that was never trained or not loaded looks like this."
        )


def _where_to_lower(listed: Sequence[Cost], gated: bool) -> Iterable[str]:
    """What lowers the rows that cost most, by their kind: weights can be trained, a normalisation has its eps, a product its operands."""
    gate = "" if gated else " --max-log10-bound X makes a build fail above 10^X."
    if listed and listed[0].block and listed[0].log10 < _WORTH_IT:
        return
    if listed and listed[0].block:
        yield (
            f"What costs most is a block, a part that is bounded as a whole: {names_text([row.name for row in listed[0].rows])} "
            f"({listed[0].block}). Normalise its weights more closely, or regularise them in training, then audit again.{gate}"
        )
        return
    costly = [cost.rows[0] for cost in listed if not cost.block]
    weighted = [layer.name for layer in costly if layer.weight_shape is not None]
    normalised = [layer.name for layer in costly if _kind(layer) == "normalization"]
    if weighted:
        yield (
            f"The product of layer norms multiplies layer by layer. Of the rows that cost most these have weights: {names_text(weighted)}. "
            "Regularise or normalise them in training, then audit again." + gate
        )
    if normalised:
        yield (
            f"A normalisation ({names_text(normalised)}) stretches by up to max|gamma| / sqrt(eps), where its rows are nearly "
            "constant. Training its weights hardly lowers that: a larger eps does, and so does a bound near given inputs (--domain ball)."
        )


def _others(report: AuditReport) -> str:
    """What the rows are worth that have a figure, beside rows that have none."""
    if has_estimates(report):
        return "The figures of the other rows stand, those marked ~ as estimates"
    return "The bounds of the other rows hold"


def _without_rule(report: AuditReport) -> bool:
    return any(layer.status == "unsupported" and not is_undefined(report, layer) for layer in report.layers)


def _astronomical(report: AuditReport) -> str:
    large = [f"{kind} ({share_text(share)})" for kind, share in causes(report)]
    why = f" What makes it large: {'; '.join(large)}." if large else " Its depth makes it large: factors multiply."
    return f"A figure this large is a true bound and says nothing useful about typical inputs.{why}"


def causes(report: AuditReport) -> list[tuple[str, float]]:
    """What makes a bound large, whatever the network does on usual inputs, and its share; the largest first."""
    shares = {
        cause: sum(layer.share or 0.0 for layer in report.layers if _kind(layer) == kind)
        for kind, cause in _CAUSES.items()
    }
    return [(cause, share) for cause, share in sorted(shares.items(), key=lambda entry: -entry[1]) if share >= 0.1]


def _kind(layer: LayerRecord) -> str:
    """The part that a row plays in a bound without measure."""
    if layer.rule == "attention":
        return "attention"
    if layer.rule in _NORMALIZATIONS:
        return "normalization"
    return "product" if layer.rigor == "numerical" else ""
