"""Backward passes through a linearised network: J_v and S_vz of :mod:`lipaudit.network.local.linearise`, and the bounds that they give."""

from __future__ import annotations

import warnings

import torch

from lipaudit.network.local.steps import Moving
from lipaudit.network.local.sums import Bounds, Reach, Sums, absolute_sums, as_rows

# Entries of all tensors that backward passes hold at once.
_HELD = 2**24


class BackwardPasses:
    """The points of a network in whose direction a tensor is derived: inputs, nodes with a movement, and what was rounded.

    Attributes:
        leaves: the inputs at the centre.
        terms: the nodes that add to the bounds of what follows them.
        rounded: tensors, and what affine nodes have added to their errors.
    """

    def __init__(self, where: Reach) -> None:
        self._reach = where
        self.leaves: list[torch.Tensor] = []
        self.terms: list[Moving] = []
        self.rounded: list[tuple[torch.Tensor, torch.Tensor]] = []

    def bounds(self, value: torch.Tensor, rows: torch.Tensor | None = None) -> Bounds:
        """The bounds of ``rows @ value`` (default: of every entry).

        Args:
            value: a tensor of the network, or tensors joined.
            rows: (n, entries of the value).
        """
        count = value.numel() if rows is None else len(rows)
        chunk = max(1, _HELD // max(1, sum(t.numel() for t in self._points)))
        sums = Sums(self._reach, chunk >= count)
        for first in range(0, count, chunk):
            size = min(chunk, count - first)
            if rows is None:
                part = torch.zeros(size, count, dtype=torch.float64)
                part[torch.arange(size), first + torch.arange(size)] = 1.0
            else:
                part = rows[first : first + size]
            sums.add(*self._pulled_back(value, part.reshape(size, *value.shape)))
        return sums.bounds(value.shape if rows is None else torch.Size((count,)))

    @property
    def _points(self) -> list[torch.Tensor]:
        return [*self.leaves, *(term.value for term in self.terms)]

    def _pulled_back(
        self, value: torch.Tensor, rows: torch.Tensor
    ) -> tuple[torch.Tensor, list[tuple[Moving, torch.Tensor]], torch.Tensor]:
        """J_v (rows, inputs), S_vz for the nodes that v depends on, and what rounding in affine nodes moves every row by."""
        error = torch.zeros(len(rows), dtype=torch.float64)
        if not value.requires_grad:
            return torch.zeros(len(rows), sum(leaf.numel() for leaf in self.leaves), dtype=torch.float64), [], error
        points = [*self._points, *(rounded for rounded, _ in self.rounded)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # where rows cannot be taken all at once, it takes longer
            pulled = torch.autograd.grad(
                value, points, rows, retain_graph=True, allow_unused=True, is_grads_batched=True
            )
        own, tails = pulled[: len(self.leaves)], pulled[len(self.leaves) : len(self._points)]
        for (_, fresh), tail in zip(self.rounded, pulled[len(self._points) :], strict=True):
            if tail is not None:
                error = error + absolute_sums(tail, fresh)
        jacobian = [
            torch.zeros(len(rows), leaf.numel(), dtype=torch.float64) if part is None else as_rows(part)
            for part, leaf in zip(own, self.leaves, strict=True)
        ]
        moving = [(term, tail) for term, tail in zip(self.terms, tails, strict=True) if tail is not None]
        return torch.cat(jacobian, 1), moving, error
