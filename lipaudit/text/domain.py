"""Domains in words: over which inputs a figure holds."""

from __future__ import annotations

from lipaudit.escaping import printable
from lipaudit.records.report import AuditReport, DomainRecord
from lipaudit.records.settings import SettingsRecord
from lipaudit.text.held_inputs import shown
from lipaudit.text.numbers import shape_text

_SAME = 1e-9  # powers of ten that are not told apart
_UNITS = {"pixels": ", in pixels in [0, 1]", "input": ", in the network's own input"}


def place(settings: SettingsRecord, domain: str) -> str:
    """The inputs of a domain, to be read after "over".

    >>> place(SettingsRecord(), "pixels")
    'all images with pixels in [0, 1]'
    >>> place(SettingsRecord(domain="ball", around="cat.png", radius=0.5, radius_in="pixels"), "ball")
    'all inputs within 0.5 (l2, in pixels in [0, 1]) of cat.png'
    >>> place(SettingsRecord(domain="ball", around="x.npy", radius=0.5, radius_in="input", radius_norm="linf"), "ball")
    "all inputs within 0.5 (in every entry, in the network's own input) of x.npy"
    >>> place(SettingsRecord(domain="ball", around="cats", radius=0.5, radius_in="pixels", centres=12), "ball")
    'each of 12 balls with the radius 0.5 (l2, in pixels in [0, 1]) around cats'
    """
    if domain == "global":
        return "all inputs"
    if domain == "pixels":
        return "all images with pixels in [0, 1]"
    if domain == "ball" and settings.radius is not None:
        unit = _UNITS.get(settings.radius_in or "", "")
        norm = "in every entry" if settings.radius_norm == "linf" else "l2"
        if settings.centres is not None:
            balls = "the ball" if settings.centres == 1 else f"each of {settings.centres:,} balls"
            source = printable(settings.around) if settings.around else "the given inputs"
            return f"{balls} with the radius {_exactly(settings.radius)} ({norm}{unit}) around {source}"
        centre = printable(settings.around) if settings.around else "the given input"
        return f"all inputs within {_exactly(settings.radius)} ({norm}{unit}) of {centre}"
    return f"the domain {domain}"


def described(report: AuditReport) -> str:
    """The domain in force, with everything that defines it."""
    settings, domain = report.settings, report.network.domain
    parts = [place(settings, domain)]
    in_pixels = domain == "pixels" or settings.radius_in == "pixels"
    if in_pixels and domain == "ball":
        parts.append(f"resized to {shape_text(report.model.input_shape[2:])}")
    if in_pixels and report.model.preprocessing is not None:
        parts.append(_normalisation(report.model.preprocessing))
    if settings.fixed:
        parts.append(f"with {held(settings)}")
    return ", ".join(parts)


def held(settings: SettingsRecord) -> str:
    """The inputs that are held at a value, and at which; the first few of them.

    >>> from lipaudit.records.settings import HeldInput
    >>> held(SettingsRecord(fixed={"rate": HeldInput((), "int", 16000)}))
    'rate held at 16000'
    """
    parts = [printable(f"{name} held at {shown(value)}") for name, value in list(settings.fixed.items())[:3]]
    left = len(settings.fixed) - len(parts)
    return " and ".join(parts + ([f"{left} more held"] if left else []))


def pixels_are_the_input(report: AuditReport) -> bool:
    """Whether pixels enter the network as they are, so that a figure in pixels says nothing new."""
    known = report.model.preprocessing
    return known is not None and {abs(s) for s in known.get("std", ())} == {1.0}


def finite_elsewhere(report: AuditReport) -> DomainRecord | None:
    """The domain over which the network has a bound where it has none over the domain in force; an estimate is none."""
    return next((other for other in _finite_elsewhere(report) if other.rigor != "estimate"), None)


def estimated_elsewhere(report: AuditReport) -> DomainRecord | None:
    """The domain over which the network has no more than an estimate where it has nothing over the domain in force."""
    return next((other for other in _finite_elsewhere(report) if other.rigor == "estimate"), None)


def is_not_lowered_by_its_ball(report: AuditReport) -> bool:
    """Whether the bound over the ball in force is no smaller than the one over all inputs."""
    network = report.network
    if network.domain != "ball" or network.status != "finite" or not network.has_bound:
        return False
    everywhere = [other for other in network.other_domains if other.domain == "global" and other.has_bound]
    return any(network.log10 > other.log10 - _SAME for other in everywhere)


def may_be_finite_on_images(report: AuditReport) -> bool:
    """Whether nobody knows yet if images have a bound, because how the network normalises them was not known."""
    network, model = report.network, report.model
    images = all(len(shape) >= 3 for shape in (model.input_shapes.values() or [model.input_shape]))
    unknown = network.domain == "global" and not network.other_domains and model.preprocessing is None
    return network.status == "unbounded" and images and unknown


def _finite_elsewhere(report: AuditReport) -> list[DomainRecord]:
    network = report.network
    return [] if network.status == "finite" else [other for other in network.other_domains if other.status == "finite"]


def _normalisation(known: dict[str, tuple[float, ...]]) -> str:
    mean, std = known.get("mean", ()), known.get("std", ())
    if set(mean) == {0.0} and set(std) == {1.0}:
        return "as the network reads them"
    return f"normalised by mean {_listed(mean)} and std {_listed(std)}"


def _listed(values: tuple[float, ...]) -> str:
    return ", ".join(map(_exactly, values))


def _exactly(value: float) -> str:
    short = f"{value:g}"
    return short if float(short) == value else repr(value)
