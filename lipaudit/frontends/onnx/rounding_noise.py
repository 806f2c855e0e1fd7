"""Values inside a converted network, as it computes them and as rounding could have made them.

Float32 rounds every intermediate tensor, by up to eps times its largest entry where sums cancel, and two correct implementations differ
by what becomes of that behind it. How much that is, is measured: each node's output is moved by eps times its own scale, with random
signs, and the change of every later value is seen. The scale of a tensor is its largest entry; a bounded function such as the sigmoid is
approximated to eps absolutely, however small its value, and a gated one (GELU, Swish) to eps of its argument.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import nn

from lipaudit.frontends.onnx.network import OnnxNetwork, Step
from lipaudit.frontends.onnx.operators import to_numpy

Array: TypeAlias = np.ndarray[Any, Any]
_UNIT = {
    "Sigmoid",
    "HardSigmoid",
    "Tanh",
    "Erf",
    "Sin",
    "Cos",
    "Softplus",
    "Elu",
    "Selu",
    "Celu",
    "Softmax",
    "LogSoftmax",
    "LSTM",
    "GRU",
    "RNN",
    "ai.onnx.ml.LinearClassifier",
}
_GATED = {"Gelu", "FastGelu", "QuickGelu", "BiasGelu", "Swish", "HardSwish", "Mish"}


@dataclass(frozen=True)
class Rounding:
    """Moves outputs by ``eps`` times their scale; ``operators`` tells the operator that computes a value.

    ``dtype`` is the floating type of the network, which casts inside it do not change.
    """

    eps: float
    operators: dict[str, str]
    generator: torch.Generator
    dtype: torch.dtype | None = None

    def applied(self, output: torch.Tensor, name: str, inputs: Sequence[Any]) -> torch.Tensor:
        """The output, moved."""
        if not output.is_floating_point() or not output.numel():
            return output
        output = output if self.dtype is None else output.to(self.dtype)
        operator = self.operators.get(name, "")
        scale = _largest(output)
        if operator in _UNIT:
            scale = max(scale, 1.0)
        elif operator in _GATED:
            scale = max(scale, *(_largest(x) for x in inputs if isinstance(x, torch.Tensor)))
        signs = torch.randint(0, 2, output.shape, generator=self.generator, dtype=torch.int8) * 2 - 1
        return output + (self.eps * scale * signs).to(output.dtype)


def values_of(
    module: OnnxNetwork,
    samples: Sequence[torch.Tensor],
    wanted: Collection[str],
    outputs: Sequence[str],
    rounding: Rounding | None = None,
    read: Callable[[torch.Tensor], Any] | None = None,
) -> dict[str, Any]:
    """The wanted values inside the network, and its outputs by these names: as arrays, or what ``read`` makes of each."""
    read = read or to_numpy
    tensors: dict[str, Any] = {}

    def see(step: Step, _module: nn.Module, inputs: Sequence[Any], result: Any) -> Any:
        results = result if isinstance(result, tuple) else (result,)
        named = list(zip(results, step.outputs, strict=False))
        if rounding is not None:
            named = [(t if t is None else rounding.applied(t, name, inputs), name) for t, name in named]
        tensors.update((name, read(tensor)) for tensor, name in named if name in wanted and tensor is not None)
        return tuple(t for t, _ in named) if isinstance(result, tuple) else named[0][0]

    with _hooked(module, see), torch.no_grad():
        result = module(*samples)
    tensors.update(zip(outputs, map(read, result if isinstance(result, tuple) else (result,)), strict=True))
    return tensors


@contextmanager
def _hooked(module: OnnxNetwork, see: Callable[..., Any]) -> Iterator[None]:
    handles = [module.get_submodule(step.module).register_forward_hook(partial(see, step)) for step in module.steps]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _largest(tensor: torch.Tensor) -> float:
    finite = tensor[torch.isfinite(tensor)]
    return float(finite.abs().max()) if finite.numel() else 0.0
