"""Linear steps applied to columns of differences per frequency, and their adjoints."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from lipaudit.spectral.rounding import UNIT_ROUNDOFF


@dataclass(frozen=True, eq=False)
class SymbolMap:
    """A filter at every frequency of a space: (frequencies, aliases, c_out, c_in), or whole matrices where aliases are coupled."""

    blocks: torch.Tensor
    """(frequencies, J, c_out, c_in) where source and output have the same aliases, else (frequencies, J_out c_out, J_in c_in).

    A filter of one pixel is the same real matrix at every frequency, and kept once: (1, J, c_out, c_in).
    """
    absolute: float
    rounding: float
    uncertainty: float

    squares = None

    def apply(self, columns: torch.Tensor, at: torch.Tensor | None = None) -> torch.Tensor:
        """D(w) times columns."""
        blocks = self.blocks if at is None or len(self.blocks) == 1 else self.blocks[at]
        return _multiply(blocks, columns)

    def adjoint(self, columns: torch.Tensor) -> torch.Tensor:
        """D(w)* times columns."""
        return _multiply(self.blocks.mH, columns)

    def adjoint_of_diagonal(self, diagonal: torch.Tensor) -> torch.Tensor:
        """D(w)* times a diagonal (frequencies, positions of the output)."""
        if self.blocks.dim() == 3:
            return self.blocks.mH * diagonal[:, None, :]
        _, aliases, outputs, inputs = self.blocks.shape
        scaled = self.blocks.mH * diagonal.reshape(len(diagonal), aliases, 1, outputs)
        whole = scaled.new_zeros(len(scaled), aliases, inputs, aliases, outputs)
        whole.diagonal(dim1=1, dim2=3).copy_(scaled.permute(0, 2, 3, 1))
        return whole.reshape(len(scaled), aliases * inputs, aliases * outputs)


@dataclass(frozen=True, eq=False)
class ChannelMap:
    """A filter that acts on every channel by itself, at every frequency of a space."""

    weights: torch.Tensor
    """(frequencies, aliases of the source, channels); one frequency is for all."""
    places: torch.Tensor
    """For every alias of the source the alias of the output onto which it folds."""
    aliases: int
    """Of the output."""
    absolute: float
    rounding: float
    uncertainty: float

    @property
    def squares(self) -> torch.Tensor | None:
        """|D(w)|^2, (frequencies, positions); None where aliases fold."""
        return (self.weights.abs() ** 2).flatten(1) if len(self.places) == self.aliases else None

    def apply(self, columns: torch.Tensor, at: torch.Tensor | None = None) -> torch.Tensor:
        """D(w) times columns."""
        weights = self.weights if at is None or len(self.weights) == 1 else self.weights[at]
        parts = weights[..., None] * columns.reshape(len(columns), len(self.places), weights.shape[2], -1)
        if len(self.places) == self.aliases:
            return parts.flatten(1, 2)
        folded = parts.new_zeros(len(parts), self.aliases, *parts.shape[2:])
        return folded.index_add_(1, self.places, parts).flatten(1, 2)

    def adjoint(self, columns: torch.Tensor) -> torch.Tensor:
        """D(w)* times columns."""
        parts = columns.reshape(len(columns), self.aliases, self.weights.shape[2], -1)
        if len(self.places) != self.aliases:
            parts = parts[:, self.places]
        return (self.weights.conj()[..., None] * parts).flatten(1, 2)

    def adjoint_of_diagonal(self, diagonal: torch.Tensor) -> torch.Tensor:
        """D(w)* times a diagonal (frequencies, positions of the output)."""
        return self.adjoint(torch.diag_embed(diagonal))


def _multiply(blocks: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """Blocks (frequencies, J, a, b), or (frequencies, a, b), times columns (frequencies, J b, m)."""
    dtype = torch.promote_types(blocks.dtype, columns.dtype)
    blocks, columns = blocks.to(dtype), columns.to(dtype)
    if blocks.dim() == 3:
        return blocks @ columns
    parts = columns.reshape(len(columns), blocks.shape[1], blocks.shape[3], -1)
    return (blocks @ parts).flatten(1, 2)


@dataclass(frozen=True, eq=False)
class PoolMap:
    """The mean over all pixels: the frequency 0 alone, times sqrt(points of the lattice) / pixels."""

    frequencies: int
    zero: int | None
    """Where the frequency 0 stands, None where it is not among those of the space."""
    aliases: int
    count: int
    gain: float

    squares = None
    absolute = property(lambda self: self.gain)
    rounding = property(lambda self: 8 * UNIT_ROUNDOFF * self.gain)
    uncertainty = property(lambda self: 8 * UNIT_ROUNDOFF * self.gain)

    def apply(self, columns: torch.Tensor, at: torch.Tensor | None = None) -> torch.Tensor:
        """The mean of every channel."""
        at = torch.arange(self.frequencies) if at is None else at
        kept = (
            (at == self.zero).to(columns.dtype) if self.zero is not None else torch.zeros(len(at), dtype=columns.dtype)
        )
        return self.gain * (columns[:, : self.count] * kept[:, None, None])

    def adjoint(self, columns: torch.Tensor) -> torch.Tensor:
        """The same number for every pixel."""
        result = columns.new_zeros(
            self.frequencies, self.aliases * self.count, columns.shape[-1], dtype=torch.complex128
        )
        if self.zero is not None:
            result[self.zero, : self.count] = self.gain * columns[0 if len(columns) == 1 else self.zero]
        return result

    def adjoint_of_diagonal(self, diagonal: torch.Tensor) -> torch.Tensor:
        """The same number for every pixel of a channel."""
        return self.adjoint(torch.diag_embed(diagonal))
