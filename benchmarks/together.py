"""All layers of a network in one call, as on a GPU: wall-clock seconds; a part of ``benchmarks.ratios``."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from functools import partial

import torch

from benchmarks.layers import Layer
from benchmarks.published import REFERENCE, figure
from benchmarks.timing import read_backs, wall_clock
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.convolution.norm import convolution_norm
from lipaudit.spectral.convolution.norm_batch import convolution_norms


def figures(method: str, kernels: Sequence[Convolution]) -> list[float]:
    return [figure(method, convolution) for convolution in kernels]


def print_together(network: str, layers: Sequence[Layer], args: argparse.Namespace) -> None:
    """One table: all layers in one call by lipaudit, layer after layer by the other methods."""
    kernels = [layer.convolution.to(args.device) for layer in layers]
    if args.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    ours = wall_clock(lambda: convolution_norms(kernels, args.tol), args.device, args.repeats)
    cost = ""
    if args.device == "cuda":
        waits = read_backs(lambda: convolution_norms(kernels, args.tol))
        cost = f", {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB, {waits} read-backs"
    lowers = [norm.bracket.log_lower for norm in ours.result]
    uppers = [norm.bracket.log_upper for norm in ours.result]
    widest = max(upper - lower for lower, upper in zip(lowers, uppers, strict=True))
    print(f"\n{network}, {len(layers)} convolutions, input {args.input}")
    print(f"{'method':14} {'seconds':>9} {'reference':>9} {'ratio':>7} {'log10 product':>14} {'below':>6}")
    print(
        f"{'lipaudit':14} {ours.seconds:9.4f} {'':>9} {1:7.2f} {sum(uppers) / math.log(10):14.4f} {0:6}   certified; "
        f"widest upper / lower {math.exp(widest):.5f}{cost}",
        flush=True,
    )
    repeats = min(args.repeats, args.published_repeats)
    for method in args.methods:
        theirs = wall_clock(partial(figures, method, kernels), args.device, repeats)
        below = sum(value < lower for value, lower in zip(theirs.result, lowers, strict=True))
        reference = REFERENCE.get(method, {}).get(network) if args.input == "224" else None
        print(
            f"{method:14} {theirs.seconds:9.4f} {'' if reference is None else f'{reference:.3f}':>9} "
            f"{theirs.seconds / ours.seconds:7.2f} {sum(theirs.result) / math.log(10):14.4f} {below:6}",
            flush=True,
        )


def check_overlap(layers: Sequence[Layer], args: argparse.Namespace) -> None:
    """The brackets found all together on the device and one by one on the CPU hold the same norms."""
    together = convolution_norms([layer.convolution.to(args.device) for layer in layers], args.tol)
    for layer, norm in zip(layers, together, strict=True):
        alone = convolution_norm(layer.convolution, args.tol).bracket
        if max(norm.bracket.log_lower - alone.log_upper, alone.log_lower - norm.bracket.log_upper) > 0:
            raise SystemExit(f"{layer.name}: brackets from {args.device} and from the CPU do not overlap")
    print(
        f"brackets from {args.device}, all together, and from the CPU, one by one, overlap in all {len(layers)} layers"
    )
