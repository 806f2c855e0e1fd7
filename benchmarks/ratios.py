"""Time the norms of networks' convolutions against the paper's algorithm: the same layers, taking turns, on one thread.

From the root of the checkout, in the environment of the project:

    python -m benchmarks.ratios                                       # seven networks, 224 pixels, random weights: tens of minutes
    python -m benchmarks.ratios --networks resnet18 vgg16             # some of them
    python -m benchmarks.ratios --networks mobilenet_v2=weights.pth   # trained weights from a state dict
    python -m benchmarks.ratios --networks resnet50 --only-large      # kernels larger than 1 x 1 only
    python -m benchmarks.ratios --networks resnet50 --sizes 224 1024        # lipaudit alone, at two input sizes
    python -m benchmarks.ratios --networks resnet50 --tolerances 1e-3 1e-6  # lipaudit alone, at two tolerances
    python -m benchmarks.ratios --device cuda                         # on a GPU, all layers of a network in one call
    python -m benchmarks.ratios --together --networks resnet18 --input 32   # the same on the CPU, a dry run

Networks are captured and simplified as in an audit, so that every method gets the same kernels with batch norms folded; a kernel that a
network applies several times in the same geometry is measured once. On the CPU a time is the median of CPU seconds on one thread, the
methods taking turns at every layer; on a GPU it is the median of wall-clock seconds for all layers together. Random weights are the hard
case: their spectra are nearly flat. lipaudit computes in float64 and certifies both ends of its bracket; published methods compute in
float32 with the iterations of the paper ([P] section 5: Gram iteration 7 products on the grid of the input, Singla 50, Araujo 20
samples, Ryu 100). They take no account of stride and zero padding: a figure under the certified lower bound of the layer ("below") is
no bound of that layer. Compare ratios, not seconds.

On a GPU the column "reference" repeats seconds of the authors' own implementation (lip4conv) and of the implementations that come with
it, measured on an H100 at 224 pixels (7 products, float32, not certified, random weights), for comparison with the same card only.
"""

from __future__ import annotations

import argparse
import math
import platform
import resource
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from benchmarks.layers import Layer, load_layers, split_name
from benchmarks.published import ITERATIONS, PAPER, figure
from benchmarks.timing import Call, Timing, take_turns
from benchmarks.together import check_overlap, print_together
from lipaudit.spectral.convolution.norm import convolution_norm
from lipaudit.spectral.linear_map import OperatorNorm

NETWORKS = ("resnet18", "resnet50", "resnet152", "vgg16", "mobilenet_v2", "efficientnet_b0", "convnext_tiny")
PARTS: dict[str, Callable[[Layer], bool]] = {
    "all layers": lambda layer: True,  # noqa: ARG005
    "kernels larger than 1x1": lambda layer: layer.large,
    "depthwise or grouped": lambda layer: layer.depthwise,
}
SLOWEST = 5


@dataclass(frozen=True)
class Row:
    """One layer: lipaudit's time and result, and those of other methods by name."""

    layer: Layer
    ours: Timing
    others: dict[str, Timing]

    @property
    def norm(self) -> OperatorNorm:
        found: OperatorNorm = self.ours.result
        return found


def layers_of(network: str, size: str | None, args: argparse.Namespace) -> list[Layer]:
    layers = load_layers(network, size, args.weights, args.arch)
    return [layer for layer in layers if layer.large or not args.only_large]


def on_cpu(network: str, args: argparse.Namespace) -> None:
    """Every layer by every method, and what they take in all."""
    layers = layers_of(network, args.input, args)
    network, _ = split_name(network)
    print(f"\n{network}, {len(layers)} convolutions, input {args.input}")
    names = "".join(f"{method[:12]:>13}" for method in args.methods)
    print(
        f"{'layer':32} {'shape':24} {'input':>5} {'lipaudit ms':>11}{names} {'ratio':>7} {'lower':>10} {'upper':>10}  how"
    )
    rows = []
    for row in measured(layers, args):
        others = "".join(f"{1e3 * timing.seconds:13.2f}" for timing in row.others.values())
        ratio = f"{first(row).seconds / row.ours.seconds:7.1f}" if row.others else f"{'':7}"
        bracket, side = row.norm.bracket, max(row.layer.convolution.input_size)
        print(
            f"{row.layer.name[-32:]:32} {row.layer.shape:24} {side:5} {1e3 * row.ours.seconds:11.2f}{others} {ratio} "
            f"{bracket.lower:10.5f} {bracket.upper:10.5f}  {row.norm.note}",
            flush=True,
        )
        rows.append(row)
    for part, belongs in PARTS.items():
        print_totals(network, part, [row for row in rows if belongs(row.layer)])
    if args.methods:
        print_slowest(network, rows)
    widest = max(row.norm.bracket.log_upper - row.norm.bracket.log_lower for row in rows)
    print(
        f"{network}: widest upper / lower {math.exp(widest):.5f} (the lower end belongs to the layer with its padding)"
    )


def measured(layers: Sequence[Layer], args: argparse.Namespace) -> Iterator[Row]:
    for layer in layers:
        c = layer.convolution
        ours = Call(partial(convolution_norm, c, args.tol), args.repeats)
        others = [Call(partial(figure, m, c), args.published_repeats, few=1, small=0.1) for m in args.methods]
        timing, *rest = take_turns([ours, *others])
        yield Row(layer, timing, dict(zip(args.methods, rest, strict=True)))


def first(row: Row) -> Timing:
    """The timing of the first of the other methods."""
    return next(iter(row.others.values()))


def print_totals(network: str, part: str, rows: list[Row]) -> None:
    if not rows:
        return
    ours = sum(row.ours.seconds for row in rows)
    print(f"{network}: {part} ({len(rows)}): lipaudit {ours:.4f} s", end="")
    for method in rows[0].others:
        theirs = sum(row.others[method].seconds for row in rows)
        short = [row.norm.bracket.log_lower - row.others[method].result for row in rows]
        below = sum(gap > 0 for gap in short)
        by = f" (by up to {-math.expm1(-max(short)):.1e})" if below else ""
        print(f"; {method} {theirs:.4f} s, ratio {theirs / ours:.2f}, below in {below}{by}", end="")
    print(flush=True)


def print_slowest(network: str, rows: list[Row]) -> None:
    """The layers at which lipaudit loses most against the first method, or gains least."""
    order = sorted(rows, key=lambda row: first(row).seconds - row.ours.seconds)
    excess = [1e3 * (row.ours.seconds - first(row).seconds) for row in order]
    print(
        f"{network}: slower than the paper's algorithm by more than 1 ms: {sum(e > 1 for e in excess)} layers; the worst of all:"
    )
    for row, milliseconds in list(zip(order, excess, strict=True))[:SLOWEST]:
        print(f"  {milliseconds:+9.2f} ms  {row.layer.name} ({row.layer.shape}), {row.norm.note}")


def two_ways(network: str, args: argparse.Namespace) -> None:
    """lipaudit alone at two input sizes or two tolerances, taking turns at every layer."""
    if args.sizes:
        ways, kind = args.sizes, "input"
        loaded = [layers_of(network, size, args) for size in args.sizes]
        tolerances = [args.tol, args.tol]
    else:
        ways, kind = [f"{tol:g}" for tol in args.tolerances], "tolerance"
        loaded = [layers_of(network, args.input, args)] * 2
        tolerances = args.tolerances
    network, _ = split_name(network)
    print(f"\n{network}, lipaudit's ms at {kind} {ways[0]} and {ways[1]}")
    totals = [0.0, 0.0]
    for pair in zip(*loaded, strict=True):
        calls = [
            Call(partial(convolution_norm, layer.convolution, tol), args.repeats)
            for layer, tol in zip(pair, tolerances, strict=True)
        ]
        timings = take_turns(calls)
        totals = [total + timing.seconds for total, timing in zip(totals, timings, strict=True)]
        cells = " ".join(f"{1e3 * t.seconds:11.2f} {t.result.bracket.upper:12.7f} {t.result.note:20}" for t in timings)
        print(f"{pair[0].name[-32:]:32} {pair[0].shape:24} {cells}", flush=True)
    print(
        f"{network}: {kind} {ways[0]}: {totals[0]:.4f} s; {ways[1]}: {totals[1]:.4f} s; ratio {totals[1] / totals[0]:.3f}"
    )


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--networks",
        nargs="+",
        default=NETWORKS,
        metavar="SPEC[=FILE]",
        help="what lipaudit audits, with weights or none",
    )
    parser.add_argument(
        "--weights", default="random", help="random (the default, seeded), or a state dict for all networks"
    )
    parser.add_argument("--arch", help="the architecture, where a network is a file of weights")
    parser.add_argument("--methods", nargs="*", default=(PAPER,), choices=tuple(ITERATIONS), help="published methods")
    parser.add_argument("--input", default="224", help="pixels per side, or 3x224x224")
    parser.add_argument("--only-large", action="store_true", help="leave out 1 x 1 kernels")
    parser.add_argument("--sizes", nargs=2, metavar=("SMALL", "LARGE"), help="lipaudit alone at both input sizes")
    parser.add_argument("--tolerances", type=float, nargs=2, metavar="TOL", help="lipaudit alone at both tolerances")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument(
        "--together", action="store_true", help="all layers in one call, as on a GPU, after a check of its brackets"
    )
    parser.add_argument("--tol", type=float, default=1e-3, help="relative tolerance of lipaudit's norms")
    parser.add_argument("--repeats", type=int, default=5, help="of lipaudit's norms that are small")
    parser.add_argument(
        "--published-repeats", type=int, default=3, help="of the other methods where they take under 0.1 s"
    )
    args = parser.parse_args(argv)
    if args.sizes and args.tolerances:
        parser.error("--sizes and --tolerances: one at a time")
    if (args.together or args.device == "cuda") and (args.sizes or args.tolerances):
        parser.error("--sizes and --tolerances are measured on the CPU, one layer at a time")
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("no CUDA device here: leave out --device")
    return args


def main(argv: Sequence[str] | None = None) -> None:
    args = arguments(argv)
    torch.set_num_threads(1)
    name = torch.cuda.get_device_name() if args.device == "cuda" else f"{platform.machine()} CPU, 1 thread"
    print(f"{name}, torch {torch.__version__}, tolerance {args.tol:g}")
    together = args.together or args.device == "cuda"
    if together:
        check_overlap(load_layers(args.networks[0], args.input, args.weights, args.arch), args)
    for network in args.networks:
        if args.sizes or args.tolerances:
            two_ways(network, args)
        elif together:
            print_together(split_name(network)[0], layers_of(network, args.input, args), args)
        else:
            on_cpu(network, args)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\npeak memory {peak:.2f} GiB (the whole process)")


if __name__ == "__main__":
    main()
