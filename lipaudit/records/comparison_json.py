"""A comparison as JSON and back: a format of its own, with a version of its own beside that of reports.

The document is the record, field by field, below keys that say what it is. All seconds stand under one key, ``seconds``, in the
order of the layers, so that two runs give the same document except for ``created`` and ``seconds``. Within a major version keys are
only added, and :func:`from_json` ignores those that it does not know. What is not known is null; NaN and infinity are never
written and never read.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from lipaudit.errors import UsageError
from lipaudit.records.comparison import Comparison
from lipaudit.records.report_json import check_kind, decoded, parsed

SCHEMA_VERSION = "1.0"
_KIND = "comparison"
_OUTCOMES = ("measured", "undefined", "skipped")
_STATUSES = ("finite", "unbounded", "unsupported", "skipped")


def to_json(found: Comparison, indent: int | None = 2) -> str:
    """The comparison as JSON text (ASCII, no trailing newline)."""
    body = asdict(found)
    seconds = {
        "layers": [
            {"bounds": layer.pop("seconds"), "figures": {f["method"]: f.pop("seconds") for f in layer["figures"]}}
            for layer in body["layers"]
        ],
        "methods": {method["name"]: method.pop("seconds") for method in body["methods"]},
    }
    tool = {"name": "lipaudit", "version": body.pop("tool_version")}
    head = {"kind": _KIND, "schema_version": SCHEMA_VERSION, "tool": tool, "created": body.pop("created")}
    return json.dumps({**head, **body, "seconds": seconds}, indent=indent, allow_nan=False)


def from_json(text: str | bytes) -> Comparison:
    """The comparison that :func:`to_json` wrote.

    Raises :class:`~lipaudit.errors.UsageError` for a document that is no comparison, that has a newer major version, or that lacks
    or contradicts what it must say; the message names the place.
    """
    document = parsed(text, _KIND)
    check_kind(document, _KIND, "compare", SCHEMA_VERSION)
    try:
        timed = _with_seconds(document)
    except (KeyError, IndexError, TypeError, AttributeError):
        raise UsageError(
            "the seconds of the comparison do not fit its layers and methods: the file was cut or edited; write it again with "
            "`lipaudit compare --format json`"
        ) from None
    found = decoded(Comparison, {**timed, "tool_version": document["tool"].get("version")}, "comparison")
    _check_words(found)
    return found


def _with_seconds(document: dict[str, Any]) -> dict[str, Any]:
    """The document with all seconds back in their places."""
    seconds, layers = document["seconds"], []
    for layer, spent in zip(document["layers"], seconds["layers"], strict=False):
        figures = [{**figure, "seconds": spent["figures"][figure["method"]]} for figure in layer["figures"]]
        layers.append({**layer, "seconds": spent["bounds"], "figures": figures})
    if len(layers) < max(len(document["layers"]), len(seconds["layers"])):
        raise KeyError("layers")
    methods = [{**method, "seconds": seconds["methods"][method["name"]]} for method in document["methods"]]
    return {**document, "layers": layers, "methods": methods}


def _check_words(found: Comparison) -> None:
    """Refuse outcomes and statuses that no comparison has: they would be shown as figures."""
    for layer in found.layers:
        for figure in layer.figures:
            if figure.outcome not in _OUTCOMES:
                raise UsageError(
                    f"the outcome of {figure.method} for {layer.name} is {figure.outcome!r}, none of {_OUTCOMES}"
                )
        if [figure.method for figure in layer.figures] != [method.name for method in found.methods]:
            raise UsageError(f"the layer {layer.name} has figures of other methods than the comparison")
    for method in found.methods:
        if method.network_status not in _STATUSES:
            raise UsageError(f"the network_status of {method.name} is {method.network_status!r}, none of {_STATUSES}")
