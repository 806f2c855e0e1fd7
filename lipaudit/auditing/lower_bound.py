"""The empirical lower bound of a network, how far it stretches near a user's images, and the file of the two inputs that were measured."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lipaudit.auditing.capture import Captured
from lipaudit.auditing.load import Loaded
from lipaudit.auditing.request import AuditRequest
from lipaudit.errors import CaptureError, GraphError
from lipaudit.errors.reason import reason_of
from lipaudit.frontends.images import Images
from lipaudit.graph.evaluate import can_interpret
from lipaudit.network.jacobian_norm import jacobian_norms
from lipaudit.network.lower_bound import measured_lower_bound
from lipaudit.network.pair_file import write_pair
from lipaudit.network.stretch import Pair
from lipaudit.option_names import spell
from lipaudit.records.report import ImageNorm, ImagesRecord
from lipaudit.rules.norm import Norm
from lipaudit.spectral.precompute import Progress
from lipaudit.text.local_paths import without_folders

# how far a measured stretching may lie above an upper bound: as far as rounding may move the figures
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Measured:
    """The two inputs between which the network was found to stretch most, and two near every image; None and empty where none are.

    ``at_centres`` has the norm of the Jacobian at the centre of each of several balls.
    """

    pair: Pair | None = None
    near_images: tuple[Pair, ...] = ()
    at_centres: tuple[float, ...] = ()


def search_lower_bound(
    request: AuditRequest, network: Captured, loaded: Loaded, progress: Progress | None = None
) -> Measured:
    """Inputs of the domain that the network stretches much, starting from images where there are some; nothing where none are asked for."""
    if not request.searches and not loaded.balls:
        return Measured()
    pair: Pair | None = None
    near: tuple[Pair, ...] = ()
    try:
        if request.searches:
            near = _near_images(request, network, loaded, progress)
            pair = measured_lower_bound(
                network.graph, network.inputs, request.seed, loaded.domain, near, Norm(request.norm)
            )
        at_centres = _at_centres(request, network, loaded, progress)
    except (RuntimeError, NotImplementedError) as error:
        advice = f"leave out {spell('lower_bound' if loaded.images is None else 'images')}"
        if not request.searches:
            advice = f"give {spell('around')} one centre"
        raise CaptureError(f"the network's gradient cannot be computed ({reason_of(error)}): {advice}") from error
    if pair is not None and request.save_pair is not None:
        write_pair(pair, Path(request.save_pair))
    return Measured(pair, near, at_centres)


def _at_centres(
    request: AuditRequest, network: Captured, loaded: Loaded, progress: Progress | None
) -> tuple[float, ...]:
    """The norms at the centres of several balls, each measured within its ball; none where figures or the graph are missing."""
    if request.structure or not can_interpret(network.graph):
        return ()
    norms = []
    for number, ball in enumerate(loaded.balls):
        if progress is not None:
            progress(number, len(loaded.balls), ball.name)
        (centre,) = ball.domain.centres.values()
        (pair,) = jacobian_norms(network.graph, network.inputs, [(ball.name, centre)], ball.domain, request.seed)
        norms.append(pair.quotient)
    return tuple(norms)


def _near_images(
    request: AuditRequest, network: Captured, loaded: Loaded, progress: Progress | None
) -> tuple[Pair, ...]:
    if loaded.images is None or not can_interpret(network.graph):
        return ()
    images = loaded.images
    named = [(name, image[None]) for name, image in zip(images.names, images.inputs, strict=True)]
    return tuple(
        jacobian_norms(network.graph, network.inputs, named, loaded.domain, request.seed, progress, Norm(request.norm))
    )


def images_record(
    request: AuditRequest, images: Images | None, near: Sequence[Pair], most: float | None
) -> ImagesRecord | None:
    """The norms of the Jacobian at a user's images, and their distribution; None where there are none.

    The median is the mean of the two middle norms where their number is even; the 90th percentile is the least norm that at least 90 % of
    the images do not exceed. No norm is above ``most``, the network's own lower bound.

    >>> images_record(AuditRequest(model="net.onnx"), None, (), None)
    """
    if images is None or not near:
        return None
    norms = [pair.quotient if most is None else min(pair.quotient, most) for pair in near]
    largest = max(range(len(norms)), key=norms.__getitem__)
    source = request.images if isinstance(request.images, str) else None
    return ImagesRecord(
        source=source if source is None or request.absolute_paths else without_folders(source),
        count=len(norms),
        total=images.total,
        from_pixels=images.from_pixels,
        median=statistics.median(norms),
        percentile_90=sorted(norms)[math.ceil(0.9 * len(norms)) - 1],
        largest=norms[largest],
        largest_image=images.names[largest],
        norms=tuple(map(ImageNorm, images.names, norms)),
    )


def check_not_above(lower: float, upper: float | None) -> None:
    """Raise :class:`~lipaudit.errors.GraphError` where a stretching was measured that the upper bound excludes."""
    if upper is not None and lower > upper * (1 + _ROUNDING):
        raise GraphError(
            f"two inputs were found whose outputs differ by {lower:.9g} times their distance, above the upper bound "
            f"{upper:.9g}: lipaudit or the captured graph is wrong, and no figure of this audit can be trusted; please "
            "report the model"
        )
