"""The report as a plain record: what an audit found, independent of how it is shown."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from lipaudit.errors import UsageError
from lipaudit.files import write_whole
from lipaudit.records.codec import FigureKeys, decode, encode
from lipaudit.records.contradictions import ContradictionError, contradiction
from lipaudit.records.document import parse
from lipaudit.records.figure import EMPIRICAL, Figure, WithFigure, WithPixelFigure, log10_of, value_of
from lipaudit.records.identity import check_identity
from lipaudit.records.rendering import render, render_for_file
from lipaudit.records.schema import SCHEMA_ID, SCHEMA_VERSION, upgrade
from lipaudit.records.settings import ModelRecord, SettingsRecord

if TYPE_CHECKING:
    import pandas


# figures with their keys in JSON
UpperFigure = Annotated[
    Figure | None,
    FigureKeys("upper_bound", "log10_upper_bound", rigor="rigor", estimates=("estimate", "log10_estimate")),
]
PixelFigure = Annotated[
    Figure | None,
    FigureKeys("pixel_upper_bound", "pixel_log10_upper_bound", estimates=("pixel_estimate", "pixel_log10_estimate")),
]
LowerFigure = Annotated[Figure | None, FigureKeys("lower_bound", "log10_lower_bound", upwards=False)]
MeasuredFigure = Annotated[Figure | None, FigureKeys("lower_bound", worth=EMPIRICAL, upwards=False)]

PRODUCT = "product"  # the name of the bound that multiplies the constants of all operations


@dataclass(frozen=True)
class LayerRecord(WithFigure):
    """One operation that can stretch a perturbation.

    ``name`` is the module path (made unique with ``#2`` … where an operation runs more than once), ``op`` a short
    operation name (``conv2d``, ``linear``, ``max_pool2d``), ``rule`` the rule's name, ``inputs`` the names of the rows
    (or network inputs) whose output it reads. ``input_size`` are the spatial sizes, ``weight_shape`` the kernel's or
    matrix's shape, ``details`` the geometry in short (``k7 s2 p3``). ``figure`` is an upper bound of the operation's constant, or an
    estimate where its rigor is ``estimate``, ``lower`` a lower bound of the same constant; None unless ``status`` is ``finite``.
    The properties ``upper_bound``, ``log10_upper_bound``, ``estimate``, ``log10_estimate``, ``lower_bound`` and ``log10_lower_bound`` are
    their numbers. ``tightness`` is the quotient of the two bounds. ``share`` is the layer's part of all that
    stretches: its contribution to the network's log bound (elasticity of log L to log c, times log c) over the sum of
    all positive contributions; negative for a layer that shrinks, None where the network has no finite bound.
    ``folded`` names what was merged into this operation. ``block`` says that the row lies in a part of the network whose constant counts in
    the place of those of its rows, and what it is, empty for all other rows: such a row has the share 0. ``module`` is the prefix
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
    figure: UpperFigure = None
    lower: LowerFigure = None
    tightness: float | None = None
    share: float | None = None
    reason: str = ""
    note: str = ""
    folded: tuple[str, ...] = ()
    block: str = ""

    @property
    def lower_bound(self) -> float | None:
        """The lower bound in plain units; None where there is none."""
        return value_of(self.lower)

    @property
    def log10_lower_bound(self) -> float | None:
        """The decimal logarithm of the lower bound; None where the bound is 0, or there is none."""
        return log10_of(self.lower)

    @property
    def has_bracket(self) -> bool:
        """Whether there is a proven lower bound beside the proven upper bound."""
        return self.has_bound and self.lower is not None


# what a row says, as columns of a table: the keys of a layer in JSON, which are attributes of its record as well
LAYER_COLUMNS = (
    *("name", "op", "rule", "inputs", "status", "module", "input_size", "weight_shape", "details", "rigor"),
    *(
        "lower_bound",
        "upper_bound",
        "log10_lower_bound",
        "log10_upper_bound",
        "tightness",
        "share",
        "reason",
        "note",
        "folded",
    ),
    *("estimate", "log10_estimate", "block"),
)


@dataclass(frozen=True)
class OutputRecord(WithFigure):
    """The bound of one of several network outputs, or its estimate."""

    name: str
    status: str
    figure: UpperFigure = None


@dataclass(frozen=True)
class SegmentRecord:
    """A part of the network between two cuts, in a bound that is the product of its parts' factors.

    ``inputs`` are what it reads and ``output`` is where it ends, by the names of rows or inputs. ``form`` says where its quadratic form
    lives: on all ``entries`` of its tensors, on their channels at all ``frequencies``, or nowhere (``constant``), where the product of its
    constants is used. ``log10_factor`` is between the weighted norms at its two ends, ``log10_product`` what the product of constants
    gives the same part, None where that is not finite.
    """

    inputs: tuple[str, ...]
    output: str
    operations: int
    form: str
    log10_factor: float
    log10_product: float | None


@dataclass(frozen=True)
class BoundRecord(WithFigure):
    """One of the bounds of the network that were computed, by the name of its method (``product``, ...).

    ``status`` is as for the network, or ``not applicable`` where ``reason`` says why the method has no bound of this network. ``note`` is
    a remark, ``certificate`` says where the numbers are kept that prove the bound, empty where it needs none. ``segments`` are the parts
    whose factors make up the bound, from the inputs to the outputs; empty for a method without any. ``certificate_sha256`` is the hash of
    the file that is the certificate, ``interrupted`` whether the search was ended before its work was used up.
    """

    name: str
    status: str
    figure: UpperFigure = None
    reason: str = ""
    note: str = ""
    certificate: str = ""
    segments: tuple[SegmentRecord, ...] = ()
    certificate_sha256: str | None = None
    interrupted: bool = False


@dataclass(frozen=True)
class DomainRecord(WithPixelFigure):
    """The network's bound over another domain than the one in force; the fields are those of :class:`NetworkRecord`."""

    domain: str
    status: str
    figure: UpperFigure = None
    pixel_figure: PixelFigure = None
    reasons: tuple[str, ...] = ()
    bounds: tuple[BoundRecord, ...] = ()


@dataclass(frozen=True)
class ImageNorm:
    """How far the network stretches near one image: the norm of its Jacobian there, measured."""

    image: str
    norm: float


@dataclass(frozen=True)
class ImagesRecord:
    """How far the network stretches near a user's images.

    Every norm is measured between an image and an input close to it, rounding subtracted, and so is a lower bound of the network's
    constant. ``source`` are the images as they were named, None for a tensor given in Python; ``count`` is the number of those that were
    read, of ``total``. ``from_pixels`` says whether they were pixels that lipaudit normalised, or inputs of the network as they are.
    ``median``, ``percentile_90`` (at least 90 % of the images have no larger one) and ``largest`` are of ``norms``.
    """

    source: str | None
    count: int
    total: int
    from_pixels: bool
    median: float
    percentile_90: float
    largest: float
    largest_image: str
    norms: tuple[ImageNorm, ...] = ()


@dataclass(frozen=True)
class BallRecord(WithFigure):
    """The network's bound over one of several balls: an upper bound of ||f(x) - f(y)|| / ||x - y|| for x and y in that ball.

    ``centre`` is the file below its folder, or the number of the input in its batch, from 0. ``jacobian_norm`` is measured between the
    centre and an input close to it, rounding subtracted, and so is a lower bound of the same constant; None in a report without figures.
    ``log10_ratio`` is the logarithm of the bound over it.
    """

    centre: str
    status: str
    figure: UpperFigure = None
    jacobian_norm: float | None = None
    log10_ratio: float | None = None


@dataclass(frozen=True)
class NetworkRecord(WithPixelFigure):
    """The whole network: sup ||f(x) - f(y)|| / ||x - y|| over the stated domain.

    ``figure`` is the least of ``bounds``, the bounds that were computed by one method each; its numbers are the properties
    ``upper_bound`` and ``log10_upper_bound``, or ``estimate`` and ``log10_estimate`` where its rigor is ``estimate``.
    ``lower`` (``lower_bound``) is empirical: the largest ||f(x) - f(y)|| / ||x - y|| that was found and measured, rounding subtracted,
    at two inputs whose distance is ``lower_bound_distance``; None unless it was asked for.
    ``pixel_figure`` (``pixel_upper_bound`` ...) is the figure with respect to pixels in [0, 1] where the model's normalisation is known.
    ``outputs`` has one entry per output; the network's figure is the root of the sum of squares. ``other_domains`` has
    the figures over further domains: over pixels where no global bound exists, over all inputs beside any other domain.
    ``log10_ratio`` is the logarithm of the upper bound over ``lower``: how far the true constant can lie from either. ``images`` has the
    norms of the Jacobian at a user's images. ``balls`` has the bound over each of several balls; every other figure over the domain, and
    the rows, are then those of the ball whose bound is the largest, the first of equal ones.
    ``output_diameter`` bounds ||f(x) - f(y)|| over all inputs x and y (numerical); None where the outputs are not bounded.
    """

    status: str
    domain: str = "global"
    figure: UpperFigure = None
    lower: MeasuredFigure = None
    pixel_figure: PixelFigure = None
    reasons: tuple[str, ...] = ()
    bounds: tuple[BoundRecord, ...] = ()
    outputs: tuple[OutputRecord, ...] = ()
    other_domains: tuple[DomainRecord, ...] = ()
    output_diameter: float | None = None
    lower_bound_distance: float | None = None
    log10_ratio: float | None = None
    images: ImagesRecord | None = None
    balls: tuple[BallRecord, ...] = ()

    @property
    def lower_bound(self) -> float | None:
        """The largest quotient that was measured; None unless it was asked for."""
        return value_of(self.lower)


Record: TypeAlias = LayerRecord | NetworkRecord | DomainRecord


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
        rows = named or [layer for layer in self.layers if layer.module == name]
        if len(rows) == 1:
            return rows[0]
        if rows:
            raise KeyError(f"{name!r} has {len(rows)} rows: {', '.join(layer.name for layer in rows)}")
        close = get_close_matches(name, [layer.name for layer in self.layers], n=3)
        raise KeyError(f"no row {name!r}" + (f"; did you mean {', '.join(close)}?" if close else "; see report.layers"))

    def to_dict(self) -> dict[str, Any]:
        """The report as plain dictionaries and lists, in the order of the JSON document.

        Raises ValueError where the record contradicts itself (:mod:`lipaudit.records.contradictions`).
        """
        body = encode(self)
        del body["tool_version"]
        document = {
            "$schema": SCHEMA_ID,
            "schema_version": SCHEMA_VERSION,
            "tool": {"name": "lipaudit", "version": self.tool_version},
            "created": body.pop("created"),
            "model": body.pop("model"),
            "settings": body.pop("settings"),
            "environment": _sorted(body.pop("environment")),
            **body,
        }
        problem = contradiction(document)
        if problem:
            raise ValueError(f"the report contradicts itself: {problem}")
        return document

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a pandas DataFrame with the fields of layers in JSON as columns, indexed by name.

        Raises :class:`~lipaudit.errors.UsageError` where pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise UsageError("to_pandas needs pandas, which is not installed: pip install pandas") from None
        rows = [[getattr(layer, name) for name in LAYER_COLUMNS] for layer in self.layers]
        return pandas.DataFrame(rows, columns=list(LAYER_COLUMNS)).set_index("name")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report to a file, whole or not at all, in the format that its suffix asks for (``docs/exports.md`` lists them).

        .json, which :meth:`load` reads back, .html, .md, .tsv, .csv, .svg, .png, .sarif, .xml, .cdx.json, or .txt for the table. Raises
        :class:`~lipaudit.errors.UsageError` for another suffix, and :class:`~lipaudit.errors.OutputError` where the system refuses.
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
        """The report as JSON text (ASCII, no trailing newline); ``AuditReport.from_json`` reads it back to an equal report.

        Two equal reports give the same text. NaN and infinity are never written; what is not known is null.
        """
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> AuditReport:
        """The report that ``to_json`` wrote, in this version of the layout or an earlier one of the same major version.

        Raises :class:`~lipaudit.errors.UsageError` for a document that is no lipaudit report, that has another major version, or that lacks
        or contradicts what it must say; the message names the place.
        """
        return cls.from_document(parse(text, "lipaudit report"))

    @classmethod
    def from_document(cls, document: Any) -> AuditReport:
        """The report that a parsed JSON document describes; errors as for :meth:`from_json`."""
        check_identity(document)
        problem = contradiction(document)
        if problem:
            raise ContradictionError("report", problem)
        return decode(cls, {**upgrade(document), "tool_version": document["tool"].get("version")}, "report")


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return value
