"""What looks something up imports neither torch nor what builds on it, so that it answers at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from lipaudit.catalog import model_names
from lipaudit.catalog.model_names import ModelNames
from tests.places import ROOT

_CODE = """
import sys
from importlib.abc import MetaPathFinder

class Refuse(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "torchvision", "timm", "onnx", "numpy"}:
            print(f"imports {name}")
            raise ImportError(name)

sys.meta_path.insert(0, Refuse())
from lipaudit.cli import main
sys.exit(main(sys.argv[1:]))
"""


def run(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **more}
    return subprocess.run(
        [sys.executable, "-c", _CODE, *words], env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = model_names._cache_file()
    file.parent.mkdir()
    file.write_text(json.dumps(asdict(ModelNames(("resnet18",), (), ()))))
    return tmp_path


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["--help"], "Usage: lipaudit MODEL"),
        (["rules", "silu"], "1.09984"),
        (["rules", "--format", "json", "softmax"], '"rule": "softmax"'),
        (["rules", "--format", "markdown"], "## activation"),
        (["methods", "ryu*"], "ryu2019"),
        (["list", "resnet*"], "torchvision:resnet18\n"),
        (["schema"], '"$schema"'),
        (["explain", "share"], "logarithm"),
    ],
)
def test_looking_something_up_imports_no_torch(words: list[str], shown: str, cache: Path) -> None:
    done = run(*words, XDG_CACHE_HOME=str(cache))
    assert (done.returncode, done.stderr) == (0, "")
    assert "imports " not in done.stdout
    assert shown in done.stdout


def test_an_import_of_torch_would_be_seen(tmp_path: Path) -> None:
    assert "imports torch" in run("list", "resnet*", XDG_CACHE_HOME=str(tmp_path)).stderr
