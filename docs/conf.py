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

html_theme = "furo"
html_title = f"lipaudit {release}"
