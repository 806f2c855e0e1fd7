"""Bounds by forms of large networks: log10 of the product and of every effort's bound, operations, CPU seconds and peak memory.

    python -m benchmarks.forms_large resnet20_cifar resnet56_cifar mobilenet_v2 efficientnet_lite0 resnet50 --effort quick standard thorough

Every line is a process of its own, so that its memory is its own. ``resnet20_cifar`` has trained weights (``--weights FOLDER``, beside the
checkout by default), ``mobilenet_v2`` and ``efficientnet_lite0`` have those of ImageNet: state dicts ``mobilenet_v2.pth`` and
``efficientnet_lite0.pth`` in the folder, random weights without. A network can also be a file or a model of lipaudit's.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch import nn

from benchmarks.forms_networks import NETWORKS, RESNET20
from lipaudit.network.efforts import EFFORTS


def main() -> None:
    """Measure every network with every effort, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="+", help=f"{', '.join(NETWORKS)}, or a file or model of lipaudit's")
    parser.add_argument("--effort", nargs="+", default=["quick"], choices=[e for e in EFFORTS if e != "none"])
    parser.add_argument("--weights", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "models")
    parser.add_argument("--here", action="store_true", help="measure one network with one effort in this process")
    arguments = parser.parse_args()
    if "resnet20_cifar" in arguments.networks and not (arguments.weights / RESNET20).is_file():
        parser.error(f"resnet20_cifar needs the file {arguments.weights / RESNET20}: name its folder with --weights")
    for name in arguments.networks:
        for effort in arguments.effort:
            if arguments.here:
                print(measured(name, effort, arguments.weights), flush=True)
                continue
            command = [sys.executable, "-m", "benchmarks.forms_large", name, "--effort", effort, "--here"]
            subprocess.run([*command, "--weights", str(arguments.weights)], check=True, env={**os.environ})


def measured(name: str, effort: str, weights: Path) -> str:
    """One line: the network, the effort, log10 of both bounds, how they were found, CPU seconds and peak memory."""
    import lipaudit

    torch.set_num_threads(1)
    torch.manual_seed(0)
    start = time.process_time()
    if name in NETWORKS:
        network, shape = NETWORKS[name](weights)
        assert isinstance(network, nn.Module)
        report = lipaudit.audit(network.eval(), input_shape=shape, effort=effort)
    else:
        report = lipaudit.audit(name, effort=effort)
    seconds = time.process_time() - start
    figures = {bound.name: bound for bound in report.network.bounds}
    forms = figures.get("forms")
    logs = {
        key: bound.figure.log10 if bound.figure is not None else math.inf for key, bound in figures.items()
    }  # fmt: skip
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    note = "" if forms is None else forms.note
    return (
        f"{name:20s} {effort:8s} product {logs['product']:8.3f} forms {logs.get('forms', math.inf):8.3f} "
        f"{seconds:7.0f} s {memory:5.2f} GiB  {note}"
    )


if __name__ == "__main__":
    main()
