"""Reports as HTML pages that need nothing else: no network, no fonts, no scripts from elsewhere."""

from lipaudit.export.html.fleet import render_all
from lipaudit.export.html.page import render

__all__ = ["render", "render_all"]
