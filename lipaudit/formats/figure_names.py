"""What the figures of a network are called outside of a report: a bound only where it is one."""

from __future__ import annotations

from lipaudit.records.report import DomainRecord, NetworkRecord

_BOUND, _ESTIMATE = "upper bound", "estimate, not a bound"
_MEANINGS = {
    "upper_bound": _BOUND,
    "log10_upper_bound": f"log10 of the {_BOUND}",
    "estimate": _ESTIMATE,
    "log10_estimate": f"log10 of an {_ESTIMATE}",
    "lower_bound": "largest stretching found, an empirical lower bound",
    "pixel_upper_bound": f"{_BOUND}, in pixels in [0, 1]",
    "pixel_log10_upper_bound": f"log10 of the {_BOUND}, in pixels in [0, 1]",
    "pixel_estimate": f"{_ESTIMATE}, in pixels in [0, 1]",
    "pixel_log10_estimate": f"log10 of an {_ESTIMATE}, in pixels in [0, 1]",
}


def network_figures(record: NetworkRecord | DomainRecord) -> dict[str, float]:
    """The figures that a network has, by the names of their fields; none in the place of one that it does not have.

    >>> from lipaudit.records.figure import Figure
    >>> network_figures(NetworkRecord("finite", figure=Figure(0.3010299956639812, "certified", 2.0)))
    {'upper_bound': 2.0, 'log10_upper_bound': 0.3010299956639812}
    >>> network_figures(NetworkRecord("unbounded"))
    {}
    """
    found = ((key, getattr(record, key, None)) for key in _MEANINGS)
    return {key: value for key, value in found if value is not None}


def meaning(key: str, record: NetworkRecord | DomainRecord, norm: str) -> str:
    """A figure in words.

    >>> from lipaudit.records.figure import Figure
    >>> meaning("upper_bound", NetworkRecord("finite", figure=Figure.of(2.0)), "l2")
    'l2 Lipschitz constant, upper bound (certified)'
    """
    rigor = f" ({record.rigor})" if record.rigor and key.endswith("upper_bound") else ""
    return f"{norm} Lipschitz constant, {_MEANINGS[key]}{rigor}"
