"""TorchScript: modules that were scripted, traced or frozen, as objects and as archives (.pt, .ts).

A module of TorchScript runs in torch's own interpreter, operation by operation, and is captured while it runs. What it reads of its
input's values (``if x.sum() > 0``) cannot be captured, and is refused there.
"""

from __future__ import annotations

import inspect
import io
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from lipaudit.errors import ModelLoadError
from lipaudit.frontends.files import sha256
from lipaudit.frontends.forward import bind_inputs
from lipaudit.frontends.held_inputs import Fixed
from lipaudit.frontends.loaded import LoadedModel
from lipaudit.frontends.program_memory import require_room
from lipaudit.frontends.shapes import Shape
from lipaudit.frontends.torchscript_check import check_archive


class _Slots(dict[str, Any]):
    """Tensors by name that the interpreter reads: what an export puts in their places is put there, too."""

    def __init__(self, slots: Any, made: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__({name: None if tensor is None else made(tensor) for name, tensor in slots.items()})
        self.slots = slots

    def __setitem__(self, name: str, tensor: Any) -> None:
        super().__setitem__(name, tensor)
        self.slots[name] = tensor


class _Part(nn.Module):
    """The parameters of a module of TorchScript and of those in it, in modules that can have hooks."""

    def __init__(self, script: torch.jit.ScriptModule) -> None:
        super().__init__()
        self.__dict__["_parameters"] = _Slots(script._parameters, lambda t: nn.Parameter(t, t.requires_grad))
        self.__dict__["_buffers"] = _Slots(script._buffers, lambda t: t)
        for name, child in script.named_children():
            self.add_module(name, _Part(child))  # type: ignore[arg-type]  # its children are its like


class TorchScript(_Part):
    """A module of TorchScript behind the interface of ordinary ones: the same parameters, and a ``forward`` with a signature."""

    def __init__(self, script: torch.jit.ScriptModule) -> None:
        super().__init__(script)

        def forward(*args: Any, **kwargs: Any) -> Any:
            return script.forward(*args, **kwargs)

        forward.__signature__ = _signature(script)  # type: ignore[attr-defined]
        self.__dict__["forward"] = forward


def load_torchscript(path: Path, *, spec: str, input_shapes: Mapping[str, Shape] | None, fixed: Fixed) -> LoadedModel:
    """Load an archive that ``torch.jit.save`` wrote; its sizes have to be given.

    Raises :class:`ModelLoadError` for code that could touch files or never end, and for what torch cannot read.
    """
    check_archive(path)
    try:
        with _undeprecated():
            script: torch.jit.ScriptModule = torch.jit.load(str(path), map_location="cpu")  # type: ignore[no-untyped-call]
    except (RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[-1][:200]
        raise ModelLoadError(
            f"{path} cannot be read by torch {torch.__version__} ({reason}): export it again"
        ) from error
    loaded = _described(script, spec, "torchscript", path.name, input_shapes, fixed, sha256(path))
    require_room(loaded)
    return loaded


def wrap_torchscript(
    script: torch.jit.ScriptModule, input_shapes: Mapping[str, Shape] | None, fixed: Fixed
) -> LoadedModel:
    """Describe a scripted, traced or frozen module; a copy of it is audited.

    Raises :class:`ModelLoadError` for one that ``torch.jit.save`` cannot write.
    """
    content = io.BytesIO()
    try:
        with _undeprecated():
            torch.jit.save(script, content)
            content.seek(0)
            copied: torch.jit.ScriptModule = torch.jit.load(content)  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1][:200]
        raise ModelLoadError(
            f"the TorchScript module cannot be copied ({reason}): pass the module that it was made from"
        ) from error
    name = getattr(script, "original_name", type(script).__name__)
    return _described(copied, f"TorchScript {name}", "module", "as given", input_shapes, fixed)


def _described(
    script: torch.jit.ScriptModule,
    spec: str,
    source: str,
    weights: str,
    input_shapes: Mapping[str, Shape] | None,
    fixed: Fixed,
    digest: str | None = None,
) -> LoadedModel:
    if not hasattr(script, "forward"):
        raise ModelLoadError(f"{spec} is TorchScript without a method forward: name a model")
    if hasattr(script, "training"):  # a frozen module has no modes
        script.eval()
    bound = bind_inputs(TorchScript(script), input_shapes, fixed)
    return bound.loaded(
        spec=spec,
        source=source,
        weights=weights,
        file_sha256=digest,
    )


def _signature(script: torch.jit.ScriptModule) -> inspect.Signature:
    parameters = [
        inspect.Parameter(
            argument.name,
            inspect.Parameter.KEYWORD_ONLY if argument.kwarg_only else inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=argument.default_value if argument.has_default_value() else inspect.Parameter.empty,
        )
        for argument in script.forward.schema.arguments[1:]  # type: ignore[attr-defined]
    ]
    return inspect.Signature(parameters)


@contextmanager
def _undeprecated() -> Iterator[None]:
    """Torch calls all of ``torch.jit`` deprecated; a file that is there has to be read all the same."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"`torch\.jit\.\w+` is deprecated")
        warnings.filterwarnings("ignore", message=r"`torch\.jit\.\w+` is not supported")
        yield
