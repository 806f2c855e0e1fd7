"""The report as a CycloneDX bill of materials (JSON) of one machine-learning model.

Field names are those of the CycloneDX JSON schemas 1.5 to 1.7 (``http://cyclonedx.org/schema/bom-1.6.schema.json``), where a
component of the type ``machine-learning-model`` has a ``modelCard``: there ``performanceMetrics`` take nothing but type, value
(a text), slice and confidenceInterval, so that everything else stands in ``properties`` named ``lipaudit:...``.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

from lipaudit.errors import UsageError
from lipaudit.formats.figure_names import meaning, network_figures
from lipaudit.formats.json_text import json_text, well_formed
from lipaudit.formats.options import SPEC_VERSIONS, Audits, Options
from lipaudit.records.report import AuditReport
from lipaudit.records.schema import SCHEMA_ID
from lipaudit.text.domain import described, place
from lipaudit.text.held_inputs import shown
from lipaudit.text.numbers import shape_text
from lipaudit.text.summary import headline

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "urn:lipaudit:cyclonedx")


def render(audits: Audits, options: Options) -> str:
    """The bill of materials of one report; the same report gives the same text, serial number included.

    Raises :class:`~lipaudit.errors.UsageError` for a version of CycloneDX that is not written.
    """
    (report,), spec_version = audits.reports, options.spec_version
    if spec_version not in SPEC_VERSIONS:
        raise UsageError(f"CycloneDX {spec_version} is not written; choose from {', '.join(SPEC_VERSIONS)}")
    body = {
        "version": 1,
        "metadata": {
            "timestamp": report.created,
            "tools": {"components": [{"type": "application", "name": "lipaudit", "version": report.tool_version}]},
        },
        "components": [_component(report)],
    }
    content = json.dumps(well_formed([spec_version, body]), sort_keys=True, allow_nan=False)
    head = {
        "$schema": f"http://cyclonedx.org/schema/bom-{spec_version}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": spec_version,
        "serialNumber": uuid.uuid5(_NAMESPACE, content).urn,
    }
    return json_text({**head, **body})


def _component(report: AuditReport) -> dict[str, Any]:
    model = report.model
    component: dict[str, Any] = {
        "type": "machine-learning-model",
        "bom-ref": f"lipaudit:{model.state_dict_sha256 or model.file_sha256 or model.spec}",
        "name": model.spec,
        "description": headline(report),
    }
    if model.file_sha256 is not None:
        component["hashes"] = [{"alg": "SHA-256", "content": model.file_sha256}]
    component["modelCard"] = _model_card(report)
    component["properties"] = _properties(report)
    return component


def _model_card(report: AuditReport) -> dict[str, Any]:
    card: dict[str, Any] = {}
    metrics = [
        {"type": meaning(key, record, report.settings.norm), "value": repr(value), "slice": over}
        for record, over in _domains(report)
        for key, value in network_figures(record).items()
    ]
    if metrics:
        card["quantitativeAnalysis"] = {"performanceMetrics": metrics}
    if report.network.reasons:
        over = described(report)
        card["considerations"] = {
            "technicalLimitations": [
                f"no finite Lipschitz bound over {over}: {reason}" for reason in report.network.reasons
            ]
        }
    return card


def _domains(report: AuditReport) -> list[tuple[Any, str]]:
    others = [(other, place(report.settings, other.domain)) for other in report.network.other_domains]
    return [(report.network, described(report)), *others]


def _properties(report: AuditReport) -> list[dict[str, str]]:
    model, settings, network = report.model, report.settings, report.network
    shapes = model.input_shapes or {"": model.input_shape}
    values = {
        "status": network.status,
        "rigor": network.rigor,
        "domain": network.domain,
        "norm": settings.norm,
        "method": settings.method,
        "iterations": settings.iterations,
        "tolerance": settings.tolerance,
        "structure": "true" if settings.structure else None,
        "weights": model.weights,
        "state_dict_sha256": model.state_dict_sha256,
        "num_parameters": model.num_parameters,
        "report_schema": SCHEMA_ID,
    }
    found = [{"name": f"lipaudit:{key}", "value": str(value)} for key, value in values.items() if value is not None]
    inputs = [{"name": f"lipaudit:input:{name}", "value": shape_text(shape)} for name, shape in shapes.items()]
    inputs += [{"name": f"lipaudit:fixed:{name}", "value": shown(value)} for name, value in settings.fixed.items()]
    rows = [
        {"name": f"lipaudit:{layer.status}", "value": f"{layer.name} ({layer.op})"}
        for layer in report.layers
        if layer.status != "finite"
    ]
    return found + inputs + rows
