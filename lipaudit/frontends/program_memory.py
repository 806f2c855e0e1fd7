"""What the tensors of a program would take, found without making them: a file of a few kilobytes can ask for any amount of memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lipaudit.errors import ModelLoadError
from lipaudit.frontends.loaded import LoadedModel
from lipaudit.frontends.memory import require


class _Largest(TorchDispatchMode):
    """Ends at the first operation whose result needs more memory than is allowed; a view needs none of its own."""

    def __init__(self, spec: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.spec = spec
        self.refusal: ModelLoadError | None = (
            None  # kept, because the interpreter of TorchScript replaces what is raised
        )

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                try:
                    require(tensor.untyped_storage().nbytes(), f"{self.spec}: the operation {func}")
                except ModelLoadError as error:
                    self.refusal = error
                    raise
        return result


def require_room(loaded: LoadedModel) -> None:
    """Raise :class:`~lipaudit.errors.ModelLoadError` where a tensor of the model needs more memory than files may ask for.

    A model that does not run on tensors without values is left to the capture, which runs it in the same way and says what is wrong.
    """
    largest = _Largest(loaded.spec)
    try:
        with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True), largest:
            inputs = [torch.empty(s, dtype=loaded.input_dtypes[name]) for name, s in loaded.input_shapes.items()]
            loaded.module(*inputs)
    except Exception:
        if largest.refusal is not None:
            raise largest.refusal from None
