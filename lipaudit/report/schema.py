"""The JSON Schema of the report: draft 2020-12, shipped inside the package."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

SCHEMA_VERSION = "1.0"
SCHEMA_ID = "urn:lipaudit:report/1.0.json"


def schema_text() -> str:
    """The schema as it is shipped.

    >>> schema_text().startswith("{")
    True
    """
    file = resources.files("lipaudit.report") / "schemas" / f"report-{SCHEMA_VERSION}.schema.json"
    return file.read_text(encoding="utf-8")


def load_schema() -> dict[str, Any]:
    """The schema as a dictionary.

    >>> load_schema()["$id"] == SCHEMA_ID
    True
    """
    schema: dict[str, Any] = json.loads(schema_text())
    return schema
