"""The images of a user as inputs of a network: what every kind of source gives, and every way to give a wrong one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torchvision.datasets import ImageFolder
from torchvision.transforms import Normalize
from torchvision.transforms.functional import to_tensor

from lipaudit.errors import UsageError
from lipaudit.frontends.images import read_images
from lipaudit.frontends.loaded import LoadedModel, Preprocessing

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.25, 0.5)


def model(*sizes: int, known: bool = True, dtype: torch.dtype = torch.float32) -> LoadedModel:
    shape = (1, *(sizes or (3, 4, 6)))
    normalisation = Preprocessing(MEAN[: shape[1]], STD[: shape[1]]) if known else None
    return LoadedModel(nn.Identity(), "net.onnx", "onnx", {"x": shape}, {"x": dtype}, preprocessing=normalisation)


def save(path: Path, seed: int, mode: str = "RGB") -> Path:
    path.parent.mkdir(exist_ok=True, parents=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (4, 6, 3), dtype=np.uint8)
    Image.fromarray(pixels).convert(mode).save(path)
    return path


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    for number, name in enumerate(("cat/b.png", "dog/a.png", "cat/a.png", "dog/z.bmp")):
        save(tmp_path / "set" / name, number)
    (tmp_path / "set" / "notes.txt").write_text("no image")
    (tmp_path / "set" / "empty").mkdir()
    return tmp_path / "set"


def test_class_folders_are_read_as_torchvision_reads_them(folders: Path) -> None:
    (folders / "empty").rmdir()  # which torchvision refuses
    images = read_images(str(folders), model())
    reference = ImageFolder(str(folders))
    expected = torch.stack([Normalize(MEAN, STD)(to_tensor(picture)) for picture, _ in reference])
    assert torch.allclose(images.inputs, expected, atol=1e-6)
    assert images.inputs.dtype == torch.float32
    assert images.labels is not None
    assert images.labels.tolist() == reference.targets
    assert images.classes == tuple(reference.classes)
    assert images.names == ("cat/a.png", "cat/b.png", "dog/a.png", "dog/z.bmp")
    assert images.from_pixels


def test_class_folders_that_are_numbers_are_the_classes(tmp_path: Path) -> None:
    for name in ("10", "9"):
        save(tmp_path / name / "x.png", 0)
    images = read_images(str(tmp_path), model())
    assert images.names == ("10/x.png", "9/x.png")
    assert images.labels is not None
    assert images.labels.tolist() == [10, 9]


def test_a_file_and_grey_levels(tmp_path: Path) -> None:
    images = read_images(str(save(tmp_path / "a.png", 3)), model(1, 8, 12))
    assert images.inputs.shape == (1, 1, 8, 12)
    assert images.labels is None
    assert len(images) == 1


def test_labels_of_a_csv_file_beside_the_images_or_named(folders: Path, tmp_path: Path) -> None:
    lines = [f"{name},{number}" for number, name in enumerate(("dog/z.bmp", "dog/a.png", "cat/b.png", "cat/a.png"))]
    (tmp_path / "mine.csv").write_text("file,label\n" + "\n".join(lines))
    named = read_images(str(folders), model(), labels=str(tmp_path / "mine.csv"))
    (folders / "labels.csv").write_text("\n".join(reversed(lines)))
    for images in (named, read_images(str(folders), model())):
        assert images.labels is not None
        assert images.labels.tolist() == [3, 2, 1, 0]


def test_bytes_are_pixels_and_floats_are_inputs(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (5, 3, 4, 6), dtype=torch.uint8, generator=generator)
    expected = Normalize(MEAN, STD)(pixels.double() / 255)
    np.save(tmp_path / "a.npy", pixels.numpy())
    torch.save(expected, tmp_path / "a.pt")
    for source in (str(tmp_path / "a.npy"), str(tmp_path / "a.pt"), pixels, expected):
        images = read_images(source, model())
        assert torch.equal(images.inputs, expected.float())
        assert images.names == ("0", "1", "2", "3", "4")
    assert not read_images(expected, model(known=False)).from_pixels
    assert read_images(expected, model(dtype=torch.float64)).inputs.dtype == torch.float64


def test_arrays_bring_their_labels_along(tmp_path: Path) -> None:
    x, y = torch.randn(3, 7), torch.tensor([2, 0, 1])
    np.savez(tmp_path / "a.npz", x=x.numpy(), y=y.numpy())
    torch.save({"images": x, "labels": y[:, None]}, tmp_path / "b.pt")
    torch.save((x, y), tmp_path / "c.pt")
    np.save(tmp_path / "y.npy", y.numpy().astype(np.int32))
    (tmp_path / "y.csv").write_text("2\n0\n1\n")
    sources = [(str(tmp_path / name), None) for name in ("a.npz", "b.pt", "c.pt")]
    for source, labels in [*sources, (x, str(tmp_path / "y.npy")), (x, str(tmp_path / "y.csv"))]:
        images = read_images(source, model(7), labels=labels)
        assert torch.equal(images.inputs, x)
        assert images.labels is not None
        assert torch.equal(images.labels, y)


def test_as_many_are_drawn_as_were_asked_for(folders: Path, tmp_path: Path) -> None:
    x, y = torch.arange(40.0).reshape(40, 1), torch.arange(40)
    for seed in (0, 1):
        images = read_images(x, model(1), limit=6, seed=seed)
        again = read_images(x, model(1), limit=6, seed=seed)
        assert len(images) == 6
        assert images.total == 40
        assert images.names == again.names
        assert images.names == tuple(str(int(v)) for v in images.inputs)
    assert read_images(x, model(1), limit=6, seed=0).names != images.names
    assert len(read_images(x, model(1), limit=41)) == 40
    few = read_images(str(folders), model(), limit=3)
    assert few.total == 4
    assert len(few) == 3
    assert few.labels is not None
    assert len(few.labels) == 3
    torch.save((x, y), tmp_path / "a.pt")
    drawn = read_images(str(tmp_path / "a.pt"), model(1), limit=6)
    assert drawn.labels is not None
    assert drawn.labels.tolist() == drawn.inputs.flatten().tolist()


def test_one_image_without_a_batch_axis_and_one_channel_without_its_axis() -> None:
    assert read_images(torch.zeros(3, 4, 6), model()).inputs.shape == (1, 3, 4, 6)
    assert read_images(torch.zeros(9, 4, 6), model(1, 4, 6)).inputs.shape == (9, 1, 4, 6)


def test_a_broken_image_is_named_with_the_option(folders: Path) -> None:
    (folders / "dog" / "b.png").write_bytes(b"not a picture")
    with pytest.raises(UsageError, match=r"image dog/b\.png: it is not an image that can be read"):
        read_images(str(folders), model())


@pytest.mark.parametrize(
    ("source", "sizes", "message"),
    [
        (
            torch.zeros(2, 4, 6, 3),
            (),
            r"the images have the shape \(2, 4, 6, 3\), and the network takes \(N, 3, 4, 6\); put the ch",
        ),
        (
            torch.zeros(2, 3, 5, 6),
            (),
            r"the images have the shape \(2, 3, 5, 6\), and the network takes \(N, 3, 4, 6\); give them in this shape",
        ),
        (torch.zeros(0, 3, 4, 6), (), "it holds no image"),
        (torch.full((1, 3, 4, 6), torch.nan), (), "the images must have finite numbers"),
        (torch.full((1, 3, 4, 6), 1e35, dtype=torch.float64), (), "the images must have finite numbers"),
        (torch.zeros(2, 3, 4, 6, dtype=torch.int64), (), "the images hold int64; give 8-bit pixels"),
        (torch.zeros(2, 3, 4, 6).to_sparse(), (), "a sparse, quantised or empty"),
        ("nowhere.png", (), "there is no file of this name"),
        ("nowhere.npy", (), "there is no file of this name"),
    ],
)
def test_images_that_no_network_can_read(source: torch.Tensor | str, sizes: tuple[int, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_images(source, model(*sizes))


def test_folders_that_hold_no_set_of_images(folders: Path, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    with pytest.raises(UsageError, match="the folder holds no image; images are files that end in"):
        read_images(str(tmp_path / "none"), model())
    with pytest.raises(UsageError, match=r"image files do not fit the network's input of shape \(1, 7\)"):
        read_images(str(folders), model(7))
    with pytest.raises(UsageError, match=r"the normalisation of pixels of net\.onnx is not known"):
        read_images(str(folders), model(known=False))
    save(folders / "a.png", 5)
    with pytest.raises(UsageError, match=r"holds images and folders of images \(cat, dog\)"):
        read_images(str(folders), model())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cat/a.png,0\n", "there is no label of the image cat/b.png"),
        ("cat/a.png,dog\ncat/b.png,1\n" * 2, "the label 'dog' is no number|it names cat/b.png twice"),
        ("a,b,c\n1,2,3\n", "it has no lines FILE,LABEL"),
        ("", "it has no lines FILE,LABEL"),
        ("1\n2\n3\n4\n", "it has labels without the names of images"),
    ],
)
def test_labels_that_do_not_belong_to_the_images(folders: Path, text: str, message: str) -> None:
    (folders / "labels.csv").write_text(text)
    with pytest.raises(UsageError, match=message):
        read_images(str(folders), model())


@pytest.mark.parametrize("labels", [torch.zeros(2), torch.zeros(3, dtype=torch.int64), torch.tensor([-1, 0])])
def test_labels_that_are_no_classes_of_the_images(labels: torch.Tensor, tmp_path: Path) -> None:
    torch.save((torch.zeros(2, 7), labels), tmp_path / "a.pt")
    with pytest.raises(UsageError, match="the labels must be 2 numbers of classes"):
        read_images(str(tmp_path / "a.pt"), model(7))


def test_an_archive_whose_images_cannot_be_told(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", a=np.zeros(3), b=np.zeros(3))
    with pytest.raises(
        UsageError, match=r"which of its arrays are the images is not clear \(a, b\); call the images x"
    ):
        read_images(str(tmp_path / "a.npz"), model(3))


def test_a_network_with_two_inputs() -> None:
    two = LoadedModel(nn.Identity(), "net.onnx", "onnx", {"x": (1, 3), "y": (1, 3)})
    with pytest.raises(UsageError, match=r"images is for networks with one input, and net\.onnx has 2"):
        read_images(torch.zeros(1, 3), two)


def test_a_file_that_is_no_image_is_named_before_the_normalisation_that_is_not_known(tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("no image")
    for name, problem in (("none.png", "no file of this name"), ("text.png", "not an image that can be read")):
        with pytest.raises(UsageError, match=problem):
            read_images(str(tmp_path / name), model(known=False))
