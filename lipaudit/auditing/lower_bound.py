"""The empirical lower bound of a network, and the file of the two inputs at which it was measured."""

from __future__ import annotations

from pathlib import Path

from lipaudit.auditing.capture import Captured
from lipaudit.auditing.request import AuditRequest
from lipaudit.errors import CaptureError, GraphError
from lipaudit.network.domain import Domain
from lipaudit.network.lower_bound import measured_lower_bound
from lipaudit.network.pair_file import write_pair
from lipaudit.network.stretch import Pair
from lipaudit.option_names import spell

# how far a measured stretching may lie above an upper bound: as far as rounding may move the figures
_ROUNDING = 1e-9


def search_lower_bound(request: AuditRequest, network: Captured, domain: Domain) -> Pair | None:
    """Two inputs of the domain between which the network stretches much; None where none are asked for, or none can be searched."""
    if not request.lower_bound:
        return None
    try:
        pair = measured_lower_bound(network.graph, network.inputs, request.seed, domain)
    except (RuntimeError, NotImplementedError) as error:
        reason = str(error).strip().splitlines()[0]
        raise CaptureError(
            f"the network's gradient cannot be computed ({reason}): leave out {spell('lower_bound')}"
        ) from error
    if pair is not None and request.save_pair is not None:
        write_pair(pair, Path(request.save_pair))
    return pair


def check_not_above(lower: float, upper: float | None) -> None:
    """Raise :class:`~lipaudit.errors.GraphError` where a stretching was measured that the upper bound excludes."""
    if upper is not None and lower > upper * (1 + _ROUNDING):
        raise GraphError(
            f"two inputs were found whose outputs differ by {lower:.9g} times their distance, above the upper bound "
            f"{upper:.9g}: lipaudit or the captured graph is wrong, and no figure of this audit can be trusted; please "
            "report the model"
        )
