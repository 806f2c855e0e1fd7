"""Training with regularized norms: the published terms, the networks, the images, and what is concluded."""

from __future__ import annotations

import hashlib
import math
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import lipaudit
from lipaudit.cli import main
from lipaudit.errors import UsageError
from lipaudit.experiments.harness.images import Images, cifar10, digits
from lipaudit.experiments.harness.registry import Request
from lipaudit.experiments.paper2023 import regularization
from lipaudit.experiments.paper2023.regularization import claims, histogram
from lipaudit.experiments.paper2023.regularized_training import (
    METHODS,
    OURS,
    OURS_LAZY,
    Recipe,
    Trained,
    step_seconds,
    train,
)
from lipaudit.experiments.paper2023.regularizers import Bound, PublishedRegularizer, araujo, ryu, singla
from lipaudit.experiments.paper2023.residual_networks import (
    ResidualNetwork,
    cifar_resnet18,
    digits_network,
    without_batch_norms,
)
from lipaudit.spectral.convolution.geometry import Convolution

CPU = torch.device("cpu")


def convolution(kernel: torch.Tensor, stride: int = 1) -> Convolution:
    return Convolution(kernel, (5, 6), (stride, stride), ((1, 1), (1, 1)), (1, 1))


def true_norm(kernel: torch.Tensor, stride: int) -> float:
    c_in = kernel.shape[1]
    basis = torch.eye(c_in * 30, dtype=kernel.dtype).reshape(-1, c_in, 5, 6)
    return float(np.linalg.norm(functional.conv2d(basis, kernel, stride=stride, padding=1).flatten(1).numpy(), 2))


def singla_norm(kernel: torch.Tensor) -> float:
    o, i, h, w = kernel.shape
    reshaped = [
        kernel.permute(0, 2, 1, 3).reshape(o * h, i * w),
        kernel.permute(0, 3, 1, 2).reshape(o * w, i * h),
        kernel.reshape(o, -1),
        kernel.permute(0, 2, 3, 1).reshape(-1, i),
    ]
    return math.sqrt(h * w) * min(float(np.linalg.norm(m.numpy(), 2)) for m in reshaped)


def araujo_bound(kernel: torch.Tensor, samples: int) -> float:
    squares = np.abs(np.fft.fft2(kernel.numpy(), s=(samples, samples))) ** 2
    larger = 0 if kernel.shape[0] > kernel.shape[1] else 1  # the sum over the rows or the columns, whichever are fewer
    return math.sqrt(squares.sum(larger).max((1, 2)).sum()) / (1 - 2 / samples)


@pytest.mark.parametrize("stride", [1, 2])
def test_the_published_terms_are_what_their_papers_define(stride: int) -> None:
    kernel = torch.randn(3, 4, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    generator = torch.Generator().manual_seed(0)
    case = convolution(kernel, stride)
    assert math.isclose(float(ryu(case, 400, generator)), true_norm(kernel, stride), rel_tol=1e-9)
    assert math.isclose(float(singla(case, 400, generator)), singla_norm(kernel), rel_tol=1e-9)
    assert math.isclose(float(araujo(case, 10, generator)), araujo_bound(kernel, 10), rel_tol=1e-12)
    assert float(ryu(case, 1, generator)) < true_norm(kernel, stride)


@pytest.mark.parametrize("bound", [ryu, singla, araujo])
def test_the_published_terms_have_gradients(bound: Bound) -> None:
    kernel = torch.randn(3, 4, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3)).requires_grad_()
    direction = torch.randn(3, 4, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    iterations = 10 if bound is araujo else 400

    def value(step: float) -> torch.Tensor:
        return bound(convolution(kernel + step * direction), iterations, torch.Generator().manual_seed(0))

    (slope,) = torch.autograd.grad(value(0.0), kernel)
    difference = float((value(1e-5) - value(-1e-5)).detach()) / 2e-5
    assert math.isclose(float((slope * direction).sum()), difference, rel_tol=1e-5)


def test_a_published_term_is_summed_over_the_convolutions_above_their_target() -> None:
    torch.manual_seed(0)
    net = ResidualNetwork(1, (2, 3), (1, 2), 1)
    regularizer = PublishedRegularizer(net, (1, 8, 8), {"head": None, "*": 1.2}, 0.5, araujo, 10)
    kernels = [m.weight for m in net.modules() if isinstance(m, nn.Conv2d)]
    # a 1 x 1 kernel has one symbol, and no factor
    bounds = [
        araujo_bound(k.detach(), 10) if k.shape[2] == 3 else float(torch.linalg.matrix_norm(k.detach()[:, :, 0, 0]))
        for k in kernels
    ]
    above = [b for b in bounds if b > 1.2]
    assert 0 < len(above) < len(bounds)
    loss = regularizer()
    assert math.isclose(float(loss.detach()), 0.5 * sum(above), rel_tol=1e-5)
    loss.backward()
    assert [bool(k.grad is not None and k.grad.any()) for k in kernels] == [b > 1.2 for b in bounds]
    assert net.head.weight.grad is None


def test_a_published_term_is_for_convolutions() -> None:
    with pytest.raises(TypeError, match="head is no convolution"):
        PublishedRegularizer(digits_network(), (1, 16, 16), 1.0, 1.0, araujo, 10)


def test_the_networks_have_the_layers_of_their_papers() -> None:
    def convolutions(net: nn.Module) -> list[nn.Conv2d]:
        return [m for m in net.modules() if isinstance(m, nn.Conv2d)]

    with torch.device("meta"):
        resnet = cifar_resnet18()
    assert len(convolutions(resnet)) == 20
    assert sum(p.numel() for p in resnet.parameters()) == 11_173_962  # as in the usual code for CIFAR-10
    assert len(convolutions(digits_network())) == 9
    assert digits_network()(torch.zeros(2, 1, 16, 16)).shape == (2, 10)


def test_the_audit_without_batch_norms_shows_each_convolution_by_itself() -> None:
    torch.manual_seed(0)
    net = ResidualNetwork(1, (2, 3), (1, 2), 1).eval()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.constant_(module.weight, 7.0)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    report = lipaudit.audit(without_batch_norms(net), input_shape=(1, 8, 8))
    rows = {row.name: row for row in report.layers}
    kernel = net.blocks[1].conv1.weight.detach()
    bracket = lipaudit.conv_norm(kernel, input_size=(8, 8), stride=2, padding=1)
    assert rows["blocks.1.conv1"].upper_bound == pytest.approx(math.exp(bracket.log_upper), rel=1e-9)
    assert {name for name in rows if "norm" in name} == set()
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_the_digits_are_split_for_training_and_testing() -> None:
    images = digits()
    assert (images.train.shape, images.test.shape) == ((1347, 1, 16, 16), (450, 1, 16, 16))
    assert (float(images.train.min()), float(images.train.max())) == (0.0, 1.0)
    rows = {tuple(image.flatten().tolist()) for image in images.train}
    assert not rows & {tuple(image.flatten().tolist()) for image in images.test}
    assert sorted(set(images.test_classes.tolist())) == list(range(10))
    index = torch.tensor([3, 5])
    drawn, classes = images.batch(index, torch.Generator().manual_seed(0))
    assert torch.equal(drawn, images.train[index])
    assert torch.equal(classes, images.train_classes[index])


def test_a_shifted_image_is_the_image_seen_through_a_moved_window() -> None:
    count = 40
    source = torch.rand(count, 3, 6, 5, generator=torch.Generator().manual_seed(0))
    images = Images("x", source, torch.arange(count), source, torch.arange(count), shifted=2)
    drawn, _ = images.batch(torch.arange(count), torch.Generator().manual_seed(1))
    seen = set()
    for original, found in zip(source, drawn, strict=True):
        for mirrored in (False, True):
            padded = functional.pad(original.flip(2) if mirrored else original, (2, 2, 2, 2))
            for top in range(5):
                for left in range(5):
                    if torch.equal(padded[:, top : top + 6, left : left + 5], found):
                        seen.add((mirrored, top, left))
                        break
    assert len(seen) > 15
    assert {mirrored for mirrored, _, _ in seen} == {False, True}


@pytest.fixture
def cifar_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as torchvision's CIFAR10 reads it, with four images to train on and two to test on."""
    from torchvision.datasets import CIFAR10

    inner = tmp_path / "cifar-10-batches-py"
    inner.mkdir()
    lists = {}
    for name, count in (("data_batch_1", 4), ("test_batch", 2)):
        pixels = np.full((count, 3072), 255, dtype=np.uint8)
        blob = pickle.dumps({"data": pixels, "labels": list(range(count))})
        (inner / name).write_bytes(blob)
        lists[name] = [[name, hashlib.md5(blob).hexdigest()]]
    meta = pickle.dumps({"label_names": [str(i) for i in range(10)]})
    (inner / "batches.meta").write_bytes(meta)
    monkeypatch.setattr(CIFAR10, "train_list", lists["data_batch_1"])
    monkeypatch.setattr(CIFAR10, "test_list", lists["test_batch"])
    monkeypatch.setitem(CIFAR10.meta, "md5", hashlib.md5(meta).hexdigest())
    return tmp_path


def test_cifar_is_read_from_a_folder_and_normalised(cifar_folder: Path) -> None:
    images = cifar10(cifar_folder)
    assert (images.train.shape, images.test.shape, images.shifted) == ((4, 3, 32, 32), (2, 3, 32, 32), 4)
    torch.testing.assert_close(images.train[0, :, 0, 0], torch.tensor([2.0591, 2.1265, 2.1158]), rtol=0, atol=1e-3)
    assert images.train_classes.tolist() == [0, 1, 2, 3]


def test_a_changed_or_missing_cifar_is_refused(cifar_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    (cifar_folder / "cifar-10-batches-py" / "test_batch").write_bytes(b"other")
    for folder in (cifar_folder, tmp_path_factory.mktemp("empty")):
        with pytest.raises(UsageError, match=r"does not hold CIFAR-10 .*unpack cifar-10-python\.tar\.gz"):
            cifar10(folder)


def few(count: int = 64) -> Images:
    images = digits()
    return replace(images, train=images.train[:count], test=images.test[:50], test_classes=images.test_classes[:50])


def test_the_experiment_reports_every_method_layer_and_seed() -> None:
    recipe = Recipe(lambda: ResidualNetwork(1, (2, 3), (1, 2), 1), epochs=1, batch=32)
    seen: list[tuple[int, int]] = []
    request = Request(seed=5, progress=lambda done, total, _what: seen.append((done, total)))
    result = regularization.run(request, recipe, few(), seeds=2, rounds=1)
    names = [method.name for method in METHODS]
    accuracy, layers = result.tables
    assert [row[0] for row in accuracy.rows] == names
    assert [row[0] for row in layers.rows] == [
        "stem", "blocks.0.conv1", "blocks.0.conv2", "blocks.1.conv1", "blocks.1.conv2", "blocks.1.shortcut.0",
    ]  # fmt: skip
    assert [plot.title for plot in result.plots] == [*names, "mean over the seeds"]
    assert all(sum(plot.series[0].y) == 12 for plot in result.plots[:-1])
    assert seen[-1] == (15, 15)
    assert "2 seeds from 5" in result.setting
    assert len(result.claims) == 5


def test_training_is_repeatable_and_brings_norms_to_their_target() -> None:
    recipe = Recipe(lambda: ResidualNetwork(1, (4, 6), (1, 2), 1), epochs=12, batch=32, weight=0.1)
    images = few(256)
    first, again = (train(OURS, recipe, images, 1, CPU) for _ in range(2))
    assert first == again
    free = train(METHODS[0], recipe, images, 1, CPU)
    assert max(free.norms.values()) > 1.3
    assert max(first.norms.values()) < 1.02
    assert first.accuracy > 25  # far above chance; how far depends on the rounding of a machine


def test_times_are_taken_of_every_method() -> None:
    recipe = Recipe(lambda: ResidualNetwork(1, (2,), (1,), 1), epochs=1, batch=8)
    seconds = step_seconds((METHODS[0], OURS_LAZY), recipe, few(), 2, CPU, 0)
    assert list(seconds) == ["baseline", OURS_LAZY.name]
    assert all(value > 0 for value in seconds.values())


def made_up(changes: dict[str, tuple[float, float, float]]) -> list[Trained]:
    """Two seeds of every method: accuracy, and the norms of two layers."""
    usual = {m.name: (98.0, 0.4, 3.0) for m in METHODS} | {
        OURS.name: (97.6, 0.96, 1.01),
        OURS_LAZY.name: (98.0, 0.9, 1.1),
    }
    found = []
    for name, (accuracy, low, high) in (usual | changes).items():
        found += [Trained(name, seed, accuracy, {"a": low, "b": high}, 1.0) for seed in (0, 1)]
    return found


SECONDS = {m.name: 1.0 for m in METHODS} | {OURS.name: 0.9, OURS_LAZY.name: 0.5}


def verdicts(changes: dict[str, tuple[float, float, float]], seconds: dict[str, float] = SECONDS) -> list[bool]:
    return [claim.holds for claim in claims(made_up(changes), seconds)]


def test_the_claims_hold_where_the_numbers_say_so() -> None:
    assert verdicts({}) == [True] * 5
    assert verdicts({OURS.name: (97.4, 0.96, 1.01)}) == [True, True, False, True, True]
    assert verdicts({OURS.name: (97.6, 0.94, 1.01)}) == [False, True, True, True, True]
    assert verdicts({OURS.name: (97.6, 0.96, 1.03)}) == [False, True, True, True, True]
    assert verdicts({"Ryu 2019": (98.0, 0.99, 1.0)}) == [True, False, True, True, True]
    assert verdicts({}, SECONDS | {"Ryu 2019": 0.7}) == [True, True, True, False, True]
    assert verdicts({}, SECONDS | {"Singla 2021": 0.4}) == [True, True, True, False, False]


def test_a_histogram_counts_every_norm_once() -> None:
    plot = histogram(made_up({OURS.name: (98.0, 0.96, 7.0)}), OURS.name)
    counts = plot.series[0].y
    assert (counts[10], counts[-1], sum(counts)) == (2.0, 2.0, 4.0)
    assert (plot.categories[8], plot.categories[-1]) == ("0.8", "2+")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["regularization", "--full"], "--full requires --data DIR"),
        (["regularization", "--data", "."], "--data requires --full"),
        (["regularization", "--full", "--data", "nowhere"], "--data must be a folder with CIFAR-10"),
        (["convergence", "--data", "."], "--data requires the NAME of an experiment"),
    ],
)
def test_the_folder_of_images_is_checked_first(args: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", *args]) == 2
    assert words in capsys.readouterr().err
