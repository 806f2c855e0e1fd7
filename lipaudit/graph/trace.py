"""Running a network through ``torch.export`` and leaving it as it was found.

With ``numbers`` the entries of small parameters and buffers may be read as Python numbers while the network is traced
(``scale.item()``, ``if self.scale > 0``): they are constants of the audited function. Numbers computed from the input stay
unknown, and a network that reads one is not captured.
"""

from __future__ import annotations

import contextlib
import io
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from lipaudit.graph.functional import functional
from lipaudit.graph.placeholders import faked

ROOT = "root"
# Larger tensors are not read number by number.
MOST_NUMBERS = 64
# An export and what is silenced meanwhile belong to the whole process.
_LOCK = threading.RLock()
Sizes = dict[str, list[tuple[int, ...]]]


class _Root(nn.Module):
    """A plain module around the network: a ``GraphModule`` at the root would lose the module paths of its nodes."""

    def __init__(self, module: nn.Module, numbers: bool) -> None:
        super().__init__()
        self.root = module
        # copies: an operation in place is run on them, too
        self.known = list(_small_tensors(module)) if numbers else []

    def forward(self, *args: torch.Tensor) -> Any:
        for owner, name, value in self.known:
            traced = getattr(owner, name)
            if isinstance(traced, FakeTensor):
                traced.constant = value
        return self.root(*args)


def _small_tensors(module: nn.Module) -> Iterator[tuple[nn.Module, str, torch.Tensor]]:
    for owner in module.modules():
        for name, value in [*owner._parameters.items(), *owner._buffers.items()]:
            if value is not None and value.numel() <= MOST_NUMBERS and not value.is_meta:
                yield owner, name, value.detach().to("cpu", copy=True)


def trace(
    module: nn.Module, inputs: Mapping[str, torch.Tensor], numbers: bool
) -> tuple[torch.export.ExportedProgram, Sizes]:
    """The functional program of ``module`` in eval mode, and the shape of every module's first tensor input."""
    sizes: Sizes = {}
    with (
        _LOCK,
        _restored(module),
        faked(module) as fake,
        _record_sizes(module, sizes),
        torch.no_grad(),
        _quiet(),
        _lean(),
    ):
        module.eval()
        arguments = tuple(x if fake is None else fake.from_tensor(x) for x in inputs.values())
        program = torch.export.export(_Root(module, numbers), arguments, strict=False)
        return functional(program, numbers), sizes


def sizes_when_run(module: nn.Module, inputs: Mapping[str, torch.Tensor]) -> Sizes:
    """The same shapes from running ``module`` on the inputs themselves."""
    sizes: Sizes = {}
    with _LOCK, _restored(module), _record_sizes(module, sizes), torch.no_grad(), _quiet():
        module.eval()
        module(*inputs.values())
    return sizes


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
def _lean() -> Iterator[None]:
    """Without a stack trace on every node, which nothing here reads and which takes a fifth of the time of an export."""
    from torch.fx import config

    before = getattr(config, "do_not_emit_stack_traces", None)
    if before is not None:
        config.do_not_emit_stack_traces = True
    try:
        yield
    finally:
        if before is not None:
            config.do_not_emit_stack_traces = before


@contextmanager
def _restored(module: nn.Module) -> Iterator[None]:
    """Undo what is done to the attributes of all modules: the mode, and what a network caches while it runs."""
    before = [(c, copy(c)) for m in module.modules() for c in _containers(vars(m), set())]
    try:
        yield
    finally:
        for container, content in before:
            container.clear()
            if isinstance(container, dict | set):
                container.update(content)
            else:
                container.extend(content)


def _containers(container: Any, seen: set[int]) -> Iterator[Any]:
    """A dictionary, list, set or queue, and those within it, that forward passes may change."""
    if not isinstance(container, dict | list | set | deque) or id(container) in seen:
        return
    seen.add(id(container))
    yield container
    for part in list(container.values() if isinstance(container, dict) else container):
        yield from _containers(part, seen)


@contextmanager
def _record_sizes(module: nn.Module, sizes: Sizes) -> Iterator[None]:
    """Forward hooks that note the shape of every module's first tensor input while the network runs."""

    def hook(name: str) -> Callable[..., None]:
        def record(_module: nn.Module, args: tuple[Any, ...], _output: Any) -> None:
            first = next((a for a in args if isinstance(a, torch.Tensor)), None)
            if first is not None:
                sizes.setdefault(name, []).append(tuple(int(n) for n in first.shape))

        return record

    handles = [m.register_forward_hook(hook(name)) for name, m in module.named_modules() if name]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
