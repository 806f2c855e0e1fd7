"""The page of a certification: shares at every radius, their curve, every image, and the certification itself as JSON."""

from __future__ import annotations

from dataclasses import dataclass

from lipaudit.escaping import printable
from lipaudit.formats.certification import IMAGE_HEAD, SHARE_HEAD, answer_lines, image_cells, sentences, share_cells
from lipaudit.formats.certification_plot import curves
from lipaudit.formats.html.document import Part, document
from lipaudit.formats.html.environment import number
from lipaudit.formats.html.plain_table import PlainTable
from lipaudit.records.certification import Certification
from lipaudit.text.answer import short_title

_WIDTH, _HEIGHT = 1000, 200  # as in templates/curve.html
_MARKS = (1.0, 0.75, 0.5, 0.25, 0.0)


@dataclass(frozen=True)
class Curve:
    """Lines over the radius: their names, classes and paths; ``last`` is the radius at the right end."""

    lines: tuple[tuple[str, str, str], ...]
    marks: tuple[tuple[float, str], ...]
    last: str


def render(found: Certification) -> str:
    """The page; the same certification always gives the same text."""
    name = printable(found.model.spec)
    rows = [tuple(cell or "" for cell in image_cells(image)) for image in found.images]
    shares = [share_cells(row) for row in found.radii]
    parts = [
        Part("shares", "Shares at radii", "plain_table.html", PlainTable(SHARE_HEAD, shares, SHARE_HEAD[1:])),
        Part("curve", "Over the radius", "curve.html", _curve(found)),
        Part("meaning", "What it means", "sentences.html", sentences(found)),
        Part("images", "Images", "plain_table.html", PlainTable(IMAGE_HEAD, rows, IMAGE_HEAD[1:])),
    ]
    values = {
        "model": name,
        "details": short_title(found.model).removeprefix(f"{name} · "),
        "answer": answer_lines(found),
    }
    heading = f"Certified decisions of {found.model.spec}"
    data = found.to_json(indent=None)
    return document("certification.html", heading, found.tool_version, parts, values, data=data)


def _curve(found: Certification) -> Curve:
    last = found.curve[-1].radius
    lines = []
    for name, style, values in curves(found):
        path = f"M0 {number(_y(values[0]))}"
        for row, value in zip(found.curve[1:], values[1:], strict=True):
            path += f"V{number(_y(value))}H{number(_WIDTH * row.radius / last)}"
        lines.append((name, "running" if style == "solid" else "running dashed", path))
    return Curve(tuple(lines), tuple((_y(mark), f"{mark * 100:g}%") for mark in _MARKS), f"{last:.4g}")


def _y(share: float) -> float:
    return _HEIGHT * (1 - share)
