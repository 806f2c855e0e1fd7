"""The arguments of a ``forward``: which of them are the network's inputs, which are held fixed, and how it is called with both."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MethodType
from typing import Any

import torch
from torch import nn

from lipaudit.errors.inputs import (
    CollectedArgumentsError,
    KeywordHookError,
    NoFreeInputError,
    PositionalArgumentError,
    UnknownInputError,
    UnnamedInputError,
)
from lipaudit.frontends.held_inputs import Fixed, as_argument
from lipaudit.frontends.loaded import LoadedModel
from lipaudit.frontends.shapes import Shape, resolve_shapes, shape_by_first_layer

# for a forward that names none of its arguments
_UNNAMED = "input"
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True)
class Arguments:
    """The arguments of a ``forward`` by name, in order, and whether it takes further ones by position (``*``) or name (``**``).

    ``collecting`` are the names under which it has those.
    """

    parameters: Mapping[str, inspect.Parameter]
    more_positions: bool
    more_names: bool
    collecting: tuple[str, ...] = ()

    @classmethod
    def of(cls, module: nn.Module) -> Arguments:
        """Read the signature.

        >>> list(Arguments.of(nn.MultiheadAttention(4, 1)).parameters)[:3]
        ['query', 'key', 'value']
        """
        parameters = inspect.signature(module.forward).parameters
        kinds = {p.kind for p in parameters.values()}
        variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        named = {name: p for name, p in parameters.items() if p.kind not in variadic}
        collecting = tuple(name for name in parameters if name not in named)
        return cls(named, variadic[0] in kinds, variadic[1] in kinds, collecting)

    @property
    def required(self) -> list[str]:
        """The arguments without a default."""
        return [name for name, p in self.parameters.items() if p.default is inspect.Parameter.empty]

    def inputs(self, requested: Sequence[str] = (), fixed: Sequence[str] = ()) -> list[str]:
        """Which arguments are the network's inputs, in order: those without a default and those ``requested``, but the ``fixed``.

        Where that is none, the first one by position, unless that one is fixed: then the only one left that is None by default. Raises
        :class:`~lipaudit.errors.UsageError` for a name that ``forward`` does not take, and where none or no single one is left.
        """
        known = [*self.parameters, *([_UNNAMED] if self.more_positions and not self.required else [])]
        unknown = [name for name in (*fixed, *requested) if name not in known]
        for name in unknown:
            if name in self.collecting:
                raise CollectedArgumentsError(name, known)
        if unknown and not self.more_names:
            raise UnknownInputError(unknown[0], known)
        wanted = {*self.required, *requested} - set(fixed)
        chosen = [name for name in dict.fromkeys((*known, *requested)) if name in wanted]
        if chosen:
            return chosen
        by_position = [name for name, p in self.parameters.items() if p.kind in _POSITIONAL and name not in fixed]
        if not self.required and self.parameters and (first := next(iter(self.parameters))) in fixed:
            left = [name for name, p in self.parameters.items() if p.default is None and name not in fixed]
            if len(left) > 1:
                raise UnnamedInputError(first, left)
            by_position = left or by_position
        if by_position or self.more_positions:
            return [*by_position, _UNNAMED][:1]
        raise NoFreeInputError


def view(module: nn.Module, call: Callable[..., Any]) -> nn.Module:
    """A module that shares everything with ``module`` but its ``forward``: ``call(view, *inputs)``, its outputs made :func:`plain`.

    ``module`` itself is left alone.
    """

    def forward(self: nn.Module, *inputs: torch.Tensor, **more: Any) -> Any:
        return plain(call(self, *inputs, **more))  # a hook of the module may add keywords

    twin: nn.Module = object.__new__(type(module))
    # what an exported module has in these two places only refuses to be called
    twin.__dict__.update({k: v for k, v in vars(module).items() if k not in ("train", "eval")})
    twin.__dict__["forward"] = MethodType(forward, twin)  # a method, so that a deep copy runs with its own weights
    return twin


@dataclass(frozen=True, eq=False)
class _Call:
    """``forward`` with the first inputs by position, the others by name, and the ``fixed`` arguments beside them."""

    forward: Callable[..., Any]
    inputs: tuple[str, ...]
    by_position: int
    fixed: Fixed

    def __call__(self, module: nn.Module, *tensors: torch.Tensor, **more: Any) -> Any:
        held = {name: copied(value, tensors[0].device) for name, value in self.fixed.items()}
        named = dict(zip(self.inputs[self.by_position :], tensors[self.by_position :], strict=True))
        return self.forward(module, *tensors[: self.by_position], **{**named, **held, **more})


def called_with(module: nn.Module, inputs: Sequence[str], fixed: Fixed) -> nn.Module:
    """A view of ``module`` that takes its ``inputs`` by position and has the other arguments ``fixed``; it shares everything else.

    The module itself is left alone. Raises :class:`~lipaudit.errors.UsageError` for an argument that can only be given by position
    behind one that is left out, and for a module whose hooks read keyword arguments.
    """
    arguments = Arguments.of(module)
    positional = [name for name, p in arguments.parameters.items() if p.kind in _POSITIONAL]
    leading = [a == b for a, b in zip([*positional, _UNNAMED], inputs, strict=False)]
    count = leading.index(False) if False in leading else len(leading)
    named = [*inputs[count:], *fixed]
    for name in named:
        parameter = arguments.parameters.get(name)
        if (parameter is None and name == _UNNAMED) or (parameter is not None and parameter.kind is _POSITIONAL[0]):
            raise PositionalArgumentError(name)
    if named and (module._forward_pre_hooks_with_kwargs or module._forward_hooks_with_kwargs):
        raise KeywordHookError(named[0])
    own = vars(module).get("forward")
    forward = type(module).forward if own is None else _without_self(own)
    return view(module, _Call(forward, tuple(inputs), count, dict(fixed)))


def _without_self(function: Any) -> Any:
    return lambda _module, *args, **kwargs: function(*args, **kwargs)


def copied(value: object, device: torch.device) -> object:
    """A held tensor where the inputs are; a copy, because the network may write to it."""
    return value.to(device, copy=True) if isinstance(value, torch.Tensor) else value


def plain(output: Any) -> Any:
    """Outputs in built-in containers: dataclasses, named tuples and mappings of any kind become dictionaries, None is left out.

    >>> plain({"logits": 1, "loss": None}), plain((1, None, [2]))
    ({'logits': 1}, {'0': 1, '2': [2]})
    """
    if isinstance(output, Mapping):
        return {str(name): plain(value) for name, value in output.items() if value is not None}
    if dataclasses.is_dataclass(output) and not isinstance(output, type):
        return plain({field.name: getattr(output, field.name) for field in dataclasses.fields(output)})
    if isinstance(output, tuple) and hasattr(output, "_fields"):
        return plain(dict(zip(output._fields, output, strict=True)))
    if isinstance(output, list | tuple):
        if any(part is None for part in output):
            return plain({str(position): part for position, part in enumerate(output)})
        return type(output)(plain(part) for part in output)
    return output


@dataclass(frozen=True, eq=False)
class Bound:
    """A module with its inputs chosen: what :class:`~lipaudit.frontends.loaded.LoadedModel` needs of it."""

    module: nn.Module
    input_shapes: dict[str, Shape]
    input_dtypes: dict[str, torch.dtype]
    fixed: dict[str, object]
    unnamed: tuple[str, ...] = ()

    def loaded(self, *, spec: str, source: str, weights: str, **more: Any) -> LoadedModel:
        """The module as a loaded model; ``more`` are its further fields."""
        return LoadedModel(
            module=self.module,
            spec=spec,
            source=source,
            input_shapes=self.input_shapes,
            input_dtypes=self.input_dtypes,
            weights=weights,
            fixed=self.fixed,
            unnamed=self.unnamed,
            **more,
        )


def bind_inputs(
    module: nn.Module,
    requested: Mapping[str, Shape] | None,
    fixed: Fixed,
    default: Shape | None = None,
    dtype: torch.dtype | None = None,
) -> Bound:
    """Choose a module's inputs by its signature, the sizes that are ``requested`` and the arguments that are ``fixed``.

    ``default`` is the full shape that its inputs have unless another is asked for, ``dtype`` their type (default: that of the weights).
    """
    kind = dtype or next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float32)
    wanted = dict(requested or {})
    held = {name: as_argument(name, value, kind, wanted.pop(name, None)) for name, value in fixed.items()}
    arguments = Arguments.of(module)
    names = arguments.inputs([name for name in wanted if name], list(held))
    short = wanted.get("", ()) if default is None and len(names) == 1 else ()
    if (full := shape_by_first_layer(module, short)) is not None:
        wanted = {names[0]: full}
    shapes = resolve_shapes(wanted, dict.fromkeys(names, default))
    unnamed = tuple(name for name in names if name not in (*arguments.parameters, _UNNAMED))
    return Bound(called_with(module, names, held), shapes, dict.fromkeys(names, kind), held, unnamed)
