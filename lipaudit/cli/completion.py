"""What a shell offers after ``lipaudit`` and TAB: verbs, files, and the names of torchvision's and timm's models.

The shell asks by running the command with ``_LIPAUDIT_COMPLETE`` set, as click has it.
"""

from __future__ import annotations

import os

import click
from click.shell_completion import CompletionItem

from lipaudit.cli.listing import model_names


def complete_model(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Model names that begin as typed, with or without ``torchvision:`` and ``timm:``, and files."""
    files = [CompletionItem(incomplete, type="file")]
    if not incomplete or os.sep in incomplete:
        return files
    names = model_names(quiet=True).matching("*")
    bare = list(dict.fromkeys(name.partition(":")[2] for name in names))
    return [CompletionItem(name) for name in (*bare, *names) if name.startswith(incomplete)] + files
