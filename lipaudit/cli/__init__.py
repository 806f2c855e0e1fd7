"""The command line: one file per verb; the one place that prints."""

from lipaudit.cli.group import cli, main

__all__ = ["cli", "main"]
