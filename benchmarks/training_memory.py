"""Memory of the gradient of all convolutions' bounds: automatic differentiation against ``lipaudit.training``.

    python -m benchmarks.training_memory [NETWORK...] [--size 224] [--products 6]

Of automatic differentiation (every iterate of the iteration kept, the input's whole grid, complex64) the live tensors are counted, on
tensors without values, since a machine need not have that much memory. Of ``lipaudit.training.spectral_norm_bound`` the live tensors
are counted in a real run, and beside them stands by how much the largest size of the process grew in it, which the allocator and the
work space of libraries are part of.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys

import torch
from tabulate import tabulate

from lipaudit.experiments.harness.live_memory import peak_bytes
from lipaudit.experiments.harness.registry import Request
from lipaudit.experiments.paper2023 import memory_table
from lipaudit.training import Geometry, spectral_norm_bound

NETWORKS = ("resnet18", "resnet34", "resnet50")
CPU = torch.device("cpu")


def counted(network: str, size: int) -> float:
    """MB of automatic differentiation."""
    layers = [layer.to(torch.device("meta")) for layer in memory_table.network_layers(network, size, Request())]
    return (peak_bytes(lambda: memory_table.gradients(layers, memory_table.autodiff), CPU) or 0) / 1e6


def measured(network: str, size: int, products: int) -> tuple[float, float]:
    """MB of live tensors, and by how much the process grew; in a process of its own the second means something."""
    layers = memory_table.network_layers(network, size, Request())
    spectral_norm_bound(
        torch.eye(2).requires_grad_()
    ).backward()  # what a first call imports is no memory of the gradient

    def gradients() -> None:
        total = torch.zeros(())
        for layer in layers:
            kernel = layer.kernel.detach().requires_grad_()
            total = total + spectral_norm_bound(kernel, Geometry.of(layer), products)
        total.backward()

    before = grown()
    gradients()
    process = grown() - before
    return (peak_bytes(gradients, CPU) or 0) / 1e6, process


def grown() -> float:
    """The largest size of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training_memory", description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", default=NETWORKS, metavar="NETWORK")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--products", type=int, default=6)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.one:
        print(*measured(arguments.networks[0], arguments.size, arguments.products))
        return
    rows = []
    for network in arguments.networks:
        options = ["--size", str(arguments.size), "--products", str(arguments.products)]
        command = [sys.executable, "-m", "benchmarks.training_memory", network, "--one", *options]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        live, process = map(float, done.stdout.split())
        automatic = counted(network, arguments.size)
        rows.append(
            (network, f"{automatic:.0f}", f"{live:.1f}", f"{process:.1f}", f"{max(live, process) / automatic:.2%}")
        )
    heads = ("network", "automatic MB", "here: live MB", "process grew by MB", "of automatic")
    print(tabulate(rows, heads, tablefmt="github", disable_numparse=True))


if __name__ == "__main__":
    main()
