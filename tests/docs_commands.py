"""The commands that a page of the documentation shows, run as a reader would: in a shell, in a copy of the sample models.

A page's ``sh`` blocks run one after the other in the same folder. A block stops at the first command that fails; a line that
ends in ``# ends with N`` must end with that exit code.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_EXPECTED = re.compile(r"^(.*\S)\s+# ends with (\d+)$")


def blocks(page: Path, language: str = "sh") -> list[str]:
    """The code blocks of a page in one language."""
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{re.escape(language)}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def copy_of_the_samples(folder: Path) -> None:
    """``sample_models/`` in ``folder``."""
    shutil.copytree(ROOT / "sample_models", folder / "sample_models", ignore=shutil.ignore_patterns("__pycache__"))


def environment(folder: Path, **more: str) -> dict[str, str]:
    """An environment in which ``lipaudit`` and ``python`` are those of this checkout; ``folder`` keeps their starters."""
    folder.mkdir(parents=True, exist_ok=True)
    python = shlex.quote(sys.executable)
    for name, command in (("lipaudit", f"{python} -m lipaudit"), ("python", python), ("python3", python)):
        starter = folder / name
        starter.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
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


def run_page(page: Path, folder: Path) -> list[str]:
    """Run the ``sh`` blocks of a page in ``folder``, where the sample models are; what each printed on stdout."""
    env = environment(folder / ".bin")
    printed = []
    for block in blocks(page):
        done = subprocess.run(
            ["bash", "-c", script(block)], cwd=folder, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{block}\nended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        printed.append(done.stdout)
    return printed
