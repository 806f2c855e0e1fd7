"""Peak memory of a computation: measured by the allocator on a GPU, counted from live tensors on a CPU.

On the CPU a dispatch mode sees every operation that torch runs, the backward pass included. Each new storage among its outputs adds its
bytes until it is freed; the largest sum is the peak. The count is deterministic. It does not see what an operation allocates and
frees inside itself (the work space of a transform or of a product), which the GPU's allocator does.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of the storages that were created while it is active: ``now`` and their ``peak``."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = 0
        self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation, then count what is new among its outputs."""
        before = {self._key(t) for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)}
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and self._key(leaf) not in before:
                self._count(leaf.untyped_storage())
        return result

    @staticmethod
    def _key(tensor: torch.Tensor) -> int:
        return int(tensor.untyped_storage()._cdata)

    def _count(self, storage: torch.UntypedStorage) -> None:
        key, size = int(storage._cdata), storage.nbytes()
        if key in self._known:
            return
        self._known.add(key)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._free, key, size).atexit = False

    def _free(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.now -= size


def peak_bytes(function: Callable[[], object], device: torch.device) -> int | None:
    """The most bytes that a function held beyond what was there before; None where the device ran out of memory."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        try:
            function()
        except torch.OutOfMemoryError:
            return None
        torch.cuda.synchronize(device)
        return int(torch.cuda.max_memory_allocated(device)) - before
    counter = LiveBytes()
    with counter:
        function()
    return counter.peak
