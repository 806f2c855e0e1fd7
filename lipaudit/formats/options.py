"""What a rendering depends on beside the document: how tables are laid out, the gates, and what single formats take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lipaudit.formats.layout import Layout
from lipaudit.gates.report import Gates
from lipaudit.records.failure import Failure
from lipaudit.records.report import AuditReport

SPEC_VERSIONS = ("1.5", "1.6", "1.7")


@dataclass(frozen=True)
class Audits:
    """The document that a format of audits takes: the reports, and the models that could not be audited."""

    reports: Sequence[AuditReport]
    failures: Sequence[Failure] = ()


class FleetRecord:
    """The record of a fleet, of which no format here is in charge: it is written model by model while the fleet runs."""


@dataclass(frozen=True)
class Options:
    """Every format reads those that concern it.

    ``layout``: rows, columns and width of tables. ``gates``: what SARIF and JUnit judge. ``report_file``: where the reports were read
    from, the location of findings about models that are no file. ``spec_version``: of CycloneDX. ``model_index``: the name under which a
    model card lists its results.
    """

    layout: Layout = field(default_factory=Layout)
    gates: Gates = field(default_factory=Gates)
    report_file: str | None = None
    spec_version: str = "1.6"
    model_index: str | None = None


DEFAULT = Options()
