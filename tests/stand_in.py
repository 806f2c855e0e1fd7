"""What commands are tested with in the place of an audit: no torch, no model, a function that says what the report is."""

from __future__ import annotations

import sys
from collections.abc import Callable, MutableMapping
from types import ModuleType
from typing import Any

from lipaudit.auditing.request import AuditRequest
from lipaudit.records.report import AuditReport


def replace_audit(
    audit: Callable[..., AuditReport],
    expand: Callable[[str], list[str]] = lambda spec: [spec],
    modules: MutableMapping[str, Any] = sys.modules,
) -> ModuleType:
    """Let commands call ``audit(spec, progress=..., **options)`` and ``expand``; the module of registries that stands in is returned."""

    def run_audit(request: AuditRequest, progress: object = None, watch: object = None) -> AuditReport:
        options = request.values()
        return audit(options.pop("model"), **options, progress=progress)

    run, registry, load = (
        ModuleType(f"lipaudit.{n}") for n in ("auditing.run", "frontends.registry", "frontends.load")
    )
    run.run_audit = run_audit  # type: ignore[attr-defined]
    registry.expand = expand  # type: ignore[attr-defined]
    for module in (run, registry, load):
        modules[module.__name__] = module
    return registry
