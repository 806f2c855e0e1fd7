"""The methods by which norms are found, in words: what a figure is and whose."""

from __future__ import annotations

from lipaudit.report.record import SettingsRecord


def is_ours(settings: SettingsRecord) -> bool:
    """Whether the norms are lipaudit's own, certified ones."""
    return settings.method == SettingsRecord.method


def cited(settings: SettingsRecord) -> str:
    """The published method of an audit with its source, its iterations and what it claims; a bare name where it is unknown here.

    >>> cited(SettingsRecord(method="sedghi2019"))[:47]
    'sedghi2019 (Sedghi, Gupta, Long: The Singular V'
    >>> cited(SettingsRecord(method="later2031", iterations=7))
    'later2031, 7 iterations or samples'
    """
    from lipaudit.spectral.published.registry import all_methods  # torch is slow to import

    known = next((method for method in all_methods() if method.name == settings.method), None)
    source = f" ({known.reference})" if known is not None else ""
    steps = f", {settings.iterations} iterations or samples" if settings.iterations is not None else ""
    claim = f"; {known.claim}" if known is not None else ""
    return f"{settings.method}{source}{steps}{claim}"
