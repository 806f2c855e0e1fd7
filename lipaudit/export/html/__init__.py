"""The report as one HTML page that needs nothing else: no network, no fonts, no scripts from elsewhere."""

from lipaudit.export.html.page import render

__all__ = ["render"]
