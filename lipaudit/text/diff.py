"""What a diff says, in sentences; the table and the Markdown lay them out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from lipaudit.escaping import printable
from lipaudit.records.diff import (
    FELL,
    GAINED,
    GREW,
    LOST,
    MISSING,
    ROSE,
    ROUNDING,
    SAME,
    SHRANK,
    STATUS,
    WITHIN,
    DomainChange,
    LayerChange,
    ReportDiff,
)
from lipaudit.records.figure import Figure
from lipaudit.records.report import LayerRecord, Record
from lipaudit.text.diff_figures import LOUD, digits_apart, is_estimated, quotient_text, said, times_text, verdict_text
from lipaudit.text.domain import place
from lipaudit.text.numbers import MOST, count_text, names_text, shape_text
from lipaudit.text.summary import Section

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


def warning(diff: ReportDiff) -> str:
    """The line that goes first where a bound was lost, or a row without one has come; empty otherwise."""
    parts = []
    if diff.network.verdict == LOST:
        parts.append(f"the network had a proven bound before and has none after ({_status(diff.after.network)})")
    lost = [c.record.name for c in diff.layers if c.move is not None and c.move.verdict == LOST]
    if lost:
        parts.append(f"{count_text(len(lost), 'row')} had a proven bound before and none after: {names_text(lost)}")
    new = [c.record.name for c in diff.layers if c.match == "added" and not c.record.has_bound]
    if new:
        parts.append(f"{count_text(len(new), 'row')} without a proven bound {_have(new)} come: {names_text(new)}")
    start = "BOUND LOST" if lost or diff.network.verdict == LOST else "NO BOUND"
    return printable(f"{start}: {'; '.join(parts)}.") if parts else ""


def sections(diff: ReportDiff) -> tuple[Section, ...]:
    """Every section that has something to say, in reading order."""
    candidates = (
        Section.of("Result", _result(diff)),
        Section.of("Rows", _rows(diff)),
        Section.of("Moved most", _moved_most(diff)),
        Section.of("Changed", _changed(diff)),
        Section.of("Compared", _compared(diff)),
    )
    return tuple(section for section in candidates if section.lines)


def has_moved(change: LayerChange) -> bool:
    """Whether a row is shown without ``--all``: it moved out of its bracket, or has no counterpart."""
    return change.move is None or change.match == "changed" or change.move.verdict not in _QUIET


def hidden(diff: ReportDiff, shown: Sequence[LayerChange]) -> str:
    """How many rows are not among those ``shown``, and why they need not be; empty where all are."""
    if not diff.layers:
        return "Neither report has a row."
    counts = Counter(_stillness(change) for change in diff.layers if not any(change is row for row in shown))
    left = sum(counts.values())
    parts = [
        f"{count_text(counts[key], 'row')} {words[counts[key] > 1]}" for key, words in _STILL.items() if counts[key]
    ]
    return f"{', '.join(parts)}; --all lists {'it' if left == 1 else 'them'}." if left else ""


_STILL = {
    WITHIN: ("is within its brackets (no move is proven)", "are within their brackets (no move is proven)"),
    SAME: ("has the same figures", "have the same figures"),
    MISSING: ("has no bound before and after", "have no bound before and after"),
}


def _stillness(change: LayerChange) -> str:
    """Which of the quiet verdicts a row has; brackets that differ by rounding errors at most are the same figures."""
    verdict = change.move.verdict if change.move is not None else MISSING
    if verdict != WITHIN or not isinstance(change.before, LayerRecord) or not isinstance(change.after, LayerRecord):
        return verdict
    first, second = change.before, change.after
    same = _are_close(first.lower, second.lower) and _are_close(first.figure, second.figure)
    return SAME if same else WITHIN


def _are_close(before: Figure | None, after: Figure | None) -> bool:
    if before is None or after is None:
        return before is after
    return math.isclose(before.log10, after.log10, rel_tol=0.0, abs_tol=ROUNDING)


def _have(names: Sequence[str]) -> str:
    return "has" if len(names) == 1 else "have"


def _status(record: Record) -> str:
    return "an estimate" if is_estimated(record) else record.status


def _result(diff: ReportDiff) -> Iterable[str]:
    before, after, moved = diff.before.network, diff.after.network, diff.network
    where = place(diff.before.settings, before.domain)
    digits = digits_apart(before, after, moved)
    start = f"{said(before, digits)} before, {said(after, digits)} after, over {where}"
    if moved.verdict in LOUD:
        yield printable(f"The network {_LOUD_START[moved.verdict]}: {start}.")
    elif moved.verdict == MISSING:
        yield printable(f"The network has no bound before and after: {before.status} over {where}.")
    else:
        what = "estimate for" if is_estimated(before, after) else "upper bound of"
        yield printable(f"The {what} the network {_MOVED[moved.verdict]}{_by(diff)}: {start}.")
    yield from map(printable, after.reasons if moved.verdict in (LOST, STATUS) else ())
    if moved.verdict == ROSE and after.has_bound:
        yield "A larger upper bound does not prove that the network stretches more: less is guaranteed than before."
    if moved.verdict == FELL and after.has_bound:
        yield "A smaller upper bound does not prove that the network stretches less: more is guaranteed than before."
    for other in diff.other_domains:
        yield printable(_elsewhere(diff, other))


_LOUD_START = {
    LOST: "LOST ITS BOUND",
    GAINED: "GAINED A BOUND",
    STATUS: "HAS ANOTHER STATUS, without a proven bound before or after",
}
_MOVED = {ROSE: "rose", FELL: "fell", SAME: "is the same"}


def _by(diff: ReportDiff) -> str:
    text = quotient_text(diff.network, is_estimated(diff.before.network, diff.after.network))
    return "" if diff.network.verdict == SAME or not text else f" (factor {text})"


def _elsewhere(diff: ReportDiff, other: DomainChange) -> str:
    where = f"Over {place(diff.after.settings, other.domain)}"
    if other.before is not None and other.after is not None:
        digits = digits_apart(other.before, other.after, other.move)
        pair = f"{said(other.before, digits)} before, {said(other.after, digits)} after"
        if other.move is None:
            return f"{where}: {pair}, but the images are normalised otherwise, so that these cannot be compared."
        quotient = quotient_text(other.move, is_estimated(other.before, other.after))
        return f"{where}: {pair}" + (f", a factor of {quotient}." if quotient else ".")
    known, which, lacks = (
        (other.after, "after", "first") if other.before is None else (other.before, "before", "second")
    )
    return f"{where}: {said(known) if known is not None else ''} {which}; the {lacks} report says nothing of it."


def _rows(diff: ReportDiff) -> Iterable[str]:
    matched = [change for change in diff.layers if change.match in ("name", "shape")]
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
    for kind, what in (
        ("changed", "of the same name is another operation or has another weight shape"),
        ("added", "only after"),
        ("removed", "only before"),
    ):
        names = [change.record.name for change in diff.layers if change.match == kind]
        if names:
            yield printable(f"{count_text(len(names), 'row')} {what}: {names_text(names)}.")


def _moved_most(diff: ReportDiff) -> Iterable[str]:
    """The rows that account for most of the network's move, whatever is proven of them, and the others as one factor.

    Ordered by the size of their contribution, or else of their own factor.
    """
    moved = [change for change in diff.layers if _weight(change) and (has_moved(change) or _is_visible(change))]
    first = sorted(moved, key=lambda change: -_weight(change))[:MOST]
    for change in first:
        factor = quotient_text(change.move, is_estimated(change.before, change.after))
        line = (
            f"{change.record.name} ({change.record.op}): "
            + (f"factor {factor}, " if factor else "")
            + verdict_text(change)
        )
        if change.contribution is not None:
            line += f"; the network's figure times {times_text(change.contribution)}"
        yield printable(line)
    known = [change for change in diff.layers if change.contribution is not None]
    rest = [change for change in known if not any(change is row for row in first)]
    if not first or not known or diff.network.log10_factor is None:
        return
    if rest:
        yield f"The other {count_text(len(rest), 'row')}: the network's figure times {times_text(_together(rest))}"
    yield (
        f"What a row does is known to first order, for the product of all rows: together they make {times_text(_together(known))}. "
        f"The network's figure, which may be below that product, has the factor {quotient_text(diff.network)}."
    )


def _together(changes: Iterable[LayerChange]) -> float:
    return math.fsum(change.contribution for change in changes if change.contribution is not None)


def _is_visible(change: LayerChange) -> bool:
    """Whether a row's part in the network's move is seen in the digits that are shown."""
    return change.contribution is not None and times_text(change.contribution) != "1"


def _weight(change: LayerChange) -> float:
    if change.contribution is not None:
        return abs(change.contribution)
    return abs(change.move.log10_factor or 0.0) if change.move is not None else 0.0


def _changed(diff: ReportDiff) -> Iterable[str]:
    renamed = [
        f"{c.before.name} is {c.record.name}" for c in diff.layers if c.match == "shape" and c.before is not None
    ]
    if renamed:
        yield printable(
            f"{count_text(len(renamed), 'row')} matched in order, because all operations, weight shapes and geometries without a "
            f"counterpart of their name are equal: {names_text(renamed)}."
        )
    for change in diff.layers:
        if change.before is None or change.after is None:
            continue
        geometry = _geometry(change.before), _geometry(change.after)
        if geometry[0] != geometry[1]:
            yield printable(f"{change.record.name}: {geometry[0]} before, {geometry[1]} after.")
    yield from _weaker(diff)


def _weaker(diff: ReportDiff) -> Iterable[str]:
    """Rows whose bounds rest on another theorem than before."""
    places: dict[tuple[str, str], list[str]] = {}
    sides: Sequence[tuple[str, Record, Record]] = [
        ("the network", diff.before.network, diff.after.network),
        *((c.record.name, c.before, c.after) for c in diff.layers if c.before is not None and c.after is not None),
    ]
    for name, before, after in sides:
        if before.rigor and after.rigor and before.rigor != after.rigor:
            places.setdefault((before.rigor, after.rigor), []).append(name)
    for (old, new), names in places.items():
        yield printable(f"Rigor {old} before, {new} after: {names_text(names)}.")


def _geometry(row: LayerRecord) -> str:
    shape = "" if row.weight_shape is None else shape_text(row.weight_shape)
    return " ".join(filter(None, (row.op, shape, row.details)))


def _compared(diff: ReportDiff) -> Iterable[str]:
    tolerances = dict.fromkeys(f"{side.settings.tolerance:g}" for side in (diff.before, diff.after))
    if any(change.move is not None and change.move.verdict in (GREW, SHRANK, WITHIN) for change in diff.layers):
        yield f"Tolerance {' and '.join(tolerances)}: how closely the norms are found; a smaller --tol tells smaller moves apart."
    if is_estimated(diff.before.network, diff.after.network, *(c.record for c in diff.layers)):
        yield "An estimate (marked ~) proves nothing, and neither does a move of it."
    yield from diff.notes
