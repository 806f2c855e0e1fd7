"""A comparison of methods as a plain record: their figures for every layer beside certified bounds of the layer's true norm.

Its JSON is a format of its own, with a version of its own beside that of reports: the record, field by field, below keys that say what it
is. All seconds stand under one key, ``seconds``, in the order of the layers, so that two runs give the same document except for
``created`` and ``seconds``. Within a major version keys are only added, and a reader ignores those that it does not know. What is not known
is null; NaN and infinity are never written and never read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Annotated, Any

from lipaudit.errors import UsageError
from lipaudit.records.codec import FigureKeys, decode, encode
from lipaudit.records.document import check_kind, parse
from lipaudit.records.figure import CERTIFIED, Figure, log10_of, value_of
from lipaudit.records.rendering import render
from lipaudit.records.settings import ModelRecord

SCHEMA_VERSION = "1.0"
_KIND = "comparison"
_OUTCOMES = ("measured", "undefined", "skipped")
_STATUSES = ("finite", "unbounded", "unsupported", "skipped")
# a figure that misses the certified lower bound by less than this part of it has not converged to its last digits
LAST_DIGITS = 1e-6
REFERENCE = "ryu2019"  # whose network figure the others are divided by, as in Table 2 of the paper on Gram iteration


@dataclass(frozen=True)
class FigureRecord:
    """The figure of one method for one layer: an upper bound by a theorem, or an estimate, as its rigor says; None unless measured.

    ``figure``, ``log10_figure`` and ``rigor`` are its numbers.
    ``below_lower_bound`` marks a figure that is provably no upper bound of the layer, ``shortfall`` is then the part of the
    certified lower bound that it misses. ``outcome`` is ``measured``, ``undefined`` or ``skipped``, with a ``reason`` for the last two.
    """

    method: str
    outcome: str
    measured: Annotated[Figure | None, FigureKeys("figure", "log10_figure", rigor="rigor")] = None
    below_lower_bound: bool = False
    shortfall: float | None = None
    seconds: float = 0.0
    reason: str = ""

    @property
    def figure(self) -> float | None:
        """The figure in plain units; None where it does not fit a float, or nothing was measured."""
        return value_of(self.measured)

    @property
    def log10_figure(self) -> float | None:
        """The decimal logarithm of the figure; None where that is 0, or nothing was measured."""
        return log10_of(self.measured)

    @property
    def rigor(self) -> str | None:
        """What the figure is worth."""
        return None if self.measured is None else self.measured.rigor

    @property
    def in_last_digits(self) -> bool:
        """Whether the figure is below the certified lower bound, but by less than a millionth of it."""
        return self.shortfall is not None and self.shortfall < LAST_DIGITS


@dataclass(frozen=True)
class LayerComparison:
    """A convolution or dense layer, certified bounds of its norm and how long these took, and the figures of all methods."""

    name: str
    op: str
    weight_shape: tuple[int, ...] | None
    input_size: tuple[int, ...] | None
    details: str
    seconds: float
    figures: tuple[FigureRecord, ...]
    lower: Annotated[Figure | None, FigureKeys("lower_bound", "log10_lower_bound", worth=CERTIFIED, upwards=False)] = (
        None
    )
    upper: Annotated[Figure | None, FigureKeys("upper_bound", "log10_upper_bound", worth=CERTIFIED)] = None

    @property
    def lower_bound(self) -> float | None:
        """The certified lower bound in plain units; None where there is none."""
        return value_of(self.lower)

    @property
    def log10_lower_bound(self) -> float | None:
        """The decimal logarithm of the lower bound."""
        return log10_of(self.lower)

    @property
    def upper_bound(self) -> float | None:
        """The certified upper bound in plain units; None where it does not fit a float, or there is none."""
        return value_of(self.upper)

    @property
    def log10_upper_bound(self) -> float | None:
        """The decimal logarithm of the upper bound."""
        return log10_of(self.upper)


@dataclass(frozen=True)
class MethodComparison:
    """One method on the whole network.

    ``seconds`` is the time of all its norms, ``violations`` counts the layers for which its figure is below the certified lower
    bound, ``violations_in_last_digits`` those of them that miss less than a millionth of it, ``worst_shortfall`` is the largest
    part missed. ``network_status`` is ``finite``, ``unbounded``, ``unsupported`` (``reason`` says where there is no figure) or
    ``skipped``. ``network`` is the figure; its numbers are ``network_figure``, ``log10_network_figure`` and ``network_rigor``.
    ``ratio_to_ryu2019`` is the network's figure over that of ryu2019, None where that one was not measured.
    """

    name: str
    title: str
    reference: str
    claim: str
    iterations: int | None
    seconds: float
    measured: int
    undefined: int
    skipped: int
    violations: int
    violations_in_last_digits: int
    worst_shortfall: float | None
    network_status: str
    network: Annotated[Figure | None, FigureKeys("network_figure", "log10_network_figure", rigor="network_rigor")] = (
        None
    )
    ratio_to_ryu2019: float | None = None
    reason: str = ""

    @property
    def network_figure(self) -> float | None:
        """The figure of the network in plain units; None where it does not fit a float, or there is none."""
        return value_of(self.network)

    @property
    def log10_network_figure(self) -> float | None:
        """The decimal logarithm of the network's figure; None where that is 0, or there is none."""
        return log10_of(self.network)

    @property
    def network_rigor(self) -> str | None:
        """What the network's figure is worth."""
        return None if self.network is None else self.network.rigor


@dataclass(frozen=True)
class ComparisonSettings:
    """Everything that the figures depend on beside the model; ``time_limit`` is in seconds per method, None for none."""

    norm: str = "l2"
    domain: str = "global"
    tolerance: float = 1e-3
    seed: int = 0
    device: str = "cpu"
    dtype: str = "float64"
    time_limit: float | None = None


@dataclass(frozen=True)
class Comparison:
    """What ``lipaudit compare`` found."""

    model: ModelRecord
    settings: ComparisonSettings
    layers: tuple[LayerComparison, ...]
    methods: tuple[MethodComparison, ...]
    tool_version: str
    created: str
    environment: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The tables that the command line prints."""
        return render(self, "table")

    def to_json(self, indent: int | None = 2) -> str:
        """The record as JSON text (ASCII, no trailing newline); ``Comparison.from_json`` reads it back to an equal record."""
        body = encode(self)
        seconds = {
            "layers": [
                {"bounds": layer.pop("seconds"), "figures": {f["method"]: f.pop("seconds") for f in layer["figures"]}}
                for layer in body["layers"]
            ],
            "methods": {method["name"]: method.pop("seconds") for method in body["methods"]},
        }
        tool = {"name": "lipaudit", "version": body.pop("tool_version")}
        head = {"kind": _KIND, "schema_version": SCHEMA_VERSION, "tool": tool, "created": body.pop("created")}
        return json.dumps({**head, **body, "seconds": seconds}, indent=indent, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Comparison:
        """The record that ``to_json`` wrote.

        Raises :class:`~lipaudit.errors.UsageError` for a document that is no comparison, that has another major version, or that lacks or
        contradicts what it must say; the message names the place.
        """
        document = parse(text, _KIND)
        check_kind(document, _KIND, "compare", SCHEMA_VERSION)
        try:
            timed = _with_seconds(document)
        except (KeyError, IndexError, TypeError, AttributeError):
            raise UsageError(
                "the seconds of the comparison do not fit its layers and methods: the file was cut or edited; write it again with "
                "`lipaudit compare --format json`"
            ) from None
        comparison = decode(cls, {**timed, "tool_version": document["tool"].get("version")}, "comparison")
        _check_words(comparison)
        return comparison


def _with_seconds(document: dict[str, Any]) -> dict[str, Any]:
    """The document with all seconds back in their places."""
    seconds, layers = document["seconds"], []
    for layer, spent in zip(document["layers"], seconds["layers"], strict=False):
        figures = [{**figure, "seconds": spent["figures"][figure["method"]]} for figure in layer["figures"]]
        layers.append({**layer, "seconds": spent["bounds"], "figures": figures})
    if len(layers) < max(len(document["layers"]), len(seconds["layers"])):
        raise KeyError("layers")
    methods = [{**method, "seconds": seconds["methods"][method["name"]]} for method in document["methods"]]
    return {**document, "layers": layers, "methods": methods}


def _check_words(comparison: Comparison) -> None:
    """Refuse outcomes and statuses that no comparison has: they would be shown as figures."""
    for layer in comparison.layers:
        for figure in layer.figures:
            if figure.outcome not in _OUTCOMES:
                raise UsageError(
                    f"the outcome of {figure.method} for {layer.name} is {figure.outcome!r}, none of {_OUTCOMES}"
                )
        if [figure.method for figure in layer.figures] != [method.name for method in comparison.methods]:
            raise UsageError(f"the layer {layer.name} has figures of other methods than the comparison")
    for method in comparison.methods:
        if method.network_status not in _STATUSES:
            raise UsageError(f"the network_status of {method.name} is {method.network_status!r}, none of {_STATUSES}")
