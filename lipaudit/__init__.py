"""lipaudit: certified bounds of how far a pretrained network can stretch a perturbation of its input."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lipaudit.version import __version__

if TYPE_CHECKING:
    from lipaudit.api import audit, compare
    from lipaudit.auditing.diff import diff
    from lipaudit.auditing.verify import verify
    from lipaudit.certification.certify import certify
    from lipaudit.gates.claim import claim
    from lipaudit.records.certification import Certification
    from lipaudit.records.comparison import Comparison
    from lipaudit.records.diff import ReportDiff
    from lipaudit.records.report import AuditReport
    from lipaudit.spectral.bracket import Bracket
    from lipaudit.spectral.convolution.norm import conv_norm
    from lipaudit.spectral.matrix.gram import spectral_norm

__all__ = [
    "AuditReport",
    "Bracket",
    "Certification",
    "Comparison",
    "ReportDiff",
    "__version__",
    "audit",
    "certify",
    "claim",
    "compare",
    "conv_norm",
    "diff",
    "spectral_norm",
    "verify",
]

# torch takes seconds to import, and `lipaudit --help` needs none of it: what needs torch is imported at first use
_HOMES = {
    "audit": "lipaudit.api",
    "certify": "lipaudit.certification.certify",
    "compare": "lipaudit.api",
    "diff": "lipaudit.auditing.diff",
    "claim": "lipaudit.gates.claim",
    "verify": "lipaudit.auditing.verify",
    "Certification": "lipaudit.records.certification",
    "Comparison": "lipaudit.records.comparison",
    "ReportDiff": "lipaudit.records.diff",
    "AuditReport": "lipaudit.records.report",
    "Bracket": "lipaudit.spectral.bracket",
    "conv_norm": "lipaudit.spectral.convolution.norm",
    "spectral_norm": "lipaudit.spectral.matrix.gram",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'lipaudit' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
