"""The shipped sample networks do what they claim: accuracy, size, format, ONNX and torch in agreement."""

from __future__ import annotations

import json

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from sample_models import models, train

NAMES = sorted(train.RECIPES)


def load_torch(name: str) -> nn.Module:
    model = getattr(models, name)()
    model.load_state_dict(load_file(train.FOLDER / f"{name}.safetensors"))
    return model.eval()


def run_onnx(name: str, images: torch.Tensor) -> torch.Tensor:
    """The ONNX file's outputs, image by image: its batch is one."""
    session = onnxruntime.InferenceSession(train.FOLDER / f"{name}.onnx", providers=["CPUExecutionProvider"])
    return torch.from_numpy(np.concatenate([session.run(None, {"image": image[None].numpy()})[0] for image in images]))


def run_torch(name: str, images: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return load_torch(name)(images)


def test_every_recipe_has_its_factory_of_the_same_name():
    assert {name: recipe.factory for name, recipe in train.RECIPES.items()} == {
        name: getattr(models, name) for name in NAMES
    }
    assert len(NAMES) == 6


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("run", [run_torch, run_onnx])
def test_accuracy_is_as_recorded(name, run):
    split = train.load_test(train.RECIPES[name])
    measured = train.accuracy(run(name, split.images), split.targets)
    recorded = json.loads((train.FOLDER / "accuracy.json").read_text())[name]["test_accuracy"]
    assert measured >= train.REQUIRED_ACCURACY
    # one image of the 450 may lie on the border of two classes on another processor
    assert measured == pytest.approx(recorded, abs=1.5 / len(split.images))


@pytest.mark.parametrize("name", NAMES)
def test_onnx_and_torch_agree(name):
    images = train.load_test(train.RECIPES[name]).images[:20]
    torch.testing.assert_close(run_onnx(name, images), run_torch(name, images), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_onnx_file_is_self_contained_opset_17(name):
    model = onnx.load(train.FOLDER / f"{name}.onnx", load_external_data=False)
    onnx.checker.check_model(model, full_check=True)
    assert {entry.domain: entry.version for entry in model.opset_import} == {"": 17}
    assert not any(onnx.external_data_helper.uses_external_data(tensor) for tensor in model.graph.initializer)
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    assert shape == [1, 1, models.IMAGE_SIZE, models.IMAGE_SIZE]


@pytest.mark.parametrize("name", NAMES)
def test_onnx_file_keeps_every_batch_norm(name):
    operators = [node.op_type for node in onnx.load(train.FOLDER / f"{name}.onnx").graph.node]
    expected = sum(isinstance(module, nn.BatchNorm2d) for module in getattr(models, name)().modules())
    assert operators.count("BatchNormalization") == expected


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("suffix", ["onnx", "safetensors"])
def test_file_is_below_one_megabyte(name, suffix):
    assert (train.FOLDER / f"{name}.{suffix}").stat().st_size < 1_000_000
