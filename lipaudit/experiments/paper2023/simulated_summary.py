"""What is read from measurements on random convolutions: the tables, plots and claims of [P] Figure 3."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lipaudit.experiments.harness.cells import figure_cell
from lipaudit.experiments.harness.methods import OURS, REFERENCE, short
from lipaudit.experiments.harness.result import Cell, Claim, Plot, Series, Table
from lipaudit.experiments.harness.statistics import mean
from lipaudit.spectral.bracket import Rigor

AGREEMENT = 0.01  # two digits


@dataclass(frozen=True)
class Measurement:
    """One method on one random kernel; ``reference`` is Ryu's figure for the same kernel."""

    sweep: str
    at: int
    distribution: str
    method: str
    value: float
    reference: float
    seconds: float
    rigor: Rigor = Rigor.ESTIMATE

    @property
    def error(self) -> float:
        """sigma_method - sigma_Ryu."""
        return self.value - self.reference


def _select(measurements: Sequence[Measurement], sweep: str, method: str) -> dict[int, list[Measurement]]:
    chosen: dict[int, list[Measurement]] = {}
    for entry in measurements:
        if entry.sweep == sweep and entry.method == method:
            chosen.setdefault(entry.at, []).append(entry)
    return chosen


def _profile(
    measurements: Sequence[Measurement], sweep: str, method: str, quantity: Callable[[Measurement], float]
) -> dict[int, float]:
    """The mean of a quantity at every point of a sweep."""
    return {at: mean([quantity(m) for m in entries]) for at, entries in _select(measurements, sweep, method).items()}


def sweep_tables(sweep: str, measurements: Sequence[Measurement]) -> tuple[Table, Table]:
    """Mean errors and mean times at every point of a sweep, for both distributions."""
    methods = list(dict.fromkeys(m.method for m in measurements))
    errors: list[tuple[Cell, ...]] = []
    times: list[tuple[Cell, ...]] = []
    for at in dict.fromkeys(m.at for m in measurements if m.sweep == sweep):
        for distribution in ("gaussian", "uniform"):
            here = [m for m in measurements if (m.sweep, m.at, m.distribution) == (sweep, at, distribution)]
            cells = [[m for m in here if m.method == method] for method in methods]
            reference = mean([m.reference for m in here])
            excess = [figure_cell(mean([m.error for m in c]), Rigor.weakest(m.rigor for m in c)) for c in cells[1:]]
            errors.append((at, distribution, figure_cell(reference, Rigor.ESTIMATE), *excess))
            times.append((at, distribution, *(mean([m.seconds for m in c]) for c in cells)))
    names = [short(method) for method in methods]
    part = sweep.replace(" ", "-")
    return (
        Table(
            f"sigma_Ryu, and sigma - sigma_Ryu of the others, by {sweep} (means; ~ marks those of estimates; "
            "those of upper bounds are rounded up)",
            (sweep, "entries", *names),
            tuple(errors),
            part,
        ),
        Table(f"seconds by {sweep} (means)", (sweep, "entries", *names), tuple(times), f"{part}-times"),
    )


def below_table(measurements: Sequence[Measurement]) -> Table:
    """How often each figure lies below Ryu's, which is itself at most the norm of the layer, up to the rounding of float32."""
    rows = []
    for method in dict.fromkeys(m.method for m in measurements):
        if method != REFERENCE:
            entries = [m for m in measurements if m.method == method]
            rows.append((short(method), sum(m.error < 0 for m in entries), len(entries), min(m.error for m in entries)))
    columns = ("method", "below Ryu", "kernels", "smallest error")
    return Table(
        "figures below the reference, which is at most the norm of the zero-padded layer up to the rounding of float32",
        columns,
        tuple(rows),
        "below",
    )


def claims(measurements: Sequence[Measurement]) -> tuple[Claim, ...]:
    """What the paper says of Figure 3."""
    sedghi = {(m.sweep, m.at, m.distribution, m.reference): m.value for m in measurements if m.method == "sedghi2019"}
    gaps = [
        abs(m.value / sedghi[m.sweep, m.at, m.distribution, m.reference] - 1)
        for m in measurements
        if m.method == "delattre2023"
    ]
    return (
        Claim(
            "the paper's method (5 products) gives the values of Sedghi et al.",
            "matches; up to two digits",
            f"largest relative difference {max(gaps):.2g}",
            max(gaps) <= AGREEMENT,
        ),
        _trend(
            measurements,
            "kernel size",
            "the distance of the circular norm (Sedghi) to Ryu grows with the kernel size",
            True,
        ),
        _trend(
            measurements,
            "input size",
            "the distance of the circular norm (Sedghi) to Ryu falls with the input size",
            False,
        ),
        _slower(measurements, "input size"),
        _slower(measurements, "kernel size"),
        _fastest(measurements),
    )


def _ends(profile: dict[int, float]) -> tuple[str, float, float]:
    first, last = min(profile), max(profile)
    return f"{profile[first]:.3g} at {first}, {profile[last]:.3g} at {last}", profile[first], profile[last]


def _trend(measurements: Sequence[Measurement], sweep: str, statement: str, grows: bool) -> Claim:
    text, first, last = _ends(_profile(measurements, sweep, "sedghi2019", lambda m: abs(m.error)))
    return Claim(
        statement, "Figure 3 and Appendix C.2", f"mean distance {text}", last > first if grows else last < first
    )


def _slower(measurements: Sequence[Measurement], sweep: str) -> Claim:
    text, first, last = _ends(_profile(measurements, sweep, REFERENCE, lambda m: m.seconds))
    return Claim(f"the time of Ryu's method grows with the {sweep}", "Figure 3", f"mean seconds {text}", last > first)


def _fastest(measurements: Sequence[Measurement]) -> Claim:
    seconds = {
        method: mean([m.seconds for m in measurements if m.method == method])
        for method in dict.fromkeys(m.method for m in measurements)
    }
    ours = seconds.pop(OURS, None)
    text = ", ".join(f"{method} {s:.3g}" for method, s in sorted(seconds.items(), key=lambda item: item[1]))
    aside = "" if ours is None else f" ({short(OURS)}, not compared: {ours:.3g})"
    return Claim(
        "the paper's method is the fastest of the published methods compared",
        "Figure 3",
        f"mean seconds over all kernels: {text}{aside}",
        seconds["delattre2023"] <= min(seconds.values()),
    )


def plot(sweep: str, measurements: Sequence[Measurement], quantity: str) -> Plot:
    """The mean ``error`` or ``time`` of every method over a sweep."""
    series = []
    for method in dict.fromkeys(m.method for m in measurements):
        if quantity == "error" and method == REFERENCE:
            continue
        profile = _profile(
            measurements, sweep, method, (lambda m: m.seconds) if quantity == "time" else (lambda m: abs(m.error))
        )
        series.append(Series(short(method), tuple(map(float, profile)), tuple(profile.values())))
    label = "seconds" if quantity == "time" else "|sigma - sigma_Ryu|"
    return Plot(f"{quantity} by {sweep}", sweep, label, tuple(series), log_y=True)
