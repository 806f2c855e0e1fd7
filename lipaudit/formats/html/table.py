"""The rows of a report as a table that can be sorted and filtered."""

from __future__ import annotations

from collections.abc import Sequence

from lipaudit.formats.columns import COLUMNS, cell, default_columns, heading
from lipaudit.formats.html.brackets import axis, bar
from lipaudit.formats.html.markup import text
from lipaudit.formats.html.ranks import ranks
from lipaudit.formats.html.scale import Scale
from lipaudit.records.report import LayerRecord

_FIRST = ("layer", "lower", "upper", "ratio", "share")  # what a narrow screen shows at once
_LAST = ("rigor", "note")
_FREE = ("op", "note")  # text of any kind, in any direction
_NEEDED = ("layer", "op", "upper")  # columns that stay where nothing is in them


def render(rows: Sequence[LayerRecord], colours: Scale | None) -> str:
    """One line per row; numbers are those of the terminal's table, sorted by the exact values behind them."""
    usual = default_columns(rows)
    known = (*(key for key in _FIRST if key in usual), *(key for key in usual if key not in _FIRST), *_LAST)
    cells = {key: [cell(key, row) for row in rows] for key in known}
    keys = [key for key in cells if key in _NEEDED or any(cells[key])]
    places = [list(range(len(rows))), *(ranks(key, rows) for key in keys)]
    scale = axis(rows)
    drawn = [bar(row, scale, colours) if scale is not None and colours is not None else "" for row in rows]
    heads = [_head(0, "#", True)]
    for column, key in enumerate(keys, start=1):
        heads.append(_head(column, heading(key, rows), COLUMNS[key].numeric))
        if key == "upper" and any(drawn):
            heads.append('<th scope="col"><span>lower to upper</span></th>')
    body = [
        _line(
            i,
            row,
            {key: cells[key][i] for key in keys},
            drawn[i] if any(drawn) else None,
            [place[i] for place in places],
        )
        for i, row in enumerate(rows)
    ]
    return (
        '<table id="layer-table"><caption class="unseen">Layers</caption>'
        f"<thead><tr>{''.join(heads)}</tr></thead>\n<tbody>\n{''.join(body)}</tbody></table>"
    )


def scale_words(rows: Sequence[LayerRecord]) -> str:
    """What the bars stand for; empty where there are none."""
    scale = axis(rows)
    if scale is None:
        return ""
    return (
        f"The bars run from the lower to the upper bound on a logarithmic scale from 10^{scale.low:g} to 10^{scale.high:g}; the upright "
        "line is the factor 1. A pointed bar is known from above only."
    )


def _head(column: int, name: str, numeric: bool) -> str:
    kind = ' class="number"' if numeric else ""
    return f'<th scope="col" aria-sort="none"{kind}><button type="button" data-column="{column}">{name}</button></th>'


def _line(i: int, row: LayerRecord, cells: dict[str, str], drawn: str | None, places: Sequence[int]) -> str:
    parts = [f'<td class="number">{i + 1}</td>']
    for key, content in cells.items():
        number = ' class="number"' if COLUMNS[key].numeric else ""
        inner = text(content)
        if key == "layer":
            parts.append(f'<th scope="row"><bdi>{inner}</bdi></th>')
        else:
            parts.append(f"<td{number}>{f'<bdi>{inner}</bdi>' if key in _FREE and inner else inner}</td>")
        if key == "upper" and drawn is not None:
            parts.append(f"<td>{drawn}</td>")
    status = "" if row.status == "finite" else ' class="endless"'
    return f'<tr id="row-{i + 1}"{status} data-places="{" ".join(map(str, places))}">{"".join(parts)}</tr>\n'
