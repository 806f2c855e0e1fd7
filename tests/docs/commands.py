"""The commands that a page of the documentation shows, run as a reader would: in a shell, in a copy of the sample models.

A page's ``sh`` blocks run one after the other in the same folder. A line that ends in ``# ends with N`` must end with that exit code.
:func:`run_page` runs a page; :func:`run_line` runs one command, in this process where it is lipaudit's and needs nothing of a shell
but ``> FILE`` at its end. :func:`script` makes one script of a block.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from pathlib import Path

from lipaudit.cli import main
from tests.places import ROOT

_STARTERS = {"lipaudit": "-m lipaudit ", "pytest": "-m pytest ", "python": "", "python3": ""}
_COMMAND = re.compile(r"""(?:'[^']*'|"[^"]*"|\\.|(?<=\S)#|[^#'"\\])*""")  # up to its comment
_EXPECTED = re.compile(r"^(.*\S)\s+# ends with (\d+)$")


def blocks(page: Path, language: str = "sh") -> list[str]:
    """The code blocks of a page in one language."""
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{re.escape(language)}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def copy_of_the_samples(folder: Path) -> None:
    """``sample_models/`` in ``folder``."""
    shutil.copytree(ROOT / "sample_models", folder / "sample_models", ignore=shutil.ignore_patterns("__pycache__"))


def environment(folder: Path, **more: str) -> dict[str, str]:
    """An environment in which ``lipaudit``, ``pytest`` and ``python`` are those of this checkout; ``folder`` keeps their starters."""
    folder.mkdir(parents=True, exist_ok=True)
    python = shlex.quote(sys.executable)
    for name, arguments in _STARTERS.items():
        starter = folder / name
        starter.write_text(f'#!/bin/sh\nexec {python} {arguments}"$@"\n', encoding="utf-8")
        starter.chmod(starter.stat().st_mode | stat.S_IXUSR)
    path = os.pathsep.join((str(folder), os.environ["PATH"]))
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), **more}


def script(block: str) -> str:
    """A block as a script for bash that ends with 0 exactly where every command ends as the page says."""
    lines = []
    for line in block.splitlines():
        found = _EXPECTED.match(line)
        lines.append(f'code=0; {found[1]} || code=$?; [ "$code" -eq {found[2]} ]' if found else line)
    return "set -eo pipefail\n" + "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Command:
    """One command of a block: its text without its comment, on one line, and the exit code that the page tells."""

    text: str
    code: int = 0

    @property
    def words(self) -> list[str] | None:
        """The arguments of lipaudit and, where stdout goes to a file, ``>`` and its name; None where a shell is needed."""
        lexer = shlex.shlex(self.text, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(lexer)
        operators = [word for word in words if set(word) <= set("();<>|&")]
        plain = words[:1] == ["lipaudit"] and operators in ([], [">"]) and not re.search(r"[$`]", self.text)
        return words[1:] if plain and (not operators or words[-2] == ">") else None


@dataclass(frozen=True)
class Done:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str


def commands(block: str) -> Iterator[Command]:
    """The commands of a block, those on several lines joined."""
    for line in block.replace("\\\n", " ").splitlines():
        found = _EXPECTED.match(line)
        text = _COMMAND.match(found[1] if found else line)[0]  # type: ignore[index]  # it matches the empty text
        if text.strip():
            yield Command(" ".join(text.split()), int(found[2]) if found else 0)


def run_line(command: Command, folder: Path) -> Done:
    """Run one command in ``folder``."""
    words = command.words
    if words is None:
        env = environment(folder / ".bin")
        done = subprocess.run(
            ["bash", "-c", command.text], cwd=folder, env=env, capture_output=True, text=True, check=False
        )
        return Done(done.returncode, done.stdout, done.stderr)
    target = Path(words[-1]) if ">" in words else None
    words = words[:-2] if target else words
    out, err = (TextIOWrapper(BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with chdir(folder), redirect_stdout(out), redirect_stderr(err):
        code = main([os.path.expanduser(word) for word in words])
    texts = [stream.buffer.getvalue().decode() for stream in (out, err)]  # type: ignore[attr-defined]
    if target:
        (folder / target).write_text(texts[0], encoding="utf-8")
        texts[0] = ""
    return Done(code, *texts)


def run_page(page: Path, folder: Path) -> list[str]:
    """Run the commands of the ``sh`` blocks of a page in ``folder``, where the sample models are; what each printed on stdout."""
    printed = []
    for block in blocks(page):
        for command in commands(block):
            done = run_line(command, folder)
            assert done.code == command.code, f"{command.text} ended with {done.code}:\n{done.out}\n{done.err}"
            printed.append(done.out)
    return printed
