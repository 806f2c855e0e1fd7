"""Filters by frequency on half spectra: irfft(M_w rfft(x)_w) with a constant matrix M_w of the channels for every frequency w.

The half of a spectrum of a real signal x that is kept determines the other one. Entries that are their own mirror images count once, the
others twice (:mod:`lipaudit.rules.ops.fourier`), so that the backward transform alone stretches by sqrt(2) what the forward one has not
shrunk. Together, for one normalisation in both,

    N ||y||^2 <= sum_self |M_w x_w|^2 + 2 sum_others |M_w x_w|^2
              <= max_w ||M_w||^2 (sum_self |x_w|^2 + 2 sum_others |x_w|^2) = max_w ||M_w||^2 N ||x||^2:

the backward transform ignores what is not Hermitian among the entries of the first kind (and their mirror images along the other axes),
an orthogonal projection. Cayley convolutions (Trockman and Kolter, *Orthogonalizing Convolutional Layers with the Cayley Transform*,
ICLR 2021) are of this kind, with unitary M_w.

Which entries belong to which frequency is followed through views by the numbers of the frequencies themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from lipaudit.graph.evaluate import evaluate, evaluate_together
from lipaudit.graph.node import Constant, Node
from lipaudit.graph.ops import aten
from lipaudit.graph.pattern import OTHER_OPERATION, GraphIndex, Match, Matcher, NoMatch
from lipaudit.spectral.rounding import is_finite

FOURIER_FILTER = "lipaudit.fourier_filter"
_BACKWARD = {f"aten.fft_irfft{dims}.default": f"aten.fft_rfft{dims}.default" for dims in ("", "2", "n")}
_VIEWS = frozenset(aten("reshape", "permute", "clone"))
_PRODUCTS = {
    "aten.matmul.default": ("self", "other"),
    "aten.bmm.default": ("self", "mat2"),
    "aten.mm.default": ("self", "mat2"),
}
_MOST_OPERATIONS = 24
_NO_FORWARD = NoMatch("what is transformed back is no filter of a half spectrum")
_OTHER_SIZES = NoMatch("the two transforms have other axes, sizes or normalisations")
_MIXED = NoMatch("a product mixes frequencies, or they are transformed back in another order")


@dataclass(frozen=True, eq=False)
class FourierFilter:
    """A filter over some ``axes`` of the tensor ``source``, computed by ``nodes``.

    ``matrices`` are stacks (frequencies, out, in) that are applied one after the other.
    """

    axes: tuple[int, ...]
    matrices: tuple[torch.Tensor, ...]
    exact: bool
    source: str
    nodes: tuple[Node, ...]

    def evaluate(self, x: torch.Tensor) -> torch.Tensor:
        """The filtered signal."""
        return evaluate_together(self.nodes, {self.source: x})


def matcher(index: GraphIndex) -> Matcher:
    """Matches backward transforms of filtered half spectra."""

    def match(node: Node) -> Match | NoMatch:
        if node.op not in _BACKWARD:
            return OTHER_OPERATION
        nodes = _chain(index, node)
        if nodes is None:
            return _NO_FORWARD
        if not _fit(nodes[0], node):
            return _OTHER_SIZES
        matrices = _matrices(nodes, node)
        if matrices is None:
            return _MIXED
        constants = [a for n in nodes for a in n.arguments.values() if isinstance(a, Constant)]
        source = nodes[0].refs[0]
        axes = tuple(sorted(_axes(nodes[0], len(source.info.shape))))
        payload = FourierFilter(axes, matrices, all(c.error == 0 for c in constants), source.name, (*nodes, node))
        new = replace(node, op=FOURIER_FILTER, arguments={"self": source}, payload=payload)
        return Match((new,), merged=tuple(n.name for n in nodes))

    return match


def _chain(index: GraphIndex, node: Node) -> list[Node] | None:
    """The operations from the forward transform to a backward one, each of which reads the one before."""
    nodes: list[Node] = []
    while len(nodes) < _MOST_OPERATIONS:
        before = index.producers[node.refs[0].name]
        nodes.append(before)
        if before.op in _BACKWARD.values():
            return nodes[::-1]
        if len(before.refs) != 1 or before.op not in _VIEWS | _PRODUCTS.keys() | {"aten.mul.Tensor"}:
            return None
        node = before
    return None


def _axes(node: Node, rank: int) -> tuple[int, ...]:
    dims, sizes = node["dim"], node.get("s")
    if isinstance(dims, int):
        return (dims % rank,)
    if isinstance(dims, tuple):
        return tuple(int(d) % rank for d in dims)  # type: ignore[arg-type]
    return tuple(range(rank - len(sizes) if isinstance(sizes, tuple) else 0, rank))


def _fit(forward: Node, backward: Node) -> bool:
    """Whether the backward transform undoes the forward one."""
    before, after = forward.refs[0].info, backward.output
    axes, others = _axes(forward, len(before.shape)), _axes(backward, len(after.shape))
    kinds = {forward["norm"] or "backward", backward["norm"] or "backward"}
    sizes = [before.shape[a] for a in axes]
    spectrum = backward.refs[0].info.shape
    return (
        forward.op == _BACKWARD[backward.op]
        and len(kinds) == 1
        and not before.dtype.is_complex
        and sizes == [after.shape[a] for a in others]
        and [forward.output.shape[a] for a in axes] == [*sizes[:-1], sizes[-1] // 2 + 1]
        and [spectrum[a] for a in others] == [*sizes[:-1], sizes[-1] // 2 + 1]
    )


def _matrices(nodes: list[Node], backward: Node) -> tuple[torch.Tensor, ...] | None:
    """The matrices of all products, None where one of them mixes frequencies."""
    forward = nodes[0]
    places = _numbers(forward.output.shape, _axes(forward, len(forward.output.shape)))
    matrices: list[torch.Tensor] = []
    for node in nodes[1:]:
        if node.op in _VIEWS:
            moved = evaluate(node, {node.refs[0].name: places})
            assert isinstance(moved, torch.Tensor)
            places = moved
            continue
        left, right = (node[key] for key in _PRODUCTS.get(node.op, ("self", "other")))
        constant = left if isinstance(left, Constant) else right
        if not isinstance(constant, Constant) or not constant.known or constant.value.is_meta:
            return None
        value = constant.value.detach()
        if not is_finite(torch.view_as_real(value) if value.is_complex() else value):
            return None
        if node.op == "aten.mul.Tensor":
            if node.output.shape != node.refs[0].info.shape:
                return None
            matrices.append(value.reshape(-1, 1, 1))
            continue
        axis = -2 if constant is left else -1
        same = places.narrow(axis, 0, 1)
        if value.dim() < 2 or places.dim() < 2 or bool((places != same).any()):
            return None
        if node.output.shape[:-2] != node.refs[0].info.shape[:-2]:
            return None  # several matrices for one vector
        places = same.expand(node.output.shape)
        matrices.append(value.reshape(-1, *value.shape[-2:]) if axis == -2 else value.reshape(-1, *value.shape[-2:]).mT)
    shape = backward.refs[0].info.shape
    if places.shape != shape or not torch.equal(places, _numbers(shape, _axes(backward, len(shape)))):
        return None
    return tuple(matrices)


def _numbers(shape: tuple[int, ...], axes: tuple[int, ...]) -> torch.Tensor:
    """The number of the frequency of every entry of a spectrum over some axes."""
    total = torch.zeros([1] * len(shape), dtype=torch.int64)
    for axis in axes:
        along = torch.arange(shape[axis]).reshape([-1 if a == axis else 1 for a in range(len(shape))])
        total = total * shape[axis] + along
    return total.expand(shape)
