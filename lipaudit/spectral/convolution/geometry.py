"""Convolutions by their geometry: kernel, input size, stride, padding, dilation, groups.

One axis of a convolution reads y[j] = sum_a K[a] x[s j + d a - p_lo] with kernel positions a, stride s, dilation d and padding p
(:mod:`lipaudit.spectral.convolution.stride` makes the stride 1). A transposed convolution is the adjoint of a convolution and has the
same norm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

PADDING_MODES = ("zeros", "circular", "reflect", "replicate")


@dataclass(frozen=True, eq=False)
class Convolution:
    """A convolution without bias acting on one sample.

    ``weight`` is (c_out, c_in / groups, *k) as torch stores it, for ``transposed`` (c_in, c_out / groups, *k); the ``kernel`` is
    its product with the ``scales``, which are kept apart because the product would take as much memory once more.
    ``input_size`` are the spatial sizes of the input; ``padding`` is a (left, right) pair per axis, for ``transposed``
    the symmetric amount that torch removes. Negative zero padding ignores pixels at the border. ``error`` bounds how far an entry of
    the kernel may be from the one that is meant, relative to the entry, and ``moved`` the spectral norm of what the operator may be
    off by beside (:mod:`lipaudit.graph.passes.folding_errors`); no norm accounts for them.
    """

    weight: torch.Tensor
    input_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int = 1
    padding_mode: str = "zeros"
    transposed: bool = False
    output_padding: tuple[int, ...] = ()
    scales: tuple[torch.Tensor, ...] = ()
    error: float = 0.0
    moved: float = 0.0

    def __post_init__(self) -> None:
        d = self.weight.dim() - 2
        if d not in (1, 2, 3):
            raise ValueError(f"a convolution kernel has 3 to 5 axes, not the shape {tuple(self.weight.shape)}")
        if self.weight.is_complex():
            raise ValueError("complex kernels are not supported: pass the real and imaginary parts as channels")
        for name in ("input_size", "stride", "padding", "dilation"):
            if len(getattr(self, name)) != d:
                raise ValueError(f"{name} needs {d} entries for a kernel of shape {tuple(self.weight.shape)}")
        if self.groups < 1 or self.weight.shape[0] % self.groups:
            raise ValueError(f"{self.weight.shape[0]} channels cannot be split into {self.groups} groups")
        if min(self.stride) < 1 or min(self.dilation) < 1:
            raise ValueError("stride and dilation must be at least 1")
        if self.padding_mode not in PADDING_MODES:
            raise ValueError(f"padding_mode must be one of {', '.join(PADDING_MODES)}, not {self.padding_mode!r}")
        if self.transposed and self.padding_mode != "zeros":
            raise ValueError("a transposed convolution pads with zeros only")
        if self.transposed:
            for o, s, d_ in zip(self.output_padding, self.stride, self.dilation, strict=True):
                if not 0 <= o < max(s, d_):
                    raise ValueError(f"output_padding {o} must be smaller than stride {s} or dilation {d_}")
        for h, p in zip(self.input_size, self.padding, strict=True):
            if (self.padding_mode == "reflect" and max(p) >= h) or (self.padding_mode == "circular" and max(p) > h):
                raise ValueError(f"{self.padding_mode} padding {p} is too large for an input of size {h}")
        if min(self.input_size) < 1 or min(self.output_size) < 1:
            raise ValueError(
                f"an input of size {self.input_size} gives an output of size {self.output_size}: "
                "the kernel does not fit"
            )

    @classmethod
    def like_torch(
        cls,
        kernel: torch.Tensor,
        input_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | str | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        padding_mode: str = "zeros",
        transposed: bool = False,
        output_padding: int | Sequence[int] = 0,
    ) -> Convolution:
        """The convolution that ``torch.nn.Conv2d`` or ``ConvTranspose2d`` (1 to 3 dimensions) computes with these arguments."""
        d = kernel.dim() - 2

        def each(value: int | Sequence[int]) -> tuple[int, ...]:
            return (value,) * d if isinstance(value, int) else tuple(value)

        dilations = each(dilation)
        if padding == "same":
            if any(s != 1 for s in each(stride)):
                raise ValueError('padding="same" needs stride 1')
            totals = [d_ * (k - 1) for d_, k in zip(dilations, kernel.shape[2:], strict=True)]
            sides = tuple((t // 2, t - t // 2) for t in totals)
        elif padding == "valid":
            sides = ((0, 0),) * d
        elif isinstance(padding, str):
            raise ValueError(f'padding must be integers, "same" or "valid", not {padding!r}')
        else:
            sides = tuple((p, p) for p in each(padding))
            if any(p < 0 for p in each(padding)):
                raise ValueError("padding must be at least 0")
        return cls(
            kernel,
            each(input_size),
            each(stride),
            sides,
            dilations,
            groups,
            padding_mode,
            transposed,
            each(output_padding),
        )

    @property
    def kernel(self) -> torch.Tensor:
        """weight * scales[0] * scales[1] ..., in float64 if there are any."""
        if not self.scales:
            return self.weight
        kernel = self.weight.to(torch.float64)
        for scale in self.scales:
            kernel = kernel * (scale.to("meta") if kernel.is_meta else scale)
        return kernel

    def with_kernel(self, kernel: torch.Tensor, **changes: Any) -> Convolution:
        """The same convolution with another kernel, and other changes of its fields."""
        return replace(self, weight=kernel, scales=(), **changes)

    @property
    def kernel_size(self) -> tuple[int, ...]:
        """Taps per axis, without dilation."""
        return tuple(self.weight.shape[2:])

    @property
    def extent(self) -> tuple[int, ...]:
        """Pixels per axis that a kernel spans: (k - 1) d + 1."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel_size, self.dilation, strict=True))

    @property
    def geometry(self) -> tuple[object, ...]:
        """Everything but the kernel."""
        return (
            *(self.input_size, self.stride, self.padding, self.dilation),
            *(self.groups, self.padding_mode, self.transposed, self.output_padding),
        )

    def to(self, device: torch.device | str) -> Convolution:
        """The same convolution with its weight on another device."""
        return replace(self, weight=self.weight.to(device), scales=tuple(scale.to(device) for scale in self.scales))

    @property
    def channels(self) -> tuple[int, int]:
        """(input channels, output channels)."""
        first, second = self.weight.shape[0], self.weight.shape[1] * self.groups
        return (first, second) if self.transposed else (second, first)

    @property
    def output_size(self) -> tuple[int, ...]:
        """Spatial sizes of the output."""
        axes = zip(self.input_size, self.extent, self.stride, self.padding, strict=True)
        if self.transposed:
            return tuple(
                (h - 1) * s - sum(p) + k + o for (h, k, s, p), o in zip(axes, self.output_padding, strict=True)
            )
        return tuple((h + sum(p) - k) // s + 1 for h, k, s, p in axes)

    def adjoint(self) -> Convolution:
        """The ordinary convolution whose adjoint a transposed convolution is (same norm).

        It reads the transposed convolution's output and must give back exactly its input's size: whole strides of
        output padding are taken off the right border.
        """
        if not self.transposed:
            raise ValueError("only a transposed convolution is given by its adjoint")
        axes = zip(self.padding, self.stride, self.output_padding, strict=True)
        padding = tuple((left, right - s * (o // s)) for (left, right), s, o in axes)
        return replace(self, input_size=self.output_size, padding=padding, transposed=False, output_padding=())

    def grouped_taps(self) -> torch.Tensor:
        """The kernel as (groups, c_out / groups, c_in / groups, *k), for an ordinary convolution."""
        return self.kernel.reshape(self.groups, -1, *self.weight.shape[1:])


def padding_source(position: int, size: int, mode: str) -> int | None:
    """The pixel of an axis that padding copies to ``position`` (negative on the left), None for a padded zero.

    >>> [padding_source(i, 4, "reflect") for i in (-2, 0, 3, 5)], padding_source(-1, 4, "zeros")
    ([2, 0, 3, 1], None)
    """
    if 0 <= position < size:
        return position
    if mode == "zeros":
        return None
    if mode == "replicate":
        return min(max(position, 0), size - 1)
    if mode == "circular":
        return position % size
    return size - 1 - abs(size - 1 - abs(position))


def padding_copies(size: int, padding: tuple[int, int], mode: str) -> int:
    """How often the most copied pixel of an axis occurs after padding; the norm of the padding is the square root.

    >>> padding_copies(6, (2, 2), "reflect"), padding_copies(5, (2, 2), "reflect")
    (2, 3)
    >>> padding_copies(6, (2, 2), "replicate")
    3
    """
    if mode == "zeros":
        return 1
    return max(Counter(padding_source(i, size, mode) for i in range(-padding[0], size + padding[1])).values())
