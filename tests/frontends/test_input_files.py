"""Files by their content: what an audit reads, however it is named."""

from __future__ import annotations

import hashlib
from pathlib import Path

import onnx
import pytest

from lipaudit.cli import main
from lipaudit.fleet.task import perform
from lipaudit.frontends.input_files import are_unchanged, external_files, file_hashes, named_files
from tests.fleet.fleets import task_of

SAMPLE = "sample_models/digits_resnet.onnx"


@pytest.fixture
def split(tmp_path: Path) -> Path:
    """The sample with its weights in a file beside it."""
    path = tmp_path / "net.onnx"
    onnx.save_model(
        onnx.load(SAMPLE),
        path,
        save_as_external_data=True,
        all_tensors_to_one_file=True,
        location="net.data",
        size_threshold=0,
    )
    return path


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_files_of_a_request_are_named_as_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("net.safetensors", "w.pth", "cat.png", "IMAGENET1K_V1.txt"):
        Path(name).write_text(name)
    named = named_files("./net.safetensors", weights="w.pth", around="cat.png", fix={"ids": "cat.npy", "rate": "16000"})
    assert named == ["./net.safetensors", "w.pth", "cat.png", "cat.npy"]
    hashes = file_hashes(named)
    assert hashes == {name: digest(Path(name)) for name in ("./net.safetensors", "w.pth", "cat.png")}
    assert file_hashes(named_files("resnet18", weights="random")) == {}
    assert file_hashes(named_files("missing.onnx", weights="IMAGENET1K_V1")) == {}
    assert are_unchanged(hashes)
    Path("cat.png").write_text("dog")
    assert not are_unchanged(hashes)


def test_external_data_belongs_to_its_model(split: Path, tmp_path: Path) -> None:
    data = tmp_path / "net.data"
    assert external_files(str(split)) == [str(data)]
    entry = perform(task_of(str(split)))
    assert entry.files == {str(split): digest(split), str(data): digest(data)}
    data.write_bytes(data.read_bytes()[:-1] + b"?")
    assert not are_unchanged(entry.files)
    assert external_files(SAMPLE) == []


def test_files_are_those_that_the_loader_opens(split: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(split.parent))
    expected = sorted([digest(split), digest(split.parent / "net.data")])
    for typed in (f" {split} ", f"{split}\n", "~/net.onnx"):
        entry = perform(task_of(typed))
        assert sorted(entry.files.values()) == expected
        assert entry.report is not None
        assert entry.report["model"]["file_sha256"] == digest(split)
    assert list(file_hashes(named_files("resnet18", "~/net.data", "~/net.onnx")).values()) == [
        digest(split.parent / "net.data"),
        digest(split),
    ]


@pytest.mark.parametrize("verb", [[], ["--jobs", "1"], ["compare", "--methods", "sedghi2019"]])
@pytest.mark.parametrize("typed", ["net.onnx", " net.onnx", "~/net.onnx"])
def test_no_report_replaces_what_the_audit_reads(
    split: Path, typed: str, verb: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(split.parent))
    monkeypatch.chdir(split.parent)
    for name in ("net.data", "net.onnx"):
        before = Path(name).read_bytes()
        assert main([*verb, typed, "--format", "json", "-o", name]) == 2
        assert f"-o {name} would replace " in capsys.readouterr().err
        assert Path(name).read_bytes() == before


@pytest.mark.parametrize("name", ["net.onnx", "folder.onnx", "missing.onnx", "net.pt", "resnet18"])
def test_what_is_no_onnx_file_has_no_external_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.onnx").write_bytes(b"\xff\xff no model")
    Path("folder.onnx").mkdir()
    assert external_files(name) == []
