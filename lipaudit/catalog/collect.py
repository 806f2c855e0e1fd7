"""Writes the JSON files of rules and methods from the registries: ``python -m lipaudit.catalog.collect``."""

from __future__ import annotations

from collections.abc import Iterable

from lipaudit.catalog.entries import FILE, RuleEntry, as_json
from lipaudit.text import published_methods
from lipaudit.text.published_methods import MethodEntry


def collect_rules() -> tuple[RuleEntry, ...]:
    """Every registered rule once, by family and otherwise as registered."""
    import lipaudit.rules  # registers every rule
    from lipaudit.rules.norm import Norm
    from lipaudit.rules.rule import all_rules

    rules = {id(rule): rule for rule in all_rules().values()}.values()
    entries = (
        RuleEntry(
            rule=rule.name,
            family=rule.function.__module__.rpartition(".")[2],
            operations=rule.ops,
            constant=rule.formula,
            source=rule.source,
            exact=rule.exact,
            needs_bounded_operands=rule.where_bounded,
            norms=tuple(n.value for n in Norm) if _in_every_norm(rule.ops) else (Norm.L2.value,),
        )
        for rule in rules
        if rule.function.__module__.startswith(f"{lipaudit.rules.__name__}.")
    )
    return tuple(sorted(entries, key=lambda entry: entry.family))


def _in_every_norm(ops: Iterable[str]) -> bool:
    from lipaudit.rules.rule import find_operation

    return all(find_operation(op).induced_norm is not None for op in ops)


def collect_methods() -> tuple[MethodEntry, ...]:
    """Every registered method, by name."""
    from lipaudit.spectral.published.registry import all_methods

    return tuple(
        MethodEntry(
            method=method.name,
            title=method.title,
            computes=method.summary,
            claim=method.claim,
            default_iterations=method.iterations,
            reference=method.reference,
        )
        for method in all_methods()
    )


def write() -> None:
    """Write both files."""
    FILE.write_text(as_json(collect_rules()) + "\n", encoding="utf-8")
    published_methods.FILE.write_text(as_json(collect_methods()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
