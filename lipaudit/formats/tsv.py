"""Layers as tab- or comma-separated values for spreadsheets and scripts: raw numbers, one row per layer."""

from __future__ import annotations

from lipaudit.formats.grid import Grid
from lipaudit.formats.options import Audits, Options
from lipaudit.records.report import LAYER_COLUMNS
from lipaudit.text.domain import described

HEADER = ("model", *LAYER_COLUMNS, "domain")


def render_audits(audits: Audits, _options: Options) -> str:
    """A header and one row per layer of every report, the model first, last the domain over which the figures hold.

    :func:`lipaudit.formats.separated_values.row` says how a value is written.
    """
    return _grid(audits).tsv()


def csv_of_audits(audits: Audits, _options: Options) -> str:
    """The same table as comma-separated values."""
    return _grid(audits).csv()


def _grid(audits: Audits) -> Grid:
    rows = (
        (report.model.spec, *(getattr(layer, name) for name in LAYER_COLUMNS), described(report))
        for report in audits.reports
        for layer in report.layers
    )
    return Grid.of(HEADER, rows)
