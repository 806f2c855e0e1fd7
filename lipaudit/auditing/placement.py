"""The network on the device that was asked for, with weights that can be bounded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from lipaudit.errors import DeviceUnavailableError, LipauditError, ModelLoadError, NonFiniteWeightsError, UsageError
from lipaudit.frontends.loaded import LoadedModel
from lipaudit.graph.capture.meta_tensors import has_values
from lipaudit.option_names import spell
from lipaudit.spectral.rounding import is_finite


def check_device(device: str) -> None:
    """Raise :class:`~lipaudit.errors.DeviceUnavailableError` for a GPU where there is none."""
    if device == "cuda" and not torch.cuda.is_available():
        raise DeviceUnavailableError(f"no CUDA device is available here: use {spell('device', 'cpu')}")


@contextmanager
def placed(loaded: LoadedModel, device: str, structure: bool = False) -> Iterator[torch.device]:
    """The network on the requested device with weights that can be bounded; errors inside get the model's name."""
    # an audit takes derivatives, whatever the caller has switched off
    with torch.inference_mode(False), _named(loaded), _on_device(loaded.module, device) as place:
        if not structure:
            _check_finite(loaded.module)
        yield place


@contextmanager
def _named(loaded: LoadedModel) -> Iterator[None]:
    """Put the model's name in front of an error that does not have it."""
    try:
        yield
    except LipauditError as error:
        message = str(error)
        if loaded.spec not in message and not isinstance(error, UsageError):
            error.args = (f"{loaded.spec}: {message}", *error.args[1:])
        raise


@contextmanager
def _on_device(module: nn.Module, device: str) -> Iterator[torch.device]:
    """The module on the requested device, and back where it was."""
    tensors = [*module.parameters(), *module.buffers()]
    original = tensors[0].device if has_values(module) and tensors else torch.device("cpu")
    target = original if device == "auto" else torch.device(device)
    if target == original or not tensors:
        yield original
        return
    module.to(target)
    try:
        yield target
    finally:
        module.to(original)


def _check_finite(module: nn.Module) -> None:
    lazy = [name for name, p in [*module.named_parameters(), *module.named_buffers()] if is_lazy(p)]
    if lazy:
        raise ModelLoadError(
            f"{lazy[0]} has no shape yet (a lazy module): run the network once on an input before the audit"
        )
    if not has_values(module):
        raise ModelLoadError("the network is on the meta device: load its weights, or audit its structure alone")
    bad = [name for name, p in module.named_parameters() if p.is_floating_point() and not is_finite(p.detach())]
    # a buffer may hold -inf on purpose (attention masks); where a rule reads one as a weight it is refused there
    for name, b in module.named_buffers():
        statistic = name.endswith(("running_mean", "running_var"))
        numbers = b if b.layout is torch.strided else b.values() if b.is_sparse_csr else b.coalesce().values()
        if b.is_floating_point() and bool((~torch.isfinite(numbers) if statistic else torch.isnan(numbers)).any()):
            bad.append(name)
    if bad:
        raise NonFiniteWeightsError(bad)
