"""What no report may say: figures that contradict their status, their rigor or one another, and numbers that no audit finds.

The rules are those of the record, over the plain JSON of a report. What has another type than it should is left to the decoder, which
names it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from lipaudit.errors import UsageError
from lipaudit.records.figure import BOUNDS, ESTIMATE, log10_of_plain

STATUSES = ("finite", "unbounded", "unsupported")
RIGORS = (*BOUNDS, ESTIMATE)
NOT_APPLICABLE = "not applicable"  # the status of a method that has no bound of the network
# decimal arithmetic, which rounds figures for display and judges gates, holds no power of ten beyond this one
LARGEST_LOG10 = 999_999.0
# that many decades over the sum of all that stretches, where rounding alone (2^-53) makes up the sum, is below 1e23
LARGEST_SHARE = 1e30

_BOUNDS = ("upper_bound", "log10_upper_bound", "pixel_upper_bound", "pixel_log10_upper_bound", "tightness")
_ESTIMATES = ("estimate", "log10_estimate", "pixel_estimate", "pixel_log10_estimate")
_SAID = {"upper_bound", "log10_upper_bound", "estimate", "log10_estimate"}  # one of them says how large
_FIGURES = (*_BOUNDS, *_ESTIMATES, "log10_lower_bound")
_UPWARDS = ("upper_bound", "pixel_upper_bound", "estimate", "pixel_estimate")  # rounded up
# a plain figure and its logarithm, or two ends of a bracket, differ by this at most (in log10, relative): rounding moves them less
_ROUNDING = 1e-9
_SMALLEST, _LOG10_SMALLEST = 1e-300, -300.0  # below it a plain figure is rounded outward by more than that

Entry = dict[str, Any]


class ContradictionError(UsageError):
    """A document says two things that cannot both hold: it was altered, or written by a defect."""

    def __init__(self, what: str, problem: str) -> None:
        super().__init__(f"the {what} contradicts itself: {problem}; write it again with this version of lipaudit")
        self.problem = problem


class Part(NamedTuple):
    """A part of a report that has figures: ``kind`` is network, output, domain, bound or layer, ``place`` is where it stands."""

    kind: str
    place: str
    entry: Entry
    structure: bool = False


def contradiction(document: Entry) -> str:
    """What is wrong in the JSON of a report; empty where nothing is."""
    settings, network = document.get("settings"), document.get("network")
    structure = isinstance(settings, dict) and settings.get("structure") is True
    problems = (
        part_contradiction(Part(kind, place, entry, structure))
        for kind, place, entry in _entries(document)
        if isinstance(entry, dict)  # else the decoder names it with the type that it should have
    )
    if problem := next(filter(None, problems), ""):
        return problem
    if not isinstance(network, dict):
        return ""
    owners = [("network", network), *_domains(network)]
    return (
        _of_domain(document, network)
        or _of_outputs(network)
        or _of_ratio(network)
        or _of_images(network)
        or _of_balls(network)
        or next(filter(None, (_of_bounds(place, owner) for place, owner in owners)), "")
    )


def part_contradiction(part: Part) -> str:
    """What is wrong in one part by itself; empty where nothing is."""
    checks = (_of_status, _of_rigor, _of_numbers, _of_logarithms, _of_bracket)
    return next((problem for check in checks if (problem := check(part))), "")


def _entries(document: Entry) -> Iterator[tuple[str, str, Any]]:
    network = document.get("network")
    yield "network", "network", network
    for kind, key in (("output", "outputs"), ("domain", "other_domains"), ("ball", "balls")):
        yield from _listed(network, kind, "network", key)
    yield from _listed(network, "bound", "network", "bounds")
    for place, domain in _domains(network):
        yield from _listed(domain, "bound", place, "bounds")
    yield from _listed(document, "layer", "", "layers")


def _listed(owner: Any, kind: str, place: str, key: str) -> Iterator[tuple[str, str, Any]]:
    entries = owner.get(key) if isinstance(owner, dict) else None
    for i, entry in enumerate(entries if isinstance(entries, list) else []):
        yield kind, f"{place}.{key}[{i}]".removeprefix("."), entry


def _domains(network: Any) -> Iterator[tuple[str, Any]]:
    """The network over every domain beside the one in force."""
    for _, place, domain in _listed(network, "domain", "network", "other_domains"):
        yield place, domain


def _of_status(part: Part) -> str:
    place, entry = part.place, part.entry
    status = entry.get("status")
    if status not in (*STATUSES, *([NOT_APPLICABLE] if part.kind == "bound" else [])):
        return f"{place}.status is {status!r}"
    bounds = [key for key in _BOUNDS if entry.get(key) is not None]
    estimates = [key for key in _ESTIMATES if entry.get(key) is not None]
    if bounds and estimates:
        return f"{place} has both a {bounds[0]} and a {estimates[0]}"
    if bounds and entry.get("rigor") == "estimate":
        return f"{place} is an estimate but has a {bounds[0]}"
    if estimates and entry.get("rigor", "estimate") not in ("estimate", None):
        return f"{place} is {entry['rigor']} but has a {estimates[0]}"
    if status == "finite" and not part.structure and not _SAID.intersection((*bounds, *estimates)):
        return f"{place} is finite but has no upper bound and no estimate"
    # a network without a finite upper bound may still have a lower bound: the largest stretching found
    figures = _FIGURES if part.kind == "network" else (*_FIGURES, "lower_bound")
    stated = [key for key in figures if entry.get(key) is not None]
    if part.structure and stated:
        return f"{place} has a {stated[0]} in a report without figures"
    return f"{place} is {status} but has a {stated[0]}" if status != "finite" and stated else ""


def _of_rigor(part: Part) -> str:
    place, entry = part.place, part.entry
    rigor = entry.get("rigor")
    if rigor is not None and rigor not in RIGORS:
        return f"{place}.rigor is {rigor!r}"
    if rigor is None and part.kind != "output" and entry["status"] == "finite" and not part.structure:
        return f"{place} is finite but has no rigor"
    return ""


def _of_numbers(part: Part) -> str:
    place, entry = part.place, part.entry
    for key in (*_FIGURES, "lower_bound", "share"):
        value = _number(entry, key)
        if value is None:
            continue
        if "log10" in key:
            if abs(value) > LARGEST_LOG10:
                return f"{place}.{key} is {value!r}, beyond all that can be computed with ({LARGEST_LOG10:.0f})"
        elif key == "share":
            if abs(value) > LARGEST_SHARE:
                return f"{place}.share is {value!r}, and no share is beyond {LARGEST_SHARE!r}"
        elif value < 0:
            return f"{place}.{key} is {value!r}, which is negative"
    return ""


def _of_logarithms(part: Part) -> str:
    place, entry = part.place, part.entry
    for key in (*_UPWARDS, "lower_bound"):
        logarithm = f"pixel_log10_{key[6:]}" if key.startswith("pixel_") else f"log10_{key}"
        plain, log10 = _number(entry, key), _number(entry, logarithm)
        if plain is not None and log10 is not None and not _agree(plain, log10, upwards=key in _UPWARDS):
            return f"{place} has the {key} {plain!r} and the {logarithm} {log10!r}, which are not the same number"
    return ""


def _agree(plain: float, log10: float, upwards: bool) -> bool:
    """Whether two figures are one, ``plain`` being rounded up or down where floats end."""
    logarithm = log10_of_plain(plain, None)
    if plain == 0 or logarithm is None:  # as a bound 0 is exact and has no logarithm
        return not upwards and log10 < _LOG10_SMALLEST
    if _close(logarithm, log10):
        return True
    if upwards:
        return plain < _SMALLEST and log10 < logarithm
    return (plain < _SMALLEST or plain == sys.float_info.max) and log10 > logarithm


def _of_bracket(part: Part) -> str:
    place, entry = part.place, part.entry
    lower, upper = (_size(entry, key) for key in ("lower_bound", "upper_bound"))
    if lower is None or upper is None or lower <= upper or _close(lower, upper):
        return ""
    return f"{place} has a lower bound (10^{lower:.6g}) above its upper bound (10^{upper:.6g})"


def _of_domain(document: Entry, network: Entry) -> str:
    """Whether the network's figures are over the domain that was asked for, and pixels have a normalisation."""
    settings, model = document.get("settings"), document.get("model")
    asked = settings.get("domain", "global") if isinstance(settings, dict) else "global"
    stated = network.get("domain", "global")
    if stated != asked:
        return f"network.domain is {stated!r} and settings.domain {asked!r}"
    if stated == "pixels" and isinstance(model, dict) and model.get("preprocessing") is None:
        return (
            "network.domain is 'pixels' and model.preprocessing is missing, without which nobody knows what a pixel is"
        )
    return ""


def _of_outputs(network: Entry) -> str:
    """Whether the outputs can be those of the network, whose figure is the root of the sum of their squares."""
    outputs = network.get("outputs")
    for i, output in enumerate(outputs if isinstance(outputs, list) else []):
        if not isinstance(output, dict) or network.get("status") != "finite":
            continue
        if output.get("status") != "finite":
            return f"network is finite but network.outputs[{i}] is {output.get('status')}"
        if network.get("rigor") != "estimate" and any(output.get(key) is not None for key in _ESTIMATES):
            return f"network is {network.get('rigor')} but network.outputs[{i}] is an estimate"
    return ""


def _of_ratio(network: Entry) -> str:
    """Whether the ratio is that of the two bounds."""
    ratio, upper, lower = _number(network, "log10_ratio"), _size(network, "upper_bound"), _size(network, "lower_bound")
    if ratio is None or (upper is not None and lower is not None and _close(ratio, max(0.0, upper - lower))):
        return ""
    return f"network.log10_ratio is {ratio!r}, which is not that of its bounds"


def _of_images(network: Entry) -> str:
    """Whether the norms at images are as many as they say, and none is above the network's lower bound."""
    images = network.get("images")
    if not isinstance(images, dict) or not isinstance(images.get("norms"), list):
        return ""
    norms = [_number(entry, "norm") for entry in images["norms"] if isinstance(entry, dict)]
    known = [norm for norm in norms if norm is not None]
    if len(known) < len(images["norms"]):  # the decoder names what is wrong
        return ""
    if images.get("count") != len(known):
        return f"network.images.count is {images.get('count')!r}, and there are {len(known)} norms"
    if min(known, default=0.0) < 0 or images.get("largest") != max(known, default=None):
        return f"network.images.largest is {images.get('largest')!r}, which is not the largest of its norms"
    lower = _number(network, "lower_bound")
    if lower is None or max(known) > lower:
        return "network.images has a norm above the lower bound of the network"
    return ""


def _of_balls(network: Entry) -> str:
    """Whether the figure of a network is the largest of those of several balls, and no norm at a centre is above the bound of its ball."""
    balls = [entry for _, _, entry in _listed(network, "ball", "network", "balls") if isinstance(entry, dict)]
    if not balls:
        return ""
    if (network.get("status") == "finite") != all(ball.get("status") == "finite" for ball in balls):
        return f"network is {network.get('status')}, and not every one of network.balls is"
    for i, ball in enumerate(balls):
        norm, upper = _number(ball, "jacobian_norm"), _size(ball, "upper_bound")
        size = log10_of_plain(norm, None)
        if upper is not None and size is not None and size > upper and not _close(size, upper):
            return f"network.balls[{i}] has a norm at its centre above its upper bound"
    sizes = [size for ball in balls if (size := _size(ball, "upper_bound")) is not None]
    figure = _size(network, "upper_bound")
    if network.get("status") != "finite" or (figure is None and not sizes):
        return ""
    if figure is not None and len(sizes) == len(balls) and _close(figure, max(sizes)):
        return ""
    return "network has another upper bound than the largest of network.balls"


def _of_bounds(place: str, owner: Any) -> str:
    """Whether the figure of a network is the least of the bounds that were computed, where the report lists them."""
    listed = [entry for _, _, entry in _listed(owner, "bound", place, "bounds") if isinstance(entry, dict)]
    if not listed or owner.get("status") != "finite":
        return ""
    figure = _size(owner, "upper_bound")
    least = min((size for entry in listed if (size := _size(entry, "upper_bound")) is not None), default=None)
    if figure is None and least is None:  # an estimate, or a report without figures
        return ""
    if figure is None or least is None or not _close(figure, least):
        said = "none" if figure is None else f"10^{figure!r}"
        known = "none" if least is None else f"10^{least!r}"
        return f"{place} has another upper bound than the least of {place}.bounds: {said}, and {known} there"
    return ""


def _close(a: float, b: float) -> bool:
    return a == b or abs(a - b) <= _ROUNDING * max(1.0, abs(a), abs(b))


def _size(entry: Entry, key: str) -> float | None:
    """The decimal logarithm of a bound, minus infinity for 0; None where there is none."""
    return log10_of_plain(_number(entry, key), _number(entry, f"log10_{key}"))


def _number(entry: Entry, key: str) -> float | None:
    value = entry.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) <= sys.float_info.max else None
