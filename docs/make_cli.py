"""Writes docs/cli.md, the page on the command line, from the commands themselves: ``python -m docs.make_cli``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click

from docs.markdown import page, prose
from lipaudit.cli import cli

PAGE = Path(__file__).with_name("cli.md")
_INTRO = (
    "Every verb with its options, as `lipaudit VERB --help` says them. Each of them also takes `-h` or `--help`, and "
    "`--debug`, which shows tracebacks and the warnings of other packages. Data goes to stdout, everything else to stderr; "
    "files are written whole or not at all. This page is written by `python -m docs.make_cli` from the root of a checkout."
)


def render() -> str:
    """The page."""
    context = click.Context(cli, info_name="lipaudit", **cli.context_settings)
    parts = ["# Command line", _INTRO, *_command(cli, context), *_paragraphs(cli.epilog or "")]
    for name, command in cli.commands.items():
        inner = click.Context(command, parent=context, info_name=name)
        parts += [f"## lipaudit {name}", *_command(command, inner)]
    return page(*parts)


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    yield f"```text\n{' '.join([context.command_path, *command.collect_usage_pieces(context)])}\n```"
    yield from _paragraphs(command.help or "")
    for parameter in command.params:
        record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        if record and parameter.name != "debug":
            names, text = record
            yield f"`{names}`\n: {prose(text)}"


def _paragraphs(text: str) -> Iterator[str]:
    r"""The paragraphs of a help text; one that begins with ``\b`` keeps its lines, below its first one."""
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        if paragraph.startswith("\b"):
            first, *lines = paragraph.removeprefix("\b").strip("\n").splitlines()
            yield first
            yield "```text\n" + inspect.cleandoc("\n".join(lines)) + "\n```"
        else:
            yield prose(paragraph)


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
