"""What an export depends on beside the reports."""

from __future__ import annotations

from dataclasses import dataclass, field

from lipaudit.gates.report import Gates

SPEC_VERSIONS = ("1.5", "1.6", "1.7")


@dataclass(frozen=True)
class ExportSettings:
    """``gates``: what SARIF and JUnit judge. ``report_file``: where the reports were read from, a place for findings of models
    that are no file. ``spec_version``: of CycloneDX. ``model_index``: the name under which a model card lists its results.
    """

    gates: Gates = field(default_factory=Gates)
    report_file: str | None = None
    spec_version: str = "1.6"
    model_index: str | None = None
