"""Reports as HTML pages that need nothing else: no network, no fonts, no scripts from elsewhere."""

from lipaudit.formats.html.fleet import render_all
from lipaudit.formats.html.page import render

__all__ = ["render", "render_all"]
