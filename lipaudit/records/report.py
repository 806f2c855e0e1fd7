"""The report as a plain record: what an audit found, independent of how it is shown."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lipaudit.errors import UsageError
from lipaudit.files import write_whole
from lipaudit.records.rendering import render, render_for_file

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class LayerRecord:
    """One operation that can stretch a perturbation.

    ``name`` is the module path (made unique with ``#2`` … where an operation runs more than once), ``op`` a short
    operation name (``conv2d``, ``linear``, ``max_pool2d``), ``rule`` the rule's name, ``inputs`` the names of the rows
    (or network inputs) whose output it reads. ``input_size`` are the spatial sizes, ``weight_shape`` the kernel's or
    matrix's shape, ``details`` the geometry in short (``k7 s2 p3``). Bounds are in plain units where they fit a float,
    else None beside a log10 value; all None unless ``status`` is ``finite``. A figure of rigor ``estimate`` is no bound: it
    stands in ``estimate`` and ``log10_estimate``, and the fields of upper bounds are None. ``share`` is the layer's part of all that
    stretches: its contribution to the network's log bound (elasticity of log L to log c, times log c) over the sum of
    all positive contributions; negative for a layer that shrinks, None where the network has no finite bound.
    ``folded`` names what was merged into this operation. ``module`` is the prefix
    of the row's weight in the state dict, or the path of the module that ran a row without one, so that rows join to parameters.
    """

    name: str
    op: str
    rule: str
    inputs: tuple[str, ...]
    status: str
    module: str = ""
    input_size: tuple[int, ...] | None = None
    weight_shape: tuple[int, ...] | None = None
    details: str = ""
    rigor: str | None = None
    lower_bound: float | None = None
    upper_bound: float | None = None
    log10_lower_bound: float | None = None
    log10_upper_bound: float | None = None
    tightness: float | None = None
    share: float | None = None
    reason: str = ""
    note: str = ""
    folded: tuple[str, ...] = ()
    estimate: float | None = None
    log10_estimate: float | None = None


@dataclass(frozen=True)
class OutputRecord:
    """The bound of one of several network outputs, or its estimate."""

    name: str
    status: str
    upper_bound: float | None
    log10_upper_bound: float | None
    estimate: float | None = None
    log10_estimate: float | None = None


@dataclass(frozen=True)
class DomainRecord:
    """The network's bound over another domain than the one in force; the fields are those of :class:`NetworkRecord`."""

    domain: str
    status: str
    rigor: str | None = None
    upper_bound: float | None = None
    log10_upper_bound: float | None = None
    pixel_upper_bound: float | None = None
    pixel_log10_upper_bound: float | None = None
    reasons: tuple[str, ...] = ()
    estimate: float | None = None
    log10_estimate: float | None = None
    pixel_estimate: float | None = None
    pixel_log10_estimate: float | None = None


@dataclass(frozen=True)
class NetworkRecord:
    """The whole network: sup ||f(x) - f(y)|| / ||x - y|| over the stated domain.

    ``lower_bound`` is empirical: the largest ||f(x) - f(y)|| / ||x - y|| that was found and measured, rounding subtracted, at two
    inputs whose distance is ``lower_bound_distance``; None unless it was asked for.
    ``pixel_*`` repeat the upper bound with respect to pixels in [0, 1] where the model's own normalisation is known.
    ``outputs`` has one entry per output; the network's figure is the root of the sum of squares. ``other_domains`` has
    the figures over further domains: over pixels where no global bound exists, over all inputs beside any other domain.
    Where ``rigor`` is ``estimate`` the figures are in the fields of that name and those of upper bounds are None.
    ``output_diameter`` bounds ||f(x) - f(y)|| over all inputs x and y (numerical); None where the outputs are not bounded.
    """

    status: str
    rigor: str | None = None
    domain: str = "global"
    upper_bound: float | None = None
    log10_upper_bound: float | None = None
    lower_bound: float | None = None
    pixel_upper_bound: float | None = None
    pixel_log10_upper_bound: float | None = None
    reasons: tuple[str, ...] = ()
    outputs: tuple[OutputRecord, ...] = ()
    other_domains: tuple[DomainRecord, ...] = ()
    estimate: float | None = None
    log10_estimate: float | None = None
    pixel_estimate: float | None = None
    pixel_log10_estimate: float | None = None
    output_diameter: float | None = None
    lower_bound_distance: float | None = None


@dataclass(frozen=True)
class ModelRecord:
    """Which model this is. ``state_dict_sha256`` is None in a report of the structure alone."""

    spec: str
    source: str
    weights: str
    input_shape: tuple[int, ...]
    num_parameters: int
    state_dict_sha256: str | None
    file_sha256: str | None = None
    input_shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    unused_parameters: tuple[str, ...] = ()
    preprocessing: dict[str, tuple[float, ...]] | None = None


@dataclass(frozen=True)
class HeldInput:
    """The value that an input is held at: a constant of the audit.

    ``value`` is the number where every entry is that number, or nested lists of up to 16 entries; anything longer has the ``sha256`` of
    its bytes instead. ``dtype`` is a type of tensors, or of Python: ``int``, ``float``, ``bool``, ``str``, ``none`` (which has no value).
    """

    shape: tuple[int, ...]
    dtype: str
    value: Any = None
    sha256: str | None = None


@dataclass(frozen=True)
class SettingsRecord:
    """Everything that the figures depend on beside the model.

    ``around`` (None for a tensor given in Python) and ``radius`` are those of the domain ``ball``, as the user gave them;
    ``radius_in`` says in what the radius counts: ``pixels`` in [0, 1], or the network's own ``input``.

    ``structure`` marks a report without figures: no norms were computed, and ``status`` is the answer.

    ``method`` is how the norms of weights were found: ``gram``, or a published method with the ``iterations`` (or samples) that it
    took, None where it has none.

    ``freeze_random`` is the seed at which random numbers are held that the network draws while it computes its weights.

    ``fixed`` are the inputs that are held at a value, by name: the figures are those of the network as a function of the others.
    """

    norm: str = "l2"
    method: str = "gram"
    tolerance: float = 1e-3
    domain: str = "global"
    dtype: str = "float64"
    device: str = "cpu"
    seed: int = 0
    structure: bool = False
    around: str | None = None
    radius: float | None = None
    radius_in: str | None = None
    iterations: int | None = None
    freeze_random: int | None = None
    fixed: dict[str, HeldInput] = field(default_factory=dict)


@dataclass(frozen=True)
class AuditReport:
    """The result of an audit. ``timings`` maps phases (load, capture, norms, propagation) to seconds.

    ``environment`` has the keys python, platform, packages (name to version) and threads; ``created`` is an ISO 8601
    UTC time.
    ``layers`` are in topological order. ``notes`` are plain sentences about what a reader must know.
    """

    model: ModelRecord
    settings: SettingsRecord
    network: NetworkRecord
    layers: tuple[LayerRecord, ...]
    tool_version: str
    created: str
    environment: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    timings: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        """The table that the command line prints."""
        return render(self, "table")

    def __getitem__(self, name: str) -> LayerRecord:
        """The row of this name, or the only row of the module of this path; a KeyError names what is close.

        A module that runs several times has rows ``path``, ``path#2`` …, which are found by these names.
        """
        named = [layer for layer in self.layers if layer.name == name]
        found = named or [layer for layer in self.layers if layer.module == name]
        if len(found) == 1:
            return found[0]
        if found:
            raise KeyError(f"{name!r} has {len(found)} rows: {', '.join(layer.name for layer in found)}")
        close = get_close_matches(name, [layer.name for layer in self.layers], n=3)
        raise KeyError(f"no row {name!r}" + (f"; did you mean {', '.join(close)}?" if close else "; see report.layers"))

    def to_dict(self) -> dict[str, Any]:
        """The report as plain dictionaries and lists, as the JSON document has them."""
        from lipaudit.records.report_json import to_dict

        return to_dict(self)

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a pandas DataFrame with the fields of :class:`LayerRecord` as columns, indexed by name.

        Raises :class:`~lipaudit.errors.UsageError` where pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise UsageError("to_pandas needs pandas, which is not installed: pip install pandas") from None
        names = [entry.name for entry in fields(LayerRecord)]
        rows = [[getattr(layer, name) for name in names] for layer in self.layers]
        return pandas.DataFrame(rows, columns=names).set_index("name")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report to a file, whole or not at all, as the suffix says: .json, .html, .md, .tsv, .csv, or .txt for the table.

        :meth:`load` reads JSON back. Raises :class:`~lipaudit.errors.UsageError` for another suffix, and
        :class:`~lipaudit.errors.OutputError` where the system refuses.
        """
        write_whole(Path(path), render_for_file(self, Path(path)))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> AuditReport:
        """The report in a JSON file that :meth:`save` or ``lipaudit --format json`` wrote.

        Raises :class:`~lipaudit.errors.UsageError`, which names the file and what is wrong with it.
        """
        try:
            return cls.from_json(Path(path).read_bytes())
        except OSError as error:
            raise UsageError(f"cannot read the report {os.fspath(path)}: {error.strerror}") from None
        except UsageError as error:
            raise UsageError(f"{os.fspath(path)}: {error}") from None

    def _repr_html_(self) -> str:
        """What a notebook shows: the Markdown rendering as HTML, in which every text from the report is escaped."""
        return render(self, "notebook")

    def to_json(self, indent: int | None = 2) -> str:
        """The report as JSON text (schema 1.0); ``AuditReport.from_json`` reads it back to an equal report."""
        from lipaudit.records.report_json import to_json

        return to_json(self, indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> AuditReport:
        """The report that ``to_json`` wrote; a :class:`~lipaudit.errors.UsageError` says why a text is none."""
        from lipaudit.records.report_json import from_json

        return from_json(text)
