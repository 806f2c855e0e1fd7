"""The norm of a zero-padded convolution, border included, from the inertia of a circular one.

A zero-padded convolution W is a circular convolution C on a slightly larger lattice, of which some pixels of the input and of the output
are left out: W = Q C P* with restrictions P and Q. For a number t write

    M = [[t, -C*], [-C, t]],    ||W|| <= t  if and only if  x* M x >= 0 for every x that vanishes on the pixels left out.

M has as many negative eigenvalues as the symbol of C has singular values above t, over all frequencies of the lattice; say at most k.
Near the norm these are a few. Let k vectors Y have Y* M Y <= -d I, and let r be at least the norm of M Y on the pixels that are not left
out. Then ||W|| <= t + r^2 / d: a unit vector x without pixels left out and with x* M x = -e has, for every number a and vector c,

    (a x + Y c)* M (a x + Y c) <= -e a^2 + 2 r |a| |c| - d |c|^2,

which is negative for e > r^2 / d, so that M would be negative on k + 1 dimensions.

The vectors are y = z - x with the eigenvectors z of M of negative eigenvalues, waves, and x without pixels left out so that M y vanishes
there: a linear system with the zero-padded convolution, which conjugate gradients solve. Nothing is believed of them: what is proved of Y
is computed with its rounding (Higham, *Accuracy and Stability of Numerical Algorithms*, section
3.1, for sums).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from lipaudit.spectral.bracket import round_up
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.convolution.gram_at_frequencies import EvaluatedGram
from lipaudit.spectral.convolution.power_iteration import adjoint, apply
from lipaudit.spectral.convolution.stride import Taps
from lipaudit.spectral.convolution.symbol import Frequencies
from lipaudit.spectral.matrix.cholesky_certificate import is_below
from lipaudit.spectral.rounding import UNIT_ROUNDOFF, gamma, product_error, scale_to_unit
from lipaudit.spectral.work import Work

_UP, _DOWN = 1 + 2.0**-30, 1 - 2.0**-50
# The most singular values above t, steps of the conjugate gradients, and steps between two looks at the residual.
_MOST, _STEPS, _EVERY = 64, 240, 20
# What r^2 / d may be, relative to t.
_REST = 1e-6
# An operation in single precision beside one in double precision.
_SINGLE = 0.125
_CHUNK_NUMBERS = 2**22


def norm_near(convolution: Convolution, near: float, work: Work) -> float | None:
    """An upper bound of the norm, at most ``near`` (1 + 1e-6); None where none is proved with so much work.

    Args:
        convolution: not transposed, one group, stride 1, zero padding of at least 0; its kernel is taken exactly.
        near: a number above the norm, in plain units.
        work: what may be spent.

    >>> kernel = torch.ones(1, 1, 3)
    >>> convolution = Convolution(kernel, (9,), (1,), ((1, 1),), (1,))  # the norm is 1 + 2 cos(pi / 10) = 2.902113
    >>> bound = norm_near(convolution, 2.90212, Work(1e9))
    >>> 2.902113 < bound < 2.902125, norm_near(convolution, 2.9021, Work(1e9))
    (True, None)
    """
    if not is_covered(convolution):
        return None
    wide = convolution.kernel.detach().to("cpu", torch.float64)
    kernel, exponent = scale_to_unit(wide, wide.dim())
    scale = 2.0 ** float(exponent)
    threshold = near / scale
    if not bool(kernel.any()) or not 2.0**-500 < scale < 2.0**500 or not 0 < threshold < 2.0**100:
        return None
    lattice = _Lattice.of(convolution.with_kernel(kernel))
    waves = _waves(lattice, threshold, work)
    if waves is None:
        return None
    rest = _rest(lattice, threshold, waves, work) if waves else 0.0
    return None if rest is None else round_up((threshold + rest) * scale, 4)


def is_covered(convolution: Convolution) -> bool:
    """Whether the theorem is for such a convolution."""
    plain = convolution.groups == 1 and convolution.padding_mode == "zeros" and not convolution.transposed
    axes = zip(convolution.extent, convolution.padding, strict=True)
    return plain and set(convolution.stride) == {1} and all(0 <= p < e for e, pair in axes for p in pair)


@dataclass(frozen=True, eq=False)
class _Lattice:
    """W, and C on a lattice on which the pixels that are not left out come first on every axis."""

    padded: Convolution
    circular: Convolution

    @classmethod
    def of(cls, convolution: Convolution) -> _Lattice:
        axes = zip(
            *(convolution.input_size, convolution.output_size, convolution.extent, convolution.padding), strict=True
        )
        # a tap that leads out of the image must not lead in again at the other end
        sizes = tuple(max(h + max(pair), out, e) for h, out, e, pair in axes)
        around = zip(convolution.extent, convolution.padding, strict=True)
        padding = tuple((left, e - 1 - left) for e, (left, _) in around)
        return cls(convolution, replace(convolution, input_size=sizes, padding=padding, padding_mode="circular"))

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.circular.input_size

    def taps(self) -> Taps:
        """C as matrices and shifts, d a - left for position a of the kernel."""
        kernel, dilation = self.circular.kernel, self.circular.dilation
        places = torch.cartesian_prod(*(torch.arange(k) * d for k, d in zip(kernel.shape[2:], dilation, strict=True)))
        offsets = places.reshape(-1, len(dilation)) - torch.tensor([left for left, _ in self.circular.padding])
        return Taps(kernel.flatten(2).movedim(2, 0)[None].contiguous(), offsets, (1,) * len(dilation))


@dataclass(frozen=True, eq=False)
class _Waves:
    """Eigenvectors of M, (k, channels, *sizes) on the input and on the output, and their eigenvalues, (k,)."""

    inputs: torch.Tensor
    outputs: torch.Tensor
    values: torch.Tensor


def _waves(lattice: _Lattice, threshold: float, work: Work) -> list[_Waves] | None:
    """As many waves as M has negative eigenvalues at most, which is proved; None where these are too many."""
    taps = lattice.taps()
    gram, frequencies = EvaluatedGram(taps), Frequencies.lattice(lattice.sizes)
    if not work.take(gram.evaluation_cost * len(frequencies)):
        return None
    chunk = max(1, _CHUNK_NUMBERS // gram.numbers_per_pair)
    waves: list[_Waves] = []
    count = 0
    for start in range(0, len(frequencies), chunk):
        some = frequencies.select(slice(start, start + chunk))
        matrices = gram.at(torch.zeros(len(some), dtype=torch.long), some)
        above = (~is_below(matrices, gram.error, threshold**2 * _DOWN)).nonzero()[:, 0].tolist()
        count += len(above)
        if count > _MOST:
            return None
        for place in above:
            few = _number_above(matrices[place], gram.error, threshold)
            if few is None:
                return None
            waves.append(_waves_at(lattice, taps, some.index[place], few, threshold))
    return waves if sum(len(w.values) for w in waves) <= _MOST else None


def _number_above(matrix: torch.Tensor, error: float, threshold: float) -> int | None:
    """How many eigenvalues may be above the squared threshold: without so many of them none is, which is proved."""
    values, vectors = torch.linalg.eigh(matrix)
    above = values > threshold**2 * (1 - 1e-9)
    few, vectors = int(above.sum()), vectors[:, above]
    scaled = vectors * values[above]
    rest = matrix - scaled @ vectors.mH
    sizes = [float(torch.linalg.vector_norm(m)) for m in (matrix, scaled, vectors)]
    rounding = 4 * product_error(few + 2, complex_entries=True) * (sizes[0] + sizes[1] * sizes[2]) * _UP
    # the comparison takes the trace of what is left for one of numbers of at least 0
    if not bool((rest.diagonal().real > -(threshold**2)).all()):
        return None
    return few if bool(is_below(rest[None], error + rounding, threshold**2 * _DOWN)) else None


def _waves_at(lattice: _Lattice, taps: Taps, index: torch.Tensor, few: int, threshold: float) -> _Waves:
    """The real eigenvectors of M of so many singular values at one frequency and its opposite."""
    angles = 2 * math.pi * index.to(torch.float64) / torch.tensor(lattice.sizes)
    phases = taps.offsets.to(torch.float64) @ angles
    symbol = torch.einsum(
        "t,trc->rc", torch.polar(torch.ones_like(phases), phases), taps.matrices[0].to(torch.complex128)
    )
    own = bool((2 * index % torch.tensor(lattice.sizes) == 0).all())  # its own opposite
    left, sizes, right = torch.linalg.svd(symbol.real if own else symbol, full_matrices=False)
    pixels = torch.cartesian_prod(*(torch.arange(n, dtype=torch.float64) for n in lattice.sizes))
    turns = (pixels.reshape(-1, len(lattice.sizes)) @ angles).reshape(lattice.sizes)
    wave = torch.polar(torch.ones_like(turns), turns) / math.sqrt(math.prod(lattice.sizes))

    def on_pixels(vectors: torch.Tensor) -> torch.Tensor:
        complex_ = torch.tensordot(vectors.to(torch.complex128), wave, 0)
        return complex_.real if own else torch.cat([complex_.real, complex_.imag])

    values = (threshold - sizes[:few]).repeat(1 if own else 2)
    return _Waves(on_pixels(right[:few].conj()), on_pixels(left[:, :few].T), values)


def _rest(lattice: _Lattice, threshold: float, waves: list[_Waves], work: Work) -> float | None:
    """A bound of r^2 / d in units of t for vectors that are found here; None where it is no small one."""
    inputs, outputs = (torch.cat([getattr(w, name) for w in waves]) for name in ("inputs", "outputs"))
    values = torch.cat([w.values for w in waves])
    inside = _inside(inputs, lattice.padded.input_size), _inside(outputs, lattice.padded.output_size)
    solved = _solve(lattice.padded, threshold, *inside, values, work)
    if solved is None:
        return None
    for wave, x in zip(inside, solved, strict=True):
        wave.sub_(x)
    return _proved_rest(lattice, threshold, inputs, outputs)


def _inside(x: torch.Tensor, sizes: tuple[int, ...]) -> torch.Tensor:
    """The pixels of a tensor on the lattice that are not left out, a view."""
    for axis, size in enumerate(sizes, 2):
        x = x.narrow(axis, 0, size)
    return x


def _solve(
    padded: Convolution, threshold: float, inputs: torch.Tensor, outputs: torch.Tensor, values: torch.Tensor, work: Work
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """x and y with t x - W* y = a and t y - W x = b, for a and b the waves within the image times their eigenvalues.

    Conjugate gradients for (t^2 - W* W) x = t a + W* b in single precision, with the residual from time to time in double. None where they
    lead to no vectors that prove anything with so much work, or t is below the norm.
    """
    single = padded.with_kernel(padded.kernel.to(torch.float32))
    numbers = values.reshape(-1, *(1,) * (inputs.dim() - 1))
    first, second = numbers * inputs, numbers * outputs
    wanted = threshold * first + adjoint(padded, second)
    x = torch.zeros_like(wanted)
    residual = wanted.to(torch.float32)
    moved, direction, size = torch.zeros_like(residual), residual, _dot(residual, residual)
    cost = 4.0 * padded.kernel.numel() * math.prod(padded.output_size) * len(values)
    for step in range(1, _STEPS + 1):
        if not work.take(_SINGLE * cost):
            return None
        image = threshold**2 * direction - adjoint(single, apply(single, direction))
        curvature = _dot(direction, image)
        if not bool((curvature > 0).all()):
            return None
        length = size / curvature
        moved = moved + length * direction
        residual = residual - length * image
        if step % _EVERY == 0:
            x, moved = x + moved, torch.zeros_like(moved)
            forward = apply(padded, x)
            y = (second + forward) / threshold
            true = wanted - threshold**2 * x + adjoint(padded, forward)
            # z* M z - z* M (x, y); and r is the residual by t
            depths = x.flatten(1) @ first.flatten(1).T + y.flatten(1) @ second.flatten(1).T - torch.diag(values)
            depth = float(torch.linalg.eigvalsh((depths + depths.T) / 2)[0])
            if float(_dot(true, true).sum()) <= 0.5 * _REST * threshold**3 * depth:
                return x, y
            if not work.take(cost):
                return None
            residual = true.to(torch.float32)
        last, size = size, _dot(residual, residual)
        direction = residual + (size / last) * direction
    return None


def _dot(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The inner products of the tensors of a batch, (k, 1, ...)."""
    products: torch.Tensor = torch.linalg.vecdot(a.flatten(1), b.flatten(1))
    return products.reshape(-1, *(1,) * (a.dim() - 1))


def _proved_rest(lattice: _Lattice, threshold: float, inputs: torch.Tensor, outputs: torch.Tensor) -> float | None:
    """A bound of r^2 / d for the vectors y of these two parts; None where it is above what is asked for."""
    circular = lattice.circular
    images = threshold * inputs - adjoint(circular, outputs), threshold * outputs - apply(circular, inputs)
    y, image = (torch.cat([a.flatten(1), b.flatten(1)], 1) for a, b in ((inputs, outputs), images))
    size, image_size = (float(torch.linalg.vector_norm(m)) * _UP for m in (y, image))
    # sums of so many products, of numbers whose absolute values the operator of the absolute weights adds up
    terms = max(circular.channels) * math.prod(circular.kernel_size) + 2 ** len(lattice.sizes)
    sums = circular.kernel.abs().flatten(2).sum(2)
    largest = math.sqrt(float(sums.sum(0).max()) * float(sums.sum(1).max())) * _UP
    off = gamma(2 * terms + 16) * (largest + threshold) * size * _UP
    left = [_inside(images[0], lattice.padded.input_size), _inside(images[1], lattice.padded.output_size)]
    r = math.hypot(*(float(torch.linalg.vector_norm(m)) for m in left)) * _UP + off
    form = y @ image.T
    form = (form + form.T) / 2
    error = product_error(y.shape[1], complex_entries=False) * size * image_size + size * off
    depth = -0.99 * float(torch.linalg.eigvalsh(form)[-1])
    if not 0 < depth < math.inf:
        return None
    shift = float(torch.linalg.vector_norm(form)) * _UP
    shifted = form + shift * torch.eye(len(form), dtype=torch.float64)
    error = (error + 4 * UNIT_ROUNDOFF * shift) * _UP
    if not bool(is_below(shifted[None], error, shift - depth)):
        return None
    rest = r**2 / depth * _UP
    return rest if rest <= _REST * threshold else None
