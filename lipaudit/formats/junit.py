"""Gates as JUnit XML: what CI systems show as test results.

There is no standard; the elements and attributes are those that the readers of Jenkins and GitLab share: ``testsuites`` >
``testsuite`` (name, tests, failures, errors, skipped, time, timestamp) > ``testcase`` (classname, name, time) with at most one
``failure``, ``error`` or ``skipped`` (message).

A model is a suite. Every row, and the network, is a test case of whether it has a finite bound: without one it is a failure
where a gate asks for it, else skipped. Every gate on the network is one more case, and a gate on layers one per row.
A model of a fleet that could not be audited is a suite of one case with an error.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from lipaudit.escaping import printable
from lipaudit.formats.options import Audits, Options
from lipaudit.gates.report import (
    CLAIM,
    MAX_LAYER,
    MAX_LOG10_BOUND,
    STRICT,
    Gates,
    gate_problems,
    missing_bound,
    network_missing_bound,
)
from lipaudit.records.failure import Failure
from lipaudit.records.report import AuditReport
from lipaudit.text.summary import headline, in_pixels

_BOUNDED = "bounded"
_COUNTS = {"tests": "", "failures": "failure", "errors": "error", "skipped": "skipped"}  # the outcomes that each counts


@dataclass(frozen=True)
class Case:
    """One test: ``kind`` is the gate, or that there is a bound; ``outcome`` is ``passed``, ``failure`` or ``skipped``, and
    ``text`` says why it is not passed.
    """

    kind: str
    name: str
    outcome: str = "passed"
    text: str = ""


def render(audits: Audits, options: Options) -> str:
    """The XML document, with a declaration; ``options.gates`` are judged."""
    root = ElementTree.Element("testsuites", {"name": "lipaudit"})
    often: Counter[str] = Counter()
    for report in audits.reports:
        often[report.model.spec] += 1
        counter = often[report.model.spec]  # the same model under other options is another suite
        root.append(_suite(report, cases(report, options.gates), f"#{counter}" if counter > 1 else ""))
    for failure in audits.failures:
        root.append(_failed_suite(failure))
    totals = {key: sum(int(suite.get(key, "0")) for suite in root) for key in _COUNTS}
    root.attrib.update({key: str(value) for key, value in totals.items()})
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode")


def cases(report: AuditReport, gates: Gates) -> list[Case]:
    """The tests of one report: gates on the network, on the rows, then whether each row has a bound."""
    failed = {(problem.gate, problem.row): problem.text for problem in gate_problems(report, gates)}

    def judged(gate: str, row: int | None, name: str) -> Case:
        text = failed.get((gate, row), "")
        return Case(gate, name, "failure" if text else "passed", text)

    tests = []
    if gates.max_log10_bound is not None:
        tests.append(judged(MAX_LOG10_BOUND, None, "network"))
    if gates.claim is not None:
        tests.append(judged(CLAIM, None, "network"))
    if gates.strict:
        tests.append(judged(STRICT, None, "network"))
    if gates.max_layer is not None:
        tests += [judged(MAX_LAYER, row, layer.name) for row, layer in enumerate(report.layers)]
        if (MAX_LAYER, None) in failed:
            tests.append(judged(MAX_LAYER, None, "network"))
    without = "failure" if gates.no_unbounded or gates.strict else "skipped"
    missing = [("network", network_missing_bound(report))]
    missing += [(layer.name, missing_bound(report, layer)) for layer in report.layers]
    tests += [Case(_BOUNDED, name, without if text else "passed", text) for name, text in missing]
    return tests


def _suite(report: AuditReport, tests: Sequence[Case], counter: str) -> ElementTree.Element:
    spec = printable(report.model.spec + counter)
    attributes = _attributes(spec, [case.outcome for case in tests])
    attributes["time"] = f"{sum(report.timings.values()):.3f}"
    attributes["timestamp"] = re.sub(r"(\.\d+)?(Z|\+00:00)$", "", printable(report.created))
    suite = ElementTree.Element("testsuite", attributes)
    properties = ElementTree.SubElement(suite, "properties")
    ElementTree.SubElement(properties, "property", {"name": "result", "value": printable(headline(report))})
    if pixel := in_pixels(report, report.network):
        said = printable(f"{pixel}, measured in pixels in [0, 1], before the model's own normalisation")
        ElementTree.SubElement(properties, "property", {"name": "result in pixels", "value": said})
    for case in tests:
        names = {"classname": f"{spec}.{case.kind}", "name": printable(case.name), "time": "0"}
        element = ElementTree.SubElement(suite, "testcase", names)
        if case.outcome != "passed":
            why = ElementTree.SubElement(element, case.outcome, {"message": printable(case.text)})
            if case.outcome == "failure":
                why.set("type", case.kind)
    return suite


def _failed_suite(failure: Failure) -> ElementTree.Element:
    model = printable(failure.model)
    suite = ElementTree.Element("testsuite", {**_attributes(model, ["error"]), "time": "0"})
    case = ElementTree.SubElement(suite, "testcase", {"classname": f"{model}.audit", "name": "audit", "time": "0"})
    ElementTree.SubElement(case, "error", {"message": printable(failure.error), "type": "audit"})
    return suite


def _attributes(name: str, outcomes: Sequence[str]) -> dict[str, str]:
    """The name of a suite and how many of its cases ended how."""
    counts = {key: outcomes.count(outcome) for key, outcome in _COUNTS.items()}
    return {"name": name, **{key: str(value) for key, value in (counts | {"tests": len(outcomes)}).items()}}
