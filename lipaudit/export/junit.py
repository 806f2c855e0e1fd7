"""Gates as JUnit XML: what CI systems show as test results.

There is no standard; the elements and attributes are those that the readers of Jenkins and GitLab share: ``testsuites`` >
``testsuite`` (name, tests, failures, errors, skipped, time, timestamp) > ``testcase`` (classname, name, time) with at most one
``failure`` or ``skipped`` (message).

A model is a suite. Every row, and the network, is a test case of whether it has a finite bound: without one it is a failure
where a gate asks for it, else skipped. Every gate on the network is one more case, and a gate on layers one per row.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass

from lipaudit.report.display import printable
from lipaudit.report.gate import (
    MAX_LAYER,
    MAX_LOG10_BOUND,
    STRICT,
    Gates,
    gate_problems,
    missing_bound,
    network_missing_bound,
)
from lipaudit.report.record import AuditReport
from lipaudit.report.summary import headline

_BOUNDED = "bounded"


@dataclass(frozen=True)
class Case:
    """One test: ``kind`` is the gate, or that there is a bound; ``outcome`` is ``passed``, ``failure`` or ``skipped``, and
    ``text`` says why it is not passed.
    """

    kind: str
    name: str
    outcome: str = "passed"
    text: str = ""


def render(reports: Sequence[AuditReport], gates: Gates) -> str:
    """The XML document, with a declaration."""
    root = ElementTree.Element("testsuites", {"name": "lipaudit"})
    totals = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    for report in reports:
        found = cases(report, gates)
        counts = {
            "tests": len(found),
            "failures": sum(case.outcome == "failure" for case in found),
            "errors": 0,
            "skipped": sum(case.outcome == "skipped" for case in found),
        }
        totals = {key: totals[key] + counts[key] for key in totals}
        root.append(_suite(report, found, counts))
    root.attrib.update({key: str(value) for key, value in totals.items()})
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode")


def cases(report: AuditReport, gates: Gates) -> list[Case]:
    """The tests of one report: gates on the network, on the rows, then whether each row has a bound."""
    failed = {(problem.gate, problem.row): problem.text for problem in gate_problems(report, gates)}

    def judged(gate: str, row: int | None, name: str) -> Case:
        text = failed.get((gate, row), "")
        return Case(gate, name, "failure" if text else "passed", text)

    found = []
    if gates.max_log10_bound is not None:
        found.append(judged(MAX_LOG10_BOUND, None, "network"))
    if gates.strict:
        found.append(judged(STRICT, None, "network"))
    if gates.max_layer is not None:
        found += [judged(MAX_LAYER, row, layer.name) for row, layer in enumerate(report.layers)]
        if (MAX_LAYER, None) in failed:
            found.append(judged(MAX_LAYER, None, "network"))
    without = "failure" if gates.no_unbounded or gates.strict else "skipped"
    missing = [("network", network_missing_bound(report))]
    missing += [(layer.name, missing_bound(report, layer)) for layer in report.layers]
    found += [Case(_BOUNDED, name, without if text else "passed", text) for name, text in missing]
    return found


def _suite(report: AuditReport, found: Sequence[Case], counts: dict[str, int]) -> ElementTree.Element:
    spec = printable(report.model.spec)
    attributes = {"name": spec, **{key: str(value) for key, value in counts.items()}}
    attributes["time"] = f"{sum(report.timings.values()):.3f}"
    attributes["timestamp"] = re.sub(r"(\.\d+)?(Z|\+00:00)$", "", printable(report.created))
    suite = ElementTree.Element("testsuite", attributes)
    properties = ElementTree.SubElement(suite, "properties")
    ElementTree.SubElement(properties, "property", {"name": "result", "value": printable(headline(report))})
    for case in found:
        names = {"classname": f"{spec}.{case.kind}", "name": printable(case.name), "time": "0"}
        element = ElementTree.SubElement(suite, "testcase", names)
        if case.outcome != "passed":
            why = ElementTree.SubElement(element, case.outcome, {"message": printable(case.text)})
            if case.outcome == "failure":
                why.set("type", case.kind)
    return suite
