"""Networks trained by others, from the folder of shared models beside the checkout (skipped where it is missing)."""

import pytest
import torch

from lipaudit.frontends.checkpoint import read_state_dict
from lipaudit.frontends.load import load
from tests.places import SHARED_MODELS

MODELS = SHARED_MODELS
FILES = [
    "yunet/yunet_n_320_320.onnx",
    "fastestdet/FastestDet.onnx",
    "ultraface/version-RFB-320_simplified.onnx",
    "vnncomp/resnet_2b.onnx",
    "vnncomp/cifar_base_kw.onnx",
]
pytestmark = pytest.mark.skipif(not MODELS.is_dir(), reason="the folder of shared models is not there")


@pytest.mark.parametrize("name", FILES)
def test_onnx_files_load_and_can_be_captured(name):
    loaded = load(str(MODELS / name))
    assert any("agrees with" in note for note in loaded.notes)
    inputs = tuple(torch.rand(shape) for shape in loaded.input_shapes.values())
    with torch.no_grad():
        expected = loaded.module(*inputs)
        program = torch.export.export(loaded.module, inputs, strict=False).run_decompositions({})
        found = program.module()(*inputs)
    pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
    assert all(torch.equal(a, b) for a, b in pairs)
    modules = {list(n.meta["nn_module_stack"].values())[-1][0] for n in program.graph.nodes if n.op == "call_function"}
    assert modules <= set(loaded.node_names)


def test_a_legacy_checkpoint_saved_on_a_gpu():
    state = read_state_dict(str(MODELS / "cifar_resnet/resnet20-12fca82f.th"))
    assert state["conv1.weight"].shape == (16, 3, 3, 3)
    assert state["conv1.weight"].device.type == "cpu"
