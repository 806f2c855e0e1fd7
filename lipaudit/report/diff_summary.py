"""What a diff says, in sentences; the table and the Markdown lay them out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from lipaudit.report.diff import (
    FELL,
    GAINED,
    GREW,
    LOST,
    MISSING,
    ROSE,
    SAME,
    SHRANK,
    STATUS,
    WITHIN,
    DomainChange,
    LayerChange,
    Move,
    ReportDiff,
)
from lipaudit.report.display import (
    MOST,
    count_text,
    estimate_text,
    log10_estimate_text,
    log10_upper_text,
    names_text,
    printable,
    shape_text,
    upper_bound_text,
)
from lipaudit.report.domains import place
from lipaudit.report.figures import Record, has_bound
from lipaudit.report.record import LayerRecord
from lipaudit.report.summary import Section

LOUD = (LOST, STATUS, GAINED)
_QUIET = (WITHIN, SAME, MISSING)
_COUNTED = (
    (LOST, "lost its bound", "lost their bounds"),
    (STATUS, "has another status", "have another status"),
    (GAINED, "gained a bound", "gained bounds"),
    (GREW, "grew", "grew"),
    (SHRANK, "shrank", "shrank"),
    (ROSE, "has a higher figure", "have higher figures"),
    (FELL, "has a lower figure", "have lower figures"),
    (WITHIN, "within brackets", "within brackets"),
    (SAME, "with the same figure", "with the same figure"),
    (MISSING, "without a bound before and after", "without a bound before and after"),
)


def warning(found: ReportDiff) -> str:
    """The line that goes first where a bound was lost, or a row without one has come; empty otherwise."""
    parts = []
    if found.network.verdict == LOST:
        parts.append(f"the network had a proven bound before and has none after ({_status(found.after.network)})")
    lost = [c.record.name for c in found.layers if c.move is not None and c.move.verdict == LOST]
    if lost:
        parts.append(f"{count_text(len(lost), 'row')} had a proven bound before and none after: {names_text(lost)}")
    new = [c.record.name for c in found.layers if c.match == "added" and not has_bound(c.record)]
    if new:
        parts.append(f"{count_text(len(new), 'row')} without a proven bound {_have(new)} come: {names_text(new)}")
    start = "BOUND LOST" if lost or found.network.verdict == LOST else "NO BOUND"
    return printable(f"{start}: {'; '.join(parts)}.") if parts else ""


def sections(found: ReportDiff) -> tuple[Section, ...]:
    """Every section that has something to say, in reading order."""
    candidates = (
        Section("Result", tuple(_result(found))),
        Section("Rows", tuple(_rows(found))),
        Section("Moved most", tuple(_moved_most(found))),
        Section("Changed", tuple(_changed(found))),
        Section("Compared", tuple(_compared(found))),
    )
    return tuple(section for section in candidates if section.lines)


def has_moved(change: LayerChange) -> bool:
    """Whether a row is shown without ``--all``: it moved out of its bracket, or has no counterpart."""
    return change.move is None or change.match == "changed" or change.move.verdict not in _QUIET


def quotient_text(move: Move | None, estimated: bool = False) -> str:
    """The factor rounded to the nearest, for it is no bound; marked where a figure is an estimate."""
    if move is None:
        return ""
    text = estimate_text(move.factor, move.log10_factor)
    return text if estimated else text[1:]


def is_estimated(*records: Record | None) -> bool:
    """Whether a figure among the records is an estimate."""
    return any(record is not None and record.rigor == "estimate" for record in records)


def _have(names: Sequence[str]) -> str:
    return "has" if len(names) == 1 else "have"


def _status(record: Record) -> str:
    return "an estimate" if is_estimated(record) else record.status


def _result(found: ReportDiff) -> Iterable[str]:
    before, after, moved = found.before.network, found.after.network, found.network
    where = place(found.before.settings, before.domain)
    start = f"{_said(before)} before, {_said(after)} after, over {where}"
    if moved.verdict in LOUD:
        yield printable(f"The network {_LOUD_START[moved.verdict]}: {start}.")
    elif moved.verdict == MISSING:
        yield printable(f"The network has no bound before and after: {before.status} over {where}.")
    else:
        what = "estimate for" if is_estimated(before, after) else "upper bound of"
        yield printable(f"The {what} the network {_MOVED[moved.verdict]}{_by(found)}: {start}.")
    yield from map(printable, after.reasons if moved.verdict in (LOST, STATUS) else ())
    if moved.verdict == ROSE and has_bound(after):
        yield "A higher bound does not prove that the network stretches more: less is guaranteed than before."
    if moved.verdict == FELL and has_bound(after):
        yield "A lower bound does not prove that the network stretches less than before: more is guaranteed."
    for other in found.other_domains:
        yield printable(_elsewhere(found, other))


_LOUD_START = {
    LOST: "LOST ITS BOUND",
    GAINED: "GAINED A BOUND",
    STATUS: "HAS ANOTHER STATUS, without a proven bound before or after",
}
_MOVED = {ROSE: "rose", FELL: "fell", SAME: "is the same"}


def _by(found: ReportDiff) -> str:
    text = quotient_text(found.network, is_estimated(found.before.network, found.after.network))
    return "" if found.network.verdict == SAME or not text else f" (factor {text})"


def _said(record: Record) -> str:
    """A figure as what it is, or the status where there is none."""
    if record.status != "finite":
        return record.status
    if record.rigor == "estimate":
        text = f"about {estimate_text(record.estimate, record.log10_estimate)[1:]}"
        log10 = record.log10_estimate if record.estimate is not None else None
        return text + (f" (10^{log10_estimate_text(log10)})" if log10 is not None else "") + " (estimate)"
    text = f"at most {upper_bound_text(record.upper_bound, record.log10_upper_bound)}"
    log10 = record.log10_upper_bound if record.upper_bound is not None else None
    return text + (f" (10^{log10_upper_text(log10)})" if log10 is not None else "")


def _elsewhere(found: ReportDiff, other: DomainChange) -> str:
    where = f"Over {place(found.after.settings, other.domain)}"
    if other.before is not None and other.after is not None:
        pair = f"{_said(other.before)} before, {_said(other.after)} after"
        if other.move is None:
            return f"{where}: {pair}, but the images are normalised otherwise, so that these cannot be compared."
        quotient = quotient_text(other.move, is_estimated(other.before, other.after))
        return f"{where}: {pair}" + (f", a factor of {quotient}." if quotient else ".")
    known, which, lacks = (
        (other.after, "after", "first") if other.before is None else (other.before, "before", "second")
    )
    return f"{where}: {_said(known) if known is not None else ''} {which}; the {lacks} report says nothing of it."


def _rows(found: ReportDiff) -> Iterable[str]:
    matched = [change for change in found.layers if change.match in ("name", "shape")]
    counts = Counter(change.move.verdict for change in matched if change.move is not None)
    parts = [f"{counts[key]} {one if counts[key] == 1 else many}" for key, one, many in _COUNTED if counts[key]]
    if matched:
        yield f"{count_text(len(matched), 'row')} in both reports: {', '.join(parts)}."
    if counts[GREW] or counts[SHRANK]:
        rigors = {change.record.rigor for change in matched if change.move and change.move.verdict in (GREW, SHRANK)}
        rounding = ", up to rounding where a row is numerical" if "numerical" in rigors else ""
        yield f"Grew and shrank are proven: the two brackets, of lower and upper bound, have no point in common{rounding}."
    if counts[WITHIN]:
        yield "Within brackets: the two brackets overlap, so that the tolerance of the audits can explain the difference."
    for kind, said in (
        ("changed", "of the same name is another operation or has another weight shape"),
        ("added", "only after"),
        ("removed", "only before"),
    ):
        names = [change.record.name for change in found.layers if change.match == kind]
        if names:
            yield printable(f"{count_text(len(names), 'row')} {said}: {names_text(names)}.")


def _moved_most(found: ReportDiff) -> Iterable[str]:
    """The rows that account for most of the network's move, by the size of their contribution or else of their own factor."""
    moved = [change for change in found.layers if has_moved(change) and _weight(change)]
    known = [change.contribution for change in found.layers if change.contribution is not None]
    for change in sorted(moved, key=lambda change: -_weight(change))[:MOST]:
        row, factor = change.record, quotient_text(change.move, is_estimated(change.before, change.after))
        line = f"{row.name} ({row.op}): " + (f"factor {factor}" if change.move is not None else change.match)
        if change.contribution is not None:
            line += f"; the network's figure times {_times(change.contribution)}"
        yield printable(line)
    if moved and known and found.network.log10_factor is not None:
        yield (
            f"What a row does to the network is known to first order: all rows together make {_times(sum(known))}, and the network's "
            f"figure has the factor {quotient_text(found.network)}."
        )


def _weight(change: LayerChange) -> float:
    if change.contribution is not None:
        return abs(change.contribution)
    return abs(change.move.log10_factor or 0.0) if change.move is not None else 0.0


def _times(log10: float) -> str:
    """10 to a power, to the nearest."""
    return estimate_text(10.0**log10 if abs(log10) < 300 else None, log10)[1:]


def _changed(found: ReportDiff) -> Iterable[str]:
    renamed = [
        f"{c.before.name} is {c.record.name}" for c in found.layers if c.match == "shape" and c.before is not None
    ]
    if renamed:
        yield printable(
            f"{count_text(len(renamed), 'row')} matched in order, because all operations, weight shapes and geometries without a "
            f"counterpart of their name are equal: {names_text(renamed)}."
        )
    for change in found.layers:
        if change.before is None or change.after is None:
            continue
        geometry = _geometry(change.before), _geometry(change.after)
        if geometry[0] != geometry[1]:
            yield printable(f"{change.record.name}: {geometry[0]} before, {geometry[1]} after.")
    yield from _weaker(found)


def _weaker(found: ReportDiff) -> Iterable[str]:
    """Rows whose bounds rest on another theorem than before."""
    places: dict[tuple[str, str], list[str]] = {}
    sides: Sequence[tuple[str, Record, Record]] = [
        ("the network", found.before.network, found.after.network),
        *((c.record.name, c.before, c.after) for c in found.layers if c.before is not None and c.after is not None),
    ]
    for name, before, after in sides:
        if before.rigor and after.rigor and before.rigor != after.rigor:
            places.setdefault((before.rigor, after.rigor), []).append(name)
    for (old, new), names in places.items():
        yield printable(f"Rigor {old} before, {new} after: {names_text(names)}.")


def _geometry(row: LayerRecord) -> str:
    shape = "" if row.weight_shape is None else shape_text(row.weight_shape)
    return " ".join(filter(None, (row.op, shape, row.details)))


def _compared(found: ReportDiff) -> Iterable[str]:
    tolerances = dict.fromkeys(f"{side.settings.tolerance:g}" for side in (found.before, found.after))
    if any(change.move is not None and change.move.verdict in (GREW, SHRANK, WITHIN) for change in found.layers):
        yield f"Tolerance {' and '.join(tolerances)}: how closely the norms are found; a smaller --tol tells smaller moves apart."
    if is_estimated(found.before.network, found.after.network, *(c.record for c in found.layers)):
        yield "An estimate (marked ~) proves nothing, and neither does a move of it."
    yield from found.notes
