"""What a user may ask of a domain, and every way to ask wrongly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from lipaudit.auditing.domain import override_preprocessing, pixels_of, resolve_domain
from lipaudit.auditing.request import AuditOptions
from lipaudit.errors import UsageError
from lipaudit.frontends.loaded import LoadedModel, Preprocessing

IMAGENET = Preprocessing((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def loaded(*shapes: tuple[int, ...], known: Preprocessing | None = IMAGENET) -> LoadedModel:
    inputs = {f"x{i}": shape for i, shape in enumerate(shapes)}
    return LoadedModel(nn.Identity(), "net.onnx", "onnx", inputs, preprocessing=known)


@pytest.fixture
def cat(tmp_path: Path) -> str:
    path = tmp_path / "cat.png"
    Image.new("RGB", (6, 4), (255, 0, 51)).save(path)
    return str(path)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"domain": "box"}, "there is no domain 'box': choose one of global, pixels, ball"),
        ({"domain": "pixels", "around": "cat.png"}, "around requires domain='ball'"),
        ({"radius": 1.0}, "radius requires domain='ball'"),
        ({"norm_domain": "linf"}, "norm_domain='linf' requires domain='ball'"),
        ({"norm_domain": "l1"}, "there is no norm_domain 'l1': choose one of l2, linf"),
        ({"domain": "ball"}, "requires its centre and its radius"),
        ({"domain": "ball", "around": "cat.png"}, "requires its centre and its radius"),
        ({"domain": "ball", "radius": 1.0}, "requires its centre and its radius"),
        *(
            ({"domain": "ball", "around": "cat.png", "radius": radius}, "radius must be a number above 0, got ")
            for radius in (0.0, -1.0, float("nan"), float("inf"))
        ),
        ({"domain": "ball", "around": np.zeros(3), "radius": 1.0}, "the name of a file or a tensor, got a ndarray"),
    ],
)
def test_a_request_that_cannot_be(request_: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        AuditOptions(**request_)


@pytest.mark.parametrize(
    ("mean", "std", "message"),
    [
        ((0.5,), None, "mean requires std"),
        (None, (0.5,), "std requires mean"),
        ((0.0,), (0.0,), r"std must be finite numbers other than 0 .* got \(0.0,\)"),
        ((0.0,), (float("nan"),), "std must be finite numbers other than 0"),
        ((float("inf"),), (1.0,), "mean must be finite numbers, got "),
        ((0.0, 0.0), (1.0, 1.0, 1.0), "mean has 2 numbers and std has 3"),
        ((), (1.0,), r"mean must be a number, or one per channel, such as .* got \(\)"),
        ((1e308,), (1e-9,), "take pixels beyond"),
    ],
)
def test_a_normalisation_that_cannot_be(mean: Any, std: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        AuditOptions(mean=mean, std=std)


@pytest.mark.parametrize(
    ("shapes", "mean", "message"),
    [
        (((1, 1, 8, 8),), (0.0, 0.0, 0.0), r"it has 1 channel; give one number per channel"),
        (((1, 4, 8, 8),), (0.0, 0.0, 0.0), r"mean 0,0,0 and std 1 do not fit input x0 of shape \(1, 4, 8, 8\)"),
        (((1, 8),), (0.0,), "not an image"),
        (((1, 3, 8, 8), (1, 8)), (0.0,), "input x1 .* not an image"),
    ],
)
def test_a_normalisation_that_does_not_fit_the_input(shapes: Any, mean: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        override_preprocessing(loaded(*shapes, known=None), mean, (1.0,))


def test_what_the_user_gives_replaces_the_models_own() -> None:
    model = loaded((1, 3, 8, 8))
    assert override_preprocessing(model, None, None) == IMAGENET
    assert override_preprocessing(model, (0.5,), (0.25,)) == Preprocessing((0.5,), (0.25,))


def test_pixels_need_a_known_normalisation_that_fits() -> None:
    with pytest.raises(UsageError, match=r"the normalisation of pixels of net.onnx is not known: give mean and std"):
        resolve_domain(AuditOptions(domain="pixels"), loaded((1, 3, 8, 8), known=None))
    with pytest.raises(UsageError, match="do not fit"):
        resolve_domain(AuditOptions(domain="pixels"), loaded((1, 4, 8, 8)))
    assert pixels_of(loaded((1, 3, 8, 8), known=None)) is None
    assert pixels_of(loaded((1, 4, 8, 8))) is None
    assert pixels_of(loaded((1, 3))) is None
    box = pixels_of(loaded((1, 3, 8, 8), (1, 3, 4, 4)))
    assert box is not None
    assert set(box.radii) == {"x0", "x1"}


def test_a_ball_around_an_image_counts_in_pixels(cat: str) -> None:
    request = AuditOptions(domain="ball", around=cat, radius=0.5)
    assert request.in_pixels
    domain = resolve_domain(request, loaded((1, 3, 4, 6))).domain
    (centre,) = domain.centres.values()
    expected = [(v - m) / s for v, m, s in zip((1.0, 0.0, 0.2), IMAGENET.mean, IMAGENET.std, strict=True)]
    assert torch.allclose(centre[0, :, 2, 3], torch.tensor(expected, dtype=torch.float64))
    # the ball in pixels is an ellipsoid of the normalised input: inside one ball, around another
    assert domain.radii["x0"].total.upper >= 0.5 / 0.224
    assert domain.radius is not None
    assert domain.radius <= 0.5 / 0.229


def test_grey_images_and_other_sizes_are_fitted_to_the_input(cat: str) -> None:
    one = loaded((1, 1, 8, 8), known=Preprocessing((0.0,), (1.0,)))
    (centre,) = resolve_domain(AuditOptions(domain="ball", around=cat, radius=1.0), one).domain.centres.values()
    assert centre.shape == (1, 1, 8, 8)
    assert 0 <= float(centre.min()) <= float(centre.max()) <= 1


def test_jpeg_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "CAT.JPEG"
    Image.new("RGB", (5, 5), (10, 20, 30)).save(path)
    (centre,) = resolve_domain(
        AuditOptions(domain="ball", around=str(path), radius=1.0), loaded((1, 3, 5, 5))
    ).domain.centres.values()
    assert centre.shape == (1, 3, 5, 5)


@pytest.mark.parametrize("suffix", [".npy", ".NPY", ".pt"])
@pytest.mark.parametrize("batch", [True, False])
def test_a_ball_around_a_tensor_counts_in_the_input(tmp_path: Path, suffix: str, batch: bool) -> None:
    x = torch.randn(1, 3, 4, 4)
    stored = x if batch else x[0]
    path = tmp_path / f"x{suffix}"
    if suffix == ".pt":
        torch.save(stored, path)
    else:
        with path.open("wb") as file:
            np.save(file, stored.numpy())
    request = AuditOptions(domain="ball", around=str(path), radius=0.5)
    assert not request.in_pixels
    domain = resolve_domain(request, loaded((1, 3, 4, 4), known=None)).domain
    assert torch.equal(domain.centres["x0"], x.double())
    assert domain.radii["x0"].total.upper == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("centre", "message"),
    [
        (torch.zeros(1, 3, 5, 5), r"has the shape \(1, 3, 5, 5\), and the network's input \(1, 3, 4, 4\)"),
        (torch.zeros(2, 3, 4, 5), "has the shape"),
        (torch.zeros(0, 3, 4, 4), "is a batch without an input: give at least one"),
        (
            torch.tensor([0.0, float("inf")])[:, None, None, None].expand(2, 3, 4, 4),
            r"number 1 \(from 0\) must have finite",
        ),
        (torch.zeros(1, 3, 4, 4, dtype=torch.int64), "must have finite floating-point numbers"),
        (torch.full((1, 3, 4, 4), float("nan")), "must have finite"),
        (torch.full((1, 3, 4, 4), 1e31), "must have finite"),
    ],
)
def test_a_tensor_that_is_no_centre(centre: torch.Tensor, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        resolve_domain(AuditOptions(domain="ball", around=centre, radius=1.0), loaded((1, 3, 4, 4)))


@pytest.mark.parametrize("suffix", [".pt", ".npz"])
def test_a_file_of_images_and_labels_gives_a_ball_around_each_image(tmp_path: Path, suffix: str) -> None:
    images, labels = torch.randn(2, 3, 4, 4), torch.tensor([1, 0])
    path = tmp_path / f"images{suffix}"
    if suffix == ".pt":
        torch.save({"x": images, "y": labels}, path)
    else:
        np.savez(path, x=images.numpy(), y=labels.numpy())
    request = AuditOptions(domain="ball", around=str(path), radius=0.5)
    assert not request.in_pixels
    balls = resolve_domain(request, loaded((1, 3, 4, 4), known=None)).balls
    assert [ball.name for ball in balls] == ["0", "1"]
    for ball, image in zip(balls, images, strict=True):
        (centre,) = ball.domain.centres.values()
        assert torch.equal(centre.float(), image[None])


def test_files_that_are_no_centre(tmp_path: Path, cat: str) -> None:
    text, broken, names = tmp_path / "text.png", tmp_path / "broken.npy", tmp_path / "names.pt"
    text.write_text("no image")
    broken.write_bytes(b"\x93NUMPY\x01")
    torch.save({"a": torch.zeros(2), "b": torch.zeros(2)}, names)
    cut = tmp_path / "cut.png"
    cut.write_bytes(Path(cat).read_bytes()[:50])
    empty = tmp_path / "empty"
    empty.mkdir()
    deep = tmp_path / "deep.png"
    Image.fromarray(np.full((4, 4), 40000, dtype=np.uint16)).save(deep)
    for path, message in (
        (tmp_path / "none.png", "no file of this name"),
        (tmp_path, r"image cut.png: .*not an image that can be read"),
        (empty, r"the folder holds no image; images are files that end in .png"),
        (text, "not an image that can be read"),
        (cut, "not an image that can be read"),
        (deep, "more than 8 bits per pixel"),
        (broken, "no tensor can be read"),
        (names, "which of its arrays are the images is not clear"),
    ):
        with pytest.raises(UsageError, match=message):
            resolve_domain(AuditOptions(domain="ball", around=str(path), radius=1.0), loaded((1, 3, 4, 4)))


def test_objects_in_numpy_files_are_not_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "objects.npy"
    np.save(path, np.array([{"a": 1}], dtype=object))
    with pytest.raises(UsageError, match="no tensor can be read"):
        resolve_domain(AuditOptions(domain="ball", around=str(path), radius=1.0), loaded((1, 3, 4, 4)))


def test_an_image_is_no_centre_of_other_inputs(cat: str) -> None:
    request = AuditOptions(domain="ball", around=cat, radius=1.0)
    with pytest.raises(UsageError, match=r"give a tensor file \(.npy, .pt\)"):
        resolve_domain(request, loaded((1, 4, 8, 8)))
    with pytest.raises(UsageError, match="give a tensor file"):
        resolve_domain(request, loaded((1, 12)))
    with pytest.raises(UsageError, match="give mean and std"):
        resolve_domain(request, loaded((1, 3, 8, 8), known=None))
    with pytest.raises(UsageError, match="do not fit"):
        resolve_domain(request, loaded((1, 1, 8, 8)))
    with pytest.raises(UsageError, match=r"one input, and net.onnx has 2"):
        resolve_domain(request, loaded((1, 3, 8, 8), (1, 3, 8, 8)))


def test_a_ball_in_the_largest_entry_is_a_cube_with_a_width_per_channel(cat: str) -> None:
    request = AuditOptions(domain="ball", around=cat, radius=0.1, norm_domain="linf")
    domain = resolve_domain(request, loaded((1, 3, 4, 6))).domain
    (reach,) = domain.reach.values()
    assert reach[0, :, 0, 0].tolist() == pytest.approx([0.1 / s for s in IMAGENET.std], rel=1e-9)
    tensor = resolve_domain(
        AuditOptions(domain="ball", around=torch.zeros(1, 5), radius=0.1, norm_domain="linf"), loaded((1, 5))
    ).domain
    assert tensor.reach["x0"].tolist() == [[0.1] * 5]
    assert tensor.radii["x0"].total.upper == pytest.approx(0.1 * 5**0.5)
