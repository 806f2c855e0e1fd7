"""Two audits beside each other, as a plain record: which rows are the same operation, and how far their bounds moved."""

from __future__ import annotations

from dataclasses import dataclass

from lipaudit.records.rendering import render
from lipaudit.records.report import DomainRecord, LayerRecord, ModelRecord, NetworkRecord, SettingsRecord

LOST, GAINED, STATUS, MISSING = "lost", "gained", "status", "missing"
GREW, SHRANK, WITHIN = "grew", "shrank", "within brackets"
ROSE, FELL, SAME = "rose", "fell", "same"
# without a bracket, figures this close (in log10) are the same: rounding alone moves them that far
ROUNDING = 1e-9


@dataclass(frozen=True)
class Subject:
    """One of the two reports, without its rows."""

    model: ModelRecord
    settings: SettingsRecord
    network: NetworkRecord
    tool_version: str
    created: str


@dataclass(frozen=True)
class Move:
    """From one figure to another.

    ``verdict`` is ``lost`` (a proven bound before, none after), ``gained``, ``status`` (no proven bound before or after, but for
    another reason), ``missing`` (the same reason), ``grew``, ``shrank``, ``within brackets``, or where there are no brackets ``rose``,
    ``fell`` and ``same``. ``log10_factor`` is the decimal logarithm of the figure after over the one before, None where one of them
    is missing or 0; ``factor`` is the quotient itself where it fits a float.
    """

    verdict: str
    factor: float | None = None
    log10_factor: float | None = None


@dataclass(frozen=True)
class LayerChange:
    """A row of either report or of both.

    ``match`` is ``name``, ``shape`` (the names differ, the sequences of operations and shapes are equal), ``changed`` (the same name,
    another operation or weight shape), ``added`` or ``removed``; ``move`` is None for the last two. ``contribution`` is the row's part
    of the network's log10 factor, to first order: the change of the row's log10 figure (an absent row counts as 1) times the mean
    elasticity of the network's figure in it, None where that is not known.
    """

    match: str
    before: LayerRecord | None
    after: LayerRecord | None
    move: Move | None
    contribution: float | None = None

    @property
    def record(self) -> LayerRecord:
        """The row after, or the removed one."""
        found = self.after or self.before
        assert found is not None
        return found


@dataclass(frozen=True)
class DomainChange:
    """The network over a domain that both reports show beside the one in force; ``move`` is None where only one does."""

    domain: str
    before: DomainRecord | None
    after: DomainRecord | None
    move: Move | None


@dataclass(frozen=True)
class ReportDiff:
    """What ``lipaudit diff`` found. ``layers`` are in the order of the second report, removed rows where they stood.

    ``notes`` are plain sentences about what else differs between the reports.
    """

    before: Subject
    after: Subject
    network: Move
    other_domains: tuple[DomainChange, ...]
    layers: tuple[LayerChange, ...]
    notes: tuple[str, ...]
    tool_version: str

    def __str__(self) -> str:
        """The table that the command line prints."""
        return render(self, "table")

    def to_json(self, indent: int | None = 2) -> str:
        """The record as JSON text; ``ReportDiff.from_json`` reads it back to an equal record."""
        from lipaudit.records.diff_json import to_json

        return to_json(self, indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> ReportDiff:
        """The record that ``to_json`` wrote; a :class:`~lipaudit.errors.UsageError` says why a text is none."""
        from lipaudit.records.diff_json import from_json

        return from_json(text)
