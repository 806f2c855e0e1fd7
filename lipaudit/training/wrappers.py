"""From what a training loop holds to the network that is audited: wrappers taken off, and nothing of the training disturbed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import torch
from torch import nn

from lipaudit.errors import InvalidValueError
from lipaudit.training.errors import ShardedWeightsError

# classes that hold the network in the attribute ``module``: torch.nn.parallel, Lightning Fabric, DeepSpeed. They are known by name, so
# that a network's own attribute of that name is not mistaken for the whole, and no package is imported.
_IN_MODULE = ("DistributedDataParallel", "DataParallel", "_FabricModule", "DeepSpeedEngine")
_SHARDED = ("FullyShardedDataParallel", "FSDPModule")


def unwrapped(model: nn.Module) -> nn.Module:
    """The network inside wrappers for parallel training and ``torch.compile``, in any order.

    Raises :class:`~lipaudit.errors.InvalidValueError` where there is no network, and
    :class:`~lipaudit.training.errors.ShardedWeightsError` where its weights are divided among processes: each holds a part, and the
    bound of a part is none of the whole.

    >>> net = nn.Linear(2, 2)
    >>> unwrapped(nn.DataParallel(net)) is net
    True
    """
    if not isinstance(model, nn.Module):
        raise InvalidValueError("the model in training", "an nn.Module", model)
    while True:
        names = {cls.__name__ for cls in type(model).__mro__}
        inner = getattr(model, "_orig_mod", None)  # of torch.compile
        if not isinstance(inner, nn.Module):
            inner = getattr(model, "module", None) if names.intersection(_IN_MODULE) else None
        if not isinstance(inner, nn.Module):
            break
        model = inner
    _check_whole(model)
    return model


def _check_whole(model: nn.Module) -> None:
    for module in model.modules():
        if {cls.__name__ for cls in type(module).__mro__}.intersection(_SHARDED):
            raise ShardedWeightsError(f"the network in {type(module).__name__}")
    for name, parameter in model.named_parameters():
        # a DTensor of torch.distributed has to_local, a parameter that DeepSpeed's ZeRO-3 partitions has ds_id
        if hasattr(parameter, "to_local") or hasattr(parameter, "ds_id"):
            raise ShardedWeightsError(f"the weight {name}")


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Random numbers, and the mode of every module, are afterwards what they were; autocast is off inside."""
    cuda = sorted(
        {p.device.index for p in model.parameters() if p.device.type == "cuda" and p.device.index is not None}
    )
    modes = [(module, module.training) for module in model.modules()]
    states = random.getstate(), np.random.get_state()
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=cuda))
        for kind in ("cpu", "cuda"):
            stack.enter_context(torch.autocast(kind, enabled=False))
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])
            for module, training in modes:
                module.training = training
