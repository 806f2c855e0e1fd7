"""A comparison of methods as a plain record: their figures for every layer beside certified bounds of the layer's true norm."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lipaudit.records.rendering import render
from lipaudit.records.report import ModelRecord

# a figure that misses the certified lower bound by less than this part of it has not converged to its last digits
LAST_DIGITS = 1e-6
REFERENCE = "ryu2019"  # whose network figure the others are divided by, as in Table 2 of the paper on Gram iteration


@dataclass(frozen=True)
class FigureRecord:
    """The figure of one method for one layer, in plain units where it fits a float, else None beside its decimal logarithm.

    ``rigor`` says what it is: an upper bound by a theorem (``certified``, ``numerical``) or an ``estimate``.
    ``below_lower_bound`` marks a figure that is provably no upper bound of the layer, ``shortfall`` is then the part of the
    certified lower bound that it misses. ``outcome`` is ``measured``, ``undefined`` or ``skipped``, with a ``reason`` for the last two.
    """

    method: str
    outcome: str
    figure: float | None = None
    log10_figure: float | None = None
    rigor: str | None = None
    below_lower_bound: bool = False
    shortfall: float | None = None
    seconds: float = 0.0
    reason: str = ""

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
    lower_bound: float | None
    upper_bound: float | None
    log10_lower_bound: float | None
    log10_upper_bound: float | None
    seconds: float
    figures: tuple[FigureRecord, ...]


@dataclass(frozen=True)
class MethodComparison:
    """One method on the whole network.

    ``seconds`` is the time of all its norms, ``violations`` counts the layers for which its figure is below the certified lower
    bound, ``violations_in_last_digits`` those of them that miss less than a millionth of it, ``worst_shortfall`` is the largest
    part missed. ``network_status`` is ``finite``, ``unbounded``, ``unsupported`` (``reason`` says where there is no figure) or
    ``skipped``; the figure has the rigor ``network_rigor``. ``ratio_to_ryu2019`` is the network's figure over that of ryu2019,
    None where that one was not measured.
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
    network_rigor: str | None = None
    network_figure: float | None = None
    log10_network_figure: float | None = None
    ratio_to_ryu2019: float | None = None
    reason: str = ""


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
        """The record as JSON text; ``Comparison.from_json`` reads it back to an equal record."""
        from lipaudit.records.comparison_json import to_json

        return to_json(self, indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> Comparison:
        """The record that ``to_json`` wrote; a :class:`~lipaudit.errors.UsageError` says why a text is none."""
        from lipaudit.records.comparison_json import from_json

        return from_json(text)
