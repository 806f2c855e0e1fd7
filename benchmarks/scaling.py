"""How the time of a norm grows with input size, channels, kernel size and depth: lipaudit beside the paper's algorithm.

    python -m benchmarks.scaling -o scaling             # some minutes; scaling/scaling.csv and scaling/scaling.png
    python -m benchmarks.scaling -o scaling --limit 1   # skip what would take the paper's algorithm more than a second

Around one layer with random weights (64 channels, 3 x 3 taps, 56 x 56 pixels, stride 1, zero padding that keeps the size) one number
at a time is varied. Depth is the number of such layers in a plain network; there the whole audit is timed, too. Times are medians of CPU
seconds on one thread, the methods taking turns at every point. Points at which the paper's algorithm would take longer than the limit, by
the growth between its last two points, are left out for it and named. The image needs matplotlib (the extra ``plot``).
"""

from __future__ import annotations

import argparse
import csv
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

import lipaudit
from benchmarks.published import PAPER, figure
from benchmarks.timing import Call, take_turns
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.convolution.norm import convolution_norm

OURS, AUDIT = "lipaudit", "whole audit"
AXES: dict[str, tuple[int, ...]] = {
    "input size": (14, 28, 56, 112, 224, 448, 1024),
    "channels": (1, 4, 16, 64, 128, 256, 512, 1024),
    "kernel size": (1, 3, 5, 7, 11, 15, 21, 31),
    "depth": (1, 2, 4, 8, 16, 32, 64),
}


@dataclass(frozen=True)
class Point:
    """A plain network of equal layers, one number of it varied along an axis."""

    axis: str
    value: int
    size: int = 56
    channels: int = 64
    kernel: int = 3
    depth: int = 1

    def convolutions(self) -> list[Convolution]:
        generator = torch.Generator().manual_seed(0)
        shape = (self.channels, self.channels, self.kernel, self.kernel)
        kernels = [torch.randn(shape, generator=generator) for _ in range(self.depth)]
        return [Convolution.like_torch(kernel, (self.size, self.size), padding="same") for kernel in kernels]

    def network(self) -> nn.Module:
        layers = nn.Sequential()
        for convolution in self.convolutions():
            layer = nn.Conv2d(self.channels, self.channels, self.kernel, padding="same", bias=False)
            layer.weight.data = convolution.kernel
            layers.extend([layer, nn.ReLU()])
        return layers.eval()

    def calls(self) -> dict[str, Callable[[], Any]]:
        """What is timed here, by name."""
        layers = self.convolutions()
        calls: dict[str, Callable[[], Any]] = {
            OURS: lambda: [convolution_norm(c) for c in layers],
            PAPER: lambda: [figure(PAPER, c) for c in layers],
        }
        if self.axis == "depth":
            shape = (self.channels, self.size, self.size)
            calls[AUDIT] = functools.partial(lipaudit.audit, self.network(), input_shape=shape)
        return calls


def points(axis: str, values: Sequence[int], size: int) -> Iterator[Point]:
    fields = {"input size": "size", "channels": "channels", "kernel size": "kernel", "depth": "depth"}
    for value in values:
        varied: dict[str, Any] = {fields[axis]: value}
        yield replace(Point(axis, value, size), **varied)


def measure_axis(
    axis: str, values: Sequence[int], size: int, limit: float, repeats: int
) -> Iterator[tuple[str, int, str, float]]:
    """Axis, value, method and seconds of every point that is not left out."""
    past: list[tuple[int, float]] = []  # values and seconds of the paper's algorithm
    for point in points(axis, values, size):
        calls, expected = point.calls(), forecast(past, point.value)
        if expected > limit:
            del calls[PAPER]
            print(f"{axis} {point.value}: {PAPER} left out, about {expected:.0f} s", flush=True)
        timings = take_turns([Call(call, repeats, few=1) for call in calls.values()])
        for name, timing in zip(calls, timings, strict=True):
            print(f"{axis} {point.value}: {name} {timing.seconds:.4f} s", flush=True)
            if name == PAPER:
                past.append((point.value, timing.seconds))
            yield axis, point.value, name, timing.seconds


def forecast(past: Sequence[tuple[int, float]], value: int) -> float:
    """The seconds to expect at ``value``, on a line through the last two points in logarithms; 0 where there are no two.

    >>> round(forecast([(2, 1.0), (4, 4.0)], 16))
    64
    """
    if len(past) < 2:
        return 0.0
    (x, a), (y, b) = past[-2:]
    return b * math.exp(math.log(value / y) * math.log(b / a) / math.log(y / x))


def draw(rows: Sequence[tuple[str, int, str, float]], path: Path) -> None:
    """Four panels, seconds against the number that is varied, both logarithmic."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    image = Figure(figsize=(11, 8), layout="constrained")
    FigureCanvasAgg(image)
    names = {PAPER: "paper's algorithm (Gram iteration 2023, 7 products, float32)"}
    for panel, axis in zip(image.subplots(2, 2).flat, AXES, strict=True):
        for colour, name in enumerate((OURS, PAPER, AUDIT)):
            here = [(value, seconds) for a, value, n, seconds in rows if (a, n) == (axis, name)]
            if here:
                panel.loglog(*zip(*here, strict=True), "o-", color=f"C{colour}", label=names.get(name, name))
        values = sorted({value for a, value, *_ in rows if a == axis})
        if not values:
            panel.set_axis_off()
            continue
        panel.set_xticks(values, list(map(str, values)))
        panel.minorticks_off()
        panel.set(xlabel=axis, ylabel="CPU seconds, one thread")
        panel.grid(visible=True, alpha=0.3)
    handles = {label: h for panel in image.axes for h, label in zip(*panel.get_legend_handles_labels(), strict=True)}
    image.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3)
    image.savefig(path, dpi=110)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("scaling"), help="a folder for the CSV file and the image"
    )
    parser.add_argument("--axes", nargs="+", choices=tuple(AXES), default=tuple(AXES))
    parser.add_argument("--most", type=int, default=1024, help="the largest number on any axis")
    parser.add_argument("--size", type=int, default=56, help="pixels per side on the other axes")
    parser.add_argument("--limit", type=float, default=4.0, help="seconds that a point of the paper's may take")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    lipaudit.audit(
        Point("depth", 1, size=4, channels=1).network(), input_shape=(1, 4, 4)
    )  # the first loads what it needs
    args.output.mkdir(parents=True, exist_ok=True)
    rows: list[tuple[str, int, str, float]] = []
    for axis in args.axes:
        values = [value for value in AXES[axis] if value <= args.most]
        rows.extend(measure_axis(axis, values, args.size, args.limit, args.repeats))
    with (args.output / "scaling.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(("axis", "value", "method", "cpu_seconds"))
        writer.writerows(rows)
    draw(rows, args.output / "scaling.png")
    print(f"{args.output / 'scaling.csv'} and {args.output / 'scaling.png'}")


if __name__ == "__main__":
    main()
