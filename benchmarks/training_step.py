"""What a training step costs with each regularization, all methods in turn in one interleaved run.

    python -m benchmarks.training_step [digits|resnet18] [--batch N] [--rounds 10]

``digits`` is the network of ``lipaudit reproduce regularization`` on its images, ``resnet18`` the variant for CIFAR-10 on random images.
A round is 8 steps with each method; the figure is the median over the rounds.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import torch
from tabulate import tabulate

from lipaudit.experiments.harness.images import Images, digits
from lipaudit.experiments.paper2023.regularization import CIFAR, DIGITS
from lipaudit.experiments.paper2023.regularized_training import METHODS, step_seconds


def random_images(count: int) -> Images:
    """Images of the size of CIFAR-10."""
    generator = torch.Generator().manual_seed(0)
    images, classes = torch.randn(count, 3, 32, 32, generator=generator), torch.arange(count) % 10
    return Images("random", images, classes, images, classes)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training_step", description=__doc__.splitlines()[0])
    parser.add_argument("network", nargs="?", default="digits", choices=["digits", "resnet18"])
    parser.add_argument("--batch", type=int, help="default: 64 digits, 16 images")
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    recipe, default = (DIGITS, 64) if arguments.network == "digits" else (CIFAR, 16)
    recipe = replace(recipe, batch=arguments.batch or default)
    images = digits() if arguments.network == "digits" else random_images(2 * recipe.batch)
    seconds = step_seconds(METHODS, recipe, images, arguments.rounds, torch.device("cpu"), 0)
    base = seconds[METHODS[0].name]
    rows = [(name, f"{1000 * s:.1f}", f"{1000 * (s - base):.1f}", f"{s / base:.2f}") for name, s in seconds.items()]
    print(tabulate(rows, ("method", "ms / step", "above the baseline", "/ baseline"), "github", disable_numparse=True))


if __name__ == "__main__":
    main()
