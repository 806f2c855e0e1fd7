"""Where the model keeps a tensor that the graph shows as a constant, so that it can be read again after every step."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import nn
from torch.nn.utils import parametrize

# (module path, attribute)
Place = tuple[str, str]
# From a module path to the module.
Modules = Callable[[str], nn.Module]

# What the graph computes in float64 and a parametrization in its own precision may differ by so many units of that precision.
_UNITS = 256


def read(modules: Modules, place: Place) -> torch.Tensor:
    """The tensor at a place as it is now, differentiable in the parameters that it is made of."""
    path, attribute = place
    value: torch.Tensor = getattr(modules(path), attribute)
    return value


def places_of(
    model: nn.Module,
    names: Iterable[str],
    value: torch.Tensor,
    view: Callable[[torch.Tensor], torch.Tensor] = torch.clone,
) -> tuple[Place, ...]:
    """Every place of the tensor that a constant with these names and this value is: several if it is tied, none if the value is
    computed in a way that cannot be repeated. ``view`` takes the stored tensor to the form that the value has.

    >>> net = nn.Sequential(nn.Linear(2, 1))
    >>> places_of(net, ["0.weight"], net[0].weight), places_of(net, ["0.weight"], 2 * net[0].weight)
    ((('0', 'weight'),), ())
    """
    candidates = list(dict.fromkeys(_place(name) for name in names))
    if len(candidates) > 1:  # made of several tensors: only a parametrization can be asked to make it again
        candidates = [(p, a) for p, a in candidates if parametrize.is_parametrized(model.get_submodule(p), a)]
    matching = [place for place in candidates if _is_at(model, place, value, view)]
    if len(matching) != 1:
        return ()
    path, attribute = matching[0]
    module = model.get_submodule(path)
    if parametrize.is_parametrized(module, attribute):
        return ((path, attribute),)
    held = getattr(module, attribute)
    tied = [_place(n) for n, p in model.named_parameters(remove_duplicate=False) if p is held]
    return tuple(tied) or ((path, attribute),)


def _is_at(model: nn.Module, place: Place, value: torch.Tensor, view: Callable[[torch.Tensor], torch.Tensor]) -> bool:
    stored = getattr(model.get_submodule(place[0]), place[1], None)
    if not isinstance(stored, torch.Tensor) or not stored.is_floating_point():
        return False
    seen, wanted = view(stored.detach()).double(), value.detach().double()
    if seen.shape != wanted.shape:
        return False
    if not parametrize.is_parametrized(model.get_submodule(place[0]), place[1]):
        return torch.equal(seen, wanted)
    slack = _UNITS * torch.finfo(stored.dtype).eps * float(wanted.abs().max())
    return float((seen - wanted).abs().max()) <= slack


def _place(name: str) -> Place:
    """The module and the attribute that the name of a parameter, or of what a parametrization keeps, belongs to."""
    path, dot, rest = f".{name}".rpartition(".parametrizations.")
    if dot:
        return path.removeprefix("."), rest.split(".")[0]
    path, _, attribute = name.rpartition(".")
    return path, attribute
