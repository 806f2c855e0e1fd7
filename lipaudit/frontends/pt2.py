"""Exported programs (.pt2): checked as data, then loaded by torch, as a module that capture can export again."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from lipaudit.errors import ModelLoadError
from lipaudit.frontends.files import sha256
from lipaudit.frontends.loaded import LoadedModel
from lipaudit.frontends.pt2_check import checked_archive
from lipaudit.frontends.shapes import Shape, resolve_shapes


def load_pt2(path: Path, *, spec: str, input_shapes: Mapping[str, Shape] | None = None) -> LoadedModel:
    """Load a program saved by ``torch.export.save`` with its own input shapes (symbolic axes keep the size
    they were exported with: at others the program's guards may not hold).

    Raises :class:`ModelLoadError` for an archive that holds anything but plain data, for a truncated one, and for a
    program exported in training mode or with a batch other than 1.
    """
    archive = checked_archive(path)
    try:
        with _quiet():
            program = torch.export.load(archive)
    except Exception as error:
        raise ModelLoadError(
            f"{path} cannot be read by torch {torch.__version__} ({_first_line(error)}): export it again"
        ) from error
    inputs = _user_inputs(program, path)
    shapes = resolve_shapes(input_shapes, {name: tuple(t.shape) for name, t in inputs.items()})
    for name, shape in shapes.items():
        if not shape or shape[0] != 1:
            raise ModelLoadError(
                f"{path} was exported with the shape {shape} for {name!r}: export it with a batch of 1"
            )
        if shape != tuple(inputs[name].shape):
            raise ModelLoadError(
                f"{path} was exported for {tuple(inputs[name].shape)}, not for {shape}: export it at that size"
            )
    _check_evaluation(program, path)
    module = torch.export.unflatten(program)  # with the hierarchy of the original modules, whose paths the report shows
    module.train(False)
    return LoadedModel(
        module=module,
        spec=spec,
        source="pt2",
        input_shapes=shapes,
        input_dtypes={name: tensor.dtype for name, tensor in inputs.items()},
        weights=path.name,
        file_sha256=sha256(path),
    )


def _user_inputs(program: ExportedProgram, path: Path) -> dict[str, torch.Tensor]:
    placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    found = {}
    for entry in program.graph_signature.input_specs:
        if entry.kind is not InputKind.USER_INPUT:
            continue
        value = placeholders[entry.arg.name].meta.get("val") if hasattr(entry.arg, "name") else None
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            raise ModelLoadError(
                f"{path} takes an input that is not a floating-point tensor: export it with tensors alone"
            )
        found[entry.arg.name] = value
    if not found:
        raise ModelLoadError(f"{path} takes no input: its output is constant")
    return {n: torch.empty([_size(s) for s in t.shape], dtype=t.dtype, device="meta") for n, t in found.items()}


def _size(size: int | torch.SymInt) -> int:
    if isinstance(size, int):
        return size
    hint = size.node.hint
    return int(hint) if hint is not None else 1


_TRAINING_OPERATORS = ("batch_norm", "dropout")


def _check_evaluation(program: ExportedProgram, path: Path) -> None:
    """Refuse a program whose batch norms or dropouts were exported in training mode."""
    for node in program.graph.nodes:
        if node.op != "call_function" or not any(word in str(node.target) for word in _TRAINING_OPERATORS):
            continue
        schema = getattr(node.target, "_schema", None)
        names = [a.name for a in schema.arguments] if schema is not None else []
        arguments = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
        if arguments.get("training") is True or arguments.get("train") is True:
            raise ModelLoadError(
                f"{path} was exported in training mode ({node.name}): call model.eval() before torch.export.export"
            )


@contextmanager
def _quiet() -> Iterator[None]:
    """Torch logs the traceback of what it also raises; the message of the raised error is enough."""
    logger = logging.getLogger("torch.export")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
