"""The answer of an audit in a few lines: the bound, over which inputs, what it is worth, and what it means."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lipaudit.escaping import printable
from lipaudit.records.figure import ESTIMATE, Figure
from lipaudit.records.report import PRODUCT, AuditReport, DomainRecord, NetworkRecord
from lipaudit.records.settings import ModelRecord
from lipaudit.text.advice import UNINFORMATIVE, causes
from lipaudit.text.balls import balls_text
from lipaudit.text.domain import finite_elsewhere, held, is_not_lowered_by_its_ball, pixels_are_the_input, place
from lipaudit.text.images import norms_text
from lipaudit.text.method import is_refuted, is_undefined
from lipaudit.text.numbers import (
    count_text,
    estimate_text,
    is_slightly_above_one,
    log10_estimate_text,
    log10_upper_text,
    lower_text,
    ratio_text,
    shape_text,
    share_text,
    upper_text,
)
from lipaudit.text.summary import headline, unit

_OVER = {"global": "over all inputs", "pixels": "over pixels in [0, 1]"}
_SAME = 1e-9  # powers of ten that are not told apart
_MOST_OUTPUTS = 3
_PLAIN_FROM, _PLAIN_TO = 1e-3, 1e4  # figures between these are shown as they are first, others as powers
_HUGE = 1e15  # figures above it as powers only


@dataclass(frozen=True)
class AnswerLine:
    """One figure: its ``label`` and its ``text``. What belongs to the line above has a ``level`` of 1."""

    label: str
    text: str
    level: int = 0


def short_title(model: ModelRecord) -> str:
    """Which model this is, in one line.

    >>> short_title(ModelRecord("resnet50", "torchvision", "IMAGENET1K_V2", (1, 3, 224, 224), 25_557_032, None))
    'resnet50 · torchvision, weights IMAGENET1K_V2 · 1x3x224x224 · 25.6 M parameters'
    """
    shapes = model.input_shapes or {"": model.input_shape}
    inputs = ", ".join(
        f"{name}:{shape_text(shape)}" if len(shapes) > 1 else shape_text(shape) for name, shape in shapes.items()
    )
    source = "" if model.spec.startswith(f"{model.source}:") else model.source
    weights = "" if not model.weights or model.spec.endswith(model.weights) else f"weights {model.weights}"
    count = model.num_parameters
    parameters = f"{count / 1e6:.1f} M" if count >= 1_000_000 else f"{count:,}"
    origin = ", ".join(filter(None, (source, weights)))
    return printable(" · ".join(filter(None, (model.spec, origin, inputs, f"{parameters} parameters"))))


def answer(report: AuditReport) -> tuple[AnswerLine, ...]:
    """The bound with what it is worth, figures beside it, and the largest stretch found."""
    return tuple(AnswerLine(line.label, printable(line.text), line.level) for line in _answer(report))


def _answer(report: AuditReport) -> Iterable[AnswerLine]:
    network = report.network
    yield AnswerLine(f"Lipschitz bound ({report.settings.norm})", bound_text(report))
    if network.status == "finite" and not pixels_are_the_input(report):
        pixel = figure_text(network.pixel_figure)
        if pixel:
            yield AnswerLine("in pixels in [0, 1]", f"{pixel}, before the model's normalisation", 1)
    if network.balls and not report.settings.structure:
        yield AnswerLine("ball by ball", balls_text(network.balls), 1)
    product = next((bound for bound in network.bounds if bound.name == PRODUCT), None)
    if product is not None and product.has_bound and product.log10 > network.log10 + _SAME:
        yield AnswerLine("product of layer norms", figure_text(product.figure), 1)
    for other in network.other_domains:
        yield AnswerLine(_OVER.get(other.domain, f"over the domain {other.domain}"), _elsewhere(other), 1)
    outputs = network.outputs if len(network.outputs) > 1 else ()
    for output in outputs[:_MOST_OUTPUTS]:
        yield AnswerLine(f"output {printable(output.name)}", figure_text(output.figure) or output.status, 1)
    if len(outputs) > _MOST_OUTPUTS:
        yield AnswerLine("", f"and {count_text(len(outputs) - _MOST_OUTPUTS, 'output')} more (-v)", 1)
    if network.lower_bound is not None:
        apart = network.lower_bound_distance
        between = f" between two inputs {apart:.4g} apart, measured" if apart is not None else " near some input"
        yield AnswerLine("Largest stretch found", f"≥ {lower_text(network.lower_bound)}{between}")
        if network.log10_ratio is not None:
            yield AnswerLine("bound over stretch", f"{ratio_text(network.log10_ratio)} times", 1)
    elif not report.settings.structure and not is_constant(network):
        yield AnswerLine("Largest stretch found", "not searched (--lower-bound)")
    if network.images is not None:
        yield AnswerLine("Jacobian at images", norms_text(network.images))
    if network.output_diameter is not None and network.upper_bound != 0:
        yield AnswerLine(
            "Outputs differ by", f"≤ {upper_text(network.output_diameter)}, whatever the inputs; numerical"
        )


def bound_text(report: AuditReport) -> str:
    """The network's figure, over which inputs, and what it is worth; or why there is none."""
    network = report.network
    where = _where(report, network.domain)
    if network.status != "finite":
        word = "none" if network.status == "unbounded" else "not available"
        return f"{word} {where}{_because(report)}"
    if report.settings.structure:
        return f"finite {where}; --structure computes no figures"
    if network.rigor == "estimate":
        return f"{figure_text(network.figure)} {where}: an estimate by {report.settings.method}, no bound"
    return f"{figure_text(network.figure)} {where}" + (f", {network.rigor}" if network.rigor else "")


def _where(report: AuditReport, domain: str) -> str:
    """Over which inputs."""
    fixed = f", with {held(report.settings)}" if report.settings.fixed else ""
    return f"over {place(report.settings, domain)}{fixed}"


def _elsewhere(other: DomainRecord) -> str:
    """What holds over another domain than the one in force."""
    if other.status != "finite":
        return other.status
    rigor = f", {other.rigor}" if other.rigor is not None else ""
    return f"{figure_text(other.figure) or 'finite'}{rigor}"


def _because(report: AuditReport) -> str:
    """How many operations stand in the way of a finite figure."""
    undefined = [layer for layer in report.layers if is_undefined(report, layer)]
    statuses = [layer.status for layer in report.layers if layer not in undefined]
    counted = [
        (len(undefined), f"without a figure by {report.settings.method}"),
        *((statuses.count(status), status) for status in ("unsupported", "unbounded")),
    ]
    parts = [f"{count_text(count, 'operation')} {what}" for count, what in counted if count]
    return f": {' and '.join(parts)}" if parts else ""


def meaning(report: AuditReport) -> str:
    """The figure in a sentence or two, for a reader who never read the theory."""
    network = report.network
    if report.settings.structure or is_constant(network) or (network.status == "finite" and is_refuted(network)):
        return headline(report)
    if network.status != "finite":
        return _without_a_bound(report)
    if network.rigor == "estimate":
        return "An estimate of the largest change of the output for a change of the input by 1. Nothing proves it, and it passes no gate."
    inputs = "Two inputs" if network.domain == "global" and not report.settings.fixed else "Two such inputs"
    if report.settings.centres is not None:
        inputs = "Two inputs of one ball"
    first = f"{inputs} that differ by d ({unit(report)}) have outputs that differ by at most {_times(network)} d"
    rounding = ", up to rounding" if network.rigor == "numerical" else ""
    if is_not_lowered_by_its_ball(report):
        rounding += ". The ball does not lower it: over all inputs the bound is the same"
    if not network.log10 > UNINFORMATIVE:
        return f"{first}{rounding}. It is the worst case, which real inputs are usually far from."
    kinds = [f"{kind.partition(',')[0]} ({share_text(share)})" for kind, share in causes(report)]
    why = f"{' and '.join(kinds)} make it large" if kinds else "the depth makes it large, because factors multiply"
    return f"{first}{rounding}. That is true, but says nothing useful about typical inputs: {why}."


def _without_a_bound(report: AuditReport) -> str:
    """What can be said of a network that has no finite figure over the domain in force."""
    network = report.network
    other = finite_elsewhere(report)
    if other is not None and other.has_bound:
        inputs = f"Over {place(report.settings, other.domain)}, two inputs that differ by d"
        return f"{inputs} have outputs that differ by at most {_times(other)} d."
    if network.status == "unbounded":
        return "No number bounds how much more the output changes than the input. The factors of the other rows hold."
    return "Nothing is claimed for the network as a whole. The factors of the other rows hold."


def is_constant(network: NetworkRecord) -> bool:
    """Whether the output is known not to depend on the input."""
    return network.status == "finite" and network.upper_bound == 0


def one_line(report: AuditReport) -> str:
    """The answer alone, with the largest stretch where it was searched, for ``--quiet``."""
    lower = report.network.lower_bound
    stretch = "" if lower is None else f"; largest stretch found ≥ {lower_text(lower)}"
    return printable(f"{report.model.spec}: Lipschitz bound ({report.settings.norm}) {bound_text(report)}{stretch}")


def figure_text(figure: Figure | None) -> str:
    """A network's figure: a bound behind ≤, rounded up; an estimate behind ~, to the nearest; empty where there is none.

    >>> figure_text(Figure(4.31123, value=20477.3)), figure_text(Figure(1.390866, value=24.5961)), figure_text(Figure(412.305))
    ('≤ 10^4.312 (2.048e+04)', '≤ 24.6 (10^1.391)', '≤ 10^412.31')
    >>> figure_text(Figure(8.2e-7, value=1.0000019))
    '≤ 1.000002'
    >>> figure_text(Figure(0.39794, "estimate", 2.5)), figure_text(Figure.of(0.0)), figure_text(None)
    ('~2.5 (10^0.3979)', '0', '')
    """
    if figure is None:
        return ""
    if figure.rigor == ESTIMATE:
        plain = None if figure.value is None else estimate_text(figure.value, None)[1:]
        return "~" + _both(figure, plain, log10_estimate_text)
    if figure.value == 0:
        return "0"
    return "≤ " + _both(figure, None if figure.value is None else upper_text(figure.value), log10_upper_text)


def _both(figure: Figure, plain: str | None, shown: Callable[[float], str]) -> str:
    """A figure and its power of ten, the more readable of the two first."""
    if figure.value is None or plain is None:
        return f"10^{shown(figure.log10)}"
    if figure.log10 == -math.inf or is_slightly_above_one(figure.value):
        return plain
    power = f"10^{shown(figure.log10)}"
    if _PLAIN_FROM <= figure.value < _PLAIN_TO:
        return f"{plain} ({power})"
    return power if figure.value >= _HUGE else f"{power} ({plain})"


def _times(record: NetworkRecord | DomainRecord) -> str:
    """A bound as a factor in a sentence: as it is where that is short, else as a power."""
    value = record.upper_bound
    if value is not None and _PLAIN_FROM <= value < _PLAIN_TO:
        return upper_text(value)
    return f"10^{log10_upper_text(record.log10)}"
