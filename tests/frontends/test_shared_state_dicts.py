"""Trained state dicts by others: each audits, and its bound holds for sampled pairs; a file and its ONNX twin agree."""

from __future__ import annotations

import pytest
import torch

import lipaudit
from lipaudit.frontends.load import load
from tests.places import SHARED_MODELS

MODELS = SHARED_MODELS
ARCH = "tests.models.shared_architectures:"

pytestmark = pytest.mark.skipif(not MODELS.is_dir(), reason="the trained models are not beside this checkout")


@pytest.mark.parametrize(
    ("file", "architecture", "size"),
    [
        ("mtcnn/pnet.pt", "PNet", 24),
        ("mtcnn/rnet.pt", "RNet", 24),
        ("mtcnn/onet.pt", "ONet", 48),
        ("vnncomp/resnet2b.pth", "ResNet2b", 32),
        ("cifar_resnet/resnet20-12fca82f.th", "", 32),
    ],
)
def test_state_dict_audits_and_its_bound_holds(file: str, architecture: str, size: int) -> None:
    arch = ARCH + architecture if architecture else "tests.models.cifar_resnet20:ResNet20"
    report = lipaudit.audit(str(MODELS / file), arch=arch, input_shape=(3, size, size))
    assert report.network.status == "finite"
    assert report.model.file_sha256
    module = load(str(MODELS / file), arch=arch, input_shapes={"": (3, size, size)}).module
    generator = torch.Generator().manual_seed(0)
    for scale in (1e-2, 1.0, 10.0):
        x, y = (torch.randn(1, 3, size, size, generator=generator) * scale for _ in range(2))
        with torch.no_grad():
            pairs = zip(
                torch.utils._pytree.tree_leaves(module(x)), torch.utils._pytree.tree_leaves(module(y)), strict=True
            )
            moved = sum(float((a - b).square().sum()) for a, b in pairs) ** 0.5
        assert moved <= report.network.upper_bound * float((x - y).norm())


def test_a_checkpoint_and_its_onnx_twin_have_the_same_bound() -> None:
    twin = lipaudit.audit(str(MODELS / "vnncomp" / "resnet_2b.onnx"))
    own = lipaudit.audit(str(MODELS / "vnncomp" / "resnet2b.pth"), arch=ARCH + "ResNet2b", input_shape=(3, 32, 32))
    assert own.network.log10_upper_bound == pytest.approx(twin.network.log10_upper_bound, abs=2e-3)
