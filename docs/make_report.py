"""Writes docs/report.md, the page on the fields of a report, from the JSON schema: ``python -m docs.make_report``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docs.markdown import cell, page, prose
from lipaudit.records.schema import load_schema

PAGE = Path(__file__).with_name("report.md")
# heading, where the object stands in a report, and its place in the schema
_OBJECTS = (
    ("The document", "", ()),
    ("model", "model", ("$defs", "model")),
    ("settings", "settings", ("$defs", "settings")),
    ("fixed", "settings.fixed[name]", ("$defs", "held")),
    ("network", "network", ("$defs", "network")),
    ("outputs", "network.outputs[i]", ("$defs", "output")),
    ("bounds", "network.bounds[i]", ("$defs", "bound")),
    ("segments", "network.bounds[i].segments[k]", ("$defs", "segment")),
    ("other_domains", "network.other_domains[i]", ("$defs", "domain")),
    ("images", "network.images", ("$defs", "images")),
    ("norms", "network.images.norms[i]", ("$defs", "image_norm")),
    ("ball", "network.balls[i]", ("$defs", "ball")),
    ("layers", "layers[i]", ("$defs", "layer")),
    ("tool", "tool", ("properties", "tool")),
    ("environment", "environment", ("properties", "environment")),
)
_INTRO = """
`--format json` writes one report, or an array for several models: their reports, and objects of the kind `failure` for those that
could not be audited (`lipaudit schema --several`). This page lists every field, from the JSON
schema that is shipped with the package (`lipaudit schema` prints it); it is written by `python -m docs.make_report` from the
root of a checkout. In Python the same names are attributes of the records: `report.network.upper_bound`,
`report.layers[0].share`; `tool.version` is `report.tool_version`.
"""
_READING = """
## How to read it

- **A missing number is null, never a guess.** Where `status` is not `finite` the upper bounds and estimates of that object are
  null, and `reason` or `reasons` says why. A network without a bound can still have the empirical `lower_bound`. NaN and
  infinity are never written.
- **Bound or estimate.** A finite object has either the fields of an upper bound or, where `rigor` is `estimate`, those of an
  estimate; the others are null. Only two of the rigors are bounds: `certified` and `numerical`.
- **Large constants.** Bounds are in plain units and, beside them, as logarithms to base 10. A bound beyond 1e308 has its
  logarithm only; the bound 0 has no logarithm. Below 1e-300 the plain bound is rounded up to what a float can be, and the
  logarithm alone says how small the constant is.
- **Bounds of the network.** `bounds` lists what every method for the whole network found; the network's `upper_bound` is the least.
- **Contradictions.** Two figures of one constant agree up to rounding, a lower bound is not above its upper bound, a finite network
  has finite outputs, and its upper bound is the least of `bounds`. A report in which they do not, or with a logarithm beyond
  ±999999, is refused by every reader of lipaudit.
- **Rounding.** The stored bounds are bounds as they are. A table shows upper bounds rounded up and lower bounds rounded down.
- **Structure.** With `settings.structure` there is no figure anywhere: the statuses are the answer.
- **Two runs** with the same model and settings on one machine differ in `created` and `timings` only.
- **Versions.** Objects are open: within 1.x fields are only added, and a reader ignores what it does not know. Reports of all earlier
  versions 1.x are read; the schema of every version is shipped with the package. Version 1.1 added `bounds` and the `rigor` of outputs,
  version 1.2 `log10_ratio`, `images`, `balls`, `settings.centres`, `settings.effort` and the `segments` of bounds.
"""
_WORDS = {"null": "null", "string": "string", "integer": "integer", "number": "number", "boolean": "true or false"}


def render() -> str:
    """The page."""
    schema = load_schema()
    parts = ["# The report's fields", _INTRO.strip(), _READING.strip(), *_values(schema)]
    for heading, place, path in _OBJECTS:
        found = schema
        for key in path:
            found = found[key]
        parts += [f"## {heading}", f"In a report: `{place}`." if place else "", _table(found, schema)]
    return page(*parts)


def _values(schema: dict[str, Any]) -> Iterator[str]:
    yield "## status and rigor"
    for name in ("status", "rigor"):
        words = schema["$defs"][name]["description"].split("; ")
        lines = [f"- `{word.partition(': ')[0]}`: {prose(word.partition(': ')[2])}." for word in words]
        yield f"`{name}` is one of"
        yield "\n".join(lines)


def _table(described: dict[str, Any], schema: dict[str, Any]) -> str:
    """The fields of an object; a mark behind those that every report has."""
    lines = ["| field | holds | always there | meaning |", "|---|---|---|---|"]
    required = described.get("required", ())
    for name, field in described["properties"].items():
        mark = "yes" if name in required else ""
        lines.append(f"| {cell(name)} | {prose(_kind(field, schema))} | {mark} | {prose(field['description'])} |")
    return "\n".join(lines)


def _kind(field: dict[str, Any], schema: dict[str, Any]) -> str:
    """What a field holds, in words."""
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return "object" if schema["$defs"][name].get("type") == "object" else name
    if "anyOf" in field:
        return " or ".join(_kind(choice, schema) for choice in field["anyOf"])
    if "const" in field or "enum" in field:
        values = [field["const"]] if "const" in field else field["enum"]
        return " or ".join("null" if value is None else str(value) for value in values)
    types = field["type"] if isinstance(field["type"], list) else [field["type"]]
    return " or ".join(_container(kind, field, schema) for kind in types)


def _container(kind: str, field: dict[str, Any], schema: dict[str, Any]) -> str:
    if kind == "array":
        return f"array ({_kind(field['items'], schema)})" if "items" in field else "array"
    if kind == "object":
        inner = field.get("additionalProperties")
        return f"object (name: {_kind(inner, schema)})" if isinstance(inner, dict) else "object"
    return _WORDS[kind]


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
