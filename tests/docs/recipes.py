"""Recipes of the documentation, carried out as a reader would: in a copy of the checkout, one code block after the other.

What a block does is told by its language and its first line:

- ``python`` that begins with ``# FOLDER/FILE.py`` creates that file of the checkout; ``# FOLDER/FILE.py, at the end`` appends to it;
- ``diff`` that begins with ``+++ FOLDER/FILE`` changes that file: the lines with a space or ``-`` before them, which stand there
  once, become those with a space or ``+``;
- any other ``python`` is a program. Programs between two changes of files share their names, and a change begins a new process;
- ``sh`` is run by bash, with ``lipaudit``, ``pytest`` and ``python`` of the copy; a line that ends in ``# ends with N`` must end so;
- ``text`` is what the program or the commands before it print on stdout: from its first line on, line for line.

:func:`follow` carries out a page and checks the output. Blocks in other languages are prose.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.docs.commands import environment, script
from tests.places import ROOT

RECIPES: tuple[str, ...] = (
    "adding_a_format.md",
    "adding_a_network_bound.md",
    "adding_a_norm_method.md",
    "adding_an_operation.md",
    "release.md",
)  # pages of docs/ that are carried out whole
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# ([\w./-]+/[\w.-]+)(, at the end)?\n")
_CHANGE = re.compile(r"\+\+\+ ([\w./-]+)\n")
_PARTS = ("lipaudit", "tests", "sample_models", "docs", "conftest.py", "pyproject.toml", "README.md")
_MARK = "--- end of a block ---"


class RecipeError(AssertionError):
    """A step of a recipe does not do what the page says; the message is what its reader would see."""


@dataclass(frozen=True)
class Step:
    """One code block: ``kind`` is create, append, change, program, commands or output; ``path`` the file of the first three."""

    kind: str
    text: str
    path: str = ""


def steps(page: str) -> list[Step]:
    """The steps of a page.

    >>> steps("```python\\n# lipaudit/new.py\\nx = 1\\n```")
    [Step(kind='create', text='x = 1\\n', path='lipaudit/new.py')]
    """
    kinds = {"python": "program", "sh": "commands", "text": "output"}
    found = []
    for language, text in _BLOCK.findall(page):
        head = {"python": _FILE, "diff": _CHANGE}.get(language)
        match = head.match(text) if head else None
        if match is not None:
            kind = "change" if language == "diff" else "append" if match[2] else "create"
            found.append(Step(kind, text[match.end() :].lstrip("\n"), match[1]))
        elif language in kinds:
            found.append(Step(kinds[language], text))
    return found


def copy_of_the_checkout(folder: Path) -> None:
    """What a recipe works on, without what tools leave behind."""
    ignored = shutil.ignore_patterns("__pycache__", "_build", ".*")
    for name in _PARTS:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=ignored)
        else:
            shutil.copy(source, folder / name)


def follow(page: Path, folder: Path, old: str = "", new: str = "") -> None:
    """Carry out the steps of ``page`` in ``folder``, an empty one, and compare what they print with what the page shows.

    ``new`` stands in the place of ``old``, which the page has once: so a test shows that the recipe's own test can fail.

    Raises:
        RecipeError: if a step fails, or prints something else.
    """
    text = page.read_text(encoding="utf-8")
    if old:
        if text.count(old) != 1:
            raise RecipeError(f"{page.name} has {old!r} {text.count(old)} times, not once")
        text = text.replace(old, new)
    copy_of_the_checkout(folder)
    todo = steps(text)
    if not any(step.kind in ("program", "commands") for step in todo):
        raise RecipeError(f"{page.name} runs nothing")
    while todo:
        step = todo.pop(0)
        if step.kind == "program":
            programs = [step]
            while todo and todo[0].kind in ("program", "output"):
                programs.append(todo.pop(0))
            _run_programs(programs, folder)
        elif step.kind == "commands":
            printed = _run(["bash", "-c", script(step.text)], folder, step.text)
            if todo and todo[0].kind == "output":
                _compare(todo.pop(0).text, printed)
        elif step.kind == "output":
            raise RecipeError(f"no program stands before the output\n{step.text}")
        else:
            _edit(step, folder / step.path)


def _edit(step: Step, path: Path) -> None:
    if step.kind == "create":
        if path.exists():
            raise RecipeError(f"{step.path} is there already")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(step.text, encoding="utf-8")
        return
    before = path.read_text(encoding="utf-8")
    if step.kind == "append":
        path.write_text(before.rstrip("\n") + "\n\n\n" + step.text, encoding="utf-8")
        return
    lines = step.text.splitlines(keepends=True)
    old = "".join(line[1:] or "\n" for line in lines if line[0] in " -\n")
    new = "".join(line[1:] or "\n" for line in lines if line[0] in " +\n")
    if not old or before.count(old) != 1:
        raise RecipeError(f"these lines stand {before.count(old)} times in {step.path}, not once:\n{old}")
    path.write_text(before.replace(old, new), encoding="utf-8")


def _run_programs(blocks: list[Step], folder: Path) -> None:
    """Run programs in one process, and compare what each prints with the output that follows it."""
    programs = [step.text for step in blocks if step.kind == "program"]
    source = f"print({_MARK!r})\n".join(text + "\n" for text in programs)
    parts = _run([sys.executable, "-c", source], folder, source).split(_MARK + "\n")
    position = -1
    for step in blocks:
        if step.kind == "program":
            position += 1
        else:
            _compare(step.text, parts[position])


def _compare(shown: str, printed: str) -> None:
    expected, lines = shown.rstrip().splitlines(), [line.rstrip() for line in printed.splitlines()]
    start = lines.index(expected[0]) if expected[0] in lines else 0
    if lines[start : start + len(expected)] != expected:
        raise RecipeError(f"the page shows\n{shown}\nand this was printed:\n{printed}")


def _run(command: list[str], folder: Path, text: str) -> str:
    env = environment(folder / ".bin", PYTHONPATH=str(folder), PYTHONDONTWRITEBYTECODE="1")
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RecipeError(f"{text}\nended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout
