"""The training script: seeded, deterministic, and strict about what it writes."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from sample_models import data, train


@pytest.fixture
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_training_twice_writes_the_same_bytes(tmp_path, one_thread):
    recipe = dataclasses.replace(train.RECIPES["digits_mobile"], epochs=1)
    for run in ("first", "second"):
        (tmp_path / run).mkdir()
        train.write(train.train(recipe), "net", tmp_path / run)
    for suffix in ("safetensors", "onnx"):
        first, second = ((tmp_path / run / f"net.{suffix}").read_bytes() for run in ("first", "second"))
        assert first == second


def test_a_network_below_the_required_accuracy_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(train.RECIPES, "digits_mobile", dataclasses.replace(train.RECIPES["digits_mobile"], epochs=1))
    monkeypatch.setattr("sys.argv", ["train", "digits_mobile", "-o", str(tmp_path)])
    threads = torch.get_num_threads()
    try:
        assert train.main() == 1
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(False)
    assert list(tmp_path.iterdir()) == []
    assert "misses the required 0.95" in capsys.readouterr().err


def test_the_splits_are_disjoint_and_stratified():
    train_split, test_split = data.load_classes("train"), data.load_classes("test")
    assert len(train_split.images) + len(test_split.images) == 1797
    shares = [torch.bincount(part.targets) / len(part.targets) for part in (train_split, test_split)]
    torch.testing.assert_close(shares[0], shares[1], rtol=0, atol=0.005)


def test_noisy_test_images_are_the_same_in_every_call():
    first, second = data.load_masks("test"), data.load_masks("test")
    assert torch.equal(first.images, second.images)
    assert first.images.min() >= 0
    assert first.images.max() <= 1
    # clipping takes some of the noise away, on the dark background half of it
    clean = data.load_classes("test").images
    assert data.NOISE_STD / 2 < (first.images - clean).square().mean().sqrt() < data.NOISE_STD


def test_a_threshold_alone_misses_the_accuracy_asked_of_the_unet():
    split = data.load_masks("test")
    assert train.accuracy(split.images - 0.5, split.targets) < train.REQUIRED_ACCURACY


def test_augmentation_keeps_what_it_does_not_touch():
    images = torch.zeros(3, 1, 16, 16)
    images[:, :, 6:10, 6:10] = 1
    moved = train.augment(images, torch.Generator().manual_seed(0))
    assert moved.shape == images.shape
    assert not torch.equal(moved, images)
    assert math.isclose(moved.sum().item(), images.sum().item(), rel_tol=0.2)
