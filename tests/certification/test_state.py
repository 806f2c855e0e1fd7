"""A run that is interrupted continues from its state, with the result of one that was not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.errors import UsageError
from tests.places import ROOT


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


IMAGES = torch.randn(40, 4, generator=torch.Generator().manual_seed(0))


def certify(state: Path | None, images: torch.Tensor = IMAGES, **options: object) -> lipaudit.Certification:
    return lipaudit.certify(network(), images, input_shape=(1, 4), attack_steps=5, state=state, **options)  # type: ignore[arg-type]


def same_but_for_the_time(first: lipaudit.Certification, second: lipaudit.Certification) -> bool:
    documents = [json.loads(found.to_json()) for found in (first, second)]
    for document in documents:
        del document["created"]
    return documents[0] == documents[1]


def stop_after(images: int):  # type: ignore[no-untyped-def]
    def progress(done: int, total: int, what: str) -> None:
        if what == "images" and done >= images:
            raise KeyboardInterrupt

    return progress


def test_an_interrupted_run_continues_and_finds_the_same(tmp_path: Path) -> None:
    state = tmp_path / "state.jsonl"
    with pytest.raises(KeyboardInterrupt):
        certify(state, progress=stop_after(16))
    assert len(state.read_text().splitlines()) == 2
    kept = state.read_bytes()
    with state.open("ab") as file:
        file.write(b'{"chunk": 1, "images": [{"na')  # a line that was cut off
    resumed = certify(state)
    assert state.read_bytes().startswith(kept)
    assert same_but_for_the_time(resumed, certify(None))
    assert certify(state).to_json() == resumed.to_json()


def test_the_state_of_another_run_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "state.jsonl"
    certify(state)
    with pytest.raises(UsageError, match=r"another run \(other seed"):
        certify(state, seed=1)
    with pytest.raises(UsageError, match=r"another run \(other digest"):
        certify(state, IMAGES + 1)


@pytest.mark.parametrize("content", ["{}\n", "no json\n", "[]\n", "{", '{"kind": "fleet"}\n'])
def test_a_file_that_is_no_state_is_refused_and_left_alone(tmp_path: Path, content: str) -> None:
    state = tmp_path / "notes.txt"
    state.write_text(content)
    with pytest.raises(UsageError, match="is no state of"):
        certify(state)
    assert state.read_text() == content


@pytest.mark.long
def test_a_killed_run_with_workers_continues_and_finds_the_same(tmp_path: Path) -> None:
    from sample_models.data import load_classes

    digits = load_classes("test")
    torch.save({"x": digits.images[:96], "y": digits.targets[:96]}, tmp_path / "digits.pt")
    words = [
        "certify",
        str(ROOT / "sample_models/digits_resnet.onnx"),
        "digits.pt",
        "--workers",
        "2",
        "--format",
        "json",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}

    def start(state: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "lipaudit", *words, "--state", state]
        return subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True)

    whole = json.loads(start("whole").communicate()[0])
    killed = start("killed")
    file = tmp_path / "killed"
    while not (file.exists() and len(file.read_bytes().splitlines()) >= 3):
        assert killed.poll() is None
        time.sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    time.sleep(1)  # the lock goes with the workers
    resumed = json.loads(start("killed").communicate()[0])
    one = json.loads(start("whole").communicate()[0])
    for document in (whole, resumed, one):
        del document["created"]
    assert whole == resumed == one
