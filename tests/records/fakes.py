"""Realistic reports, made by hand: what the renderings are looked at and tested with."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from functools import cache
from typing import Any, TypeVar, get_type_hints

from lipaudit.records.codec import encode
from lipaudit.records.figure import CERTIFIED, ESTIMATE, NUMERICAL, Figure
from lipaudit.records.report import AuditReport, DomainRecord, LayerRecord, NetworkRecord, OutputRecord
from lipaudit.records.settings import ModelRecord, SettingsRecord

R = TypeVar("R")


def changed(record: R, **changes: Any) -> R:
    """A record with other fields. Figures are given by their numbers as well, by the names that these have in JSON."""
    known = {entry.name for entry in fields(record)}  # type: ignore[arg-type]
    numbers = {key: value for key, value in changes.items() if key not in known}
    figures = {}
    for name, hint in get_type_hints(type(record), include_extras=True).items() if numbers else ():
        for keys in getattr(hint, "__metadata__", ()):
            figures[name] = keys.decode({**encode(record), **numbers}, "record")
    return replace(record, **{**figures, **{key: value for key, value in changes.items() if key in known}})  # type: ignore[type-var]


def layer(name: str, factor: float = 2.0, op: str = "conv2d", **changes: Any) -> LayerRecord:
    values: dict[str, Any] = {
        "name": name,
        "module": name.split("#")[0],
        "op": op,
        "rule": "convolution" if op == "conv2d" else op,
        "inputs": ("input",),
        "status": "finite",
        "rigor": "certified",
        "upper_bound": factor,
        "log10_upper_bound": math.log10(factor),
        "lower_bound": factor / 1.0007,
        "log10_lower_bound": math.log10(factor / 1.0007),
        "tightness": 1.0007,
    }
    return changed(LayerRecord("", "", "", (), ""), **{**values, **changes})


def missing(name: str, status: str, op: str, reason: str) -> LayerRecord:
    return LayerRecord(
        name=name, module=name.split("#")[0], op=op, rule=op, inputs=("input",), status=status, reason=reason
    )


def estimated(name: str, factor: float = 2.0, op: str = "conv2d", **changes: Any) -> LayerRecord:
    """A row whose figure is an estimate."""
    bare = {"lower_bound": None, "log10_lower_bound": None, "tightness": None}
    figures = {"upper_bound": None, "log10_upper_bound": None, "estimate": factor, "log10_estimate": math.log10(factor)}
    return layer(name, op=op, **{"rigor": "estimate", **bare, **figures, **changes})


@cache
def resnet_layers() -> tuple[LayerRecord, ...]:
    layers = [
        layer("conv1", 4.7512, input_size=(224, 224), weight_shape=(64, 3, 7, 7), details="s2 p3", folded=("bn1",)),
        layer("maxpool", 2.0, "max_pool2d", input_size=(112, 112), details="k3 s2 p1", note="9 windows at most 4"),
    ]
    size, before = 56, 64
    for stage, (width, blocks) in enumerate(((64, 3), (128, 3), (256, 3)), start=1):
        for block in range(blocks):
            for conv in (1, 2, 3):
                name = f"layer{stage}.{block}.conv{conv}"
                kernel = (width, width, 3, 3) if conv == 2 else (width, before, 1, 1)
                layers.append(
                    layer(
                        name,
                        1.3 + 0.7913 * conv + 0.31 * stage,
                        input_size=(size, size),
                        weight_shape=kernel,
                        details="p1" if conv == 2 else "",
                        folded=(f"layer{stage}.{block}.bn{conv}",),
                        note=f"torus grid {8 * stage}x{8 * stage}" if conv == 2 else "",
                    )
                )
            if block == 0:
                layers.append(
                    layer(
                        f"layer{stage}.0.downsample.0",
                        3.3337,
                        input_size=(size, size),
                        weight_shape=(4 * width, before, 1, 1),
                        details="s2",
                    )
                )
        size, before = size // 2, 4 * width
    layers.append(layer("avgpool", 1 / 7, "adaptive_avg_pool2d", input_size=(7, 7)))
    layers.append(layer("fc", 2.1, "linear", weight_shape=(1000, 2048)))
    total = math.fsum(max(0.0, entry.log10_upper_bound or 0) for entry in layers)
    return tuple(replace(entry, share=(entry.log10_upper_bound or 0) / total) for entry in layers)


def report(layers: tuple[LayerRecord, ...] | None = None, **network: Any) -> AuditReport:
    layers = resnet_layers() if layers is None else layers
    values: dict[str, Any] = {"status": "finite", "rigor": "certified"}
    if network.get("status", "finite") == "finite":
        values |= {
            "upper_bound": 10**21.4567,
            "log10_upper_bound": 21.4567,
            "pixel_upper_bound": 10**22.1052,
            "pixel_log10_upper_bound": 22.1052,
        }
    else:
        layers = tuple(replace(entry, share=None) for entry in layers)
        values["rigor"] = None
    return AuditReport(
        model=ModelRecord(
            spec="resnet50",
            source="torchvision",
            weights="IMAGENET1K_V2",
            input_shape=(1, 3, 224, 224),
            input_shapes={"x": (1, 3, 224, 224)},
            num_parameters=25_557_032,
            state_dict_sha256="0f" * 32,
            unused_parameters=("aux.weight",),
            preprocessing={"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)},
        ),
        settings=SettingsRecord(),
        network=changed(NetworkRecord(""), **{**values, **network}),
        layers=layers,
        tool_version="0.1.0",
        created="2026-11-27T20:28:00Z",
        environment={"python": "3.11.7", "platform": "Linux-x86_64", "packages": {"torch": "2.14.1"}, "threads": 2},
        notes=("The input size comes from the weights' own preprocessing.",),
        timings={"load": 0.61, "capture": 2.2, "norms": 9.97, "propagation": 0.02},
    )


def unsupported() -> AuditReport:
    gap = (
        missing("blocks.3.se.mul", "unbounded", "mul", "a product of two signals has no constant over all inputs"),
        missing("blocks.4.se.mul", "unbounded", "mul", "a product of two signals has no constant over all inputs"),
        missing("head.fft", "unsupported", "fft_rfft2", "no rule for aten.fft_rfft2.default"),
    )
    return report((*resnet_layers(), *gap), status="unsupported", reasons=("no rule for aten.fft_rfft2.default",))


def two_outputs() -> AuditReport:
    outputs = (
        OutputRecord("boxes", "finite", Figure(math.log10(37.251), CERTIFIED, 37.251)),
        OutputRecord("scores", "finite", Figure(math.log10(1.5), CERTIFIED, 1.5)),
    )
    return report(outputs=outputs, lower_bound=37.58)


GATES = tuple(f"blocks.{i}.se.mul (mul): product of two data-dependent tensors (gating)" for i in (3, 4))


def gated(**network: Any) -> AuditReport:
    """Unbounded over all inputs because of two gates, finite on pixels."""
    gates = tuple(missing(f"blocks.{i}.se.mul", "unbounded", "mul", GATES[0].partition(": ")[2]) for i in (3, 4))
    figures = [Figure(math.log10(value), NUMERICAL, value) for value in (5.1487e8, 2.2484e9)]
    pixels = DomainRecord("pixels", "finite", *figures)
    return report(
        (*resnet_layers(), *gates), **{"status": "unbounded", "reasons": GATES, "other_domains": (pixels,), **network}
    )


def on_pixels(log10: float = 8.71169) -> AuditReport:
    """The same network over pixels, the gates with a factor each."""
    gates = tuple(
        layer(
            f"blocks.{i}.se.mul",
            248.6,
            "mul",
            rule="multiply",
            rigor="numerical",
            lower_bound=None,
            log10_lower_bound=None,
            tightness=None,
            share=0.2,
        )
        for i in (3, 4)
    )
    figures = {
        "rigor": "numerical",
        "domain": "pixels",
        "upper_bound": 10**log10 if log10 < 300 else None,
        "log10_upper_bound": log10,
        "pixel_upper_bound": 10 ** (log10 + 0.65) if log10 < 300 else None,
        "pixel_log10_upper_bound": log10 + 0.65,
        "other_domains": (DomainRecord("global", "unbounded", reasons=GATES),),
    }
    found = report((*resnet_layers(), *gates), **figures)
    return replace(found, settings=replace(found.settings, domain="pixels"))


def around_a_cat(**settings: Any) -> AuditReport:
    found = report(
        domain="ball", other_domains=(DomainRecord("global", "finite", Figure(math.log10(3.5e21), CERTIFIED, 3.5e21)),)
    )
    ball = {"domain": "ball", "around": "cat.png", "radius": 0.5, "radius_in": "pixels", **settings}
    return replace(found, settings=replace(found.settings, **ball))


def estimate(method: str = "sedghi2019", iterations: int | None = None, **network: Any) -> AuditReport:
    """The audit by a published method whose figures are no bounds."""
    figures = {
        "rigor": "estimate",
        **dict.fromkeys(("upper_bound", "log10_upper_bound", "pixel_upper_bound", "pixel_log10_upper_bound")),
        "estimate": 10**21.4567,
        "log10_estimate": 21.4567,
        "pixel_estimate": 10**22.1052,
        "pixel_log10_estimate": 22.1052,
    }
    rows = tuple(
        estimated(row.name, row.upper_bound or 0.0, row.op, weight_shape=row.weight_shape, share=row.share)
        if row.weight_shape
        else row
        for row in resnet_layers()
    )
    found = report(rows, **{**figures, **network})
    return replace(found, settings=replace(found.settings, method=method, iterations=iterations))


def estimated_on_pixels() -> AuditReport:
    """Unbounded over all inputs; over pixels there is an estimate."""
    found = gated(other_domains=(DomainRecord("pixels", "finite", Figure(math.log10(5.1e8), ESTIMATE, 5.1e8)),))
    return replace(found, settings=replace(found.settings, method="ryu2019"))


REPORTS = (
    report(),
    unsupported(),
    two_outputs(),
    report(layers=()),
    gated(),
    on_pixels(),
    on_pixels(412.0),
    around_a_cat(),
    around_a_cat(around=None, radius_in="input"),
)
"""Reports of every kind whose figures fit a float, or do not."""
