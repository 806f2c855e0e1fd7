"""The search for a chain's multipliers and weights within an amount of work, and the proof of what it finds.

A segment with many frequencies is searched on some of them first. Then all are looked at: those whose t is above the ones that were
searched on, or where the multipliers prove nothing, join in, and the search goes on. Where the joined ones leave the point outside of
the feasible set it is moved towards the last point that is feasible everywhere: multipliers and weights that are feasible in absolute
terms (every t = 1) make up a convex set.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from lipaudit.network.forms.chain import Chain
from lipaudit.network.forms.cost import cost
from lipaudit.network.forms.elimination import InfeasibleError
from lipaudit.network.forms.parts import spread
from lipaudit.network.forms.search import minimise
from lipaudit.network.forms.segment import Segment
from lipaudit.network.forms.symbol_space import SymbolSpace
from lipaudit.network.forms.watch import Watch
from lipaudit.network.forms.widening import widened

SHARPNESS = (12.0, 50.0, 400.0, 5000.0, 40000.0)
"""How closely the smoothed largest eigenvalue follows the largest one: the stages of the search. Each takes half of what is left."""
# A stage is off by some 1 / sharpness. It ends where a step gains less than this part of that.
_CONVERGED = 0.0003
# How far a point at the edge of the feasible set is moved inwards, and the gain in log L^2 for which that is done again.
_INWARDS, _WORTH = 0.1, 1e-3
# Inputs are widened by these parts of the first layer's norm, one after the other, in the last stages of a search; and how far a point is
# raised for it to prove something of wider inputs.
_WIDER, _LAST, _INSIDE = (0.3, 0.1, 0.03, 0.01, 0.003), 3, (0.0, 2.0**-6, 2.0**-3, 1.0, 7.0)
# What multipliers are raised by, one after the other, where those that were found prove nothing or little.
_RAISED = (0.0, 2.0**-30, 2.0**-22, 2.0**-16)
# What they are raised by then, each constraint's by more than those behind it: where the forms of several are nearly singular at once.
_GRADED = (2.0**-16, 2.0**-12, 2.0**-9)
# The smallest multipliers where those prove nothing either, as parts of the bound of L^2.
_LEAST = (2.0**-40, 2.0**-30, 2.0**-20)
# How far a point that is not feasible everywhere is moved towards one that is.
_MOVED = (2.0**-16, 2.0**-12, 2.0**-9, 2.0**-6, 2.0**-3)
FAILURES = (InfeasibleError, torch.linalg.LinAlgError)  # type: ignore[attr-defined]
"""What a point raises at which the forms prove nothing."""
_STARTS = ("norm", "forward", "perron")
# What a start with its value, a look at all frequencies and a proof cost in evaluations of value and gradient.
START, LOOK, _PROOF = 1.5, 0.7, 2.0
# What two values without derivatives cost.
_COMPARED = 1.2
START_AND_PROOF = START + _PROOF
"""What the least that is of use costs, in evaluations of all frequencies."""
# A search takes at least so many evaluations, on so few frequencies of a segment as that needs, but not on fewer than these.
# A stage takes some evaluations at least.
_EVALUATIONS, _FREQUENCIES, _PER_STAGE = 60, 12, 15
_LOOKS, _RESTARTS = 3, 3
# What a proof may lose, in log L, before slightly larger multipliers are tried.
_LOST = 1e-3
# Operations of a step of the search itself.
_PER_EVALUATION, _PER_UNKNOWN = 5e6, 500.0
# log t of a frequency may be so far above those that are searched on.
_ABOVE = 1e-3


@dataclass(frozen=True)
class Tightened:
    """A proved bound by forms: the chain, the logarithms of its multipliers and metrics, and log L."""

    chain: Chain
    logs: torch.Tensor
    log_upper: float
    terms: tuple[float, ...]
    evaluations: int


def tighten(
    chain: Chain,
    work: float,
    start: torch.Tensor | None = None,
    watch: Watch | None = None,
    sharpness: Sequence[float] = SHARPNESS,
) -> Tightened:
    """Search from the best of the starts, then prove what was found.

    Args:
        chain: the segments; which frequencies they are searched on is chosen here.
        work: operations that all of it may take, by formula.
        start: where to start from, if something is known.
        watch: who follows the search, and may end it: then what has been reached is proved.
        sharpness: of the stages of the search, one after the other; a start near to the end needs none of the first.

    Raises:
        InfeasibleError: if no start is feasible, or nothing can be proved.
    """
    watch = watch or Watch()
    whole = max(_cost(chain), 1.0)
    looks = _choose(chain, work)
    remaining = work - (_PROOF + looks * LOOK) * whole
    if start is None or not _proves(chain, start):
        start, tried = _start(chain, remaining / max(_cost(chain), 1.0))
        remaining -= tried * START * _cost(chain)
    anchor = logs = start
    for _ in range(_RESTARTS if looks else 0):
        if _look(chain, logs):
            break
        anchor = logs = _start(chain, 0)[0]
    used = 0
    for left in range(looks - 1, 0, -1):
        logs, spent = _searched(chain, logs, remaining * (2 / 3 if left > 1 else 1), watch, sharpness)
        used += spent
        remaining -= spent * _cost(chain)
        terms = chain.terms(logs)
        feasible = _look(chain, logs)
        logs = logs if feasible else _feasible(chain, logs, terms, anchor)
        anchor = logs if feasible else anchor
        if watch.ended:
            break
    if not looks:
        logs, used = _searched(chain, logs, remaining, watch, sharpness)
    return _proved(chain, logs, anchor, used)


def _segments(chain: Chain) -> Iterator[Segment]:
    return (part for part in chain.parts if isinstance(part, Segment))


def _cost(chain: Chain) -> float:
    """Of one evaluation on the frequencies that are searched on."""
    return (
        _PER_EVALUATION
        + _PER_UNKNOWN * chain.unknowns
        + sum(
            cost(each.program, each.space, None if each.chosen is None else len(each.chosen))
            for each in _segments(chain)
        )
    )


def _choose(chain: Chain, work: float) -> int:
    """Choose the frequencies of every segment so that the search has its evaluations; how often all of them are to be looked at."""
    for segment in _segments(chain):
        segment.choose(None)
    whole = _cost(chain)
    if work >= (_EVALUATIONS + START + _PROOF) * whole:
        return 0
    share = max(work - (_PROOF + _LOOKS * LOOK) * whole, 0.0) / _EVALUATIONS / len(list(_segments(chain)))
    looks = 0
    for segment in _segments(chain):
        if not isinstance(segment.space, SymbolSpace):
            continue
        each = cost(segment.program, segment.space) / segment.space.frequencies
        count = max(int(share / each), _FREQUENCIES)
        if count < segment.space.frequencies:
            segment.choose(spread(segment.space, count))
            looks = _LOOKS
    return looks


def _start(chain: Chain, evaluations: float) -> tuple[torch.Tensor, int]:
    """The multipliers of the best start, and how many were tried: one at least, more where the evaluations allow some steps from them."""
    best: tuple[float, torch.Tensor] | None = None
    tried = 0
    for how in _STARTS:
        if best is not None and (tried + 1) * START > evaluations / 4:
            break
        tried += 1
        for segment in _segments(chain):
            segment.forget()
        try:
            logs = chain.start(how)
            value, _ = chain.value(logs, math.inf)
        except FAILURES:
            continue
        if best is None or value < best[0]:
            best = value, logs
    if best is None:
        raise InfeasibleError("the start of the search")
    return best[1], tried


def _searched(
    chain: Chain, logs: torch.Tensor, work: float, watch: Watch, sharpness: Sequence[float]
) -> tuple[torch.Tensor, int]:
    """A point that is no worse within an amount of work, and the evaluations that it took.

    A search can end at the edge of the feasible set, on a slope that leads out of it. It goes on from inside of the set then, before that
    with wider inputs where these are few.
    """
    remaining = int(work / max(_cost(chain), 1.0) - _COMPARED)
    logs, used, stuck = _in_stages(chain, logs, remaining, watch, sharpness)
    if stuck:
        logs, spent = _with_wider_inputs(chain, logs, remaining - used, watch, sharpness)
        used += spent
    while stuck and remaining - used >= _PER_STAGE and not watch.ended:
        inside = logs + _INWARDS * chain.depths()
        before = _value(chain, logs)
        if math.isinf(_value(chain, inside)):
            break
        moved, spent, _ = _in_stages(chain, inside, remaining - used, watch, sharpness[-_LAST:])
        used += spent
        if before - _value(chain, moved) <= _WORTH:
            break
        logs = moved
    return logs, used


def _with_wider_inputs(
    chain: Chain, logs: torch.Tensor, remaining: int, watch: Watch, sharpness: Sequence[float]
) -> tuple[torch.Tensor, int]:
    """A point that is no worse, by way of networks with more inputs that reach the first layer less and less, and the evaluations."""
    point, used = logs, 0
    for amount in _WIDER:
        wide = widened(chain, amount)
        if wide is None or remaining - used < _PER_STAGE or watch.ended:
            break
        start = next((p for p in graded(chain, point, _INSIDE) if math.isfinite(_value(wide, p))), None)
        if start is None:
            break
        point, spent, _ = _in_stages(wide, start, remaining - used, watch, sharpness[-_LAST:])
        used += spent
    return (point if _value(chain, point) < _value(chain, logs) else logs), used


def _in_stages(
    chain: Chain, logs: torch.Tensor, remaining: int, watch: Watch, sharpness: Sequence[float]
) -> tuple[torch.Tensor, int, bool]:
    """A point that is no worse after some evaluations, how many these were, and whether the last stage could not go on.

    What is minimised is smoothed: its minimum may be above the start where there was little work.
    """
    each, begun = max(_cost(chain), 1.0), logs
    used, stuck = 0, False
    stages = sharpness[: max(remaining // _PER_STAGE, 1)]
    for stage, sharp in enumerate(stages):
        share = (remaining - used) // (2 if stage + 1 < len(stages) else 1)
        if not chain.unknowns or share < 2 or watch.ended:
            continue

        def objective(x: torch.Tensor, sharp: float = sharp) -> tuple[float, torch.Tensor] | None:
            try:
                value, slope = chain.value(x, sharp)
            except FAILURES:
                value, slope = math.inf, x
            watch.evaluated(each, value / 2)
            return None if math.isinf(value) else (value, slope)

        found = minimise(objective, logs, share, _CONVERGED / sharp, lambda: watch.ended)
        logs, stuck = found.point, found.stuck
        used += found.evaluations
    return (begun if used and _value(chain, begun) < _value(chain, logs) else logs), used, stuck


def _value(chain: Chain, logs: torch.Tensor) -> float:
    """log of the bound of L^2 on the frequencies that are searched on, not smoothed; infinite where nothing is proved."""
    try:
        return chain.value(logs, math.inf)[0]
    except FAILURES:
        return math.inf


def _look(chain: Chain, logs: torch.Tensor) -> bool:
    """Look at all frequencies and let those that are above join the search; whether the multipliers prove something at every one."""
    feasible = True
    for part, values in zip(chain.parts, chain.by_frequency(logs), strict=True):
        if not isinstance(part, Segment) or part.chosen is None:
            continue
        feasible &= bool(torch.isfinite(values).all())
        known = values[part.chosen]
        highest = float(known[torch.isfinite(known)].max())
        above = values > highest + _ABOVE
        above[part.chosen] = False
        count = min(int(above.sum()), max(len(part.chosen) // 2, _FREQUENCIES // 2))
        if count:
            joined = torch.where(above, values, -math.inf).topk(count).indices
            part.choose(torch.cat([part.chosen, joined]).sort().values)
    return feasible


def _proves(chain: Chain, logs: torch.Tensor) -> bool:
    """Whether multipliers prove something on the frequencies that are searched on."""
    return not math.isinf(_value(chain, logs))


def _feasible(chain: Chain, logs: torch.Tensor, terms: list[float], anchor: torch.Tensor) -> torch.Tensor:
    """The point nearest to one on the way to an anchor that proves something on the frequencies that are searched on.

    Raises:
        InfeasibleError: if the anchor does not.
    """
    for candidate in (*_raised(chain, logs), *_moved(chain, logs, terms, anchor)):
        if _proves(chain, candidate):
            return candidate
    raise InfeasibleError("the frequencies that joined the search")


def _proved(chain: Chain, logs: torch.Tensor, anchor: torch.Tensor, used: int) -> Tightened:
    best: Tightened | None = None
    value, _ = chain.value(logs, math.inf)
    sampled = any(segment.chosen is not None for segment in _segments(chain))
    moved = _moved(chain, logs, chain.terms(logs), anchor)
    candidates = (
        *_raised(chain, logs), *graded(chain, logs, _GRADED), *_at_least(chain, logs, value), *moved,
    )  # fmt: skip
    for candidate in candidates:
        try:
            log_upper, terms = chain.certified(candidate)
        except FAILURES:
            continue
        if best is None or log_upper < best.log_upper:
            best = Tightened(chain, candidate, log_upper, tuple(terms), used)
        if sampled or log_upper <= value / 2 + _LOST:
            break
    if best is None:
        raise InfeasibleError("the proof of what was found")
    return best


def _raised(chain: Chain, logs: torch.Tensor) -> Iterator[torch.Tensor]:
    """The multipliers as they are, then all of them a little larger; the metrics stay."""
    multipliers = _multipliers(chain, logs)
    for amount in _RAISED:
        yield logs + amount * multipliers


def graded(chain: Chain, logs: torch.Tensor, amounts: Sequence[float]) -> Iterator[torch.Tensor]:
    """Larger multipliers, each constraint's by more than those behind it: times (1 + e)^k for their depths k and every amount e.

    As forms grow by at most a factor 1 + e per constraint with larger weights, there is an e for which they prove something.
    """
    depths = chain.depths()
    for amount in amounts:
        yield logs + math.log1p(amount) * depths


def _at_least(chain: Chain, logs: torch.Tensor, value: float) -> Iterator[torch.Tensor]:
    """No multiplier below a small part of L^2, whose logarithm is ``value``: those of what no output reads may be as small as they like.

    Rounding is not, and a proof has to make up for it.
    """
    multipliers = _multipliers(chain, logs)
    for part in _LEAST:
        yield torch.where(multipliers, (logs + _RAISED[1]).clamp_min(value + math.log(part)), logs)


def _multipliers(chain: Chain, logs: torch.Tensor) -> torch.Tensor:
    """Which of the unknowns are multipliers; the others are weights of metrics."""
    mask = torch.ones_like(logs, dtype=torch.bool)
    for place in chain.places.values():
        mask[place] = False
    return mask


def _moved(chain: Chain, logs: torch.Tensor, terms: list[float], anchor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Points on the way to another one, in absolute terms, and that."""
    if anchor is logs:
        return
    ends = [chain.absolute(logs, terms), chain.absolute(anchor, chain.terms(anchor))]
    for share in _MOVED:
        weights = [math.log1p(-share), math.log(share)]
        yield torch.logsumexp(torch.stack([end + weight for end, weight in zip(ends, weights, strict=True)]), 0)
    yield anchor
