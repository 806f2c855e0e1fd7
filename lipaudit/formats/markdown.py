"""The report in GitHub-flavoured Markdown, for model cards and pull requests."""

from __future__ import annotations

from collections.abc import Sequence

from lipaudit.escaping import escape_markdown
from lipaudit.formats.balls import ball_grid
from lipaudit.formats.columns import cell, default_columns, rows_grid
from lipaudit.formats.options import Audits, Options
from lipaudit.records.failure import Failure
from lipaudit.records.groups import group_by_path, is_chain
from lipaudit.records.report import AuditReport
from lipaudit.text.summary import ADVICE, sections, title, warning


def render(report: AuditReport, columns: Sequence[str] | None = None, depth: int | None = None) -> str:
    """The same content as the table: the summary first, the layers after it.

    By default the layers have a column of remarks where a layer has one.
    """
    balls = report.network.balls
    table = f"{ball_grid(balls).markdown()}\n\n" if balls else ""
    return f"{render_summary(report)}\n\n{table}{render_layers(report, columns, depth)}"


def render_audits(audits: Audits, options: Options) -> str:
    """Several reports one below the other, and last the models that could not be audited."""
    layout = options.layout
    parts = [
        *(render(report, layout.columns, layout.depth) for report in audits.reports),
        render_failures(audits.failures),
    ]
    return "\n\n\n".join(filter(None, parts))


def render_summary(report: AuditReport, advice: bool = True) -> str:
    """The title and what an audit found, in sentences; without ``advice`` to the model's makers, where others read it."""
    first = warning(report)
    parts = [f"**{escape_markdown(first)}**"] if first else []
    parts.append(f"## Lipschitz audit of {escape_markdown(title(report.model))}")
    for section in sections(report):
        if section.label == ADVICE and not advice:
            continue
        parts += [f"**{section.label}**", "\n".join(f"- {escape_markdown(line)}" for line in section.lines)]
    return "\n\n".join(parts)


def render_layers(report: AuditReport, columns: Sequence[str] | None = None, depth: int | None = None) -> str:
    """The table of layers."""
    rows = group_by_path(report.layers, depth, is_chain(report))
    if not rows:
        return "No operation of this network can stretch a perturbation."
    keys = list(columns or default_columns(rows))
    if columns is None and any(cell("note", row) for row in rows):
        keys.append("note")
    return rows_grid(rows, keys).markdown()


def render_failures(failures: Sequence[Failure]) -> str:
    """The models without a report, as a section of their own; empty where there are none."""
    if not failures:
        return ""
    lines = [f"- {escape_markdown(failure.model)}: {escape_markdown(failure.error)}" for failure in failures]
    return "\n".join(["## Models that could not be audited", "", *lines])
