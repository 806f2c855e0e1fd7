"""The report of a network's structure: every status, and no figure, because no norm was computed."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from lipaudit.records.report import DomainRecord, LayerRecord, NetworkRecord

T = TypeVar("T", NetworkRecord, DomainRecord)

_NOTE = (
    "The structure was audited: {weights}, and no norms were computed. The statuses are those of the architecture, for weights that "
    "are finite and divisors that are not zero; there are no figures."
)


def note(loaded: bool) -> str:
    """What the report is; ``loaded`` says whether the model came with its weights, as a file does.

    >>> note(loaded=False)[:51], note(loaded=True)[:44]
    ('The structure was audited: no weights were read, an', 'The structure was audited: the weights came ')
    """
    weights = "the weights came with the model but are in no figure" if loaded else "no weights were read"
    return _NOTE.format(weights=weights)


def layers_without_figures(layers: tuple[LayerRecord, ...]) -> tuple[LayerRecord, ...]:
    """The rows with their statuses alone."""
    return tuple(
        replace(
            row,
            figure=None,
            lower=None,
            tightness=None,
            share=None,
        )
        for row in layers
    )


def network_without_figures(network: NetworkRecord) -> NetworkRecord:
    """The network with its statuses alone, over every domain."""
    outputs = tuple(replace(output, figure=None) for output in network.outputs)
    others = tuple(map(_without_figures, network.other_domains))
    balls = tuple(replace(ball, figure=None, jacobian_norm=None, log10_ratio=None) for ball in network.balls)
    return replace(_without_figures(network), lower=None, outputs=outputs, other_domains=others, balls=balls)


def _without_figures(record: T) -> T:
    bounds = tuple(replace(bound, figure=None, segments=()) for bound in record.bounds)
    return replace(record, figure=None, pixel_figure=None, bounds=bounds)
