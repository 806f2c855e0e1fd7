"""A torch network and its ONNX exports must give the same figures: conversion loses nothing and adds nothing.

Random weights, both exporters of torch, several operator sets. What an exporter writes out in primitive operators
(normalisation, attention, activations) must be found again, else the bounds differ.
"""

from __future__ import annotations

import contextlib
import io
import logging
import math
import warnings
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
import timm
import torch
import torchvision
from timm.models.metaformer import GroupNorm1, MetaFormer, Pooling
from timm.models.mlp_mixer import MlpMixer
from torch import nn

import lipaudit
from sample_models import models as samples

Shape = tuple[int, int, int]
SMALL, TINY = (3, 64, 64), (1, 16, 16)
MODELS: dict[str, tuple[Callable[[], nn.Module], Shape]] = {
    "resnet": (lambda: torchvision.models.resnet18(weights=None), SMALL),
    "mobilenet_v2": (lambda: torchvision.models.mobilenet_v2(weights=None, width_mult=0.35), SMALL),
    "mobilenet_v3": (lambda: torchvision.models.mobilenet_v3_small(weights=None), SMALL),
    "shufflenet": (lambda: torchvision.models.shufflenet_v2_x0_5(weights=None), SMALL),
    "squeezenet": (lambda: torchvision.models.squeezenet1_1(weights=None), SMALL),
    "densenet": (lambda: timm.create_model("densenet121", growth_rate=8, block_config=(2, 2, 2, 2)), SMALL),
    "efficientnet": (lambda: timm.create_model("test_efficientnet"), SMALL),
    "regnet": (lambda: timm.create_model("regnetx_002"), SMALL),
    "repvgg": (lambda: timm.create_model("repvgg_a0"), SMALL),
    "convnext": (lambda: timm.create_model("convnext_atto", depths=(1, 1, 1, 1), dims=(16, 32, 48, 64)), SMALL),
    "vit": (lambda: timm.create_model("vit_tiny_patch16_224", img_size=64, depth=2), SMALL),
    "swin": (
        lambda: timm.create_model(
            "swin_tiny_patch4_window7_224", img_size=56, depths=(2, 2), num_heads=(2, 4), embed_dim=24
        ),
        (3, 56, 56),
    ),
    "mixer": (lambda: MlpMixer(img_size=64, patch_size=16, num_blocks=2, embed_dim=64), SMALL),
    "poolformer": (
        lambda: MetaFormer(
            depths=(1, 1, 1, 1), dims=(16, 24, 32, 48), token_mixers=Pooling, norm_layers=GroupNorm1, use_mlp_head=False
        ),
        SMALL,
    ),
    "pvt": (lambda: timm.create_model("pvt_v2_b0", depths=(1, 1, 1, 1)), SMALL),
    **{
        name: (getattr(samples, name), TINY)
        for name in ("digits_resnet", "digits_mobile", "digits_se", "digits_unet", "digits_vit")
    },
}
FAST = ("digits_se", "digits_vit", "digits_mobile")
# (dynamo, opset): torch 2.14 cannot write later ones, it labels such files with 18
EXPORTS = ((False, 13), (False, 17), (False, 20), (True, 17), (True, 20), (True, 25))


def _network(name: str) -> tuple[nn.Module, Shape]:
    """With random values in the weights that start at zero, and batch statistics other than 0 and 1."""
    torch.manual_seed(0)
    make, shape = MODELS[name]
    network = make()
    with torch.no_grad():
        for parameter in network.parameters():
            if not parameter.any():
                parameter.copy_(0.02 * torch.randn(parameter.shape))
        for key, buffer in network.named_buffers():
            if key.endswith("running_var"):
                buffer.uniform_(0.5, 2.0)
            elif key.endswith("running_mean"):
                buffer.normal_(0.0, 0.5)
    return network.eval(), shape


def _export(network: nn.Module, shape: Shape, path: Path, dynamo: bool, opset: int) -> bool:
    """Whether the exporter wrote a valid file."""
    logging.getLogger("torch.onnx").setLevel(logging.CRITICAL)
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")  # the exporters warn of their own deprecations; only the file matters here
        try:
            torch.onnx.export(network, (torch.rand(1, *shape),), path, dynamo=dynamo, opset_version=opset)
            onnx.checker.check_model(path)
        except (torch.onnx.errors.OnnxExporterError, onnx.checker.ValidationError):
            return False
    return True


def _agree(name: str, exports: tuple[tuple[bool, int], ...], folder: Path) -> int:
    """How many of the exports were written; every one of them agrees with the network."""
    network, shape = _network(name)
    expected = lipaudit.audit(network, input_shape=shape).network
    written = 0
    for dynamo, opset in exports:
        path = folder / f"{'dynamo' if dynamo else 'legacy'}_{opset}.onnx"
        if not _export(network, shape, path, dynamo, opset):
            continue
        written += 1
        found = lipaudit.audit(str(path)).network
        assert found.status == expected.status, path.name
        if expected.log10_upper_bound is not None:
            assert found.log10_upper_bound is not None
            assert math.isclose(found.log10_upper_bound, expected.log10_upper_bound, rel_tol=1e-6), path.name
    return written


@pytest.mark.parametrize("name", FAST)
def test_exports_of_small_networks_agree(name, tmp_path):
    exports = ((False, 17), (True, 20))
    assert _agree(name, exports, tmp_path) == len(exports)


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_every_export_agrees(name, tmp_path):
    assert _agree(name, EXPORTS, tmp_path) >= len(EXPORTS) - 1  # attention has no legacy export at opset 13
