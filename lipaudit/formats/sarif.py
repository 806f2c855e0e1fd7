"""Gates as SARIF 2.1.0: what code scanning shows as findings.

Property names are those of the OASIS standard (*Static Analysis Results Interchange Format Version 2.1.0*), section numbers in
the code. GitHub asks for more than the standard: a ``physicalLocation`` with a ``startLine`` (a model file has none: it is 1),
one run per tool, and ``primaryLocationLineHash`` among the fingerprints, so that findings of one file stay apart.

A gate that is not met is an ``error``. A row without a finite bound is one too where a gate asks for a bound, else a
``warning``; it is one finding, of a rule that says what is missing, however many gates it fails. So is the network where a gate asks
for a bound of everything and it has none, or where no row says why.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any
from urllib.parse import quote_from_bytes

from lipaudit.formats.json_text import json_text, well_formed
from lipaudit.formats.options import Audits, Options
from lipaudit.gates.report import (
    CLAIM,
    MAX_LOG10_BOUND,
    NETWORK,
    NO_UNBOUNDED,
    STRICT,
    GateProblem,
    Gates,
    gate_problems,
    network_missing_bound,
)
from lipaudit.records.failure import Failure
from lipaudit.records.report import AuditReport, LayerRecord

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_NOT_AUDITED = "not-audited"


@dataclass(frozen=True)
class Rule:
    """A kind of finding (3.49): what it says, and what to do."""

    id: str
    name: str
    short: str
    help: str


RULES = (
    Rule(
        "network-bound",
        "NetworkBound",
        "The network is not shown to stretch by at most the gate's limit.",
        "The upper bound of the network's Lipschitz constant is above 10 to the power of --max-log10-bound, or there is none. "
        "Lower the rows that cost most, or raise the limit.",
    ),
    Rule(
        "layer-bound",
        "LayerBound",
        "A layer is not shown to stretch by at most the gate's limit.",
        "The upper bound of the layer's Lipschitz constant is above --max-layer. Regularise or normalise its weights.",
    ),
    Rule(
        "claimed-bound",
        "ClaimedBound",
        "The network is not shown to have the claimed Lipschitz constant.",
        "The upper bound is above --claim: a pair of inputs that stretch more refutes the claim, else it is open. Correct the layers that "
        "stretch more than they should, or allow for rounding with --claim-tolerance.",
    ),
    Rule(
        "unbounded",
        "Unbounded",
        "An operation has no finite Lipschitz constant over the inputs.",
        "Bound what enters it (a clamp, a sigmoid, a norm), or audit over a smaller domain: --domain pixels or --domain ball.",
    ),
    Rule(
        "unsupported",
        "Unsupported",
        "Nothing is claimed about an operation, because there is no rule for it.",
        "Write the model with operations that have a rule (lipaudit rules lists them).",
    ),
    Rule(
        "estimate",
        "Estimate",
        "A figure is an estimate by a published method and proves nothing.",
        "Audit with --method gram, which gives bounds.",
    ),
    Rule(
        _NOT_AUDITED,
        "NotAudited",
        "A model could not be audited, so that nothing is known of it.",
        "Correct what the message says, and audit again.",
    ),
)
_INDEX = {rule.id: index for index, rule in enumerate(RULES)}


def render(audits: Audits, options: Options) -> str:
    """One run with the findings of all reports, judged by ``options.gates``.

    ``options.report_file`` is the location of a finding where the model is no file. A model that could not be audited is a finding, too.
    """
    reports, gates, report_file = audits.reports, options.gates, options.report_file
    versions = sorted({report.tool_version for report in reports})
    results = [
        result
        for at, report in enumerate(reports)
        for result in _results(
            report, gates, report_file, sum(other.model.spec == report.model.spec for other in reports[:at])
        )
    ]
    driver = {"name": "lipaudit", **({"version": ", ".join(versions)} if versions else {})}
    run = {
        "tool": {"driver": {**driver, "rules": [_descriptor(rule) for rule in RULES]}},
        "columnKind": "unicodeCodePoints",
        "results": [*results, *(_failed(failure, report_file) for failure in audits.failures)],
    }
    return json_text({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]})


def _descriptor(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "name": rule.name,
        "shortDescription": {"text": rule.short},
        "fullDescription": {"text": f"{rule.short} {rule.help}"},
        "help": {"text": rule.help},
        "defaultConfiguration": {
            "level": "error" if rule.id.endswith("-bound") or rule.id == _NOT_AUDITED else "warning"
        },
    }


def _results(report: AuditReport, gates: Gates, report_file: str | None, earlier: int) -> Iterable[dict[str, Any]]:
    """The findings of a report; ``earlier`` is the number of those before it of the same model, under other options."""
    asked = gate_problems(report, gates)
    strict = any(problem.gate == STRICT for problem in asked)
    bare = gate_problems(report, Gates(no_unbounded=True))
    findings: dict[tuple[str, int | None], dict[str, Any]] = {}
    for problem in (*asked, *_of_network(report, gates), *bare):
        if problem.gate == STRICT:  # what it lacks follows place by place
            continue
        rule = _rule(report, problem)
        level = "warning" if problem in bare and problem not in asked and not strict else "error"
        findings.setdefault((rule, problem.row), _result(report, rule, level, problem, report_file, earlier))
    return findings.values()


def _of_network(report: AuditReport, gates: Gates) -> Iterable[GateProblem]:
    """The network's own status where a gate asks for a bound of everything, whatever the rows say."""
    if (gates.no_unbounded or gates.strict) and report.network.status != "finite":
        yield GateProblem(NO_UNBOUNDED, NETWORK, network_missing_bound(report))


def _rule(report: AuditReport, problem: GateProblem) -> str:
    """What a finding is about: the bound that is missing, else the one that is too large."""
    if problem.gate == MAX_LOG10_BOUND:
        return "network-bound"
    if problem.gate == CLAIM:
        return "claimed-bound"
    record = report.network if problem.row is None else report.layers[problem.row]
    if record.status != "finite":
        return record.status
    return "estimate" if record.rigor == "estimate" else "layer-bound"


def _result(
    report: AuditReport, rule: str, level: str, problem: GateProblem, report_file: str | None, earlier: int
) -> dict[str, Any]:
    layer = None if problem.row is None else report.layers[problem.row]
    spec = report.model.spec
    place = f"{spec}: " + (f"{layer.name} ({layer.op}): " if layer is not None else "")
    return {
        "ruleId": rule,
        "ruleIndex": _INDEX[rule],
        "level": level,
        "message": {"text": place + problem.text},
        "locations": [_location(report, layer, report_file)],
        "partialFingerprints": _fingerprints(report, rule, problem, earlier),
    }


def _fingerprints(report: AuditReport, rule: str, problem: GateProblem, same: int) -> dict[str, str]:
    """From what a finding is about, and no figure: they stay the same while the weights change."""
    about: list[Any] = [rule, report.model.spec, problem.place]
    if problem.row is not None:
        earlier = sum(layer.name == problem.place for layer in report.layers[: problem.row])
        about += [earlier] if earlier or problem.place == NETWORK else []
    return _hashed([*about, {"report": same}] if same else about)


def _hashed(about: list[Any]) -> dict[str, str]:
    digest = hashlib.sha256(json.dumps(well_formed(about)).encode()).hexdigest()[:32]
    return {"lipaudit/v1": digest, "primaryLocationLineHash": f"{digest}:1"}


def _failed(failure: Failure, report_file: str | None) -> dict[str, Any]:
    logical = {"name": failure.model, "fullyQualifiedName": failure.model, "kind": "module"}
    return {
        "ruleId": _NOT_AUDITED,
        "ruleIndex": _INDEX[_NOT_AUDITED],
        "level": "error",
        "message": {"text": f"{failure.model}: {failure.error}"},
        "locations": [{"logicalLocations": [logical], **_physical(report_file)}],
        "partialFingerprints": _hashed([_NOT_AUDITED, failure.model]),
    }


def _location(report: AuditReport, layer: LayerRecord | None, report_file: str | None) -> dict[str, Any]:
    """The file (3.29) and the module in it (3.33)."""
    logical = {"name": report.model.spec, "fullyQualifiedName": report.model.spec, "kind": "module"}
    if layer is not None:
        logical |= {"name": layer.name, "fullyQualifiedName": layer.module or layer.name}
    file = report.model.spec if report.model.file_sha256 is not None else report_file
    return {"logicalLocations": [logical], **_physical(file)}


def _physical(file: str | None) -> dict[str, Any]:
    if file is None:
        return {}
    return {"physicalLocation": {"artifactLocation": {"uri": _uri(file)}, "region": {"startLine": 1}}}


def _uri(file: str) -> str:
    path = PurePath(os.path.expanduser(file))  # as it is where nobody has that home
    name = _bytes(path.as_posix())
    return f"file://{quote_from_bytes(name)}" if path.is_absolute() else quote_from_bytes(name)


def _bytes(name: str) -> bytes:
    """A file's name as the system has it; one that no system has (half of a surrogate pair) with a backslash escape."""
    try:
        return os.fsencode(name)
    except UnicodeEncodeError:
        return str(well_formed(name)).encode()
