"""What a shell offers after ``lipaudit`` and TAB: verbs, files, and the names of torchvision's and timm's models.

The shell asks by running the command with ``_LIPAUDIT_COMPLETE`` set, as click has it. Torchvision and timm take seconds to import, so
that their names are kept in a file of the user's cache, one for each pair of versions.
"""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from lipaudit.cli.terminal import import_frameworks, shielded
from lipaudit.errors import OutputError
from lipaudit.files import write_whole


def complete_model(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Model names that begin as typed, with or without ``torchvision:`` and ``timm:``, and files."""
    files = [CompletionItem(incomplete, type="file")]
    if not incomplete or os.sep in incomplete:
        return files
    names = model_names()
    bare = list(dict.fromkeys(name.partition(":")[2] for name in names))
    return [CompletionItem(name) for name in (*bare, *names) if name.startswith(incomplete)] + files


def model_names() -> list[str]:
    """The names of both registries with their prefix, from the cache or from the registries, which are then kept there."""
    file = _cache_file()
    try:
        return file.read_text(encoding="utf-8").split()
    except OSError:
        pass  # not kept yet
    with shielded(debug=False, quiet=True):
        import_frameworks()
        from lipaudit.frontends import list_models

        names = list_models("*")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, "\n".join(names))
    except (OSError, OutputError):
        pass  # a cache that cannot be written costs time at the next TAB, and nothing else
    return names


def _cache_file() -> Path:
    versions = "-".join(f"{name}-{metadata.version(name)}" for name in ("torchvision", "timm"))
    folder = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(folder).expanduser() / "lipaudit" / f"names-{versions}.txt"
