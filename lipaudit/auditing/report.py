"""From bounds to the report of an audit."""

from __future__ import annotations

from dataclasses import replace

import torch

from lipaudit.auditing.assemble import ball_records, domain_record, layer_records, network_record, node_places
from lipaudit.auditing.capture import Captured
from lipaudit.auditing.constants import LayerConstants
from lipaudit.auditing.domain_bounds import Bounds, DomainBounds
from lipaudit.auditing.held_inputs import held_inputs
from lipaudit.auditing.load import Loaded
from lipaudit.auditing.lower_bound import Measured, check_not_above, images_record
from lipaudit.auditing.notes import audit_notes
from lipaudit.auditing.provenance import environment, model_record, timestamp
from lipaudit.auditing.request import AuditRequest
from lipaudit.auditing.structure import layers_without_figures, network_without_figures
from lipaudit.network.stretch import Pair
from lipaudit.records.report import AuditReport, BallRecord, LayerRecord, NetworkRecord
from lipaudit.records.settings import SettingsRecord
from lipaudit.rules.norm import Norm
from lipaudit.spectral.published.registry import find_method
from lipaudit.text.local_paths import without_folders
from lipaudit.version import __version__


def make_report(
    request: AuditRequest,
    loaded: Loaded,
    network: Captured,
    place: torch.device,
    constants: LayerConstants,
    bounds: Bounds,
    measured: Measured,
) -> AuditReport:
    """The report of all steps, without the seconds that they took.

    Raises :class:`~lipaudit.errors.GraphError` where the measured lower bound lies above the upper bound: one of them is wrong.
    """
    rows = _rows(loaded, network, bounds.domain)
    pair = measured.pair
    figures = _network(request, loaded, network, rows, bounds, pair)
    figures = replace(figures, balls=_balls(loaded, bounds, measured))
    figures = replace(figures, images=images_record(request, loaded.images, measured.near_images, figures.lower_bound))
    if pair is not None:
        check_not_above(pair.quotient, figures.upper_bound)
    return AuditReport(
        model=model_record(loaded.model, network.graph, request.structure, request.absolute_paths),
        settings=_settings(request, loaded, place),
        network=network_without_figures(figures) if request.structure else figures,
        layers=layers_without_figures(rows) if request.structure else rows,
        tool_version=__version__,
        created=timestamp(),
        environment=environment(),
        notes=audit_notes(request, loaded.model, network.graph, constants, pair, figures),
    )


def _balls(loaded: Loaded, bounds: Bounds, measured: Measured) -> tuple[BallRecord, ...]:
    """The bound over each of several balls."""
    norms: tuple[float | None, ...] = measured.at_centres or (None,) * len(loaded.balls)
    records = ball_records([ball.name for ball in loaded.balls], bounds.balls, norms)
    for norm, record in zip(norms, records, strict=True):
        if norm is not None:
            check_not_above(norm, record.upper_bound)
    return records


def _rows(loaded: Loaded, network: Captured, bounds: DomainBounds) -> tuple[LayerRecord, ...]:
    return layer_records(network.simple, bounds.propagation, loaded.model.node_names, loaded.model.module_paths)


def _places(loaded: Loaded, network: Captured, bounds: DomainBounds) -> dict[str, str]:
    return node_places(network.simple, bounds.propagation, loaded.model.node_names)


def _network(
    request: AuditRequest,
    loaded: Loaded,
    network: Captured,
    rows: tuple[LayerRecord, ...],
    bounds: Bounds,
    pair: Pair | None,
) -> NetworkRecord:
    model = loaded.model
    std = model.preprocessing.std if model.preprocessing is not None and len(network.inputs) == 1 else None
    record = network_record(
        network.simple,
        bounds.domain.bounds,
        rows,
        None if pair is None else pair.quotient,
        std,
        model.output_names,
        loaded.domain.name,
        _places(loaded, network, bounds.domain),
        Norm(request.norm),
    )
    others = tuple(
        domain_record(
            b.domain.name, network.simple, b.bounds, _rows(loaded, network, b), std, _places(loaded, network, b)
        )
        for b in bounds.others
    )
    distance = None if pair is None else pair.distance
    return replace(record, other_domains=others, output_diameter=bounds.diameter, lower_bound_distance=distance)


def _settings(request: AuditRequest, loaded: Loaded, place: torch.device) -> SettingsRecord:
    iterations = request.iterations or find_method(request.method).iterations if request.is_published else None
    around = request.around if isinstance(request.around, str) else None
    return SettingsRecord(
        norm=request.norm,
        method=request.method,
        iterations=iterations,
        tolerance=request.tol,
        device=place.type,
        seed=request.seed,
        effort=request.search_effort,
        structure=request.structure,
        freeze_random=request.freeze_random,
        fixed=held_inputs(loaded.model.fixed),
        domain=loaded.domain.name,
        around=around if around is None or request.absolute_paths else without_folders(around),
        radius=request.radius,
        centres=len(loaded.balls) or None,
        radius_norm=None if request.radius is None else request.norm_domain,
        radius_in=None if request.radius is None else "pixels" if request.in_pixels else "input",
    )
