"""The report as JSON (schema 1.0) and back.

The document is the record, field by field, below five keys that say what the document is. Every object is open: a
later minor version only adds keys, and :func:`from_json` ignores those that it does not know. A constant without a
finite bound is ``null`` beside its ``status``; NaN and infinity are never written and never read.
"""

from __future__ import annotations

import json
import math
import types
from collections.abc import Sequence
from dataclasses import MISSING, asdict, fields, is_dataclass
from typing import Any, NoReturn, TypeVar, get_args, get_origin, get_type_hints

from lipaudit.errors import UsageError
from lipaudit.records.contradictions import contradiction
from lipaudit.records.failure import FAILURE, Failure
from lipaudit.records.report import AuditReport
from lipaudit.records.schema import SCHEMA_ID, SCHEMA_VERSION

T = TypeVar("T")


def to_dict(report: AuditReport) -> dict[str, Any]:
    """The report as plain dictionaries and lists, in the order of the document.

    Raises ValueError where the record contradicts itself (:mod:`lipaudit.records.contradictions`).
    """
    body = _plain(asdict(report))
    del body["tool_version"]
    document = {
        "$schema": SCHEMA_ID,
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "lipaudit", "version": report.tool_version},
        "created": body.pop("created"),
        "model": body.pop("model"),
        "settings": body.pop("settings"),
        "environment": _sorted(body.pop("environment")),
        **body,
    }
    problem = contradiction(document)
    if problem:
        raise ValueError(f"the report contradicts itself: {problem}")
    return document


def to_json(report: AuditReport, indent: int | None = 2) -> str:
    """The report as JSON text (ASCII, no trailing newline); two equal reports give the same text."""
    return json.dumps(to_dict(report), indent=indent, allow_nan=False)


def to_json_array(reports: Sequence[AuditReport], failures: Sequence[Failure] = (), indent: int | None = 2) -> str:
    """Several reports, and the models that have none, as one JSON array (:mod:`lipaudit.records.schema` describes it)."""
    entries = [to_dict(report) for report in reports] + [_failure(entry) for entry in failures]
    return json.dumps(entries, indent=indent, allow_nan=False)


def _failure(failure: Failure) -> dict[str, Any]:
    return {
        "kind": FAILURE,
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "lipaudit"},
        "model": {"spec": failure.model},
        "error": failure.error,
        "exit_code": failure.exit_code,
    }


def from_json(text: str | bytes) -> AuditReport:
    """The report that :func:`to_json` wrote.

    Raises :class:`~lipaudit.errors.UsageError` for a document that is no lipaudit report, that has a newer major
    version, or that lacks or contradicts what it must say; the message names the place.
    """
    return _report(parsed(text, "lipaudit report"))


def outcomes_from_json(text: str | bytes) -> tuple[AuditReport | Failure, ...]:
    """What a document holds: one report, or an array of reports and failures as an audit of several models writes it.

    Raises :class:`~lipaudit.errors.UsageError` as :func:`from_json` does, saying which entry of the array is wrong.
    """
    document = parsed(text, "lipaudit report")
    if not isinstance(document, list):
        return (_report(document),)
    if not document:
        raise UsageError("the array holds no report; use a file written by `lipaudit --format json`")
    outcomes = []
    for number, entry in enumerate(document, start=1):
        try:
            outcomes.append(_outcome(entry))
        except UsageError as error:
            raise UsageError(f"report {number} of {len(document)}: {error}") from None
    return tuple(outcomes)


def _outcome(entry: Any) -> AuditReport | Failure:
    if not isinstance(entry, dict) or entry.get("kind") != FAILURE:
        return _report(entry)
    check_kind(entry, FAILURE, "audit", SCHEMA_VERSION)
    model = entry.get("model")
    return decoded(Failure, {**entry, "model": model.get("spec") if isinstance(model, dict) else model}, "failure")


def parsed(text: str | bytes, what: str) -> Any:
    """The value of a JSON text; a :class:`~lipaudit.errors.UsageError` says that it is no ``what``."""
    if not isinstance(text, str | bytes | bytearray):
        raise UsageError(f"a {what} is read from its JSON text (str or bytes), not from {type(text).__name__}")
    try:
        return json.loads(text, parse_constant=no_constant)
    except (ValueError, RecursionError) as error:  # no JSON, no text, numbers or nesting without measure
        raise UsageError(f"this is not JSON, so it is no {what}: {error}") from None


def check_kind(document: Any, kind: str, verb: str, supported: str) -> None:
    """Refuse what is no document of lipaudit of that kind, as ``verb`` writes it, in the major version of ``supported``."""
    if not _is_ours(document) or document.get("kind") != kind:
        raise UsageError(
            f"this JSON is no {kind}: its kind is not {kind!r}; use a file written by `lipaudit {verb} --format json`"
        )
    _check_version(str(document.get("schema_version")), supported, kind)


def _is_ours(document: Any) -> bool:
    tool = document.get("tool") if isinstance(document, dict) else None
    return isinstance(tool, dict) and tool.get("name") == "lipaudit"


def _check_version(version: str, supported: str, what: str) -> None:
    major = supported.split(".")[0]
    if version.split(".")[0] != major:
        raise UsageError(
            f"the {what} has schema version {version}, this lipaudit reads {major}.x; install the lipaudit that wrote it or a newer one"
        )


def _report(document: Any) -> AuditReport:
    _check_identity(document)
    problem = contradiction(document)
    if problem:
        raise UsageError(f"the report contradicts itself: {problem}; write it again with this version of lipaudit")
    return decoded(AuditReport, {**document, "tool_version": document["tool"].get("version")}, "report")


# what else lipaudit writes as JSON, by its kind
_OTHERS = {
    "comparison": "a comparison of methods, no report of an audit: read it with Comparison.from_json",
    "diff": "a diff of two reports, no report of an audit: read it with ReportDiff.from_json",
    "fleet": "the first line of a fleet's record, no report of an audit: `lipaudit export` and `lipaudit diff` read the whole record",
    "fleet summary": "the summary of a fleet, which has no reports: use the record of the fleet (-o FILE.jsonl)",
}


def _check_identity(document: Any) -> None:
    if isinstance(document, dict) and document.get("$id") == SCHEMA_ID:
        raise UsageError(
            "this JSON is the schema of reports, no report: use a file written by `lipaudit --format json`"
        )
    if isinstance(document, list) and any(map(_is_ours, document)):
        raise UsageError(
            f"this JSON holds several reports, an array of {len(document)}: take one of its entries, "
            "AuditReport.from_json(json.dumps(entries[0]))"
        )
    if not isinstance(document, dict) or not isinstance(document.get("schema_version"), str):
        raise UsageError(
            "this JSON is no lipaudit report: it has no schema_version; use a file written by `lipaudit --format json`"
        )
    if not _is_ours(document):
        raise UsageError("this JSON is no lipaudit report: its tool.name is not lipaudit")
    kind = document.get("kind")
    if isinstance(kind, str) and kind in _OTHERS:
        raise UsageError(f"this JSON is {_OTHERS[kind]}")
    _check_version(document["schema_version"], SCHEMA_VERSION, "report")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return value


def no_constant(name: str) -> NoReturn:
    """Refuse NaN and infinity where JSON is parsed."""
    raise UsageError(f"the document holds {name}, which is neither JSON nor a bound")


def decoded(cls: type[T], value: Any, where: str) -> T:
    """A record from its JSON, keys that it does not know ignored; ``where`` is how errors name the value."""
    if not isinstance(value, dict):
        _mismatch(where, "an object", value)
    hints = get_type_hints(cls)
    arguments = {}
    for entry in fields(cls):  # type: ignore[arg-type]  # every cls here is a dataclass
        if entry.name in value:
            arguments[entry.name] = _decode(hints[entry.name], value[entry.name], f"{where}.{entry.name}")
        elif entry.default is MISSING and entry.default_factory is MISSING:
            raise UsageError(f"{where} lacks {entry.name}: the file was cut or is no lipaudit report")
    return cls(**arguments)


def _decode(hint: Any, value: Any, where: str) -> Any:
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin is types.UnionType:  # X | None
        return None if value is None else _decode(parts[0], value, where)
    if origin is tuple:
        if not isinstance(value, list):
            _mismatch(where, "an array", value)
        return tuple(_decode(parts[0], entry, f"{where}[{i}]") for i, entry in enumerate(value))
    if origin is dict:
        if not isinstance(value, dict):
            _mismatch(where, "an object", value)
        return {key: _decode(parts[1], entry, f"{where}.{key}") for key, entry in value.items()}
    if is_dataclass(hint):
        return decoded(hint, value, where)  # type: ignore[arg-type]
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return _float(value, where)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        _mismatch(where, {str: "a string", int: "an integer", float: "a number", bool: "true or false"}[hint], value)
    return value


def _float(value: int | float, where: str) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise UsageError(f"{where} is too large for a float; constants beyond 1e308 belong in the log10 fields")
    return number


def _mismatch(where: str, wanted: str, value: Any) -> NoReturn:
    raise UsageError(f"{where} should be {wanted}, not {json.dumps(value)[:40]}")
