"""The bound that a certificate proves, computed from nothing but the network and the certificate."""

from __future__ import annotations

from lipaudit.network.bound import NotApplicable, Problem, Result
from lipaudit.network.forms.certificate import CertificateError, proved_by
from lipaudit.network.forms.program import NoProgramError, program_of
from lipaudit.network.forms.result import NAME, bound_by_forms, refusal
from lipaudit.network.rescaling import RescalingError, rescaled


def by_certificate(problem: Problem) -> Result:
    """What ``problem.certificate`` proves of the network over all inputs; no step of a search is taken."""
    certificate = problem.certificate
    if certificate is None or not certificate.forms:
        return NotApplicable(NAME, "There is no certificate.")
    if reason := refusal(problem):
        return NotApplicable(NAME, reason)
    try:
        units = rescaled(problem, certificate.scales) if certificate.scales else problem
        program = program_of(units.graph, units.propagation)
        log_upper, terms, parts = proved_by(certificate, program, units.propagation, problem.work)
    except NoProgramError as error:
        return NotApplicable(NAME, f"It has no forms for this network: {error}.")
    except (CertificateError, RescalingError) as error:
        return NotApplicable(NAME, f"The certificate does not prove a bound of this network: {error}.")
    note = f"proved by a certificate with {len(parts)} segments"
    return bound_by_forms(problem, program.numerical, log_upper, parts, terms, certificate, note)
