"""Running a network through ``torch.export`` and leaving it as it was found.

With ``numbers`` the entries of small parameters and buffers may be read as Python numbers while the network is traced
(``scale.item()``, ``if self.scale > 0``): they are constants of the audited function. Numbers computed from the input stay
unknown, and a network that reads one is not captured.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.utils import parametrize

from lipaudit.graph.capture.functional import functional
from lipaudit.graph.capture.isolation import on_copies, set_seed, untouched
from lipaudit.graph.capture.masks import KnownMasks
from lipaudit.graph.capture.meta_tensors import faked

ROOT = "root"
# Larger tensors are not read number by number.
MOST_NUMBERS = 64
Sizes = dict[str, list[tuple[int, ...]]]


def place(path: Iterable[Any]) -> str:
    """Where an output stands in the tuple, list or dict that a network returns, from its path in the tree: ``boxes.1``."""
    return ".".join(str(getattr(k, "idx", getattr(k, "key", getattr(k, "name", k)))) for k in path)


class _Root(nn.Module):
    """A plain module around the network: a ``GraphModule`` at the root would lose the module paths of its nodes."""

    def __init__(self, module: nn.Module, numbers: bool, as_called: bool) -> None:
        super().__init__()
        self.root = module
        self.as_called = as_called
        # copies: an operation in place is run on them, too
        self.known = list(_small_tensors(module)) if numbers else []
        self.masks = KnownMasks(module) if numbers else nullcontext()

    def forward(self, *args: torch.Tensor) -> Any:
        for owner, name, value in self.known:
            traced = getattr(owner, name)
            if isinstance(traced, FakeTensor):
                traced.constant = value
        with _unnoticed() if self.as_called else nullcontext(), self.masks:
            return self.root(*args)


def _small_tensors(module: nn.Module) -> Iterator[tuple[nn.Module, str, torch.Tensor]]:
    for owner in module.modules():
        for name, value in [*owner._parameters.items(), *owner._buffers.items()]:
            if value is not None and value.numel() <= MOST_NUMBERS and not value.is_meta:
                yield owner, name, value.detach().to("cpu", copy=True)


def trace(
    module: nn.Module,
    inputs: Mapping[str, torch.Tensor],
    numbers: bool,
    as_called: bool = False,
    freeze: int | None = None,
) -> tuple[torch.export.ExportedProgram, Sizes]:
    """The functional program of ``module`` in eval mode, and the shape of every module's first tensor input.

    ``as_called`` tells a forward pass that asks that it is not being compiled or exported and that gradients are enabled. It draws random
    numbers from the seed ``freeze``, if there is one.
    """
    sizes: Sizes = {}
    with (
        untouched(module),
        faked(module) as fake,
        _record_sizes(module, sizes),
        torch.set_grad_enabled(as_called),
        _lean(),
        _written_in_place(),
        warnings.catch_warnings(),
    ):
        # what a forward pass assigns is removed again
        warnings.filterwarnings("ignore", message=r"The tensor attributes? .* assigned during export")
        if freeze is not None:
            set_seed(freeze)
        arguments = tuple(x if fake is None else fake.from_tensor(x) for x in inputs.values())
        program = torch.export.export(_Root(module, numbers, as_called), arguments, strict=False)
        return functional(program, numbers), sizes


def sizes_when_run(module: nn.Module, inputs: Mapping[str, torch.Tensor]) -> Sizes:
    """The same shapes from running ``module`` on the inputs themselves."""
    sizes: Sizes = {}
    with on_copies(module), _record_sizes(module, sizes), torch.no_grad():
        module(*inputs.values())
    return sizes


@contextmanager
def _unnoticed() -> Iterator[None]:
    """``torch.compiler.is_compiling()`` and ``is_exporting()`` are False."""
    compiler: Any = torch.compiler
    before = compiler._is_compiling_flag, compiler._is_exporting_flag
    compiler._is_compiling_flag = compiler._is_exporting_flag = False
    try:
        yield
    finally:
        compiler._is_compiling_flag, compiler._is_exporting_flag = before


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
def _written_in_place() -> Iterator[None]:
    """What a forward pass assigns to a parametrised tensor (the vectors of a power iteration) is copied into it.

    torch exchanges the tensor's storage instead, which no exported program can do.
    """
    module: Any = parametrize
    before = module._maybe_set
    module._maybe_set = lambda target, value: target.copy_(value)
    try:
        yield
    finally:
        module._maybe_set = before


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
