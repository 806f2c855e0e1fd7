"""The images that a user gives, as inputs of the network: files, a folder, a folder of class folders, an array, a tensor.

Image files are resized to the network's input and normalised as the model expects, and so are 8-bit integers (0 to 255) in a tensor;
floating-point tensors are inputs of the network as they are, after its normalisation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import torch

from lipaudit.errors.images import ImagesError, ImageSizesError, LabelsError, NoImagesError, NoPictureError
from lipaudit.errors.inputs import SeveralInputsError
from lipaudit.frontends.image_files import LABELS_FILE, SUFFIXES, class_folders, pictures
from lipaudit.frontends.labels import class_labels, listed_labels, read_labels
from lipaudit.frontends.loaded import LoadedModel
from lipaudit.frontends.normalisation import check_channels, known_normalisation, normalise
from lipaudit.frontends.picture import fits_pictures, read_picture
from lipaudit.frontends.spec import TENSOR_SUFFIXES
from lipaudit.frontends.tensors import read_content
from lipaudit.option_names import spell

_INPUTS = ("x", "images", "inputs", "data")
_LABELS = ("y", "labels", "targets")
_LARGEST = 1e30


Labels: TypeAlias = str | Sequence[int] | torch.Tensor | None
"""A file of labels, or the labels themselves in the order of the images."""


@dataclass(frozen=True, eq=False)
class Images:
    """Inputs of a network, one per image.

    ``inputs`` has the shape (N, *sizes) of the network's own input, after its normalisation, in the precision that it takes.
    ``names`` are those of the files below their folder, or the numbers of the images in their tensor, from 0. ``labels`` are the indices
    of their classes (int64), None where nobody knows them, and ``classes`` the names of class folders in the order of their indices.
    ``total`` is the number of images that there are, of which ``inputs`` has at most as many as were asked for. ``from_pixels`` says
    whether they were pixels that have been normalised.
    """

    inputs: torch.Tensor
    names: tuple[str, ...]
    total: int
    from_pixels: bool
    labels: torch.Tensor | None = None
    classes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.names)


def read_images(
    source: str | torch.Tensor,
    loaded: LoadedModel,
    *,
    option: str = "images",
    labels: Labels = None,
    limit: int | None = None,
    seed: int = 0,
) -> Images:
    """The images of a file, a folder or a tensor as inputs of a network, on the CPU.

    Args:
        source: an image file, a folder of image files, a folder of class folders, a tensor file (.npy, .npz, .pt, .pth), or a tensor.
        loaded: the network, with the normalisation in force.
        option: the argument that names the images, for messages.
        labels: a file of labels (:func:`lipaudit.frontends.labels.read_labels`), or one class per image in their order, instead of those
            that the images bring along.
        limit: the largest number of images. Where there are more, as many are drawn with ``seed``, and stay in their order.

    Raises:
        UsageError: with the file and what is wrong with it.
    """
    named = spell(option, source) if isinstance(source, str) else spell(option)
    name, shape = _free_input(loaded, option)
    if isinstance(source, str) and Path(source).expanduser().is_dir():
        images = _from_folder(Path(source).expanduser(), loaded, name, named, labels, limit, seed)
    elif isinstance(source, str) and Path(source).suffix.lower() not in TENSOR_SUFFIXES:
        images = _from_files([Path(source)], [Path(source).name], loaded, name, named)
        images = _labelled(images, labels)
    else:
        images = _from_tensor(source, loaded, name, named, labels, limit, seed)
    dtype = loaded.input_dtypes.get(name, torch.float32)
    inputs = images.inputs.to(dtype)
    if not bool((inputs.abs() <= _LARGEST).all()):
        raise ImagesError(named, f"the images must have finite numbers up to {_LARGEST:g}")
    assert tuple(inputs.shape[1:]) == tuple(shape[1:])
    return replace(images, inputs=inputs)


def _free_input(loaded: LoadedModel, option: str) -> tuple[str, tuple[int, ...]]:
    """The one input of floating-point numbers."""
    free = {
        name: shape
        for name, shape in loaded.input_shapes.items()
        if loaded.input_dtypes.get(name, torch.float32).is_floating_point
    }
    if len(free) != 1:
        raise SeveralInputsError(spell(option), loaded.spec, len(free))
    return next(iter(free.items()))


def _from_folder(
    folder: Path, loaded: LoadedModel, name: str, named: str, labels: Labels, limit: int | None, seed: int
) -> Images:
    files, folders = pictures(folder), class_folders(folder)
    classes = tuple(folders)
    if files and classes:
        problem = f"the folder holds images and folders of images ({', '.join(classes[:3])})"
        raise ImagesError(named, problem, "name a folder that holds only one kind")
    if not files and not classes:
        raise NoImagesError(named, SUFFIXES)
    files = files or [picture for f in classes for picture in folders[f]]
    names = [file.relative_to(folder).as_posix() for file in files]
    kept = _drawn(len(files), limit, seed)
    images = _from_files([files[i] for i in kept], [names[i] for i in kept], loaded, name, named)
    images = replace(images, total=len(files))
    beside = folder / LABELS_FILE
    if labels is not None or beside.is_file():
        return _labelled(images, labels if labels is not None else str(beside))
    if not classes:
        return images
    return replace(images, labels=class_labels([n.split("/")[0] for n in images.names], classes), classes=classes)


def _from_files(files: Sequence[Path], names: Sequence[str], loaded: LoadedModel, name: str, named: str) -> Images:
    shape = loaded.input_shapes[name]
    if not fits_pictures(shape):
        raise NoPictureError(named, shape)
    alone = len(files) == 1 and named.endswith(str(files[0]))
    pixels = [
        read_picture(str(f), shape, named if alone else f"{named}, image {n}")
        for f, n in zip(files, names, strict=True)
    ]
    known = known_normalisation(loaded)
    check_channels(name, shape, known)
    return Images(normalise(torch.cat(pixels), known), tuple(names), len(files), from_pixels=True)


def _from_tensor(
    source: str | torch.Tensor,
    loaded: LoadedModel,
    name: str,
    named: str,
    labels: Labels,
    limit: int | None,
    seed: int,
) -> Images:
    tensor, own = images_and_labels(read_content(source, named) if isinstance(source, str) else source, named)
    batch = _batch(tensor.detach().cpu(), loaded.input_shapes[name], named)
    kept = _drawn(len(batch), limit, seed)
    total, batch = len(batch), batch[kept]
    if batch.dtype == torch.uint8:
        known = known_normalisation(loaded)
        check_channels(name, loaded.input_shapes[name], known)
        batch = normalise(batch.double() / 255, known)
        pixels = True
    elif batch.is_floating_point():
        pixels = False
    else:
        problem = f"the images hold {str(batch.dtype).removeprefix('torch.')}"
        advice = (
            "give 8-bit pixels (uint8) from 0 to 255, or floating-point inputs of the network, after its normalisation"
        )
        raise ImagesError(named, problem, advice)
    images = Images(batch, tuple(map(str, kept)), total, from_pixels=pixels)
    if labels is not None:
        return _labelled(images, labels)
    return images if own is None else replace(images, labels=listed_labels(own, total, named)[kept])


def images_and_labels(content: object, named: str) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The images of a file, and their labels where it has them: a tensor, or images and labels by name or one behind the other."""
    if isinstance(content, torch.Tensor):
        return _plain(content, named), None
    if isinstance(content, dict):
        tensors = {key: value for key, value in content.items() if isinstance(value, torch.Tensor)}
        inputs = [tensors[key] for key in _INPUTS if key in tensors] or [
            t for key, t in tensors.items() if key not in _LABELS and len(tensors) == 1
        ]
        if len(inputs) != 1:
            advice = f"call the images {_INPUTS[0]} and the labels {_LABELS[0]}"
            raise ImagesError(
                named, f"which of its arrays are the images is not clear ({', '.join(map(str, content))[:100]})", advice
            )
        return _plain(inputs[0], named), next((tensors[key] for key in _LABELS if key in tensors), None)
    if isinstance(content, tuple | list) and len(content) == 2 and all(isinstance(t, torch.Tensor) for t in content):
        return _plain(content[0], named), content[1]
    raise ImagesError(named, f"it holds {type(content).__name__}, not a tensor, nor images and labels")


def _plain(tensor: torch.Tensor, named: str) -> torch.Tensor:
    if tensor.layout is not torch.strided or tensor.is_meta or tensor.is_quantized:
        raise ImagesError(named, "it is a sparse, quantised or empty (meta) tensor", "give a plain one")
    return tensor


def _batch(tensor: torch.Tensor, shape: tuple[int, ...], named: str) -> torch.Tensor:
    """The images behind one another: a batch, one of them without a batch axis, or images of one channel without that axis."""
    sizes = tuple(shape[1:])
    if tuple(tensor.shape) == sizes:
        tensor = tensor[None]
    elif len(sizes) == 3 and sizes[0] == 1 and tensor.dim() == 3 and tuple(tensor.shape[1:]) == sizes[1:]:
        tensor = tensor[:, None]
    if tuple(tensor.shape[1:]) != sizes or tensor.dim() != len(shape):
        last = len(sizes) == 3 and tuple(tensor.shape[-3:]) == (*sizes[1:], sizes[0])
        raise ImageSizesError(
            named,
            tuple(tensor.shape),
            shape,
            "put the channels in front" if last else "give them in this shape: resize or cut them",
        )
    if not len(tensor):
        raise ImagesError(named, "it holds no image")
    return tensor


def _drawn(total: int, limit: int | None, seed: int) -> list[int]:
    """The numbers of the images that are read: all, or ``limit`` of them drawn with the seed."""
    if limit is None or limit >= total:
        return list(range(total))
    order = torch.randperm(total, generator=torch.Generator().manual_seed(seed))
    return sorted(order[:limit].tolist())


def _labelled(images: Images, labels: Labels) -> Images:
    """Images with the labels of a file."""
    if labels is None:
        return images
    option = spell("labels", labels) if isinstance(labels, str) else spell("labels")
    by_name = read_labels(labels, option) if isinstance(labels, str) else torch.as_tensor(labels)
    if isinstance(by_name, torch.Tensor):
        if not all(name.isdecimal() for name in images.names):
            problem = "it has labels without the names of images, and these images are files"
            raise LabelsError(option, problem, "write lines FILE,LABEL")
        return replace(images, labels=listed_labels(by_name, images.total, option)[list(map(int, images.names))])
    missing = [name for name in images.names if name not in by_name]
    if missing:
        raise LabelsError(
            option, f"there is no label of the image {missing[0]}", "the file has a line FILE,LABEL for every image"
        )
    return replace(images, labels=torch.tensor([by_name[name] for name in images.names]))
