"""The index probe: the norm of pure data movement, by moving the numbers of the elements.

An operation that only copies, drops and fills acts on a tensor as a matrix with at most a single one in each row, so
that A^T A is diagonal: entry i counts how often element i occurs in the output, and sigma_1 = sqrt(largest count),
exactly. The operation itself is run on the element numbers 1 ... n, other data-dependent inputs being zero, and the
counts are read off.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from lipaudit.graph.arguments import call, overload
from lipaudit.graph.node import Argument, Constant, Ref, TensorInfo, parts

# Elements of input and output together; their numbers in float64 and the counts take half a gigabyte.
PROBE_LIMIT = 2**25


def largest_count(op: str, arguments: Mapping[str, Argument], position: int = 0) -> int:
    """How often one element of the ``position``-th data-dependent input occurs in the outputs of ``op``.

    >>> x = Ref("x", TensorInfo((1, 3), torch.float32))
    >>> largest_count("aten.reflection_pad1d.default", {"self": x, "padding": (2, 2)})
    3
    """
    numbered = _fill(arguments, position)
    result = call(overload(op), numbered)
    outputs = result if isinstance(result, list | tuple) else (result,)
    numbers = torch.cat([o.flatten() for o in outputs if o.is_floating_point()]).to(torch.int64)
    return int(torch.bincount(numbers[numbers > 0]).max()) if bool((numbers > 0).any()) else 0


def reduced(ref: Ref, keep: set[int]) -> Ref:
    """The same use of a tensor with every axis outside ``keep`` shortened to one entry.

    An operation that treats the entries of an axis alike has the same counts on one of them.
    """
    shape = tuple(n if axis in keep else 1 for axis, n in enumerate(ref.info.shape))
    return Ref(ref.name, TensorInfo(shape, ref.info.dtype))


def _fill(arguments: Mapping[str, Argument], position: int) -> dict[str, Any]:
    """Element numbers for one data-dependent input, zeros for the others, values for the constants."""
    places = iter(range(sum(1 for _ in parts(tuple(arguments.values()), Ref))))

    def fill(argument: Argument) -> Any:
        if isinstance(argument, tuple):
            return [fill(part) for part in argument]
        if isinstance(argument, Constant):
            value = argument.value.detach().to("cpu")
            # zeros, lest a constant be taken for an element number
            return torch.zeros_like(value, dtype=torch.float64) if value.is_floating_point() else value
        if not isinstance(argument, Ref):
            return argument
        shape = argument.info.shape
        if next(places) != position:
            return torch.zeros(shape, dtype=torch.float64)
        return torch.arange(1, 1 + math.prod(shape), dtype=torch.float64).reshape(shape)

    # a number that fills is none of the element numbers either
    return {name: 0.0 if _is_fill(name, argument) else fill(argument) for name, argument in arguments.items()}


def _is_fill(name: str, argument: Argument) -> bool:
    return name == "value" and isinstance(argument, int | float)
