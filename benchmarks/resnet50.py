"""Time the norms of a network's convolutions against the paper's algorithm, or against another input size.

From the root of the checkout, in the environment of the project:

    python -m benchmarks.resnet50                         # ResNet-50, 224 pixels, random weights: several minutes
    python -m benchmarks.resnet50 --only-large            # kernels larger than 1 x 1 only: about a minute
    python -m benchmarks.resnet50 resnet18 --input 112    # another torchvision model, another size
    python -m benchmarks.resnet50 --sizes 224 1024        # lipaudit only, cost at both sizes

The network is captured and simplified as in an audit, so that both methods get the same kernels with batch norms folded. Both
run on one thread, one after the other for each layer, and every time is the median of CPU seconds over the repeats (one
for the paper's algorithm, unless asked otherwise). Random weights are the hard case: their spectra are nearly flat. The
paper's value takes no account of stride and padding; only lipaudit's upper end is a bound. Compare ratios, not seconds.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import torch
import torchvision

import lipaudit.spectral.published  # noqa: F401  registers the methods
from lipaudit.graph.capture import capture
from lipaudit.graph.linear import CONVOLUTION
from lipaudit.graph.simplify import simplify
from lipaudit.spectral.convolution import convolution_norm
from lipaudit.spectral.geometry import Convolution
from lipaudit.spectral.published.registry import Options, find_method, measure

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Layer:
    """One convolution of the network."""

    name: str
    convolution: Convolution

    @property
    def large(self) -> bool:
        return max(self.convolution.kernel_size) > 1

    @property
    def shape(self) -> str:
        c_in, c_out = self.convolution.channels
        size = "x".join(map(str, self.convolution.kernel_size))
        groups = f" g{self.convolution.groups}" if self.convolution.groups > 1 else ""
        return f"{c_in}-{c_out} {size} s{max(self.convolution.stride)}{groups}"


def layers(name: str, size: int, state_dict: str | None, only_large: bool) -> list[Layer]:
    """The convolutions of a torchvision model on size x size inputs, weights seeded or from a state dict."""
    torch.manual_seed(0)
    model = torchvision.models.get_model(name, weights=None)
    if state_dict:
        model.load_state_dict(torch.load(state_dict, map_location="cpu", weights_only=True))
    graph = simplify(capture(model, {"input": torch.zeros(1, 3, size, size)}))
    found = [Layer(node.module, node.payload) for node in graph if node.op == CONVOLUTION]
    return [layer for layer in found if layer.large or not only_large]


def paper_value(convolution: Convolution) -> float:
    """The paper's value, in float32 as published."""
    return measure(find_method("delattre2023"), convolution, Options(dtype=torch.float32)).upper


def timed(function: Callable[[], _Result], repeats: int) -> tuple[float, _Result]:
    """The median CPU seconds of several calls, and the last result."""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        result = function()
        seconds.append(time.process_time() - start)
    return statistics.median(seconds), result


def compare(args: argparse.Namespace) -> None:
    """Both methods on every layer."""
    print(
        f"{'layer':24} {'shape':20} {'input':>5} {'paper s':>9} {'ours s':>8} {'ratio':>7} "
        f"{'paper':>9} {'lower':>9} {'upper':>9}  how"
    )
    totals = {"all layers": [0.0, 0.0], "kernels larger than 1x1": [0.0, 0.0]}
    for layer in layers(args.name, args.input, args.state_dict, args.only_large):
        convolution = layer.convolution
        ours, norm = timed(lambda c=convolution: convolution_norm(c, args.tol), args.repeats)
        paper, value = timed(lambda c=convolution: paper_value(c), args.paper_repeats)
        bracket = norm.bracket
        print(
            f"{layer.name:24} {layer.shape:20} {max(convolution.input_size):5} {paper:9.3f} {ours:8.3f} {paper / ours:7.1f} "
            f"{value:9.5f} {bracket.lower:9.5f} {bracket.upper:9.5f}  {norm.note}",
            flush=True,
        )
        for key, counts in (("all layers", not args.only_large), ("kernels larger than 1x1", layer.large)):
            if counts:
                totals[key][0] += paper
                totals[key][1] += ours
    for key, (paper, ours) in totals.items():
        if ours:
            print(f"{key}: paper {paper:.2f} s, lipaudit {ours:.2f} s, ratio {paper / ours:.1f}")


def compare_sizes(args: argparse.Namespace) -> None:
    """lipaudit alone at two input sizes, interleaved."""
    small, large = args.sizes
    print(f"{'layer':24} {'shape':20} {'s at':>6} {small:<6} {'s at':>6} {large:<6} {'upper':>9} {'upper':>9}")
    totals = [0.0, 0.0]
    for pair in _pairs(args):
        results = [timed(lambda x=x: convolution_norm(x.convolution, args.tol), args.repeats) for x in pair]
        for i, (seconds, _) in enumerate(results):
            totals[i] += seconds
        (first, a), (second, b) = results
        print(
            f"{pair[0].name:24} {pair[0].shape:20} {first:13.3f} {second:13.3f} {a.bracket.upper:9.5f} {b.bracket.upper:9.5f}",
            flush=True,
        )
    print(f"total: {totals[0]:.2f} s at {small}, {totals[1]:.2f} s at {large}, ratio {totals[1] / totals[0]:.2f}")


def _pairs(args: argparse.Namespace) -> Iterator[tuple[Layer, Layer]]:
    first, second = (layers(args.name, size, args.state_dict, args.only_large) for size in args.sizes)
    yield from zip(first, second, strict=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", default="resnet50", help="a torchvision model")
    parser.add_argument("--input", type=int, default=224, help="pixels per side")
    parser.add_argument(
        "--sizes", type=int, nargs=2, metavar=("SMALL", "LARGE"), help="time lipaudit alone at both sizes"
    )
    parser.add_argument("--only-large", action="store_true", help="leave out 1 x 1 kernels")
    parser.add_argument("--state-dict", help="a state dict of the model instead of random weights")
    parser.add_argument("--tol", type=float, default=1e-3, help="relative tolerance of lipaudit's norms")
    parser.add_argument("--repeats", type=int, default=3, help="of lipaudit's norms")
    parser.add_argument("--paper-repeats", type=int, default=1, help="of the paper's algorithm")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.sizes:
        compare_sizes(args)
    else:
        compare(args)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB (whole process)")


if __name__ == "__main__":
    main()
