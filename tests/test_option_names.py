"""What a Python caller reads when something is wrong: arguments, not options, and what to pass instead."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.cli import main
from lipaudit.errors import LipauditError, UsageError
from lipaudit.training import LipschitzRegularizer, rescale
from tests.places import ROOT, SAMPLES

NET = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU()).eval()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {},
            r"give it with input_shape, for example input_shape=\(3, 224, 224\) .* input_shape=\{'input': \(1, 10\)\}",
        ),
        ({"input_shape": (3, 8, 8, 8)}, r"a batch axis of 1 in front, input_shape=\(1, 3, 8, 8, 8\)"),
        ({"input_shape": (1, 8, 8), "domain": "ball"}, r"give around=IMAGE and radius=R$"),
        ({"input_shape": (1, 8, 8), "mean": [0, 0], "std": [1, 1, 1]}, r"mean has 2 numbers and std has 3:"),
        (
            {"input_shape": (1, 8, 8), "mean": 0, "std": 0},
            r"std must be finite numbers other than 0 .*, got \(0.0,\)",
        ),
        ({"input_shape": (1, 8, 8), "tol": "a"}, r"tol must be a number from 1e-09 to 1, got 'a'"),
        ({"input_shape": (1, 8, 8), "seed": -1}, r"^seed must be an integer from 0 to 2\^63 - 1, got -1$"),
        ({"input_shape": (1, 8, 8), "domain": "pixels"}, r"give mean and std"),
        ({"input_shape": (1, 8, 8), "iterations": 3}, r"iterations"),
    ],
)
def test_errors_in_python_name_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        lipaudit.audit(NET, **arguments)
    assert not re.search(r"--[a-z]", str(caught.value))


def test_the_command_line_keeps_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resnet18", "--weights", "random", "--domain", "ball"]) == 2
    assert "--around" in capsys.readouterr().err


def literals(path: Path) -> list[tuple[int, str]]:
    """The texts of a file that are no docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    bodies = (n.body for n in ast.walk(tree) if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef))
    docs = {id(body[0].value) for body in bodies if body and isinstance(body[0], ast.Expr)}
    constants = (n for n in ast.walk(tree) if isinstance(n, ast.Constant) and id(n) not in docs)
    return [(n.lineno, n.value) for n in constants if isinstance(n.value, str)]


@pytest.mark.parametrize("part", ["auditing", "frontends", "graph", "network", "rules", "spectral", "training"])
def test_no_message_below_the_command_line_has_an_option_written_out(part: str) -> None:
    found = [
        f"{path}:{line}: {text}"
        for path in (ROOT / "lipaudit" / part).rglob("*.py")
        for line, text in literals(path)
        if re.search(r"--[a-z]", text) and path.name != "diff_scope.py"  # of `lipaudit diff`, which compares files
    ]
    assert found == []


@pytest.mark.parametrize(
    ("model", "shape", "message"),
    [
        (NET, torch.zeros(1, 1, 8, 8), r"input_shape must be .*, got a Tensor: pass input_shape=\(1, 8, 8\)"),
        (NET, torch.zeros(1, 8, 8), r"input_shape must be .*, got a Tensor: pass input_shape=\(1, 8, 8\)"),
        (nn.Linear(4, 2), torch.zeros(5, 4), r"input_shape must be .*, got a Tensor: pass input_shape=\(1, 4\)"),
        (
            NET,
            {"input": torch.zeros(1, 1, 8, 8)},
            r"input_shape\['input'\] must be .*, got a Tensor: pass \(1, 1, 8, 8\)",
        ),
        (NET, 10**30, "no memory holds so many numbers"),
        (
            NET,
            (4, 1, 8, 8),
            r"a batch, put 1 in its place, input_shape=\(1, 1, 8, 8\); .* input_shape=\(1, 4, 1, 8, 8\)",
        ),
        (NET, (1, 8.5, 8), r"input_shape must be positive integers, .*, got \(1, 8.5, 8\)"),
        (NET, (1, -8, 8), "must be positive integers"),
        (NET, (True, 8, 8), "must be positive integers"),
        (NET, (), "must be positive integers"),
        (NET, 3.5, "must be positive integers"),
        (nn.Linear, (1, 2), r"model must be a network, got the class Linear: make one, Linear\(...\)"),
        (
            NET.state_dict(),
            (1, 8, 8),
            "model must be a network, got an OrderedDict: load a state dict into its network",
        ),
        (3, (1, 2), "model must be an nn.Module, .*, got 3"),
        (None, None, "model must be an nn.Module, .*, got None"),
    ],
)
def test_wrong_types_get_a_sentence(model: Any, shape: Any, message: str) -> None:
    for function in (lipaudit.audit, lipaudit.compare):
        with pytest.raises(UsageError, match=message):
            function(model, shape)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mean": "a,b", "std": "a"}, "mean must be a number, or one per channel, .*, got 'a,b'"),
        ({"mean": [[0.5]], "std": 1}, r"mean must be a number, .*, got \[\[0.5\]\]"),
        ({"cache": True}, "cache must be the name of a file or folder, got True"),
        ({"save_pair": 3, "lower_bound": True}, "save_pair must be the name of a file or folder, got 3"),
        ({"fix": {"input": 10**30}}, "an integer that no tensor holds"),
        ({"structure": "no"}, "structure must be True or False, got 'no'"),
        ({"lower_bound": "yes"}, "lower_bound must be True or False, got 'yes'"),
        ({"absolute_paths": 1}, "absolute_paths must be True or False, got 1"),
        ({"progress": 3}, "progress must be a function"),
        (
            {"arch": NET},
            r"arch must be the name of an architecture, .*, got a Sequential: load the file .* pass it as model",
        ),
        ({"arch": nn.Linear}, "arch must be the name of an architecture, .*, got the class Linear$"),
        (
            {"weights": NET.state_dict()},
            r"weights must be a tag, .*, got an OrderedDict: .*load_state_dict\) and pass that as model",
        ),
        ({"weights": 3}, "weights must be a tag, .*, got 3"),
    ],
)
def test_every_argument_of_a_wrong_type_gets_a_sentence(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        lipaudit.audit("sd.pt" if {"arch", "weights"} & set(arguments) else NET, (1, 8, 8), **arguments)


def test_paths_numbers_and_devices_of_any_package_are_taken() -> None:
    sample = SAMPLES / "digits_resnet.onnx"
    assert lipaudit.audit(sample, structure=True).model.spec.endswith("digits_resnet.onnx")
    plain = lipaudit.audit(NET, (1, 8, 8), tol=0.01, domain="ball", around=torch.zeros(1, 1, 8, 8), radius=1.0)
    other = lipaudit.audit(
        NET,
        (np.int64(1), np.int32(8), 8),
        tol=torch.tensor(0.01, dtype=torch.float64),  # type: ignore[arg-type]
        domain="ball",
        around=torch.zeros(1, 1, 8, 8),
        radius=torch.tensor(1.0),  # type: ignore[arg-type]
        seed=np.int64(0),  # type: ignore[arg-type]
        device=torch.device("cpu"),  # type: ignore[arg-type]
    )
    assert (other.network, other.settings) == (plain.network, plain.settings)


def test_normalisations_as_arrays_and_tensors() -> None:
    def pixels(mean: Any, std: Any) -> float | None:
        return lipaudit.audit(NET, (1, 8, 8), domain="pixels", mean=mean, std=std).network.upper_bound

    assert pixels(np.array([0.5]), torch.tensor(0.25)) == pixels((np.float32(0.5),), [0.25]) == pixels(0.5, 0.25)


def test_reports_are_read_from_text() -> None:
    for kind in (lipaudit.AuditReport, lipaudit.Comparison, lipaudit.ReportDiff):
        with pytest.raises(UsageError, match=r"read from its JSON text \(str or bytes\), not from dict"):
            kind.from_json({})  # type: ignore[attr-defined]


@pytest.mark.parametrize("radius", ["x", -1, 0, float("nan"), True])
def test_a_radius_is_a_number_above_0(radius: Any) -> None:
    with pytest.raises(UsageError, match="radius"):
        lipaudit.audit(NET, (1, 8, 8), domain="ball", around=torch.zeros(1, 1, 8, 8), radius=radius)


def test_a_layer_in_the_place_of_its_weight() -> None:
    with pytest.raises(TypeError, match=r"not Conv2d: pass the layer's weight, layer.weight"):
        lipaudit.conv_norm(NET[0], 8)
    with pytest.raises(TypeError, match=r"not Linear: pass the layer's weight"):
        lipaudit.spectral_norm(nn.Linear(2, 3))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"torch\.as_tensor"):
        lipaudit.spectral_norm([[1.0, 2.0]])  # type: ignore[arg-type]


def test_the_shape_may_be_the_second_argument() -> None:
    assert (
        lipaudit.audit(NET, (1, 8, 8)).network.upper_bound
        == lipaudit.audit(NET, input_shape=(1, 8, 8)).network.upper_bound
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rescale(NET, (3, 8, 8)), r"check the input size \(input_shape\)"),
        (lambda: LipschitzRegularizer(NET, (3, 8, 8)), r"check the input size \(input_shape\)"),
        (lambda: rescale(NET, (1, 8, 8), limit=0), "limit must be a number above 0 or None, got 0"),
        (lambda: rescale(NET, (1, 8, 8), limit={"9": 1.0}), "no limit is for the layer 0"),
        (lambda: LipschitzRegularizer(NET, (1, 8, 8), target=-1), "^target must be a number above 0"),
        (lambda: LipschitzRegularizer(NET, (1, 8, 8), target={"0": "a"}), "^the target of 0 must be a number above 0"),
    ],
)
def test_training_names_its_own_arguments(call: Any, message: str) -> None:
    with pytest.raises(LipauditError, match=message) as caught:
        call()
    assert not re.search(r"--[a-z]", str(caught.value))
