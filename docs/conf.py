"""Sphinx configuration: Markdown pages through MyST, the furo theme, warnings are errors in CI."""

from lipaudit import __version__

project = "lipaudit"
author = "the lipaudit developers"
copyright = f"2026, {author}"
release = __version__

extensions = ["myst_parser"]
myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
smartquotes = False  # --option stays as it is typed

html_theme = "furo"
html_title = f"lipaudit {release}"
html_theme_options = {"light_css_variables": {"code-font-size": "0.71rem"}}  # a report of 100 columns fits
