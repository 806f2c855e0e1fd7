"""Colour on a terminal: SGR sequences around a text. Nothing else here drives a terminal."""

from __future__ import annotations


def bold(text: str, on: bool = True) -> str:
    r"""The text in bold.

    >>> bold("a"), bold("a", on=False)
    ('\x1b[1ma\x1b[0m', 'a')
    """
    return _painted("1", text) if on else text


def red(text: str) -> str:
    """The text in red."""
    return _painted("31", text)


def cyan(text: str) -> str:
    """The text in cyan."""
    return _painted("36", text)


def _painted(code: str, text: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if text else text
