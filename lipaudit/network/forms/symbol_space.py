"""Forms of large tensors, frequency by frequency.

Differences of a tensor (1, c, *sizes) are continued by zero to a lattice of N points per axis, N so large that no convolution of the
segment reads around the lattice into the domain. There a convolution is, for the unitary Fourier transform, the matrix

    D(w) = sum_a K[a] exp(i <w, d a - p>)

of every frequency w. Every constraint holds for increments that are continued by zero where the slopes contain 0, so that an inequality
between forms on the lattice is one of the network with its zero padding (docs/tightening.md). A stride of s couples the s frequencies per
axis that it folds onto one: with W the frequencies of the coarsest lattice of a segment, the positions of a tensor that is J
times finer per axis are its aliases w + N_coarse j and channels, J^d c in all, and sampling is 1 / sqrt(s^d) times the sum over aliases.

Real signals have conjugate symmetric transforms, so that half of the frequencies suffice.

A convolution with circular padding is the same matrix on the lattice of the domain's own points. There nothing is continued, and a
segment has either such convolutions or such with borders. It commutes with shifts, so that the mean over all shifts of multipliers that
prove a bound proves it as well (their set is convex): multipliers per channel lose nothing.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import torch

from lipaudit.network.forms.dense_maps import DenseMap
from lipaudit.network.forms.filters import Filter, NotRepresentableError, as_filters, check_has_batch, is_pool
from lipaudit.network.forms.spaces import Map, channels, group_positions, is_spatial, window_geometry
from lipaudit.network.forms.steps import Groups, Linear, Program, Tensor, Windows
from lipaudit.network.forms.symbol_maps import ChannelMap, PoolMap, SymbolMap
from lipaudit.spectral.rounding import UNIT_ROUNDOFF, gamma, product_error

_UP = 1 + 2.0**-30


class SymbolSpace:
    """The lattices of a segment: base points per axis, and how much finer the lattice of every spatial tensor is."""

    extends_by_zero = True

    def __init__(self, program: Program) -> None:
        self._filters: dict[str, list[Filter]] = {}
        self._finer = _resolutions(program, self._filters)
        self.base = self._base(program)
        self.whole = self._is_whole(program)
        """Whether the lattices are the domains: then nothing is continued, and multipliers per channel prove as much as any."""
        self.periodic = any(f.circular for filters in self._filters.values() for f in filters)
        """Whether they have to be, for circular padding."""
        if self.periodic and not self.whole:
            raise NotRepresentableError(
                "circular padding where another operation reads or keeps more or less than the domain"
            )
        axes = [torch.arange(n) for n in self.base]
        axes[-1] = axes[-1][: self.base[-1] // 2 + 1]
        self._frequencies = torch.cartesian_prod(*axes).reshape(-1, len(axes))
        self._maps: dict[str, list[Map]] = {}

    def at(self, frequencies: torch.Tensor) -> SymbolSpace:
        """The space with some of the frequencies, by their numbers."""
        part = copy.copy(self)
        part._frequencies = self._frequencies[frequencies]
        part._maps = {}
        return part

    @property
    def points(self) -> torch.Tensor:
        """The frequencies as points of the coarsest lattice, (frequencies, axes)."""
        return self._frequencies

    @property
    def frequencies(self) -> int:
        """How many frequencies the forms of spatial tensors have."""
        return len(self._frequencies)

    def _base(self, program: Program) -> tuple[int, ...]:
        """Points of the coarsest lattice: every tensor and what is read beside it must fit."""
        needed = {t.name: list(t.shape[2:]) for t in program.tensors if is_spatial(t)}
        sizes = {t.name: t.shape[2:] for t in program.tensors if is_spatial(t)}
        for step in program.steps:
            if isinstance(step, Linear) and step.output.name in self._filters:
                for source, filter_ in zip(step.sources, self._filters[step.output.name], strict=True):
                    read = step.output.name if filter_.transposed else source.name
                    reading = filter_.points(sizes[source.name], sizes[step.output.name])
                    needed[read] = [max(pair) for pair in zip(needed[read], reading, strict=True)]
        spatial = len(next(iter(needed.values())))
        base = [1] * spatial
        for name, points in needed.items():
            for a in range(spatial):
                base[a] = max(base[a], math.ceil(points[a] / self._finer[name][a]))
        return tuple(base)

    def _is_whole(self, program: Program) -> bool:
        """Whether the lattice of every tensor with pixels is its domain; the output of a maximum at the end has none."""
        return all(
            tensor.shape[2:] == tuple(n * f for n, f in zip(self.base, self._finer[tensor.name], strict=True))
            for tensor in program.tensors
            if is_spatial(tensor) and not _ends_with_windows(program, tensor)
        )

    def positions(self, tensor: Tensor) -> int:
        """Aliases times channels; the entries of a tensor without pixels."""
        return self.aliases(tensor) * channels(tensor) if is_spatial(tensor) else tensor.size

    def aliases(self, tensor: Tensor) -> int:
        """How many frequencies of this tensor fold onto one of the base lattice."""
        return math.prod(self._finer[tensor.name])

    def units(self, tensor: Tensor) -> torch.Tensor:
        """The channel of every position."""
        if not is_spatial(tensor):
            return torch.arange(tensor.size)
        return torch.arange(channels(tensor)).repeat(self.aliases(tensor))

    def metric_units(self, tensor: Tensor) -> torch.Tensor:
        """The channel of every position."""
        return self.units(tensor)

    def filters(self, step: Linear) -> Sequence[Filter] | None:
        """The filters of a step between tensors with pixels, None of any other."""
        return self._filters.get(step.output.name)

    def maps(self, step: Linear) -> Sequence[Map]:
        """The matrices of the step's filters."""
        name = step.output.name
        if name not in self._maps:
            if is_pool(step):
                self._maps[name] = [self._pool(step)]
            elif name in self._filters:
                self._maps[name] = [
                    self._map(f, source, step.output)
                    for f, source in zip(self._filters[name], step.sources, strict=True)
                ]
            else:
                self._maps[name] = [DenseMap(step, i) for i in range(len(step.sources))]
        return self._maps[name]

    def _pool(self, step: Linear) -> PoolMap:
        (source,) = step.sources
        points = math.prod(n * f for n, f in zip(self.base, self._finer[source.name], strict=True))
        gain = math.sqrt(points) / math.prod(source.shape[2:])
        zero = (self._frequencies == 0).all(1).nonzero().flatten().tolist()
        return PoolMap(self.frequencies, zero[0] if zero else None, self.aliases(source), channels(source), gain)

    def _map(self, filter_: Filter, source: Tensor, output: Tensor) -> Map:
        if not filter_.transposed:
            return self._ordinary(filter_, source, output)
        if filter_.kernel.dim() == 2:  # a matrix per channel, whose adjoint is none
            filter_ = replace(filter_, kernel=torch.diag_embed(filter_.kernel.T).permute(1, 2, 0))
        map_ = self._ordinary(filter_, output, source)
        assert isinstance(map_, SymbolMap)
        return SymbolMap(map_.blocks.mH.contiguous(), map_.absolute, map_.rounding, map_.uncertainty)

    def _ordinary(self, filter_: Filter, source: Tensor, output: Tensor) -> SymbolMap | ChannelMap:
        fine, coarse = self._finer[source.name], self._finer[output.name]
        symbols = self._symbols(filter_, fine)  # (frequencies, J_in, c_out, c_in), or (frequencies, J_in, c)
        taps = filter_.kernel.abs()
        by_channel = taps.dim() == 2
        sides = (taps.sum(1),) * 2 if by_channel else (taps.sum((0, 2)), taps.sum((1, 2)))
        absolute = math.sqrt(float(sides[0].max()) * float(sides[1].max())) * _UP
        phases = 32 * UNIT_ROUNDOFF * (1 + max(self.base) * max(fine))
        sums = product_error(filter_.kernel.shape[-1] + 8, complex_entries=True)
        uncertainty = ((filter_.error + sums + phases) * absolute + filter_.moved) * _UP
        terms = symbols.shape[1] * (1 if by_channel else max(symbols.shape[2:]))
        rounding = math.sqrt(2) * gamma(2 * terms + 8) * absolute
        scale = 1 / math.sqrt(math.prod(filter_.stride))
        places = [
            sum(p % c * math.prod(coarse[a + 1 :]) for a, (p, c) in enumerate(zip(alias, coarse, strict=True)))
            for alias in itertools.product(*[range(f) for f in fine])
        ]
        if by_channel:
            folds = torch.tensor(places)
            return ChannelMap(scale * symbols, folds, math.prod(coarse), absolute, rounding, uncertainty)
        if all(s == 1 for s in filter_.stride):
            return SymbolMap(symbols, absolute, rounding, uncertainty)
        folded = symbols.new_zeros(
            len(symbols), math.prod(coarse), symbols.shape[2], symbols.shape[1], symbols.shape[3]
        )
        for j, place in enumerate(places):
            folded[:, place, :, j] = scale * symbols[:, j]
        return SymbolMap(folded.flatten(3).flatten(1, 2), absolute, rounding, uncertainty)

    def _symbols(self, filter_: Filter, finer: tuple[int, ...]) -> torch.Tensor:
        if len(filter_.offsets) == 1 and not filter_.offsets.any():
            one = filter_.kernel[None, None, ..., 0]
            return one.expand(1, math.prod(finer), *one.shape[2:])
        aliases = torch.tensor(list(itertools.product(*[range(f) for f in finer]))).reshape(-1, len(finer))
        base = torch.tensor(self.base)
        points = base * torch.tensor(finer)
        index = self._frequencies[:, None, :] + base * aliases[None]  # (frequencies, J, axes)
        turns = (index[:, :, None, :] * filter_.offsets[None, None]) % points
        angles = (2 * math.pi * (turns.to(torch.float64) / points)).sum(-1)
        waves = torch.polar(torch.ones_like(angles), angles)  # (frequencies, J, taps)
        kernel = filter_.kernel.to(torch.complex128)
        return (waves.flatten(0, 1) @ kernel.flatten(0, -2).T).reshape(*waves.shape[:2], *kernel.shape[:-1])

    def window_squares(self, step: Windows, t: torch.Tensor) -> torch.Tensor:
        """The weight of every position's square: how many windows cover a pixel at most, times the channel's multiplier."""
        return self._covering(step) * t[self.units(step.sources[0])]

    def window_inside(self, step: Windows, squares: torch.Tensor) -> torch.Tensor:
        """The squares inside of windows, per channel."""
        total = torch.zeros(channels(step.output), dtype=torch.float64)
        return self._covering(step) * total.index_add_(0, self.units(step.sources[0]), squares)

    def _covering(self, step: Windows) -> int:
        kernel, stride, _, dilation = window_geometry(step.node, len(step.output.shape) - 2)
        if any(d > 1 for d in dilation):
            return math.prod(kernel)
        return math.prod(math.ceil(k / s) for k, s in zip(kernel, stride, strict=True))

    def groups(self, step: Groups) -> torch.Tensor:
        """The groups of channels, at every alias."""
        if not is_spatial(step.output):
            return group_positions(step, step.output.shape)
        if step.axis % len(step.output.shape) != 1:
            raise NotRepresentableError("entries that are sorted along pixels")
        count = channels(step.output)
        members = group_positions(step, (1, count))
        shift = torch.arange(self.aliases(step.output))[:, None, None] * count
        return torch.where(members[None] >= 0, members[None] + shift, -1).flatten(0, 1)


def _ends_with_windows(program: Program, tensor: Tensor) -> bool:
    """Whether a tensor is the output of a program that ends with a maximum.

    Its form is diagonal, and passes the maximum (:mod:`lipaudit.network.forms.pass_through`): it needs no frequencies of its own.
    """
    last = program.steps[-1]
    return isinstance(last, Windows) and last.output is tensor and program.outputs == (tensor,)


def _resolutions(program: Program, filters: dict[str, list[Filter]]) -> dict[str, tuple[int, ...]]:
    """How much finer the lattice of every spatial tensor is than the coarsest one, per axis; the filters of the steps are found on the way.

    Raises:
        NotRepresentableError: if a step has no filters, or two ways through the network lead to different resolutions.
    """
    spacing: dict[str, tuple[float, ...]] = {}
    for tensor in program.inputs:
        if is_spatial(tensor):
            spacing[tensor.name] = (1.0,) * (len(tensor.shape) - 2)
    for step in program.steps:
        if not is_spatial(step.output):
            if any(is_spatial(source) for source in step.sources) and not is_pool(step):
                raise NotRepresentableError(f"{step.node.op} between a tensor with pixels and one without")
            continue
        if not all(is_spatial(source) for source in step.sources):
            raise NotRepresentableError(f"{step.node.op} between a tensor with pixels and one without")
        found: list[tuple[float, ...]] = []
        if isinstance(step, Linear):
            filters[step.output.name] = as_filters(step)
            for source, filter_ in zip(step.sources, filters[step.output.name], strict=True):
                factors = [1 / s if filter_.transposed else float(s) for s in filter_.stride]
                found.append(tuple(g * f for g, f in zip(spacing[source.name], factors, strict=True)))
        elif isinstance(step, Windows):
            check_has_batch(step.node, len(step.output.shape) - 2)
            _, stride, _, _ = window_geometry(step.node, len(step.output.shape) - 2)
            if _ends_with_windows(program, step.output):
                stride = [1] * len(stride)
            found.append(tuple(g * s for g, s in zip(spacing[step.sources[0].name], stride, strict=True)))
        else:
            if isinstance(step, Groups) and step.axis % len(step.output.shape) != 1:
                raise NotRepresentableError("entries that are sorted along pixels")
            if any(source.shape[2:] != step.output.shape[2:] for source in step.sources):
                raise NotRepresentableError(f"{step.node.op} changes the size")
            found.extend(spacing[source.name] for source in step.sources)
        if any(g != found[0] for g in found):
            raise NotRepresentableError("branches of different resolution meet")
        spacing[step.output.name] = found[0]
    if not spacing:
        raise NotRepresentableError("no tensor has pixels")
    if any(len(g) != len(next(iter(spacing.values()))) for g in spacing.values()):
        raise NotRepresentableError("tensors have different numbers of axes")
    coarsest = [max(g[a] for g in spacing.values()) for a in range(len(next(iter(spacing.values()))))]
    finer = {}
    for name, g in spacing.items():
        ratio = tuple(coarsest[a] / g[a] for a in range(len(coarsest)))
        if any(r != round(r) for r in ratio):
            raise NotRepresentableError("resolutions that are no multiples of one another")
        finer[name] = tuple(round(r) for r in ratio)
    return finer
