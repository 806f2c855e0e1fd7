"""``lipaudit verify``: every upper bound of a report, computed again from the model and the certificate, without a search."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lipaudit.auditing.certificate import read_certificate
from lipaudit.auditing.request import AuditRequest
from lipaudit.auditing.run import run_audit
from lipaudit.errors import InvalidValueError
from lipaudit.errors.verification import MissingCertificateError, NothingToVerifyError
from lipaudit.network.forms.certificate import Certificate
from lipaudit.option_names import spell
from lipaudit.records.figure import Figure
from lipaudit.records.report import AuditReport, BoundRecord, DomainRecord, NetworkRecord
from lipaudit.records.settings import HeldInput
from lipaudit.records.verification import Verification
from lipaudit.text.numbers import log10_upper_text, names_text

if TYPE_CHECKING:
    from lipaudit.frontends.module import Network

# how far another machine's rounding may move the decimal logarithm of a bound that is computed in the same way
_ROUNDING = 4e-10
_RANK = {"certified": 0, "numerical": 1, "estimate": 2}
_FORMS = "forms"
# what says over which inputs and in which units the figures are, beside the settings with which they are computed again
_SETTINGS = ("radius_in", "radius_norm", "centres", "dtype")
_MODEL = ("input_shape", "input_shapes", "preprocessing", "num_parameters")


def verify(
    report: AuditReport,
    model: Network | str,
    certificate: str | os.PathLike[str] | None = None,
    *,
    fix: Mapping[str, object] | None = None,
    weights: str | None = None,
    arch: str | None = None,
    max_memory: int | str | None = None,
) -> Verification:
    """Compute every upper bound of a report again, and compare.

    The model is loaded and captured anew, the norms of its layers are found anew, and bounds by forms are proved from the numbers in the
    certificate, in float64 with margins for rounding; no step of a search is taken. A bound counts as proved again where the computed
    figure is at most the report's, up to a relative 1e-9 by which another machine may round. Measured lower bounds are not
    verified, nor is what a report says in words: names of the model and its weights, notes.

    Args:
        report: of an audit with lipaudit's own norms.
        model: the network, as for :func:`lipaudit.audit`.
        certificate: the file that the audit wrote (``certificate``); only where the report has a bound by forms.
        fix, weights, arch, max_memory: as for the audit; ``fix`` where the report has only hashes of the held inputs.

    Raises:
        UsageError: where the report has nothing to verify, or the certificate is missing or cannot be read.
        LipauditError: where the model cannot be loaded or captured.

    >>> import tempfile
    >>> import lipaudit
    >>> from torch import nn
    >>> net, file = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)), tempfile.mktemp(".safetensors")
    >>> report = lipaudit.audit(net, (1, 2), effort="quick", certificate=file)
    >>> verify(report, net, file).verified
    True
    """
    if not isinstance(report, AuditReport):
        raise InvalidValueError("a report to verify", "an AuditReport", report, "AuditReport.load reads a file")
    _check_has_bounds(report)
    resting = [bound for bound in _all_bounds(report) if bound.name == _FORMS and bound.figure is not None]
    proof = Certificate()
    if resting:
        if certificate is None:
            raise MissingCertificateError(resting[0].certificate)
        proof, digest = read_certificate(os.fspath(certificate))
        known = {bound.certificate_sha256 for bound in resting} - {None}
        if known and known != {digest}:
            named = ", ".join(map(str, known))
            return Verification(
                (f"The certificate is not the one that the report names: its SHA-256 is {digest}, not {named}.",),
                0,
                None,
            )
    request = _request(report, model, fix=fix, weights=weights, arch=arch, max_memory=max_memory)
    again = run_audit(request, certificate=proof)
    problems = list(_differences(report, again))
    figures = list(_figures(report))
    computed = dict(_figures(again))
    for place, figure in figures:
        problem = _problem(place, figure, computed.get(place))
        if problem and resting and (reason := _reason(again)) and place in ("the network", f"the bound {_FORMS!r}"):
            problem += f" ({reason})"
        problems += [problem] if problem else []
    return Verification(tuple(problems), len(figures), again.network.log10_upper_bound)


def _check_has_bounds(report: AuditReport) -> None:
    settings = report.settings
    if settings.structure:
        raise NothingToVerifyError("it is of the structure alone and has no figures")
    if settings.method != "gram":
        raise NothingToVerifyError(
            f"its norms are those of the published method {settings.method}, which prove no bounds"
        )
    if settings.domain == "ball" and (settings.around is None or not Path(settings.around).exists()):
        raise NothingToVerifyError(
            f"the centre of its ball is not here ({settings.around or 'a tensor given in Python'}): run it where the file is"
        )
    on_domain = [bound for domain in _domains(report) if domain.domain != "global" for bound in domain.bounds]
    if any(bound.name == _FORMS and bound.figure is not None and not bound.segments for bound in on_domain):
        raise NothingToVerifyError(
            f"it has a bound by forms on its domain, of which no certificate is kept: audit with {spell('effort', 'none')}"
        )


def _request(
    report: AuditReport, model: Network | str, fix: Mapping[str, object] | None, **options: Any
) -> AuditRequest:
    settings, known = report.settings, report.model.preprocessing
    shapes = report.model.input_shapes or report.model.input_shape
    held = fix if fix is not None else {name: _held(name, entry) for name, entry in settings.fixed.items()}
    pixels = known is not None and settings.radius_in != "input"
    normalisation: dict[str, Any] = {key: known[key] for key in ("mean", "std")} if known is not None and pixels else {}
    return AuditRequest(
        model=model,
        input_shape=shapes,
        fix=dict(held) or None,
        tol=settings.tolerance,
        seed=settings.seed,
        norm=settings.norm,
        domain=settings.domain,
        around=settings.around,
        radius=settings.radius,
        norm_domain=settings.radius_norm or "l2",
        freeze_random=settings.freeze_random,
        effort=settings.effort,
        **normalisation,
        **options,
    )


def _held(name: str, entry: HeldInput) -> object:
    """The value that an input was held at."""
    if entry.dtype == "none":
        return None
    if entry.value is None:
        raise NothingToVerifyError(f"it has only a hash of the held input {name!r}: give the value with {spell('fix')}")
    if not isinstance(entry.value, list):
        return entry.value
    import torch

    return torch.tensor(entry.value, dtype=getattr(torch, entry.dtype))


def _differences(report: AuditReport, again: AuditReport) -> Iterator[str]:
    """What shows that the model or the question is another one."""
    hashes = report.model.state_dict_sha256, again.model.state_dict_sha256
    if hashes[0] != hashes[1]:
        yield f"The model has other weights than the report says: their SHA-256 is {hashes[1]}, not {hashes[0]}."
    if report.settings.fixed != again.settings.fixed:
        yield "Inputs are held at other values than the report says."
    for owner, fields in (("settings", _SETTINGS), ("model", _MODEL)):
        for field in fields:
            stated, own = (getattr(getattr(each, owner), field) for each in (report, again))
            if stated != own:
                yield f"The report's {owner}.{field} is {stated!r}; the audit of the model has {own!r}."
    names = [row.name for row in report.layers], [row.name for row in again.layers]
    if names[0] != names[1]:
        yield f"The model has other rows than the report: {len(names[1])}, and {len(names[0])} in the report."


def _all_bounds(report: AuditReport) -> list[BoundRecord]:
    return [bound for domain in _domains(report) for bound in domain.bounds]


def _domains(report: AuditReport) -> list[NetworkRecord | DomainRecord]:
    return [report.network, *report.network.other_domains]


def _figures(report: AuditReport) -> Iterator[tuple[str, Figure]]:
    """Every upper bound of a report, by its place in words."""
    yield from _of_domain("the network", report.network)
    if report.network.output_diameter is not None:
        yield "the size of the output", Figure.of(report.network.output_diameter, "numerical")
    for other in report.network.other_domains:
        yield from _of_domain(f"the network over the domain {other.domain!r}", other)
    for i, output in enumerate(report.network.outputs):
        if output.figure is not None:
            yield f"the output {i} ({output.name})", output.figure
    for ball in report.network.balls:
        if ball.figure is not None:
            yield f"the ball around {ball.centre!r}", ball.figure
    for row in report.layers:
        if row.figure is not None:
            yield f"the row {row.name!r}", row.figure


def _of_domain(place: str, record: NetworkRecord | DomainRecord) -> Iterator[tuple[str, Figure]]:
    if record.figure is not None:
        yield place, record.figure
    if record.pixel_figure is not None:
        yield f"{place} in pixels", record.pixel_figure
    for bound in record.bounds:
        if bound.figure is not None:
            where = "" if isinstance(record, NetworkRecord) else f" over the domain {record.domain!r}"
            yield f"the bound {bound.name!r}{where}", bound.figure
            for segment in bound.segments:
                factor = Figure(segment.log10_factor, bound.figure.rigor)
                name = f"the segment from {names_text(segment.inputs)} to {segment.output}{where}"
                yield name, factor
                if segment.log10_product is not None:
                    yield f"the product of {name}", Figure(segment.log10_product, bound.figure.rigor)


def _problem(place: str, stated: Figure, computed: Figure | None) -> str:
    """Why a bound of the report was not proved again; empty where it was."""
    if computed is None:
        return f"No upper bound of {place} was proved again; the report says 10^{log10_upper_text(stated.log10)}."
    if _RANK.get(computed.rigor, 2) > _RANK.get(stated.rigor, 2):
        return f"The upper bound of {place} is {computed.rigor}, not {stated.rigor} as the report says."
    if not computed.log10 <= stated.log10 + _ROUNDING:
        return f"The upper bound of {place} that is proved is 10^{computed.log10!r}, above the report's 10^{stated.log10!r}."
    return ""


def _reason(again: AuditReport) -> str:
    """Why there is no bound by forms."""
    return next((bound.reason for bound in again.network.bounds if bound.name == _FORMS and bound.reason), "")
