"""An audit in six steps: load, capture, norms, bounds, lower bound, report."""

from __future__ import annotations

from dataclasses import replace

from lipaudit.auditing.capture import capture_model
from lipaudit.auditing.certificate import read_certificate, with_start, write_certificate
from lipaudit.auditing.constants import find_constants
from lipaudit.auditing.domain_bounds import propagate_bounds
from lipaudit.auditing.load import load_request
from lipaudit.auditing.lower_bound import search_lower_bound
from lipaudit.auditing.notes import search_notes
from lipaudit.auditing.placement import placed
from lipaudit.auditing.provenance import Clock
from lipaudit.auditing.report import make_report
from lipaudit.auditing.request import AuditRequest
from lipaudit.errors import InvalidValueError
from lipaudit.network.forms.certificate import Certificate
from lipaudit.network.forms.watch import Watch
from lipaudit.records.report import AuditReport
from lipaudit.spectral.precompute import Progress
from lipaudit.user_code import exit_is_an_error


def run_audit(
    request: AuditRequest,
    progress: Progress | None = None,
    certificate: Certificate | None = None,
    watch: Watch | None = None,
) -> AuditReport:
    """Carry out an audit.

    Args:
        request: the model and every option; what they mean stands at :func:`lipaudit.audit`.
        progress: called as progress(done, total, name) while layers are bounded.
        certificate: what to prove a bound by forms from, in the place of a search.
        watch: follows the searches for a tighter bound, and may end them; by default an interrupt ends the audit.

    Raises:
        LipauditError: with the model, the place and what to do.
    """
    if progress is not None and not callable(progress):
        raise InvalidValueError("progress", "a function of (done, total, name)", progress)
    clock, watch = Clock(), watch or Watch()
    start = None if request.warm_start is None else read_certificate(request.warm_start)
    with exit_is_an_error(request.arch or request.model):
        loaded = load_request(request)
        clock.lap("load")
        with placed(loaded.model, request.device, request.structure) as place:
            network = capture_model(loaded.model, place, request.structure, request.freeze_random)
            clock.lap("capture")
            constants = find_constants(request, network.simple, place, progress)
            clock.lap("norms")
            bounds = propagate_bounds(
                request, loaded, network, constants, certificate, watch, start and start[0], progress
            )
            clock.lap("propagation")
            loaded = replace(loaded, domain=bounds.domain.domain)
            measured = search_lower_bound(request, network, loaded, progress)
            if request.searches:
                clock.lap("lower bound")
            report = make_report(request, loaded, network, place, constants, bounds, measured)
            if start is not None:
                report = with_start(request, report, start[1])
            report = write_certificate(request, report, bounds)
            return replace(report, timings=clock.laps, notes=(*report.notes, *search_notes(watch)))
