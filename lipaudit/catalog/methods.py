"""What lipaudit can measure with: every registered method, what it computes and what its figure is worth."""

from __future__ import annotations

from collections.abc import Sequence

from lipaudit.catalog.entries import as_json
from lipaudit.catalog.rules import entry, matches
from lipaudit.errors import UsageError
from lipaudit.escaping import escape_markdown
from lipaudit.records.settings import SettingsRecord
from lipaudit.text.lines import LEAST_WIDTH, wrapped
from lipaudit.text.method import steps_text
from lipaudit.text.published_methods import MethodEntry, method_entries

_OURS = SettingsRecord.method
_INTRO = (
    "Ways to find the norms of convolutions and dense layers: `lipaudit MODEL --method NAME` audits by one of them, `lipaudit "
    "compare MODEL` measures by all of them. The default takes effect where --iterations names no other number. No figure "
    f"but that of {_OURS} accounts for rounding."
)
_HEADS = ("method", "computes", "the figure is", "default")


def find_methods(pattern: str = "*") -> tuple[MethodEntry, ...]:
    """The methods whose name matches a pattern with wildcards, or contains it, by name.

    Raises:
        UsageError: if there is none.
    """
    found = tuple(method for method in method_entries() if matches(pattern, [method.method]))
    if not found:
        raise UsageError(f"no method matches {pattern!r}; `lipaudit methods` lists them")
    return found


def render(methods: Sequence[MethodEntry], form: str = "table", width: int = LEAST_WIDTH) -> str:
    """The methods as text in one of :data:`~lipaudit.catalog.rules.FORMATS`."""
    return _table(methods, width) if form == "table" else {"json": as_json, "markdown": _markdown}[form](methods)


def _table(methods: Sequence[MethodEntry], width: int) -> str:
    lines = wrapped(_INTRO, width)
    for method in methods:
        steps = "" if method.default_iterations is None else steps_text(method.default_iterations)
        lines += ["", method.method + (" [default]" if method.method == _OURS else "")]
        lines += entry("computes", method.computes, width) + entry("figure", method.claim, width)
        lines += (entry("default", steps, width) if steps else []) + entry("source", method.reference, width)
    return "\n".join(lines)


def _markdown(methods: Sequence[MethodEntry]) -> str:
    """One table; the sources stand below it."""
    lines = [f"| {' | '.join(_HEADS)} |", "|---|---|---|---:|"]
    for method in methods:
        cells = (escape_markdown(method.computes), escape_markdown(method.claim), str(method.default_iterations or ""))
        lines.append(f"| `{method.method}` | {' | '.join(cells)} |")
    return "\n".join(
        [*lines, "", *(f"- `{method.method}`: {escape_markdown(method.reference)}." for method in methods)]
    )
