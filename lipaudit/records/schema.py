"""The JSON Schema of the report: draft 2020-12, shipped inside the package, with those of earlier versions that are still read."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from lipaudit.records.figure import BOUNDS, ESTIMATE, NUMERICAL

VERSIONS = ("1.0", "1.1", "1.2")  # all of them are read, the last one is written
SCHEMA_VERSION = VERSIONS[-1]
SCHEMA_IDS = tuple(f"urn:lipaudit:report/{version}.json" for version in VERSIONS)
SCHEMA_ID = SCHEMA_IDS[-1]
SEVERAL_ID = f"urn:lipaudit:reports/{SCHEMA_VERSION}.json"


def schema_text(version: str = SCHEMA_VERSION) -> str:
    """The schema of a version as it is shipped.

    >>> schema_text().startswith("{")
    True
    """
    file = resources.files("lipaudit.records") / "schemas" / f"report-{version}.schema.json"
    return file.read_text(encoding="utf-8")


def certification_schema_text() -> str:
    """The schema of what ``lipaudit certify`` writes.

    >>> json.loads(certification_schema_text())["$id"]
    'urn:lipaudit:certification/1.0.json'
    """
    file = resources.files("lipaudit.records") / "schemas" / "certification-1.0.schema.json"
    return file.read_text(encoding="utf-8")


def load_schema(version: str = SCHEMA_VERSION) -> dict[str, Any]:
    """The schema of a version as a dictionary.

    >>> load_schema()["$id"] == SCHEMA_ID
    True
    """
    schema: dict[str, Any] = json.loads(schema_text(version))
    return schema


def upgrade(document: dict[str, Any]) -> dict[str, Any]:
    """A report's document of any version 1.x with what version 1.1 added; what has a wrong type is left to the decoder.

    Outputs of a network had no rigor of their own before 1.1. A bound of an output is at least as rigorous as the bound of the network,
    in which it is one part; beside an estimate, or where the network has no figure, it is said to be ``numerical``, which every bound is.
    """
    network = document.get("network")
    return {**document, "network": upgrade_network(network)} if isinstance(network, dict) else document


def upgrade_network(network: dict[str, Any]) -> dict[str, Any]:
    """The same of the network's object alone."""
    outputs = network.get("outputs")
    if not isinstance(outputs, list):
        return network
    bound = network.get("rigor") if network.get("rigor") in BOUNDS else NUMERICAL
    return {**network, "outputs": [_with_rigor(output, bound) for output in outputs]}


def _with_rigor(output: Any, bound: object) -> Any:
    if not isinstance(output, dict) or "rigor" in output:
        return output
    estimated = any(output.get(key) is not None for key in ("estimate", "log10_estimate"))
    stated = any(output.get(key) is not None for key in ("upper_bound", "log10_upper_bound"))
    return {**output, "rigor": ESTIMATE if estimated else bound if stated else None}


def several_schema_text() -> str:
    """The schema of the array that an audit of several models writes: reports, and the models that could not be audited.

    >>> json.loads(several_schema_text())["$id"] == SEVERAL_ID
    True
    """
    failure = {
        "type": "object",
        "description": "A model that could not be audited",
        "required": ["kind", "schema_version", "tool", "model", "error", "exit_code"],
        "properties": {
            "kind": {"const": "failure"},
            "schema_version": {"type": "string", "pattern": "^1\\.[0-9]+$"},
            "tool": {"type": "object", "required": ["name"], "properties": {"name": {"const": "lipaudit"}}},
            "model": {
                "type": "object",
                "required": ["spec"],
                "properties": {"spec": {"type": "string", "description": "What was asked for"}},
            },
            "error": {"type": "string", "description": "Why there is no report"},
            "exit_code": {"type": "integer", "description": "That of an audit of this model alone"},
        },
    }
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SEVERAL_ID,
        "title": "lipaudit reports",
        "description": "Reports of several models, in the order of the request, then the models that could not be audited.",
        "type": "array",
        "items": {
            "if": {"type": "object", "required": ["kind"], "properties": {"kind": {"const": "failure"}}},
            "then": failure,
            "else": {"$ref": SCHEMA_ID},
        },
        "$defs": {"report": load_schema()},
    }
    return json.dumps(schema, indent=2)
