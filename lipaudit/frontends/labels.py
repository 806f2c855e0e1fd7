"""The labels of images: the number of the class that each belongs to, from a CSV file, a tensor, or the folders that the images lie in."""

from __future__ import annotations

import csv
from collections.abc import Sequence

import torch

from lipaudit.errors.images import LabelsError
from lipaudit.frontends.tensors import read_tensor, readable_file


def class_labels(folders: Sequence[str], classes: Sequence[str]) -> torch.Tensor:
    """The class of every image from its folder: the folder's number where all class folders are numbers, else its place by name.

    >>> class_labels(["7", "2"], ["2", "7"]), class_labels(["dog", "cat"], ["cat", "dog"])
    (tensor([7, 2]), tensor([1, 0]))
    """
    if all(name.isdecimal() for name in classes):
        return torch.tensor([int(name) for name in folders])
    return torch.tensor([classes.index(name) for name in folders])


def read_labels(text: str, option: str) -> torch.Tensor | dict[str, int]:
    """The labels in a file: by the names of images (a CSV file with lines FILE,LABEL), or in the order of the images.

    A CSV file may have a header. A file of one column, or a tensor (.npy, .pt), has the labels in the order of the images.
    Raises :class:`~lipaudit.errors.images.LabelsError`, :class:`~lipaudit.errors.inputs.ReadFileError`.
    """
    if not text.lower().endswith((".csv", ".txt", ".tsv")):
        return read_tensor(text, option)
    path = readable_file(text, option)
    try:
        content = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise LabelsError(option, f"it is no text that can be read ({error})") from error
    lines = [line for line in csv.reader(content.splitlines(), delimiter="\t" if "\t" in content else ",") if line]
    if lines and not _is_label(lines[0][-1]):
        lines = lines[1:]
    columns = {len(line) for line in lines}
    if columns not in ({1}, {2}):
        raise LabelsError(
            option, "it has no lines FILE,LABEL", "write the name of an image, a comma, the number of its class"
        )
    for line in lines:
        if not _is_label(line[-1]):
            raise LabelsError(
                option, f"the label {line[-1][:50]!r} is no number of a class", "classes are counted from 0"
            )
    if columns == {1}:
        return torch.tensor([int(line[0]) for line in lines])
    names = [line[0].strip() for line in lines]
    if twice := next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None:
        raise LabelsError(option, f"it names {twice} twice", "name every image once")
    return {name: int(line[1]) for name, line in zip(names, lines, strict=True)}


def _is_label(text: str) -> bool:
    return text.strip().isdecimal() and len(text.strip()) < 10


def listed_labels(labels: torch.Tensor, count: int, option: str) -> torch.Tensor:
    """Labels in the order of the images, as int64; ``count`` is the number of images."""
    whole = not labels.is_floating_point() and not labels.is_complex() and labels.dtype is not torch.bool
    if not whole or tuple(labels.shape) not in ((count,), (count, 1)) or bool((labels < 0).any()):
        problem = f"the labels must be {count} numbers of classes, one per image, counted from 0"
        raise LabelsError(
            option, f"{problem}; they are {str(labels.dtype).removeprefix('torch.')} of shape {tuple(labels.shape)}"
        )
    return labels.detach().cpu().reshape(-1).to(torch.int64)
