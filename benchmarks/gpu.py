"""Time the norms of all convolutions of a network on a GPU: lipaudit's certified brackets beside published methods.

From the root of the checkout, in the environment of the project:

    python -m benchmarks.gpu                                        # ResNet-18/50/152 and VGG16 at 224: under 5 minutes
    python -m benchmarks.gpu --device cpu --networks resnet18 --input 32 --repeats 1    # a dry run

Random weights, the hard case: nearly flat spectra leave little to prune. Every method gets the same kernels, already on the device,
in float32; lipaudit computes in float64 and certifies both ends at the given tolerance, all layers in one call; the others
compute in float32 with TF32 off, layer after layer, with the iterations of the paper ([P] section 5: Gram iteration 7 products,
Singla 50, Araujo 20 samples, Ryu 100). Times are medians of wall-clock seconds after one untimed call, the device synchronised
before and after. "below" counts layers whose figure lies under the certified lower bound of the layer: no bound there.

The column "reference" repeats seconds of the authors' own implementation (lip4conv) and of the implementations that come with it,
measured on an H100 at 224 pixels (7 products, float32, not certified), for comparison with the same card only.
"""

from __future__ import annotations

import argparse
import math
import platform
import statistics
import time
import warnings
from collections.abc import Callable
from typing import TypeVar

import torch

from benchmarks.layers import convolutions
from lipaudit.spectral.convolution import convolution_norm
from lipaudit.spectral.geometry import Convolution
from lipaudit.spectral.many import convolution_norms
from lipaudit.spectral.published.registry import Options, find_method, measure

NETWORKS = ("resnet18", "resnet50", "resnet152", "vgg16")
ITERATIONS = {"delattre2023": 7, "singla2021": 50, "araujo2021": 20, "ryu2019": 100}
REFERENCE = {
    "delattre2023": {"resnet18": 0.055, "resnet50": 0.58, "resnet152": 1.04, "vgg16": 0.36},
    "singla2021": {"resnet18": 0.42, "resnet50": 1.23, "resnet152": 4.27, "vgg16": 0.28},
    "ryu2019": {"resnet18": 0.64, "resnet50": 1.70, "resnet152": 2.91, "vgg16": 0.30},
}
_T = TypeVar("_T")


def timed(function: Callable[[], _T], device: str, repeats: int) -> tuple[float, _T]:
    """The median of the wall-clock seconds of several calls after one that is not counted, and the last result."""
    seconds = []
    for _ in range(repeats + 1):
        synchronise(device)
        start = time.perf_counter()
        result = function()
        synchronise(device)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[1:]), result


def synchronise(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def read_backs(function: Callable[[], object]) -> int:
    """How often the host waits for the GPU."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            function()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return sum("synchronizing CUDA operation" in str(w.message) for w in caught)


def network(name: str, args: argparse.Namespace) -> None:
    """One table."""
    layers = list(convolutions(name, args.input, args.device).values())
    peak = ""
    if args.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    seconds, norms = timed(lambda: convolution_norms(layers, args.tol), args.device, args.repeats)
    lowers = [norm.bracket.log_lower for norm in norms]
    uppers = [norm.bracket.log_upper for norm in norms]
    if args.device == "cuda":
        waits = read_backs(lambda: convolution_norms(layers, args.tol))
        peak = f", {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB, {waits} read-backs"
    print(f"\n{name}, {len(layers)} convolutions, {args.input} pixels")
    print(f"{'method':14} {'seconds':>9} {'reference':>9} {'ratio':>7} {'log10 product':>14} {'below':>6}")
    loosest = max(upper - lower for lower, upper in zip(lowers, uppers, strict=True))
    print(
        f"{'lipaudit':14} {seconds:9.4f} {'':>9} {1:7.2f} {sum(uppers) / math.log(10):14.4f} {0:6}   certified; "
        f"lower {sum(lowers) / math.log(10):.4f}, widest upper/lower {math.exp(loosest):.4f}{peak}",
        flush=True,
    )
    for method, iterations in ITERATIONS.items():
        if method not in args.methods:
            continue
        options = Options(iterations=iterations, dtype=torch.float32)
        repeats = min(args.repeats, args.published_repeats)
        spent, figures = timed(lambda m=method, o=options: values(layers, m, o), args.device, repeats)
        below = sum(figure < lower for figure, lower in zip(figures, lowers, strict=True))
        reference = REFERENCE.get(method, {}).get(name) if args.input == 224 else None
        print(
            f"{method:14} {spent:9.4f} {'' if reference is None else f'{reference:.3f}':>9} {spent / seconds:7.2f} "
            f"{sum(figures) / math.log(10):14.4f} {below:6}",
            flush=True,
        )


def values(layers: list[Convolution], method: str, options: Options) -> list[float]:
    """The logarithms of a published method's figures."""
    return [measure(find_method(method), layer, options).log_upper for layer in layers]


def check(args: argparse.Namespace) -> None:
    """The brackets from the device and those found one by one on the CPU hold the same norms."""
    layers = convolutions("resnet18", min(args.input, 64), args.device)
    worst = -math.inf
    for layer, norm in zip(layers.values(), convolution_norms(list(layers.values()), args.tol), strict=True):
        alone = convolution_norm(layer.to("cpu"), args.tol).bracket
        worst = max(worst, norm.bracket.log_lower - alone.log_upper, alone.log_lower - norm.bracket.log_upper)
    if worst > 0:
        raise SystemExit(f"brackets from {args.device} and from the CPU do not overlap")
    print(f"brackets from {args.device} and from the CPU overlap in all {len(layers)} layers of resnet18")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=NETWORKS, metavar="NAME", help="torchvision models")
    parser.add_argument("--methods", nargs="*", default=tuple(ITERATIONS), choices=tuple(ITERATIONS))
    parser.add_argument("--input", type=int, default=224, help="pixels per side")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--tol", type=float, default=1e-3, help="relative tolerance of lipaudit's norms")
    parser.add_argument("--repeats", type=int, default=5, help="of lipaudit's norms")
    parser.add_argument("--published-repeats", type=int, default=2, help="of the other methods")
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no CUDA device here: run with --device cpu (and a smaller --input)")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    card = (
        torch.cuda.get_device_name()
        if args.device == "cuda"
        else f"{platform.machine()} CPU, {torch.get_num_threads()} threads"
    )
    print(f"{card}, torch {torch.__version__}, tolerance {args.tol:g}")
    check(args)
    for name in args.networks:
        network(name, args)


if __name__ == "__main__":
    main()
