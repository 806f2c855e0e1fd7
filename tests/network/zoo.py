"""Small members of many families, with weights that make every part of them count."""

from __future__ import annotations

import timm
import torch
import torchvision
from torch import nn

_TIMM: dict[str, tuple[int, dict[str, object]]] = {
    "resnet18": (64, {}), "resnet26d": (64, {}), "seresnet18": (64, {}), "ecaresnet50t": (64, {}), "resnetv2_50": (64, {}),
    "resnetblur50": (64, {}), "skresnet18": (64, {}), "resnest14d": (64, {}), "gcresnet33ts": (64, {}), "res2net50_26w_4s": (64, {}),
    "regnety_002": (64, {}), "regnetx_002": (64, {}), "efficientnet_b0": (64, {}), "mobilenetv2_050": (64, {}),
    "mobilenetv3_small_050": (64, {}), "mobilenetv4_conv_small": (64, {}), "ghostnet_050": (64, {}), "ghostnetv2_100": (64, {}),
    "mnasnet_small": (64, {}), "mixnet_s": (64, {}), "rexnet_100": (64, {}), "hardcorenas_a": (64, {}), "lcnet_050": (64, {}),
    "densenet121": (64, {}), "dla34": (64, {}), "dpn48b": (64, {}), "vgg11_bn": (64, {}), "selecsls42": (64, {}),
    "xception41": (64, {}), "inception_v3": (96, {}), "cspresnet50": (64, {}), "darknet53": (64, {}), "vovnet39a": (64, {}),
    "ese_vovnet19b_dw": (64, {}), "hrnet_w18_small": (64, {}), "repvgg_a0": (64, {}), "fasternet_t0": (64, {}),
    "mobileone_s0": (64, {}), "nf_resnet26": (64, {}), "dm_nfnet_f0": (64, {}), "tresnet_m": (64, {}),
    "convnext_atto": (64, {}), "convnextv2_atto": (64, {}), "convmixer_768_32": (64, {}), "starnet_s1": (64, {}),
    "inception_next_atto": (64, {}), "metaformer": (64, {}), "poolformer_s12": (64, {}), "caformer_s18": (64, {}),
    "vit_tiny_patch16_224": (64, {"img_size": 64}), "deit_tiny_patch16_224": (64, {"img_size": 64}),
    "cait_xxs24_224": (64, {"img_size": 64}), "beit_base_patch16_224": (64, {"img_size": 64, "depth": 2}),
    "eva02_tiny_patch14_224": (56, {"img_size": 56}), "swin_tiny_patch4_window7_224": (112, {"img_size": 112}),
    "swinv2_tiny_window8_256": (128, {"img_size": 128}), "pvt_v2_b0": (64, {}), "twins_svt_small": (64, {"img_size": 64}),
    "levit_128s": (224, {}), "xcit_nano_12_p16_224": (64, {}), "coat_tiny": (64, {"img_size": 64}), "mixer_s32_224": (64, {"img_size": 64}),
    "gmlp_ti16_224": (64, {"img_size": 64}), "resmlp_12_224": (64, {"img_size": 64}), "mobilevit_xxs": (64, {}),
    "mobilevitv2_050": (64, {}),

    "edgenext_xx_small": (64, {}), "efficientformer_l1": (224, {}), "efficientformerv2_s0": (224, {}), "efficientvit_b0": (64, {}),
    "efficientvit_m0": (224, {}), "fastvit_t8": (64, {}), "repvit_m0_9": (64, {}), "tiny_vit_5m_224": (224, {}),
    "davit_tiny": (64, {}), "nest_tiny": (64, {"img_size": 64}), "maxvit_rmlp_pico_rw_256": (64, {"img_size": 64}),
    "coatnet_nano_rw_224": (64, {"img_size": 64}), "focalnet_tiny_srf": (64, {}), "volo_d1_224": (224, {}), "gcvit_xxtiny": (224, {}),
    "hgnet_tiny": (64, {}), "hgnetv2_b0": (64, {}), "sequencer2d_s": (64, {}), "pit_ti_224": (64, {"img_size": 64}),
    "visformer_tiny": (224, {}),

    "crossvit_9_240": (240, {}), "tnt_s_legacy_patch16_224": (64, {"img_size": 64}), "convit_tiny": (64, {"img_size": 64}),
    "halonet26t": (256, {}), "lambda_resnet26t": (64, {"img_size": 64}), "botnet26t_256": (64, {"img_size": 64}),
    "mambaout_femto": (64, {}), "rdnet_tiny": (64, {}), "shvit_s1": (64, {}), "swiftformer_xs": (64, {}), "hiera_tiny_224": (224, {}),
}  # fmt: skip
_TORCHVISION: dict[str, int] = {
    "alexnet": 96, "googlenet": 64, "shufflenet_v2_x0_5": 64, "squeezenet1_1": 64, "mobilenet_v3_small": 64,
    "efficientnet_v2_s": 64, "maxvit_t": 224,
}  # fmt: skip

FAMILIES = (
    *(f"timm:{name}" for name in _TIMM if name != "metaformer"),
    *(f"torchvision:{name}" for name in _TORCHVISION),
)
# a few that together have gates, attention, group and layer norms, and are quick
QUICK = (
    "timm:seresnet18", "timm:mobilenetv3_small_050", "timm:vit_tiny_patch16_224", "timm:convnextv2_atto",
    "timm:mobilevit_xxs", "timm:gmlp_ti16_224",
)  # fmt: skip


def build(spec: str, seed: int = 0) -> tuple[nn.Module, int]:
    """The network in eval mode, and the size of its input."""
    torch.manual_seed(seed)
    library, name = spec.split(":")
    if library == "timm":
        size, options = _TIMM[name]
        module = timm.create_model(name, num_classes=10, **options)
    else:
        size = _TORCHVISION[name]
        module = torchvision.models.get_model(name, weights=None)
    enliven(module)
    return module.eval(), size


def enliven(module: nn.Module) -> None:
    """Give zeros (heads, layer scales, biases) and the statistics of batch norms values that matter."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.is_floating_point() and float(parameter.std(correction=0)) < 1e-3:
                parameter.add_(0.2 * torch.randn_like(parameter))
        for name, buffer in module.named_buffers():
            if name.endswith("running_mean"):
                buffer.copy_(0.3 * torch.randn_like(buffer))
            elif name.endswith("running_var"):
                buffer.copy_(0.5 + torch.rand_like(buffer))
