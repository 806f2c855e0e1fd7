"""A network in the state in which its first call leaves it.

A layer that finds a norm by power iteration may do so in its first call in evaluation mode and keep the norm in a buffer:
``if self.norm == 0: self.norm += iterate(...)``. Such a call is no single graph, and the next one is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from lipaudit.errors import CaptureError, is_out_of_memory
from lipaudit.graph.capture.isolation import on_copies, set_seed


@dataclass(frozen=True)
class Computed:
    """The names of the tensors that are no numbers stored with a network: all but the ``stored`` ones.

    ``changed`` says whether a parameter or buffer is among them.
    """

    stored: frozenset[str]
    changed: bool

    def __contains__(self, name: object) -> bool:
        return name not in self.stored


@contextmanager
def called_once(module: nn.Module, inputs: Mapping[str, torch.Tensor], freeze: int | None) -> Iterator[Computed]:
    """``module`` after a call on the inputs, in evaluation mode and on copies of its tensors; what that changes is undone.

    It draws random numbers from the seed ``freeze``, if there is one. Yields what the network has computed: the parameters and buffers
    that the call changed or added, and every tensor that is neither.

    Raises:
        CaptureError: if the network does not run on the inputs.
    """
    before = {name: value.detach().clone() for name, value in _named(module)}
    with on_copies(module):
        if freeze is not None:
            set_seed(freeze)
        try:
            with torch.no_grad():
                module(*(x.clone() for x in inputs.values()))
        except Exception as error:
            if is_out_of_memory(error):
                raise
            raise CaptureError(f"the network does not run on its inputs: {error}") from error
        after = dict(_named(module))
        stored = frozenset(name for name in before.keys() & after if torch.equal(before[name], after[name]))
        yield Computed(stored, len(stored) < len(after))


def _named(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)
