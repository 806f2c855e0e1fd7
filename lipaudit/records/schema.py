"""The JSON Schema of the report: draft 2020-12, shipped inside the package."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

SCHEMA_VERSION = "1.0"
SCHEMA_ID = "urn:lipaudit:report/1.0.json"
SEVERAL_ID = "urn:lipaudit:reports/1.0.json"


def schema_text() -> str:
    """The schema as it is shipped.

    >>> schema_text().startswith("{")
    True
    """
    file = resources.files("lipaudit.records") / "schemas" / f"report-{SCHEMA_VERSION}.schema.json"
    return file.read_text(encoding="utf-8")


def load_schema() -> dict[str, Any]:
    """The schema as a dictionary.

    >>> load_schema()["$id"] == SCHEMA_ID
    True
    """
    schema: dict[str, Any] = json.loads(schema_text())
    return schema


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
