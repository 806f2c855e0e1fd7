"""Everything that the figures depend on: the model and its hashes, the settings, the environment."""

from __future__ import annotations

from collections.abc import Iterable

from lipaudit.records.report import AuditReport
from lipaudit.records.settings import ModelRecord
from lipaudit.text.domain import described
from lipaudit.text.held_inputs import shown
from lipaudit.text.numbers import shape_text


def facts(report: AuditReport) -> tuple[tuple[str, Iterable[tuple[str, object]]], ...]:
    """Three lists side by side: their headings, and names with values."""
    return ("Model", _model(report.model)), ("Settings", _settings(report)), ("Made by", _environment(report))


def _model(model: ModelRecord) -> Iterable[tuple[str, object]]:
    yield "model", model.spec
    yield "source", model.source
    yield "weights", model.weights
    for name, shape in (model.input_shapes or {"": model.input_shape}).items():
        yield f"input {name}".strip(), shape_text(shape)
    yield "parameters", f"{model.num_parameters:,}"
    yield "SHA-256 of the weights", model.state_dict_sha256 or "none: the structure alone was audited"
    yield "SHA-256 of the file", model.file_sha256 or ""


def _settings(report: AuditReport) -> Iterable[tuple[str, object]]:
    settings = report.settings
    yield "norm", settings.norm
    yield "method", settings.method
    yield "iterations or samples", "" if settings.iterations is None else settings.iterations
    yield "tolerance", f"{settings.tolerance:g}"
    yield "domain", f"{report.network.domain} ({described(report)})"
    yield "structure only", "yes" if settings.structure else ""
    yield "dtype", settings.dtype
    yield "device", settings.device
    yield "seed", settings.seed
    yield "seed of frozen random numbers", "" if settings.freeze_random is None else settings.freeze_random
    for name, value in settings.fixed.items():
        yield f"{name} held at", shown(value)


def _environment(report: AuditReport) -> Iterable[tuple[str, object]]:
    yield "lipaudit", report.tool_version
    yield "created", report.created
    for key, value in sorted(report.environment.items()):
        if isinstance(value, dict):
            yield from sorted(value.items())
        else:
            yield key, value
