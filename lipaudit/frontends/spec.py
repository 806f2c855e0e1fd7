"""What a user may type to name a model, an input size or the value of an input. Text only: nothing here loads a model.

Grammar of a model specification::

    torchvision:NAME[@TAG]     timm:NAME[.TAG]     NAME[@TAG]       a name of a registry, torchvision's first
    hf-hub:OWNER/NAME                                               a repository of the Hugging Face hub that timm can read
    path/to/file.SUFFIX                                             .onnx .pt2 .ts; .pt .pth .th .bin .ckpt .safetensors
    package.module:factory                                          Python code that the user owns
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from enum import StrEnum

from lipaudit.errors import InvalidValueError
from lipaudit.errors.models import ModelSpecError
from lipaudit.option_names import spell

CHECKPOINT_SUFFIXES = (".pt", ".pth", ".th", ".bin", ".ckpt", ".safetensors")
TORCHSCRIPT_SUFFIXES = (".ts", ".torchscript")
FILE_SUFFIXES = (".onnx", ".pt2", *TORCHSCRIPT_SUFFIXES, *CHECKPOINT_SUFFIXES)
TENSOR_SUFFIXES = (".npy", ".npz", ".pt", ".pth")
HUB = "hf-hub:"
HELD_VALUES = "a number, true, false, none, a list such as [[1,2,3]], or the name of a tensor file (.npy, .pt)"
_REGISTRIES = ("torchvision", "timm")
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?")
_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


class Kind(StrEnum):
    """Which frontend a specification goes to."""

    FILE = "file"
    TORCHVISION = "torchvision"
    TIMM = "timm"
    NAME = "name"  # a bare name: whichever registry has it
    FACTORY = "factory"


@dataclass(frozen=True)
class ModelSpec:
    """A parsed specification: ``name`` is the text without the registry prefix, ``text`` what was typed."""

    kind: Kind
    name: str
    text: str

    @property
    def suffix(self) -> str:
        """The lower-case file suffix (empty for names)."""
        return os.path.splitext(self.name)[1].lower() if self.kind is Kind.FILE else ""

    @property
    def is_pattern(self) -> bool:
        """Whether the name holds a wildcard (``*`` or ``?``) and is not that of a file which is there."""
        if "*" not in self.name and "?" not in self.name:
            return False
        return self.kind is not Kind.FILE or not os.path.lexists(os.path.expanduser(self.name))


def parse_spec(text: str) -> ModelSpec:
    """Split a model specification into its kind and its name.

    Raises :class:`~lipaudit.errors.models.ModelSpecError` where the text fits no form.

    >>> parse_spec("timm:resnet18.a1_in1k").kind.value, parse_spec("net.onnx").kind.value
    ('timm', 'file')
    """
    stripped = text.strip()
    if not stripped:
        raise ModelSpecError(text, "the name of a file, a model such as resnet50, or package.module:factory")
    hub = stripped.removeprefix("timm:").replace("hf_hub:", HUB, 1)
    if hub.startswith(HUB):
        if not _REPOSITORY.fullmatch(hub.removeprefix(HUB)):
            raise ModelSpecError(text, "hf-hub:OWNER/NAME, or hf-hub:OWNER/NAME@REVISION")
        return ModelSpec(Kind.TIMM, hub, text)
    prefix, colon, rest = stripped.partition(":")
    if colon and prefix in _REGISTRIES:
        if not rest:
            raise ModelSpecError(text, f"{prefix}:NAME; `lipaudit list '{prefix}:*'` has the names")
        return ModelSpec(Kind(prefix), rest, text)
    separators = {"/", os.sep, os.altsep or "/"}
    is_path = any(s in stripped for s in separators) or stripped in (".", "..")
    if is_path or stripped.lower().endswith(FILE_SUFFIXES):
        return ModelSpec(Kind.FILE, stripped, text)
    if colon:
        if _DOTTED.fullmatch(prefix) and _DOTTED.fullmatch(rest):
            return ModelSpec(Kind.FACTORY, stripped, text)
        raise ModelSpecError(
            text, "a name of a registry (torchvision:NAME, timm:NAME) or a factory (package.module:factory)"
        )
    return ModelSpec(Kind.NAME, stripped, text)


def parse_input(text: str) -> tuple[str, tuple[int, ...]]:
    """Read an input size: ``224``, ``3x224x224``, ``1,3,224,224``, or any of them after ``name:``.

    Returns the input's name (empty for the only input) and the sizes as typed.
    Raises :class:`~lipaudit.errors.InvalidValueError` for anything else.

    >>> parse_input("224"), parse_input("image:1,3,32,32")
    (('', (224,)), ('image', (1, 3, 32, 32)))
    """
    name, _, sizes = text.rpartition(":")
    parts = re.split(r"[,xX×]", sizes.replace(" ", ""))
    if not all(re.fullmatch(r"[0-9]{1,9}", part) and int(part) > 0 for part in parts):
        expected = "a size such as 224, 3x224x224 or 1,3,224,224, with NAME: in front where a model has several inputs"
        raise InvalidValueError(spell("input_shape"), expected, text)
    return name.strip(), tuple(int(part) for part in parts)


def parse_fix(text: str) -> tuple[str, str]:
    """Split ``NAME=VALUE`` at its first equals sign.

    >>> parse_fix("mask=[[1,1,0]]")
    ('mask', '[[1,1,0]]')
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or not value.strip():
        raise InvalidValueError(spell("fix"), f"NAME=VALUE, where VALUE is {HELD_VALUES}", text)
    return name.strip(), value.strip()


def file_of(value: object) -> str | None:
    """The file that the value of an input names, None where it is the value itself.

    >>> file_of("ids.npy"), file_of("16000")
    ('ids.npy', None)
    """
    return value if isinstance(value, str) and os.path.splitext(value)[1].lower() in TENSOR_SUFFIXES else None
