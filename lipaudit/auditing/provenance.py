"""Where a report comes from: the model and the hash of its weights, the packages, the time."""

from __future__ import annotations

import hashlib
import platform
import time
from datetime import UTC, datetime
from importlib import metadata

import torch
from torch import nn

from lipaudit.frontends.loaded import LoadedModel
from lipaudit.graph.node import Graph
from lipaudit.records.settings import ModelRecord
from lipaudit.spectral.fingerprint import stored_bytes
from lipaudit.text.local_paths import without_folders

_PACKAGES = ("torch", "torchvision", "timm", "onnx", "onnx2torch", "numpy")


class Clock:
    """Seconds per phase."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        """End the phase that began with the clock or the last lap."""
        now = time.perf_counter()
        self.laps[name] = round(now - self._last, 3)
        self._last = now


def state_dict_sha256(module: nn.Module) -> str:
    """SHA-256 over the sorted (name, dtype, shape, bytes) of the state dict: independent of order, tied tensors allowed."""
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        if not isinstance(tensor, torch.Tensor):
            continue
        digest.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        digest.update(stored_bytes(tensor))
    return digest.hexdigest()


def model_record(
    loaded: LoadedModel, graph: Graph, structure: bool = False, absolute_paths: bool = False
) -> ModelRecord:
    """Which model was opened; ``absolute_paths`` keeps the folders of its file."""
    preprocessing = loaded.preprocessing
    return ModelRecord(
        spec=loaded.spec if absolute_paths else without_folders(loaded.spec),
        source=loaded.source,
        weights=loaded.weights,
        input_shape=next(iter(loaded.input_shapes.values())),
        num_parameters=graph.num_parameters,
        state_dict_sha256=None if structure else state_dict_sha256(loaded.module),
        file_sha256=loaded.file_sha256,
        input_shapes=dict(loaded.input_shapes),
        unused_parameters=graph.unused_parameters,
        preprocessing={"mean": preprocessing.mean, "std": preprocessing.std} if preprocessing is not None else None,
    )


def environment() -> dict[str, object]:
    """Where this runs."""
    packages = {name: metadata.version(name) for name in _PACKAGES}
    return {
        "python": platform.python_version(),
        "platform": f"{platform.system()}-{platform.machine()}",
        "packages": packages,
        "threads": torch.get_num_threads(),
    }


def timestamp() -> str:
    """Now, in ISO 8601, UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
