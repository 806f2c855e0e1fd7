"""Reports as HTML pages that need nothing else: no network, no fonts, no scripts from elsewhere."""

from lipaudit.formats.html.certification import render as _certification
from lipaudit.formats.html.diff import render as _diff
from lipaudit.formats.html.fleet import render_all
from lipaudit.formats.options import Audits, Options
from lipaudit.records.certification import Certification
from lipaudit.records.diff import ReportDiff

__all__ = ["render_audits", "render_certification", "render_diff"]


def render_audits(audits: Audits, _options: Options) -> str:
    """The page of one report, or one of several and of the models that could not be audited."""
    return render_all(audits.reports, audits.failures)


def render_diff(diff: ReportDiff, _options: Options) -> str:
    """The page of a diff, with every row."""
    return _diff(diff)


def render_certification(found: Certification, _options: Options) -> str:
    """The page of a certification, with every image."""
    return _certification(found)
