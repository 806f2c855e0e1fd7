"""How much memory the norm of each layer takes (Linux only): a part of ``python -m benchmarks.command --memory``.

The kernel's count of the largest resident size is set back before each norm; what stays is compared with the size after all weights
were loaded, so that memory which the allocator keeps counts against the layer, too.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.coverage import reset_peak_memory
from lipaudit.graph.linear import Dense
from lipaudit.opening import captured, open_model, placed
from lipaudit.spectral.convolution import convolution_norm
from lipaudit.spectral.geometry import Convolution
from lipaudit.spectral.gram import spectral_norm

SHOWN = 3


def resident(field: str) -> float:
    """``VmRSS`` (now) or ``VmHWM`` (the largest so far) of this process in MiB."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def peaks(spec: str, size: str | None) -> list[tuple[float, str, tuple[int, ...]]]:
    """MiB, module path and weight's shape of every convolution and dense layer, largest first."""
    loaded = open_model(spec, size, "random", None)
    with placed(loaded, "cpu") as place:
        graph = captured(loaded, place).simple
    base = resident("VmRSS")
    found = []
    for node in graph:
        if not isinstance(node.payload, Convolution | Dense):
            continue
        reset_peak_memory()
        if isinstance(node.payload, Convolution):
            convolution_norm(node.payload)
            shape = tuple(node.payload.kernel.shape)
        else:
            spectral_norm(node.payload.weight)
            shape = tuple(node.payload.weight.shape)
        found.append((resident("VmHWM") - base, node.module, shape))
    return sorted(found, reverse=True)


def main(argv: Sequence[str]) -> None:
    spec, *size = argv
    for mebibytes, module, shape in peaks(spec, size[0] if size else None)[:SHOWN]:
        print(f"  {mebibytes:8.0f} MiB above all weights: {module}, weight {'x'.join(map(str, shape))}")


if __name__ == "__main__":
    main(sys.argv[1:])
