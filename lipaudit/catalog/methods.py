"""What lipaudit can measure with: every registered method, what it computes and what its figure is worth."""

from __future__ import annotations

import json
from collections.abc import Sequence

from lipaudit.catalog.rules import entry, matches, wrapped
from lipaudit.errors import UsageError
from lipaudit.escaping import escape_markdown
from lipaudit.records.report import SettingsRecord
from lipaudit.spectral.published.registry import Method, all_methods
from lipaudit.text.method import steps_text

_OURS = SettingsRecord.method
_INTRO = (
    "Ways to find the norms of convolutions and dense layers: `lipaudit MODEL --method NAME` audits by one of them, `lipaudit "
    "compare MODEL` measures by all of them. The default takes effect where --iterations names no other number. No figure "
    f"but that of {_OURS} accounts for rounding."
)
_HEADS = ("method", "computes", "the figure is", "default")


def find_methods(pattern: str = "*") -> tuple[Method, ...]:
    """The methods whose name matches a pattern with wildcards, or contains it, by name.

    Raises:
        UsageError: if there is none.
    """
    found = tuple(method for method in all_methods() if matches(pattern, [method.name]))
    if not found:
        raise UsageError(f"no method matches {pattern!r}; `lipaudit methods` lists them")
    return found


def render(methods: Sequence[Method], form: str = "table") -> str:
    """The methods as text in one of :data:`~lipaudit.catalog.rules.FORMATS`."""
    return {"table": _table, "json": _json, "markdown": _markdown}[form](methods)


def _json(methods: Sequence[Method]) -> str:
    entries = [
        {
            "method": method.name,
            "title": method.title,
            "computes": method.summary,
            "claim": method.claim,
            "default_iterations": method.iterations,
            "reference": method.reference,
        }
        for method in methods
    ]
    return json.dumps(entries, indent=2)


def _table(methods: Sequence[Method]) -> str:
    lines = wrapped(_INTRO)
    for method in methods:
        steps = "" if method.iterations is None else steps_text(method.iterations)
        lines += ["", method.name + (" [default]" if method.name == _OURS else "")]
        lines += entry("computes", method.summary) + entry("figure", method.claim)
        lines += (entry("default", steps) if steps else []) + entry("source", method.reference)
    return "\n".join(lines)


def _markdown(methods: Sequence[Method]) -> str:
    """One table; the sources stand below it."""
    lines = [f"| {' | '.join(_HEADS)} |", "|---|---|---|---:|"]
    for method in methods:
        cells = (escape_markdown(method.summary), escape_markdown(method.claim), str(method.iterations or ""))
        lines.append(f"| `{method.name}` | {' | '.join(cells)} |")
    return "\n".join([*lines, "", *(f"- `{method.name}`: {escape_markdown(method.reference)}." for method in methods)])
