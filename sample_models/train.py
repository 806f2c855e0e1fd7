"""Train the sample networks and write them as ONNX (opset 17) and safetensors, with their test accuracies.

The matrices of ``digits_one_lipschitz`` stay orthogonal during training (``torch.nn.utils.parametrizations.orthogonal``), and are
written as plain weights. Its loss is on certified radii, and it is written with its certified accuracy: the share of test images that
are classified rightly and keep their class under every change of l2 norm below a radius.

Run from the root of the checkout: ``python -m sample_models.train``. Everything is seeded and runs on one thread, so
that a second run on the same machine writes the same bytes. Ends with an error if a network misses 95 % accuracy.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrizations, parametrize

from lipaudit.training.margins import certified_radii, radius_cross_entropy
from sample_models import data, models

FOLDER = Path(__file__).resolve().parent
OPSET = 17
REQUIRED_ACCURACY = 0.95
RADII = {"36/255": 36 / 255, "72/255": 72 / 255, "108/255": 108 / 255, "1": 1.0}


@dataclass(frozen=True)
class Recipe:
    """How one network is trained: AdamW with a one-cycle rate.

    ``segments`` asks for masks instead of classes. ``orthogonal`` keeps the matrices of dense layers orthogonal, so that the network is
    1-Lipschitz, and trains for certified radii.
    """

    factory: Callable[[], nn.Module]
    epochs: int
    rate: float = 4e-3
    weight_decay: float = 0.1
    batch: int = 64
    segments: bool = False
    orthogonal: bool = False

    def loss(self, logits: Tensor, classes: Tensor) -> Tensor:
        """What is minimised for classes."""
        if self.orthogonal:
            return radius_cross_entropy(logits, classes, temperature=24.0, radius=0.5)
        return functional.cross_entropy(logits, classes, label_smoothing=0.05)


RECIPES = {
    "digits_resnet": Recipe(models.digits_resnet, epochs=20),
    "digits_mobile": Recipe(models.digits_mobile, epochs=30),
    "digits_se": Recipe(models.digits_se, epochs=30),
    "digits_vit": Recipe(models.digits_vit, epochs=60, rate=2e-3),
    "digits_unet": Recipe(models.digits_unet, epochs=20, segments=True),
    "digits_one_lipschitz": Recipe(
        models.digits_one_lipschitz, epochs=30, rate=5e-3, weight_decay=0.0, orthogonal=True
    ),
}


def augment(images: Tensor, generator: torch.Generator) -> Tensor:
    """Each image rotated by up to 8 degrees, scaled by up to 8 % and shifted by up to one pixel."""

    def uniform(limit: float) -> Tensor:
        return limit * (2 * torch.rand(len(images), generator=generator) - 1)

    angle, scale = uniform(math.radians(8)), 1 + uniform(0.08)
    cos, sin = scale * angle.cos(), scale * angle.sin()
    shift = 2 / models.IMAGE_SIZE
    rows = [cos, -sin, uniform(shift), sin, cos, uniform(shift)]
    grid = functional.affine_grid(torch.stack(rows, 1).reshape(-1, 2, 3), list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, align_corners=False)


def train(recipe: Recipe, seed: int = 0) -> nn.Module:
    """The trained network, in eval mode."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = recipe.factory().train()
    dense = [module for module in model.modules() if isinstance(module, nn.Linear)] if recipe.orthogonal else []
    for module in dense:
        parametrizations.orthogonal(module, orthogonal_map="cayley")
    images, classes = data.load_classes("train")
    decayed = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": recipe.weight_decay}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=recipe.rate)
    steps = recipe.epochs * (len(images) // recipe.batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.rate, total_steps=steps)
    for _ in range(recipe.epochs):
        order = torch.randperm(len(images), generator=generator)
        for index in order[: len(images) // recipe.batch * recipe.batch].reshape(-1, recipe.batch):
            batch = augment(images[index], generator)
            if recipe.segments:
                logits = model(data.add_noise(batch, generator))
                loss = functional.binary_cross_entropy_with_logits(logits, data.foreground(batch))
            else:
                loss = recipe.loss(model(batch), classes[index])
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            schedule.step()
    for module in dense:
        parametrize.remove_parametrizations(module, "weight")
    return model.eval()


def load_test(recipe: Recipe) -> data.Split:
    """The test split of the recipe's task."""
    return data.load_masks("test") if recipe.segments else data.load_classes("test")


def accuracy(logits: Tensor, targets: Tensor) -> float:
    """The share of right classes (targets of integers), or of right pixels (targets of masks).

    >>> accuracy(torch.tensor([[2.0, 1.0], [0.0, 1.0]]), torch.tensor([0, 0]))
    0.5
    """
    guess = (logits > 0).float() if targets.is_floating_point() else logits.argmax(1)
    return (guess == targets).float().mean().item()


def certified_accuracy(logits: Tensor, classes: Tensor) -> dict[str, float]:
    """By radius, the share of right classes that a 1-Lipschitz network keeps under every change of l2 norm below it."""
    radii = certified_radii(logits, classes)
    return {name: round((radii > radius).float().mean().item(), 6) for name, radius in RADII.items()}


def write(model: nn.Module, name: str, folder: Path) -> None:
    """Write ``name.safetensors`` and ``name.onnx`` (batch of one, weights inside, batch norms kept apart)."""
    save_file({key: value.contiguous() for key, value in model.state_dict().items()}, folder / f"{name}.safetensors")
    size = models.IMAGE_SIZE
    with warnings.catch_warnings():
        # The TorchScript exporter is deprecated, but the new one cannot write opset 17.
        warnings.simplefilter("ignore", DeprecationWarning)
        # Constant folding is asked for on purpose; the model is in eval mode.
        warnings.filterwarnings("ignore", "It is recommended that constant folding be turned off", UserWarning)
        torch.onnx.export(
            model,
            (torch.zeros(1, 1, size, size),),
            folder / f"{name}.onnx",
            dynamo=False,
            opset_version=OPSET,
            input_names=["image"],
            output_names=["logits"],
            training=torch.onnx.TrainingMode.PRESERVE,  # the default merges batch norms into convolutions
        )


def main() -> int:
    """Train, measure and write the networks named on the command line (all by default)."""
    parser = argparse.ArgumentParser(prog="python -m sample_models.train", description=main.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(RECIPES)}")
    parser.add_argument("-o", "--output", type=Path, default=FOLDER, help="folder to write to (default: this one)")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(RECIPES)
    if unknown:
        parser.error(f"no such network: {', '.join(sorted(unknown))}")

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    record_file = arguments.output / "accuracy.json"
    record = json.loads(record_file.read_text()) if record_file.exists() else {}
    for name in arguments.names or RECIPES:
        recipe = RECIPES[name]
        model = train(recipe)
        split = load_test(recipe)
        with torch.no_grad():
            logits = model(split.images)
        reached = accuracy(logits, split.targets)
        parameters = sum(p.numel() for p in model.parameters())
        print(f"{name}: {reached:.4f} test accuracy, {parameters} parameters", flush=True)
        if reached < REQUIRED_ACCURACY:
            print(f"{name} misses the required {REQUIRED_ACCURACY:.2f}; nothing written for it", file=sys.stderr)
            return 1
        write(model, name, arguments.output)
        record[name] = {"test_accuracy": round(reached, 6), "parameters": parameters}
        if recipe.orthogonal:
            record[name]["certified_accuracy"] = certified_accuracy(logits, split.targets)
        record_file.write_text(json.dumps(record, indent=2, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
