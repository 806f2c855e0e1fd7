"""What the command line needs of a terminal: lines on stderr, data on stdout, a progress bar, and streams that may be closed."""

from __future__ import annotations

import io
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import click

from lipaudit.errors import LipauditError, OutOfMemoryError, OutputError, is_out_of_memory
from lipaudit.escaping import printable, printable_lines
from lipaudit.fleet.interrupts import delayed, raise_remembered

BUG = 70
INTERRUPTED = 130
# with several models the command ends with the code furthest to the right
_SEVERITY = (0, 1, 4, 3, 2, BUG)


_SHOW_CURSOR = "\x1b[?25h"  # a progress bar hides it


class Waiting:
    """One line on a terminal that says what takes time, until it is :meth:`over`."""

    def __init__(self, text: str, quiet: bool = False) -> None:
        self._text = "" if quiet or not sys.stderr.isatty() else printable(f"{text} ...")
        click.echo(self._text, err=True, nl=False)

    def over(self) -> None:
        """Take the line away."""
        if self._text:
            click.echo(f"\r{' ' * len(self._text)}\r", err=True, nl=False)
        self._text = ""


class Progress:
    """A line on stderr: that the model is loaded and captured, then a bar of the layers done. For a terminal only.

    The bar says nothing of the time left: layers differ too much for that.
    """

    def __init__(self, label: str) -> None:
        from lipaudit.text.shorten import shorten_end

        self.label = shorten_end(printable(label), 18)
        self.bar: Any = None
        self._waiting = Waiting(f"{self.label}  loading and capturing")

    def __call__(self, done: int, total: int, what: str) -> None:
        """Draw the bar at ``done`` of ``total``, naming what comes next."""
        from lipaudit.text.shorten import shorten_paths

        self._waiting.over()
        if self.bar is None:
            self.bar = click.progressbar(
                length=total,
                label=self.label,
                file=sys.stderr,
                width=12,
                show_eta=False,
                show_pos=True,
                item_show_func=lambda item: item,
            )
        self.bar.length = total
        self.bar.update(done - self.bar.pos, shorten_paths([printable(what)], 18)[0])

    def say(self, text: str) -> None:
        """One line in the place of the bar, until the bar or the next line is drawn."""
        self._take_away()
        self._waiting = Waiting(f"{self.label}  {text}")

    def finish(self) -> None:
        """Take the line away, so that the result starts at the top of what is new on the screen."""
        self._take_away()

    def _take_away(self) -> None:
        self._waiting.over()
        if self.bar is not None and sys.stderr.isatty():
            click.echo(f"\r{' ' * (self.bar.max_width or 0)}\r{_SHOW_CURSOR}", err=True, nl=False)


@contextmanager
def shielded(debug: bool, quiet: bool = False) -> Iterator[None]:
    """Other packages print and warn while models load: their text goes to stderr, their warnings only with --debug.

    Where they swallow Ctrl-C, it comes at the end of the block.

    ``quiet`` drops their text altogether, unless ``debug`` asks for it.
    """
    with ExitStack() as stack:
        if quiet and not debug:
            stack.enter_context(redirect_stderr(stack.enter_context(open(os.devnull, "w", encoding="utf-8"))))
        stack.enter_context(redirect_stdout(sys.stderr))
        stack.enter_context(warnings.catch_warnings())
        if not debug:
            warnings.simplefilter("ignore")
        yield
    raise_remembered()


def import_frameworks() -> None:
    """Import torch and what belongs to it. Ctrl-C waits until that is done: these packages swallow it meanwhile, or crash."""
    with delayed():
        import lipaudit.frontends.load  # noqa: F401


def complain(error: Exception, debug: bool, spec: str = "") -> int:
    """One line on stderr for an error; its exit code."""
    if debug:
        with suppress(OSError):
            click.echo(printable_lines("".join(traceback.format_exception(error))), err=True, nl=False)
    if not isinstance(error, LipauditError) and is_out_of_memory(error):
        error = OutOfMemoryError()
    message = one_line(str(error)) or type(error).__name__
    if isinstance(error, LipauditError):
        say_failure(spec, message)
        return error.exit_code
    hint = "" if debug else "; run again with --debug for the traceback and report it"
    say(f"lipaudit: bug: {_where(spec, message)}{type(error).__name__}: {message} (a defect of lipaudit{hint})")
    return BUG


def say_failure(model: str, message: str) -> None:
    """One line on stderr for a model without a report, named unless the message does it."""
    say(f"lipaudit: error: {_where(model, message)}{message}")


def _where(model: str, message: str) -> str:
    return f"{model}: " if model and model not in message else ""


def worst(codes: Sequence[int]) -> int:
    """The exit code of a command that did several things."""
    return max(codes, key=_SEVERITY.index)


def one_line(text: str) -> str:
    """The text with all white space as single blanks."""
    return " ".join(text.split())


def emit(text: str, colour: bool = False) -> None:
    """Data to stdout; a reader that has gone away (``| head``) is no error, a full device is one.

    ``colour`` keeps colours where stdout is no terminal.
    """
    try:
        click.echo(_in_the_encoding(text), color=colour or None)
    except OSError as error:
        _give_up_stdout(error)
    flush()


_ASCII = str.maketrans({"≤": "<=", "≥": ">=", "·": "|", "×": "x", "█": "#", "…": "."})


def _in_the_encoding(text: str) -> str:
    """The text with signs of our own replaced where stdout's encoding lacks them."""
    try:
        "≤≥·×█…".encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return text.translate(_ASCII)
    return text


def deliver(content: str | bytes, file: Path | None, what: str, quiet: bool) -> None:
    """Data into a file, whole, which is said on stderr; a text to stdout where there is no file."""
    from lipaudit.files import write_whole

    if isinstance(content, str):
        if file is None:
            emit(content)
            return
        content += "\n"
    assert file is not None
    write_whole(file, content)
    if not quiet:
        say(f"lipaudit: {what} written to {file}")


def flush() -> None:
    """Write out what stdout holds back."""
    try:
        sys.stdout.flush()
    except OSError as error:
        _give_up_stdout(error)


def _give_up_stdout(error: OSError) -> None:
    # what is still buffered must go somewhere when the interpreter ends
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if not isinstance(error, BrokenPipeError):
        raise OutputError(
            f"cannot write to stdout: {error.strerror}; redirect it elsewhere or name a file with -o"
        ) from None


def say(text: str) -> None:
    """One line to stderr, with what could drive a terminal escaped. Where stderr cannot be written, nobody listens."""
    with suppress(OSError):
        click.echo(printable(text), err=True)


class _Closed(io.TextIOBase):
    """Stands in for a stdout that was closed before the start: nothing written there may pass for delivered."""

    def write(self, _text: str) -> int:
        raise OutputError("cannot write to stdout: it is closed; redirect it or name a file with -o")


def replace_closed_streams() -> None:
    """Python drops a standard stream that is closed at the start; its number must not go to the next file opened."""
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        if stream is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
    if sys.stdout is None:
        sys.stdout = _Closed()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # it lives as long as the process


def tolerate_any_character() -> None:
    """Names may hold characters that the terminal's encoding lacks: show them escaped instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
