"""Discrete Fourier transforms, and the operations between real and complex tensors.

Complex tensors count with the norm of their real and imaginary parts together. A transform F over N entries has
F* F = N I: every vector is stretched by sqrt(N) exactly, times the factor of the normalisation (1, 1/sqrt(N) or 1/N).
Padding and cutting to a given size are contractions.

Half spectra. The spectrum of a real signal of length n is Hermitian, and only its first n // 2 + 1 entries are kept; the
constant signal has one entry and loses none, so that the norm stays sqrt(n). Backwards the entries 0 and, for an even n,
n / 2 are their own mirror images: they count once, their imaginary parts not at all. The others count twice,

    ||x||^2 = n (sum_self (Re Y_k)^2 + 2 sum_others |Y_k|^2),

so that the norm is sqrt(2 n) where there are others. Over several axes the half spectrum belongs to the last one, and
the transform over the others is complex. Source: Parseval's identity.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from lipaudit.graph.node import Node
from lipaudit.graph.ops import aten
from lipaudit.graph.passes.fourier_filters import FOURIER_FILTER, FourierFilter
from lipaudit.rules.effect import Combination, Effect, Settings
from lipaudit.rules.movement import Movement, Neighbourhood
from lipaudit.rules.operands import data, inverse_root, number, repeats, root, stretch
from lipaudit.rules.region.axes import along
from lipaudit.rules.region.magnitude import Magnitude
from lipaudit.rules.region.radii import Axes, Radii, joined
from lipaudit.rules.rule import operations
from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.matrix.gram_batch import largest_spectral_norm

PARSEVAL = "Parseval's identity"
_ONE = Bracket.exact(1.0)
# the stretch of a transform over N entries for the factors 1, 1/sqrt(N) and 1/N
_STRETCH: tuple[Callable[[int], Bracket], ...] = (root, lambda _count: _ONE, inverse_root)
_FORWARD = {None: 0, "backward": 0, "ortho": 1, "forward": 2}


def _names(*kinds: str) -> tuple[str, ...]:
    return tuple(f"aten.fft_{kind}{dims}.default" for kind in kinds for dims in ("", "2", "n"))


FULL = operations(*_names("fft", "ifft"), *aten("_fft_c2c"))
TO_HALF = operations(*_names("rfft", "ihfft"), *aten("_fft_r2c"))
FROM_HALF = operations(*_names("irfft", "hfft"), *aten("_fft_c2r"))
FILTER = operations(FOURIER_FILTER)
PAIRS = operations(*aten("view_as_real", "view_as_complex"))
COMPLEX = operations(*aten("complex"))


def _axes(node: Node) -> tuple[int, ...]:
    """The axes that are transformed, the one of a half spectrum last."""
    rank = len(data(node, "self").shape)
    dims = node["dim"]
    if isinstance(dims, tuple):
        return tuple(int(d) % rank for d in dims)  # type: ignore[arg-type]
    if isinstance(dims, int):
        return (dims % rank,)
    sizes = node.get("s")
    return tuple(range(rank - len(sizes) if isinstance(sizes, tuple) else 0, rank))


def _stretch_of(node: Node, count: int) -> Bracket:
    """The stretch of a full transform over ``count`` entries: an inverse one has its factor where others have none."""
    if "normalization" in node.arguments:
        return _STRETCH[int(number(node, "normalization"))](count)
    kind = _FORWARD[node["norm"]]  # type: ignore[index]
    return _STRETCH[2 - kind if node.op.startswith("aten.fft_i") else kind](count)


@FULL.constant(
    formula="sqrt(N) (norm None or backward), 1 (ortho), 1 / sqrt(N) (forward); an inverse the other way round",
    source=PARSEVAL,
    exact=True,
    complex_numbers=True,
)
def full_transform(node: Node, _settings: Settings) -> Effect:
    """The whole spectrum of N entries, the sizes after padding and cutting."""
    count = math.prod(node.output.shape[a] for a in _axes(node))
    return stretch(node, {"self": _stretch_of(node, count)})


@TO_HALF.constant(
    formula="as the whole spectrum",
    source=PARSEVAL + "; constant signals lose nothing",
    exact=True,
    complex_numbers=True,
)
def half_spectrum(node: Node, _settings: Settings) -> Effect:
    """The half of the spectrum of a real signal that determines the other one."""
    *others, last = _axes(node)
    sizes = node.get("n", node.get("s"))
    given = sizes[-1] if isinstance(sizes, tuple) else sizes
    length = data(node, "self").shape[last]
    if node.get("onesided") is False:
        given = node.output.shape[last]
    padded = isinstance(given, int) and given > length
    if isinstance(given, int) and given > 0:
        length = given
    factor = _stretch_of(node, length * math.prod(node.output.shape[a] for a in others))
    # a constant signal that is padded by zeros is constant no more
    return stretch(node, {"self": factor * Bracket(-math.inf, 0.0) if padded else factor})


@FROM_HALF.constant(
    formula="as the whole spectrum, times sqrt(2) for n >= 3",
    source=PARSEVAL + "; all but two entries count twice",
    exact=True,
    complex_numbers=True,
)
def from_half_spectrum(node: Node, _settings: Settings) -> Effect:
    """The real signal of which a half spectrum is given."""
    axes = _axes(node)
    factor = _stretch_of(node, math.prod(node.output.shape[a] for a in axes))
    twice = node.output.shape[axes[-1]] >= 3 and data(node, "self").shape[axes[-1]] >= 2
    return stretch(node, {"self": factor * root(2) if twice else factor})


@FILTER.constant(
    formula="max over the frequencies of sigma_1 of the matrix of the channels",
    source=PARSEVAL + " of the half spectra on both sides",
)
def fourier_filter(node: Node, settings: Settings) -> Effect:
    """A half spectrum, a matrix for every frequency, and back."""
    payload: FourierFilter = node.payload
    total = Bracket.exact(1.0)
    for stack in payload.matrices:
        total = total * largest_spectral_norm(stack, settings.norms.tolerance)
    rigor = Rigor.CERTIFIED if payload.exact else Rigor.NUMERICAL
    return stretch(
        node, {"self": Bracket(-math.inf, total.log_upper, rigor)}, note="written out: a filter by frequency"
    )


@(FULL | TO_HALF | FROM_HALF).radii
def transformed_slices(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Every slice over the transformed axes is mapped by itself."""
    return (along(operands[0], effect.factors[0], _axes(node), node.output.shape),)


@operations(
    "aten.real.default",
    "aten.imag.default",
    "aten._conj.default",
    "aten.conj.default",
    "aten._conj_physical.default",
    "aten.conj_physical.default",
    "aten.resolve_conj.default",
    "aten.resolve_neg.default",
    "aten._neg_view.default",
).constant(
    formula="1",
    source="a part of the real and imaginary parts, or all with other signs",
    exact=True,
    entrywise=True,
    complex_numbers=True,
)
def part_or_conjugate(node: Node, _settings: Settings) -> Effect:
    """The real part, the imaginary part or the conjugate of every entry."""
    return stretch(node, {"self": 1.0})


@PAIRS.constant(formula="1", source="the same real numbers", exact=True, trivial=True, complex_numbers=True)
def pairs(node: Node, _settings: Settings) -> Effect:
    """Real and imaginary parts along an axis of their own, or back."""
    return stretch(node, {"self": 1.0})


@PAIRS.radii
def pair_radii(node: Node, _effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """A slice of complex numbers is one of real numbers over the axis of the pairs as well."""
    source, shape = operands[0].radii, node.output.shape
    if node.op.startswith("aten.view_as_real"):
        logs = {axes | {len(shape) - 1}: log for axes, log in source.logs.items()}
        return (Radii(shape, logs),)
    pair = len(source.shape) - 1
    wanted: set[Axes] = {axes - {pair} for axes in source.logs}
    return (Radii.of(shape, {tuple(t): source.over(t | {pair}) for t in wanted}).sharpest(),)


@COMPLEX.constant(
    formula="1 each, times sqrt(copies by broadcasting); root of the sum of squares",
    source="|a + i b|^2 = a^2 + b^2",
    exact=True,
    complex_numbers=True,
)
def complex_of_parts(node: Node, _settings: Settings) -> Effect:
    """real + i imag."""
    copies = {key: root(repeats(node[key], node.output)) for key in ("real", "imag")}
    return stretch(node, copies, Combination.ROOT_SUM_SQUARES)


@COMPLEX.radii
def complex_radii(node: Node, _effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """An entry strays by the root of the sum of squares of what its parts do."""
    return (joined(node.output.shape, [(_ONE, m.radii) for m in operands], power=2),)


@FILTER.movement
def filters_do_not_move(node: Node, _operands: tuple[Neighbourhood, ...]) -> Movement | None:
    """A filter is linear; None for one whose numbers are not those that are stored."""
    payload: FourierFilter = node.payload
    return Movement((None,)) if payload.exact else None
