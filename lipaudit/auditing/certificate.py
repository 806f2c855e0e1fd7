"""The file of a certificate: written beside a report that names its hash, read again by ``lipaudit verify``."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lipaudit.auditing.domain_bounds import Bounds
from lipaudit.auditing.request import AuditRequest
from lipaudit.errors.inputs import ReadFileError
from lipaudit.files import write_whole
from lipaudit.network.bound import NetworkBound, Result
from lipaudit.network.forms.certificate import Certificate, CertificateError
from lipaudit.records.report import AuditReport, BoundRecord
from lipaudit.text.local_paths import without_folders

_LARGEST = 2**31  # bytes; certificates of networks with dense forms have some millions


def write_certificate(request: AuditRequest, report: AuditReport, bounds: Bounds) -> AuditReport:
    """The report with the hash of the certificate that was written, or with a note that no bound needs one.

    Raises :class:`~lipaudit.errors.OutputError` where the file cannot be written.
    """
    if request.certificate is None:
        return report
    whole = next(each for each in (bounds.domain, *bounds.others) if each.domain.name == "global")
    proof = _proof(whole.bounds)
    if proof is None:
        note = "No certificate was written: no bound was found that rests on multipliers."
        return replace(report, notes=(*report.notes, note))
    data = proof.to_bytes()
    write_whole(Path(request.certificate), data)
    name = request.certificate if request.absolute_paths else without_folders(request.certificate)
    digest = hashlib.sha256(data).hexdigest()
    network = report.network

    def named(records: tuple[BoundRecord, ...]) -> tuple[BoundRecord, ...]:
        return tuple(
            replace(record, certificate=name, certificate_sha256=digest) if record.segments else record
            for record in records
        )

    others = tuple(replace(other, bounds=named(other.bounds)) for other in network.other_domains)
    return replace(report, network=replace(network, bounds=named(network.bounds), other_domains=others))


def with_start(request: AuditRequest, report: AuditReport, digest: str) -> AuditReport:
    """The report with the hash of the certificate at which the search started, and with a note of that, or why it did not."""
    assert request.warm_start is not None
    name = request.warm_start if request.absolute_paths else without_folders(request.warm_start)
    records = [*report.network.bounds, *(bound for other in report.network.other_domains for bound in other.bounds)]
    if any(record.segments for record in records):
        note = f"The search for a tighter bound started at the certificate {name}."
        settings = replace(report.settings, warm_start_sha256=digest)
        return replace(report, settings=settings, notes=(*report.notes, note))
    reason = next((record.reason for record in records if record.reason), "there was no search.")
    return replace(
        report, notes=(*report.notes, f"The certificate {name} was of no use: {reason[0].lower() + reason[1:]}")
    )


def _proof(results: Sequence[Result]) -> Certificate | None:
    proofs = (result.proof for result in results if isinstance(result, NetworkBound))
    return next((proof for proof in proofs if proof is not None), None)


def read_certificate(path: str) -> tuple[Certificate, str]:
    """The certificate in a file, and the SHA-256 of the file.

    Raises :class:`~lipaudit.errors.UsageError` where it cannot be read.
    """
    try:
        if (size := Path(path).stat().st_size) > _LARGEST:
            raise CertificateError(f"it has {size:,} bytes, more than any certificate")
        data = Path(path).read_bytes()
        return Certificate.from_bytes(data), hashlib.sha256(data).hexdigest()
    except OSError as error:
        raise ReadFileError(path, str(error.strerror)) from None
    except CertificateError as error:
        raise ReadFileError(path, str(error)) from error
