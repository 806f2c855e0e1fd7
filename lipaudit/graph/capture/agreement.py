"""Whether a captured graph computes what the module itself computes when it is called.

``torch.export`` runs a module once, on tensors without values, with gradients disabled, and tells it so when it asks. A module
whose forward pass depends on any of that, on a state of its own, on Python's random numbers or on the input's values is another
function when it is called. So the module is called as a user calls it, in its own precision and outside of torch.export, on
zeros, on random numbers and on large ones, with gradients and without, and every result is compared with the graph's.

Rounding is no difference. Mostly the module and the graph run the same kernels and agree to the last bit; where they do not,
the graph is evaluated in float64, once as it is and twice with every value moved by up to one rounding of the module's
precision. How far that moves the outputs is the noise of that precision at the magnitudes inside the network.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.utils import _pytree as pytree

from lipaudit.errors import GraphError
from lipaudit.errors.reason import typed_reason_of
from lipaudit.graph.capture.isolation import on_copies, set_seed
from lipaudit.graph.capture.meta_tensors import has_values
from lipaudit.graph.capture.rounding_noise import FACTOR, Change, perturbations
from lipaudit.graph.capture.trace import place
from lipaudit.graph.evaluate import can_interpret, interpret
from lipaudit.graph.node import Graph, Node

LARGE = 100.0
# Matrix products on a GPU may run on the 10 bits of TF32.
_TF32 = 2.0**-10


@dataclass(frozen=True)
class _Sample:
    name: str
    inputs: Mapping[str, torch.Tensor]
    gradients: bool
    seed: int


def disagreement(
    module: nn.Module, inputs: Mapping[str, torch.Tensor], graph: Graph, freeze: int | None = None
) -> str | None:
    """What was seen where the module and its graph differ by more than rounding, in one sentence; None where nothing was.

    The module draws its random numbers from the seed ``freeze``, or from another one at every call. Inputs that are not made of
    floating-point numbers are taken as given. Nothing is compared without weights, or where the graph
    has operations that cannot be evaluated; those have no rule, and nothing is claimed for them.
    """
    if not has_values(module) or not can_interpret(graph):
        return None
    constants: dict[str, torch.Tensor] = {}
    for sample in _samples(inputs, freeze):
        try:
            try:
                returned = _call(module, sample)
            except RuntimeError:  # with gradients some operations in place are refused
                sample = replace(sample, gradients=False)
                returned = _call(module, sample)
        except Exception as error:
            if not _runs(graph, sample):
                continue  # not a function of such inputs (a singular matrix)
            return f"the module itself does not run on {sample.name}: {typed_reason_of(error)}"
        known = dict(zip(graph.output_names, graph.outputs, strict=True))
        if missing := sorted(set(known) - set(returned)):
            return f"the module called on {sample.name} returns no tensor at {', '.join(missing)}, which its export returns"
        difference = _difference(graph, sample, {known[name]: returned[name] for name in known})
        if difference is not None:
            return _sentence(module, sample, difference)
        for name in set(returned) - set(known):
            before = constants.setdefault(name, returned[name])
            gap = _gap(before, returned[name])
            if gap > FACTOR * _unit(before) * _size(before):
                return _sentence(module, sample, f"output {name} changes by {gap:.3g}, which is constant in its export")
    return None


def _runs(graph: Graph, sample: _Sample) -> bool:
    try:
        with torch.no_grad():
            _evaluated(graph, sample)
    except RuntimeError:
        return False
    return True


def _samples(inputs: Mapping[str, torch.Tensor], freeze: int | None) -> list[_Sample]:
    generator = torch.Generator().manual_seed(0)

    def random_numbers(scale: float) -> dict[str, torch.Tensor]:
        return {
            name: (torch.randn(x.shape, generator=generator) * scale).to(x) if x.is_floating_point() else x
            for name, x in inputs.items()
        }

    return [
        _Sample("zeros", random_numbers(0.0), True, 1 if freeze is None else freeze),
        _Sample("random inputs", random_numbers(1.0), False, 2 if freeze is None else freeze),
        _Sample("large random inputs", random_numbers(LARGE), True, 3 if freeze is None else freeze),
    ]


def _call(module: nn.Module, sample: _Sample, again: bool = False) -> dict[str, torch.Tensor]:
    """The module's tensors by their places in what it returns."""
    seed = sample.seed + 1000 * again
    with on_copies(module), torch.set_grad_enabled(sample.gradients):
        set_seed(seed)
        result = module(*(x.clone() for x in sample.inputs.values()))
        return {
            place(path): leaf.detach().clone()
            for path, leaf in pytree.tree_flatten_with_path(result)[0]
            if isinstance(leaf, torch.Tensor)
        }


def _difference(graph: Graph, sample: _Sample, returned: Mapping[str, torch.Tensor]) -> str | None:
    with torch.no_grad():
        ours = _evaluated(graph, sample)
        if all(
            ours[name].shape == returned[name].shape and torch.equal(ours[name], returned[name]) for name in returned
        ):
            return None
        exact = _evaluated(graph, sample, torch.float64)
        moved = [_evaluated(graph, sample, torch.float64, change) for change in _perturbations(sample)]
    for name, where in zip(graph.outputs, graph.output_names, strict=True):
        value = returned[name]
        if value.shape != ours[name].shape:
            return f"output {where} has the shape {tuple(value.shape)}, and {tuple(ours[name].shape)} in its export"
        if not value.is_floating_point() and not value.is_complex():
            continue  # what is counted or chosen jumps, and no rule bounds it
        if not torch.equal(torch.isfinite(value), torch.isfinite(ours[name])):
            return f"output {where} has other entries that are infinite or undefined than its export"
        noise = max(_gap(exact[name], other[name]) for other in moved)
        allowed = FACTOR * (noise + _unit(value) * _size(exact[name]))
        gap = min(_gap(ours[name], value), _gap(exact[name], value))
        if gap > allowed:
            return f"output {where} differs by {gap:.3g} from its export, where rounding explains {allowed:.1g}"
    return None


def _perturbations(sample: _Sample) -> Iterator[Change]:
    place = next((x.device for x in sample.inputs.values()), torch.device("cpu"))

    def unit(node: Node) -> float:
        return _unit(torch.empty(0, dtype=node.output.dtype, device=place))

    return perturbations([place], unit)


def _unit(value: torch.Tensor) -> float:
    """How far one rounding in the precision of a tensor goes, relative to what is rounded."""
    if not value.is_floating_point() and not value.is_complex():
        return 0.0
    unit = torch.finfo(value.dtype).eps
    return max(unit, _TF32) if value.device.type == "cuda" and value.dtype == torch.float32 else unit


def _evaluated(
    graph: Graph,
    sample: _Sample,
    dtype: torch.dtype | None = None,
    change: Change | None = None,
) -> dict[str, torch.Tensor]:
    """The graph's outputs; what it draws at random is the same every time, and not what the module draws."""
    with torch.random.fork_rng(devices=sorted({x.device.index or 0 for x in sample.inputs.values() if x.is_cuda})):
        torch.manual_seed(0)
        values = interpret(graph, sample.inputs, None, dtype, change)
    if several := [name for name, value in values.items() if not isinstance(value, torch.Tensor)]:
        raise GraphError(f"the output {several[0]} is no single tensor")
    return {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}


def _wide(value: torch.Tensor) -> torch.Tensor:
    return (torch.view_as_real(value) if value.is_complex() else value).to(torch.float64)


def _gap(first: torch.Tensor, second: torch.Tensor) -> float:
    """The largest difference of two tensors among entries that are finite in both, infinite where the shapes differ."""
    if first.shape != second.shape:
        return float("inf")
    gap = (_wide(first) - _wide(second)).abs()
    return float(gap[torch.isfinite(gap)].amax()) if bool(torch.isfinite(gap).any()) else 0.0


def _size(value: torch.Tensor) -> float:
    sizes = _wide(value).abs()
    return float(sizes[torch.isfinite(sizes)].amax()) if bool(torch.isfinite(sizes).any()) else 0.0


def _sentence(module: nn.Module, sample: _Sample, difference: str) -> str:
    how = "enabled" if sample.gradients else "disabled"
    first, second = _call(module, sample), _call(module, sample, again=True)
    if first.keys() != second.keys() or any(_gap(first[name], second[name]) > 0 for name in first):
        return (
            f"two calls of the module on the same input ({sample.name}) give different outputs: it draws random numbers in eval "
            "mode, so that there is no single function to bound"
        )
    return (
        f"the module is not the function that torch.export captured: called on {sample.name} with gradients {how}, its "
        f"{difference}. Its forward may ask how it is run (torch.compiler.is_compiling, torch.is_grad_enabled, types of tensors), keep "
        "a state or read the input's values: make it one function of its input and its weights"
    )
