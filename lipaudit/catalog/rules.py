"""What lipaudit knows: every registered operation with its constant and where that comes from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from itertools import groupby
from operator import attrgetter

from lipaudit.catalog.entries import RuleEntry, as_json, rule_entries
from lipaudit.errors import UsageError
from lipaudit.escaping import escape_markdown
from lipaudit.text.lines import LEAST_WIDTH, labelled, wrapped

FORMATS = ("table", "json", "markdown")
_MARKS = {
    "exact": "the constant is attained, or approached as closely as one likes",
    "bounded": "where several operands depend on the input, or the slope grows without limit, there is a constant only if "
    "the operands are bounded: on a domain (--domain pixels or ball), or by the operations before",
    "norms": "there are constants in the l-infinity and l1 norm as well (--norm linf, --norm l1)",
}
_INTRO = (
    "How far each operation can stretch a change of its input (l2 norm). An operation without a rule is reported as "
    "unsupported, never counted as 1. The names are torch's ATen overloads, without their aten. and .default."
)


def find_rules(pattern: str = "*") -> tuple[RuleEntry, ...]:
    """The rules whose name or one of whose operations matches a pattern with wildcards, or contains it, by family.

    Raises:
        UsageError: if there is none.
    """
    found = tuple(
        entry
        for entry in rule_entries()
        if matches(pattern, [entry.rule, *entry.operations, *map(_short, entry.operations)])
    )
    if not found:
        raise UsageError(
            f"no rule and no operation matches {pattern!r}; what has no rule is reported as unsupported "
            "(`lipaudit rules` lists what has one)"
        )
    return found


def matches(pattern: str, names: Iterable[str]) -> bool:
    """Whether one of the names matches a pattern with wildcards, or contains one without, in any case.

    >>> matches("ryu", ["ryu2019"]), matches("ryu?", ["ryu2019"])
    (True, False)
    """
    wanted = pattern.lower() if any(c in pattern for c in "*?[") else f"*{pattern.lower()}*"
    return any(fnmatchcase(name.lower(), wanted) for name in names)


def render(rules: Sequence[RuleEntry], form: str = "table", width: int = LEAST_WIDTH) -> str:
    """The rules as text in one of :data:`FORMATS`, one entry per rule with all its operations; ``width`` is that of the table's lines."""
    return _table(rules, width) if form == "table" else {"json": as_json, "markdown": _markdown}[form](rules)


def _table(rules: Sequence[RuleEntry], width: int) -> str:
    notes = [_INTRO, *(f"[{mark}] {meaning}." for mark, meaning in _MARKS.items())]
    lines = [line for note in notes for line in wrapped(note, width)]
    for family, members in groupby(rules, attrgetter("family")):
        lines += ["", family.upper()]
        for rule in members:
            marks = "".join(f" [{mark}]" for mark in _marks(rule))
            lines.append(f"{rule.rule}{marks}")
            lines += entry("constant", rule.constant, width) + entry("source", rule.source, width)
            lines += entry("operations", ", ".join(map(_short, rule.operations)), width)
    return "\n".join(lines)


def entry(label: str, text: str, width: int) -> list[str]:
    """The lines of a text beside its label, both indented below a heading."""
    return labelled(f"  {label}", [text], width, margin=14)


def _markdown(rules: Sequence[RuleEntry]) -> str:
    lines = [
        "# Rules",
        "",
        escape_markdown(_INTRO),
        "",
        *(f"- **{mark}**: {escape_markdown(meaning)}." for mark, meaning in _MARKS.items()),
        "",
        "This page is the output of `lipaudit rules --format markdown`.",
    ]
    for family, members in groupby(rules, attrgetter("family")):
        lines += ["", f"## {family}", "", "| rule | constant | marks | source | operations |", "|---|---|---|---|---|"]
        for rule in members:
            cells = (
                _code(rule.rule),
                _code(rule.constant),
                ", ".join(_marks(rule)),
                escape_markdown(rule.source),
                ", ".join(_code(_short(op)) for op in rule.operations),
            )
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _marks(rule: RuleEntry) -> Iterable[str]:
    marked = (rule.exact, rule.needs_bounded_operands, len(rule.norms) > 1)
    return [mark for mark, holds in zip(_MARKS, marked, strict=True) if holds]


def _short(op: str) -> str:
    return op.removeprefix("aten.").removesuffix(".default")


def _code(text: str) -> str:
    return f"`{text.replace('|', chr(92) + '|')}`"
