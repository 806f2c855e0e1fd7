"""How much memory each phase and the norm of each layer take (Linux only): a part of ``python -m benchmarks.command --memory``.

The kernel's count of the largest resident size is set back before each phase and each norm. Before, free memory that the allocator keeps
goes back to the system, so that the size with all weights loaded is that of the weights and of the graph.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import timm  # noqa: F401  imported by name resolution, and no part of loading
import torchvision  # noqa: F401

from benchmarks.coverage import reset_peak_memory
from lipaudit.auditing.capture import capture_model
from lipaudit.auditing.load import open_model
from lipaudit.auditing.placement import placed
from lipaudit.auditing.request import AuditRequest
from lipaudit.graph.linear import Dense
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.convolution.norm import convolution_norm
from lipaudit.spectral.matrix.gram import spectral_norm

SHOWN = 3
_T = TypeVar("_T")


def resident(field: str) -> float:
    """``VmRSS`` (now) or ``VmHWM`` (the largest since it was set back) of this process in MiB."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def settled() -> float:
    """The resident size once the C library has given back what is free."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    return resident("VmRSS")


def peak(function: Callable[[], _T], base: float) -> tuple[float, _T]:
    """The largest resident size during a call, above ``base``, and the call's result."""
    settled()
    reset_peak_memory()
    result = function()
    return resident("VmHWM") - base, result


def weight_of(linear: Convolution | Dense) -> tuple[int, ...]:
    return tuple((linear.kernel if isinstance(linear, Convolution) else linear.weight).shape)


def norm(linear: Convolution | Dense) -> object:
    return convolution_norm(linear) if isinstance(linear, Convolution) else spectral_norm(linear.weight)


def main(argv: Sequence[str]) -> None:
    spec, size = argv[0], argv[1] if len(argv) > 1 else None
    imports = settled()
    load, loaded = peak(lambda: open_model(AuditRequest(model=spec, input_shape=size, weights="random")), imports)
    with placed(loaded, "cpu") as place:
        capture, network = peak(lambda: capture_model(loaded, place), imports)
    weights = settled()
    linear = [(node.module, node.payload) for node in network.simple if isinstance(node.payload, Convolution | Dense)]
    found = [(peak(partial(norm, w), weights)[0], module, weight_of(w)) for module, w in linear]
    print(
        f"  MiB over import: load {load:.0f}, capture {capture:.0f}, with all weights and graphs {weights - imports:.0f}"
    )
    for mebibytes, module, shape in sorted(found, reverse=True)[:SHOWN]:
        print(f"  {mebibytes:8.0f} MiB above all weights: {module}, weight {'x'.join(map(str, shape))}")


if __name__ == "__main__":
    main(sys.argv[1:])
