"""The methods by which norms are found, in words: what a figure is and whose."""

from __future__ import annotations

from lipaudit.records.report import AuditReport, LayerRecord, NetworkRecord
from lipaudit.records.settings import SettingsRecord
from lipaudit.text.published_methods import method_entries

_BY_NORM = ("convolution", "dense")  # rules whose constant is a norm that the method finds
# a published figure is rounded in the network's own precision: a hair above it refutes nothing
_HAIR = 1.01


def is_ours(settings: SettingsRecord) -> bool:
    """Whether the norms are lipaudit's own, certified ones."""
    return settings.method == SettingsRecord.method


def steps_text(iterations: int) -> str:
    """A number of iterations or samples in words.

    >>> steps_text(1), steps_text(50)
    ('1 iteration or sample', '50 iterations or samples')
    """
    return "1 iteration or sample" if iterations == 1 else f"{iterations} iterations or samples"


def cited(settings: SettingsRecord) -> str:
    """The published method of an audit with its source, its iterations and what it claims; a bare name where it is unknown here.

    >>> cited(SettingsRecord(method="sedghi2019"))[:47]
    'sedghi2019 (Sedghi, Gupta, Long: The Singular V'
    >>> cited(SettingsRecord(method="later2031", iterations=7))
    'later2031, 7 iterations or samples'
    """
    known = next((entry for entry in method_entries() if entry.method == settings.method), None)
    source = f" ({known.reference})" if known is not None else ""
    steps = f", {steps_text(settings.iterations)}" if settings.iterations is not None else ""
    claim = f"; {known.claim}" if known is not None else ""
    return f"{settings.method}{source}{steps}{claim}"


def is_undefined(report: AuditReport, layer: LayerRecord) -> bool:
    """Whether a row has no figure only because the published method has none for it: lipaudit has a rule for the operation."""
    if is_ours(report.settings) or layer.status != "unsupported":
        return False
    weighed = layer.weight_shape is not None and layer.rule in _BY_NORM
    return weighed or layer.reason.startswith(f"{report.settings.method} ")


def has_estimates(report: AuditReport) -> bool:
    """Whether the network's figure or one of the rows' is an estimate."""
    return "estimate" in (report.network.rigor, *(layer.rigor for layer in report.layers))


def is_refuted(network: NetworkRecord) -> bool:
    """Whether the network's figure is an estimate below a stretching that was measured, and so too small.

    >>> from lipaudit.records.figure import EMPIRICAL, ESTIMATE, Figure
    >>> is_refuted(NetworkRecord("finite", figure=Figure.of(2.0, ESTIMATE), lower=Figure.of(2.1, EMPIRICAL, upwards=False)))
    True
    """
    figure, lower = network.figure, network.lower
    if figure is None or lower is None or figure.is_bound:
        return False
    return lower.is_above(figure, _HAIR)
