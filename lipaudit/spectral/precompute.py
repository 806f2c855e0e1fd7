"""The norms of all weights of a network, computed before any rule asks for them: equal ones once, several at a time.

On a CPU the layers are shared among threads that compute with one thread each, which takes less than several threads for one layer;
only the largest are worked on by all threads. On a GPU they form batches
(:mod:`lipaudit.spectral.convolution.norm_batch`). What a store already knows is not computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager

import torch

from lipaudit.errors import NonFiniteWeightsError, OutputError
from lipaudit.spectral.cache import NormStore, stored_key
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.convolution.norm_batch import convolution_norms, matrix_norms
from lipaudit.spectral.fingerprint import content_key
from lipaudit.spectral.linear_map import LinearMap, OperatorNorm
from lipaudit.spectral.oracle import CertifiedNorms, certified_norm
from lipaudit.spectral.rounding import is_finite

# Layers that are worked on at a time hold some hundred megabytes each.
MOST_WORKERS = 4
# LinearMaps with more numbers are worked on by all threads, one after another.
LARGE_NUMBERS = 2**24

Progress = Callable[[int, int, str], None]


class KnownNorms(CertifiedNorms):
    """Certified norms, those of the given weights computed in advance, others when a rule asks for them.

    A weight is recognised by its identity, or by its content where a rule holds it in another object (a view of the same numbers).

    Args:
        weights: convolutions and matrices by the name that ``progress`` shows.
        tolerance: relative, as for :func:`lipaudit.spectral.convolution.norm.convolution_norm`.
        device: where the norms are computed.
        store: where norms are kept from one audit to the next.
        progress: called as progress(done, total, name).

    Attributes:
        distinct, recalled: how many different weights there are, and how many of their norms the store knew.
        unsaved: why the store did not take the others, if it did not.
    """

    def __init__(
        self,
        weights: Sequence[tuple[str, LinearMap]],
        tolerance: float,
        device: torch.device | str = "cpu",
        store: NormStore | None = None,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(tolerance)
        place = torch.device(device)
        contents = [content_key(weight) for _, weight in weights]
        keys = [stored_key(content, tolerance, place) for content in contents]
        named = dict(zip(keys, weights, strict=True))
        norms = {} if store is None else store.read(named)
        self.distinct, self.recalled = len(named), len(norms)
        fresh: dict[bytes, OperatorNorm] = {}
        self.unsaved = ""
        try:
            _find({key: named[key] for key in named if key not in norms}, tolerance, place, progress, fresh)
        finally:  # an interrupted audit has found something, too
            if store is not None:
                self.unsaved = _kept(store, fresh)
        norms |= fresh
        # the objects are kept, so that their identities stay theirs
        self._by_identity = {
            id(weight): (weight, norms[key]) for key, (_, weight) in zip(keys, weights, strict=True) if key in norms
        }
        self._by_content = {content: norms[key] for content, key in zip(contents, keys, strict=True) if key in norms}

    def norm(self, linear: LinearMap) -> OperatorNorm:
        """The norm that was computed in advance, else one that is computed now."""
        return self._known(linear) or super().norm(linear)

    def _known(self, weight: LinearMap) -> OperatorNorm | None:
        if (same := self._by_identity.get(id(weight))) is not None:
            return same[1]
        return self._by_content.get(content_key(weight))


def _kept(store: NormStore, norms: Mapping[bytes, OperatorNorm]) -> str:
    """Write norms that are good without being written; why not, if not."""
    try:
        store.write(norms)
    except OutputError as error:
        return str(error)
    return ""


def _find(
    weights: Mapping[bytes, tuple[str, LinearMap]],
    tol: float,
    device: torch.device,
    progress: Progress | None,
    norms: dict[bytes, OperatorNorm],
) -> None:
    """Fill in the norms by key. LinearMaps with NaN or infinity are left out: the rule that asks for them tells where they are."""
    if progress is not None:
        progress(0, len(weights), "")
    if device.type != "cpu":
        norms.update(_in_batches(weights, tol, device))
        return
    for count, (key, norm) in enumerate(_on_cpu(weights, tol), start=1):
        if norm is not None:
            norms[key] = norm
        if progress is not None:
            progress(count, len(weights), weights[key][0])


def _on_cpu(weights: Mapping[bytes, tuple[str, LinearMap]], tol: float) -> Iterator[tuple[bytes, OperatorNorm | None]]:
    """Keys and norms as they are found, the largest weights first."""
    order = sorted(weights, key=lambda key: -_numbers(weights[key][1]))
    workers = min(MOST_WORKERS, torch.get_num_threads())
    large = order if workers == 1 else [key for key in order if _numbers(weights[key][1]) > LARGE_NUMBERS]
    for key in large:
        yield key, _norm(weights[key][1], tol)
    if len(large) == len(order):
        return
    with _one_thread_each(), ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        jobs = {pool.submit(_norm, weights[key][1], tol): key for key in order[len(large) :]}
        try:
            for job in as_completed(jobs):
                yield jobs[job], job.result()
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """The number of threads, which the workers set for the process, afterwards as before."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _norm(linear: LinearMap, tol: float) -> OperatorNorm | None:
    try:
        return certified_norm(linear, tol)
    except NonFiniteWeightsError:
        return None


def _tensor(weight: LinearMap) -> torch.Tensor:
    return weight.weight if isinstance(weight, Convolution) else weight


def _numbers(weight: LinearMap) -> int:
    return _tensor(weight).numel()


def _in_batches(
    weights: Mapping[bytes, tuple[str, LinearMap]], tol: float, device: torch.device
) -> dict[bytes, OperatorNorm]:
    finite = {key: weight for key, (_, weight) in weights.items() if is_finite(_tensor(weight))}
    convolutions = {key: weight for key, weight in finite.items() if isinstance(weight, Convolution)}
    matrices = {key: weight for key, weight in finite.items() if isinstance(weight, torch.Tensor)}
    norms = convolution_norms([c.to(device) for c in convolutions.values()], tol)
    brackets = matrix_norms([m.to(device) for m in matrices.values()], tol)
    by_key = dict(zip(convolutions, norms, strict=True))
    by_key |= {key: OperatorNorm(b, "matrix") for key, b in zip(matrices, brackets, strict=True)}
    return by_key
