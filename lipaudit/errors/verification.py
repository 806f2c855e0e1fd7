"""What keeps a report from being verified."""

from __future__ import annotations

from lipaudit.errors import UsageError


class NothingToVerifyError(UsageError):
    """A report whose figures are no bounds that can be computed again.

    >>> print(NothingToVerifyError("it is of the structure alone and has no figures"))
    the report cannot be verified: it is of the structure alone and has no figures
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"the report cannot be verified: {reason}")


class MissingCertificateError(UsageError):
    """A report whose bound rests on a certificate that was not given."""

    def __init__(self, name: str) -> None:
        named = f"give the file {name!r}" if name else "audit with --certificate FILE.safetensors and give that file"
        super().__init__(
            f"the report's bound is below the product of layer norms, and the numbers of its proof are needed: {named}"
        )
