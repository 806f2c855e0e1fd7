"""Running a network that belongs to somebody else, so that nothing of it changes.

A forward pass may count its calls, cache activations, update buffers, fill lists, draw random numbers and print. What it
does to the containers of the modules' attributes (dictionaries, lists, sets, queues, also within plain objects) is undone; on
request it works on copies of all tensors, so that what it does in place is lost, too.
"""

from __future__ import annotations

import contextlib
import io
import logging
import random
import threading
import types
import warnings
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from typing import Any

import numpy as np
import torch
from torch import nn

# What is silenced and seeded meanwhile belongs to the whole process.
LOCK = threading.RLock()


@contextmanager
def untouched(module: nn.Module) -> Iterator[None]:
    """``module`` in eval mode; its attributes, its mode and the states of random generators are restored, nothing is printed.

    Tensors keep what is done to them in place; :func:`on_copies` prevents that.
    """
    with LOCK, _restored(module), _random_states(module), _quiet():
        module.eval()
        yield


@contextmanager
def on_copies(module: nn.Module) -> Iterator[None]:
    """The same with copies of all parameters, buffers and other tensors of the modules, and without warnings."""
    with untouched(module), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        copies: dict[int, torch.Tensor] = {}
        for container in list(_all_containers(module)):
            if isinstance(container, dict):
                for key, value in list(container.items()):
                    if _is_plain(value):
                        container[key] = _copy(value, copies)
            elif isinstance(container, list | deque):
                for index, value in enumerate(list(container)):
                    if _is_plain(value):
                        container[index] = _copy(value, copies)
        yield


def set_seed(seed: int) -> None:
    """Start the generators of Python, numpy and torch at ``seed``; to be called within :func:`untouched`."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


@contextmanager
def drawing(inputs: Mapping[str, torch.Tensor], seed: int | None) -> Iterator[None]:
    """With torch's generators at ``seed``, if there is one; they are left where they were."""
    if seed is None:
        yield
        return
    with torch.random.fork_rng(devices=sorted({x.device.index or 0 for x in inputs.values() if x.is_cuda})):
        torch.manual_seed(seed)
        yield


def _is_plain(value: Any) -> bool:
    """Whether a value is a tensor with numbers of its own; other subclasses know best how they are copied."""
    return type(value) in (torch.Tensor, nn.Parameter, nn.Buffer) and not value.is_meta


def _copy(value: torch.Tensor, copies: dict[int, torch.Tensor]) -> torch.Tensor:
    """A copy, the same one wherever the tensor occurs."""
    if id(value) not in copies:
        fresh = value.detach().clone()
        copies[id(value)] = nn.Parameter(fresh, value.requires_grad) if isinstance(value, nn.Parameter) else fresh
    return copies[id(value)]


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch prints and logs about an export that fails: the error says it."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(disabled)


@contextmanager
def _random_states(module: nn.Module) -> Iterator[None]:
    """The generators of Python, numpy and torch are left where they were."""
    places = {t.device for t in (*module.parameters(), *module.buffers()) if t.device.type == "cuda"}
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=sorted(place.index or 0 for place in places)):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


@contextmanager
def _restored(module: nn.Module) -> Iterator[None]:
    """Undo what is done to the attributes of all modules: the mode, and what a network caches while it runs."""
    before = [(c, copy(c)) for c in _all_containers(module)]
    try:
        yield
    finally:
        for container, content in before:
            container.clear()
            if isinstance(container, dict | set):
                container.update(content)
            else:
                container.extend(content)


def _all_containers(module: nn.Module) -> Iterator[Any]:
    seen: set[int] = set()
    for part in module.modules():
        yield from _containers(vars(part), seen, True)


def _containers(container: Any, seen: set[int], objects: bool) -> Iterator[Any]:
    """A dictionary, list, set or queue, and those within it, that forward passes may change; with plain ``objects`` once."""
    if not isinstance(container, dict | list | set | deque):
        if not objects or not _has_state(container):
            return
        container, objects = vars(container), False
    if id(container) in seen:
        return
    seen.add(id(container))
    yield container
    for part in list(container.values() if isinstance(container, dict) else container):
        yield from _containers(part, seen, objects)


def _has_state(value: Any) -> bool:
    """Whether a value is a plain object of the network's own, such as a cache."""
    kinds = (nn.Module, torch.Tensor, type, types.ModuleType, types.FunctionType, types.MethodType)
    library = type(value).__module__.partition(".")[0] in ("builtins", "torch", "logging", "threading")
    return isinstance(getattr(value, "__dict__", None), dict) and not isinstance(value, kinds) and not library
