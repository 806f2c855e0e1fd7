"""What a shell offers, as click asks for it: verbs and models at the start, options behind a model, names from the cache at once."""

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

NAMES = ModelNames(("resnet50", "vit_b_16"), ("resnet50", "resnet50d"), ())


def offered(words: str, cache: Path) -> list[str]:
    """The answers of the command itself to the words before and under the cursor."""
    count = len(words.split()) - (not words.endswith(" "))
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "XDG_CACHE_HOME": str(cache),
        "_LIPAUDIT_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(count),
    }
    code = "import sys; from lipaudit.cli import main; sys.exit(main())"
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return [line.partition(",")[2] for line in found.stdout.splitlines()]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = model_names._cache_file()
    file.parent.mkdir()
    file.write_text(json.dumps(asdict(NAMES)))
    return tmp_path


def test_verbs_and_models_come_first(cache: Path) -> None:
    assert {"reproduce", "resnet50", "resnet50d"} <= set(offered("lipaudit re", cache))
    assert "torchvision:vit_b_16" in offered("lipaudit torchvision:v", cache)
    assert "vit_b_16" in offered("lipaudit audit vi", cache)
    assert "resnet50d" in offered("lipaudit compare resnet", cache)


def test_options_come_behind_a_model(cache: Path) -> None:
    assert {"--domain", "--depth"} <= set(offered("lipaudit resnet50 --d", cache))
