"""lipaudit: certified bounds of how far a pretrained network can stretch a perturbation of its input."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lipaudit.api import audit, compare
    from lipaudit.diffing import diff
    from lipaudit.report.comparison import Comparison
    from lipaudit.report.diff import ReportDiff
    from lipaudit.report.record import AuditReport
    from lipaudit.spectral.bracket import Bracket
    from lipaudit.spectral.convolution import conv_norm
    from lipaudit.spectral.gram import spectral_norm

__version__ = "0.1.0"
__all__ = [
    "AuditReport",
    "Bracket",
    "Comparison",
    "ReportDiff",
    "__version__",
    "audit",
    "compare",
    "conv_norm",
    "diff",
    "spectral_norm",
]

# torch takes seconds to import, and `lipaudit --help` needs none of it: what needs torch is imported at first use
_HOMES = {
    "audit": "lipaudit.api",
    "compare": "lipaudit.api",
    "diff": "lipaudit.diffing",
    "Comparison": "lipaudit.report.comparison",
    "ReportDiff": "lipaudit.report.diff",
    "AuditReport": "lipaudit.report.record",
    "Bracket": "lipaudit.spectral.bracket",
    "conv_norm": "lipaudit.spectral.convolution",
    "spectral_norm": "lipaudit.spectral.gram",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'lipaudit' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
