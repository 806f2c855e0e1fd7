"""What a Python caller reads when something is wrong: arguments, not options, and what to pass instead."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.cli import main
from lipaudit.errors import LipauditError, UsageError
from lipaudit.option_names import with_arguments
from lipaudit.training import LipschitzRegularizer, rescale
from tests.places import SAMPLES

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
        ({"input_shape": (1, 8, 8), "mean": 0, "std": 0}, r"std=0: pixels are divided"),
        ({"input_shape": (1, 8, 8), "tol": "a"}, r"the tolerance \(tol\) is a number"),
        ({"input_shape": (1, 8, 8), "seed": -1}, r"a seed is a whole number|a seed \(seed\)"),
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


def test_options_without_an_argument_stay() -> None:
    assert with_arguments("leave out -o or --card; see --jobs 4", ["domain"]) == "leave out -o or --card; see --jobs 4"


@pytest.mark.parametrize(
    ("model", "shape", "message"),
    [
        (NET, torch.zeros(1, 1, 8, 8), r"input_shape is a tensor: .* input_shape=\(1, 8, 8\)"),
        (NET, torch.zeros(1, 8, 8), r"input_shape is a tensor: .* input_shape=\(1, 8, 8\)"),
        (nn.Linear(4, 2), torch.zeros(5, 4), r"input_shape is a tensor: .* input_shape=\(1, 4\)"),
        (NET, {"input": torch.zeros(1, 1, 8, 8)}, r"input_shape\['input'\] is a tensor: .*\(1, 1, 8, 8\)"),
        (NET, 10**30, "more numbers than any memory holds"),
        (
            NET,
            (4, 1, 8, 8),
            r"a batch, put 1 in its place, input_shape=\(1, 1, 8, 8\); .* input_shape=\(1, 4, 1, 8, 8\)",
        ),
        (NET, (1, 8.5, 8), r"input_shape is \(1, 8.5, 8\): pass positive integers"),
        (NET, (1, -8, 8), "pass positive integers"),
        (NET, (True, 8, 8), "pass positive integers"),
        (NET, (), "pass positive integers"),
        (NET, 3.5, "pass positive integers"),
        (nn.Linear, (1, 2), r"model is the class Linear, not a network: make one, Linear\(...\)"),
        (NET.state_dict(), (1, 8, 8), "model is a mapping, such as a state dict"),
        (3, (1, 2), "model is an int: pass an nn.Module"),
        (None, None, "model is a NoneType"),
    ],
)
def test_wrong_types_get_a_sentence(model: Any, shape: Any, message: str) -> None:
    for function in (lipaudit.audit, lipaudit.compare):
        with pytest.raises(UsageError, match=message):
            function(model, shape)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mean": "a,b", "std": "a"}, "mean is 'a,b': pass a number, or one per channel"),
        ({"mean": [[0.5]], "std": 1}, r"mean is \[\[0.5\]\]: pass a number"),
        ({"cache": True}, "cache is the name of a file or folder, not True"),
        ({"save_pair": 3, "lower_bound": True}, "save_pair is the name of a file or folder, not 3"),
        ({"fix": {"input": 10**30}}, "an integer that no tensor holds"),
        ({"structure": "no"}, "structure is True or False, not 'no'"),
        ({"lower_bound": "yes"}, "lower_bound is True or False, not 'yes'"),
        ({"absolute_paths": 1}, "absolute_paths is True or False, not 1"),
        ({"progress": 3}, "progress is a function"),
        ({"arch": NET}, r"arch is a network \(Sequential\): load the file into it .* pass it as model"),
        ({"arch": nn.Linear}, "arch is a type: name an architecture"),
        ({"weights": NET.state_dict()}, r"weights is a mapping, .*load_state_dict\) and pass that as model"),
        ({"weights": 3}, "weights is an int: pass a tag"),
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
        (lambda: rescale(NET, (1, 8, 8), limit=0), "limit is a number above 0 or None, not 0"),
        (lambda: rescale(NET, (1, 8, 8), limit={"9": 1.0}), "no limit is for the layer 0"),
        (lambda: LipschitzRegularizer(NET, (1, 8, 8), target=-1), "^target is a number above 0"),
        (lambda: LipschitzRegularizer(NET, (1, 8, 8), target={"0": "a"}), "^the target of 0 is a number above 0"),
    ],
)
def test_training_names_its_own_arguments(call: Any, message: str) -> None:
    with pytest.raises(LipauditError, match=message) as caught:
        call()
    assert not re.search(r"--[a-z]", str(caught.value))
