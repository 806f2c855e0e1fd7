"""What 1-Lipschitz training does to accuracy, and how the temperature of the loss mends it, on scikit-learn's digits (16 x 16).

    python -m benchmarks.temperature

One small network, trained freely and with every layer held at norm 1 by :func:`lipaudit.training.rescale`, with the cross entropy of tau
times the logits for several tau. Printed are the accuracy on the test images, the certified bound L of the network, and the share of test
images that are classified rightly and keep their class under every change of l2 norm below a radius: the gap of the two largest
logits exceeds sqrt(2) L times the radius (Tsuzuku, Sato and Sugiyama, NeurIPS 2018).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrize

from lipaudit import audit
from lipaudit.training import rescale
from sample_models.data import Split, load_classes

TEMPERATURES = (1.0, 4.0, 16.0, 64.0)
RADIUS = 0.25
SHAPE = (1, 16, 16)


def network() -> nn.Sequential:
    """Two convolutions and a dense layer."""
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, stride=2, padding=1), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(16 * 64, 10)),
    )


def train(train_set: Split, temperature: float, bounded: bool, epochs: int, seed: int) -> nn.Sequential:
    """Adam on batches of 64; the network in evaluation mode, without parametrizations."""
    torch.manual_seed(seed)
    net = network()
    if bounded:
        rescale(net, SHAPE, iterations=6, oversampling=8)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(epochs):
        for index in torch.split(torch.randperm(len(train_set.images)), 64):
            loss = functional.cross_entropy(temperature * net(train_set.images[index]), train_set.targets[index])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    if bounded:
        for layer in net:
            if parametrize.is_parametrized(layer):
                parametrize.remove_parametrizations(layer, "weight")
    return net.eval()


def measure(net: nn.Sequential, test_set: Split) -> tuple[float, float, float]:
    """Accuracy in per cent, certified bound, certified accuracy in per cent at RADIUS."""
    bound = audit(net, input_shape=SHAPE, effort="none").network.upper_bound
    if bound is None:
        raise ValueError("the network has no bound")
    with torch.no_grad():
        logits = net(test_set.images)
    top = logits.topk(2).values
    right = logits.argmax(1) == test_set.targets
    safe = right & (top[:, 0] - top[:, 1] > math.sqrt(2) * bound * RADIUS)
    return 100 * right.float().mean().item(), bound, 100 * safe.float().mean().item()


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    train_set, test_set = load_classes("train"), load_classes("test")
    print(
        f"| layers | temperature | accuracy (%) | certified bound | certified at {RADIUS:g} (%) |\n|---|---|---|---|---|"
    )
    for bounded, temperature in ((False, 1.0), *((True, t) for t in TEMPERATURES)):
        accuracy, bound, certified = measure(
            train(train_set, temperature, bounded, options.epochs, options.seed), test_set
        )
        kind = "at most 1" if bounded else "free"
        print(f"| {kind} | {temperature:g} | {accuracy:.1f} | {bound:.3g} | {certified:.1f} |", flush=True)


if __name__ == "__main__":
    main()
