"""Every way a request goes wrong: one line on stderr, the documented exit code, no traceback, nothing written."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import onnx
import pytest
import timm
import torch
import torchvision
from safetensors.torch import save_file
from torch import nn

from lipaudit.cli import main
from lipaudit.cli.group import cli
from sample_models.models import digits_resnet
from tests.places import SAMPLES

SAMPLE = SAMPLES / "digits_resnet.onnx"
WEIGHTS = SAMPLE.with_suffix(".safetensors")
ARCH = "sample_models.models:digits_resnet"


class Touch:
    """Unpickling this creates a file: it must never happen."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, str]]:
        return open, (str(self.path), "w")


def truncated(folder: Path) -> list[str]:
    (folder / "cut.onnx").write_bytes(SAMPLE.read_bytes()[:5000])
    return [str(folder / "cut.onnx")]


def missing_external_data(folder: Path) -> list[str]:
    model = onnx.load(SAMPLE)
    onnx.save(model, folder / "split.onnx", save_as_external_data=True, location="split.data", size_threshold=0)
    (folder / "split.data").unlink()
    return [str(folder / "split.onnx")]


def pickle_with_code(folder: Path) -> list[str]:
    (folder / "code.pt").write_bytes(pickle.dumps(Touch(folder / "executed")))
    return [str(folder / "code.pt"), "--arch", ARCH]


def pickle_without_tensors(folder: Path) -> list[str]:
    torch.save({"epoch": 3, "note": "no weights"}, folder / "plain.pt")
    return [str(folder / "plain.pt"), "--arch", ARCH]


def other_architecture(folder: Path) -> list[str]:
    save_file(nn.Linear(2, 2).state_dict(), folder / "other.safetensors")
    return [str(folder / "other.safetensors"), "--arch", ARCH]


def poisoned(folder: Path) -> list[str]:
    state = digits_resnet().state_dict()
    name = next(n for n in state if n.endswith("conv1.weight"))
    state[name].view(-1)[3] = float("nan")
    save_file(state, folder / "nan.safetensors")
    return [str(folder / "nan.safetensors"), "--arch", ARCH, "--input", "1x16x16"]


def infinite(folder: Path) -> list[str]:
    state = digits_resnet().state_dict()
    state["head.bias"][0] = float("inf")
    save_file(state, folder / "inf.safetensors")
    return [str(folder / "inf.safetensors"), "--arch", ARCH, "--input", "1x16x16"]


def empty_model(folder: Path) -> list[str]:
    graph = onnx.helper.make_graph([], "empty", [], [])
    onnx.save(onnx.helper.make_model(graph), folder / "empty.onnx")
    return [str(folder / "empty.onnx")]


def directory(folder: Path) -> list[str]:
    return [str(folder)]


def unwritable(folder: Path) -> list[str]:
    return [str(SAMPLE), "-o", str(folder / "no" / "such" / "folder" / "report.json")]


GATED = str(SAMPLE.with_name("digits_se.onnx"))
BALL = ("--domain", "ball", "--radius", "0.5", "--mean", "0", "--std", "1")
BALL_OF_TENSORS = ("--domain", "ball", "--radius", "0.5")


def no_picture(folder: Path) -> list[str]:
    (folder / "cat.png").write_text("a text")
    return [GATED, *BALL, "--around", str(folder / "cat.png")]


def other_tensor(folder: Path) -> list[str]:
    torch.save(torch.zeros(1, 3, 16, 16), folder / "x.pt")
    return [GATED, *BALL_OF_TENSORS, "--around", str(folder / "x.pt")]


def two_inputs(folder: Path) -> list[str]:
    values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 1, 4, 4]) for name in "aby"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Add", ["a", "b"], ["y"])], "two", values[:2], values[2:])
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), folder / "two.onnx")
    torch.save(torch.zeros(1, 1, 4, 4), folder / "x.pt")
    return [str(folder / "two.onnx"), "--domain", "ball", "--radius", "1", "--around", str(folder / "x.pt")]


def given(*arguments: str) -> Callable[[Path], list[str]]:
    return lambda _folder: list(arguments)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (given("resnet5O"), 3, ["resnet5O", "resnet50"]),
        (given("nowhere.onnx"), 3, ["nowhere.onnx"]),
        (given("nowhere/weights.pt", "--arch", "resnet18"), 3, ["nowhere/weights.pt"]),
        (truncated, 3, ["cut.onnx", "truncated"]),
        (missing_external_data, 3, ["split.data"]),
        (pickle_with_code, 3, ["code.pt"]),
        (pickle_without_tensors, 3, ["plain.pt"]),
        (other_architecture, 3, ["other.safetensors", "missing"]),
        (given(str(SAMPLE), "--input", "1,1,20,20"), 2, ["16"]),
        (given(str(WEIGHTS), "--arch", ARCH, "--input", "3x16x16"), 3, ["1, 3, 16, 16"]),
        (given("vit_b_16", "--weights", "random", "--input", "225"), 3, ["224"]),
        (poisoned, 3, ["conv1.weight", "NaN"]),
        (infinite, 3, ["head.bias"]),
        (directory, 3, ["directory"]),
        (empty_model, 3, ["empty.onnx"]),
        (unwritable, 2, ["no/such/folder"]),
        (given("resnet18"), 3, ["--weights FILE", "--weights random"]),
        (given("resnet18@NO_SUCH_TAG"), 2, ["NO_SUCH_TAG", "IMAGENET1K_V1"]),
        (given(str(SAMPLE), "--tol", "0"), 2, ["tol"]),
        (given(str(SAMPLE), "--input", "banana"), 2, ["banana"]),
        (given(str(SAMPLE), "--format", "yaml"), 2, ["yaml"]),
        (given(GATED, "--domain", "pixels"), 2, ["digits_se.onnx", "give --mean and --std"]),
        (given(GATED, "--domain", "pixels", "--mean", "0,0,0", "--std", "1"), 2, ["1 channel"]),
        (given(GATED, "--around", "cat.png"), 2, ["--domain ball"]),
        (given(GATED, *BALL, "--around", "nowhere.png"), 2, ["nowhere.png", "no file"]),
        (given(GATED, *BALL_OF_TENSORS, "--around", "nowhere.npy"), 2, ["nowhere.npy", "no file"]),
        (no_picture, 2, ["cat.png", "not an image", "PNG or JPEG"]),
        (other_tensor, 2, ["(1, 3, 16, 16)", "(1, 1, 16, 16)"]),
        (two_inputs, 2, ["one input", "has 2"]),
        (given("audi", "X"), 2, ["no verb 'audi'", "lipaudit audit"]),
        (given("dif", "a", "b"), 2, ["no verb 'dif'", "lipaudit diff"]),
        (given("nowhere.onnx", "--method", "sedghi2018"), 2, ["sedghi2018", "sedghi2019"]),
        (given("nowhere.onnx", "--method", "ryu2019", "--iterations", "0"), 2, ["--iterations"]),
        (given("nowhere.onnx", "--method", "ryu2019", "--iterations", "1" + 20 * "0"), 2, ["--iterations", "1000000"]),
        (given("compare", "nowhere.onnx", "--iterations", "1" + 20 * "0"), 2, ["--iterations", "1000000"]),
        (given(ARCH, "--input", "1x16x16", "--weights", "random"), 2, [ARCH, "makes its own weights", "--weights"]),
        (given("compare", ARCH, "--input", "1x16x16", "--weights", "random"), 2, [ARCH, "makes its own weights"]),
        (given(ARCH, "--input", "1x16x16", "--structure", "--weights", "random"), 2, [ARCH, "makes its own weights"]),
        (given("nowhere.onnx", "--method", "sedghi2019", "--iterations", "9"), 2, ["sedghi2019 has no iterations"]),
        (given("nowhere.onnx", "--iterations", "9"), 2, ["gram has no iterations"]),
        (given("nowhere.onnx", "--method", "ryu2019", "--structure"), 2, ["--structure", "--method"]),
        (given("compare", "nowhere.onnx", "--methods", "sedghi2018"), 2, ["sedghi2018"]),
        (
            given("compare", "nowhere.onnx", "--methods", "ryu2019,ryu2019"),
            2,
            ["--methods names 'ryu2019' twice"],
        ),
        (given("compare", "nowhere.onnx", "--methods", ""), 2, ["no method ''"]),
        (given("methods", "sedghi2018"), 2, ["no method matches 'sedghi2018'"]),
        (given("compare", "nowhere.onnx"), 3, ["nowhere.onnx"]),
        (given(), 2, []),
    ],
)
def test_one_line_and_the_right_exit_code(
    arguments: Callable[[Path], list[str]],
    code: int,
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))  # no cached weights
    given_arguments = arguments(tmp_path)
    before = sorted(p.name for p in tmp_path.iterdir())
    assert main(given_arguments) == code
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    if given_arguments:
        assert out == ""
        # that a download is tried is news, not the error
        lines = [line for line in err.splitlines() if line.strip() and not line.startswith("Downloading:")]
        assert len(lines) == 1
        assert lines[0].startswith("lipaudit: error: ")
        for word in words:
            assert word.lower() in err.lower()
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "torch") == before


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(SAMPLE), "--device", "cuda"]) == 2
    assert "CUDA" in capsys.readouterr().err


def test_a_cache_that_is_no_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "norms.sqlite").write_bytes(b"no database " * 400)
    model = "sample_models/digits_resnet.onnx"
    assert main([model, "--cache", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "norms.sqlite" in error
    assert "--cache" in error
    assert main([model, "--cache", ""]) == 2
    assert "an empty text names no folder" in capsys.readouterr().err


def test_no_model_of_a_registry_is_taken_for_a_misspelt_verb() -> None:
    names = [*torchvision.models.list_models(), *timm.list_models(pretrained=True), *timm.list_models()]
    assert not [name for name in names if get_close_matches(name, cli.commands, 1, cutoff=0.8)]
