"""The frame of every page: its head, its style and script, and the policy that lets it load nothing else.

The page forbids itself everything from elsewhere (a Content-Security-Policy with the hashes of its own style and script), so that even
a name that broke out of its place could load and run nothing.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from importlib import resources

from lipaudit.formats.html.markup import text

_STYLES = ("page.css", "drawings.css", "table.css", "print.css")


def document(title: str, version: str, body: str, script: str = "", data: str = "") -> str:
    """A whole page around ``body``, which is HTML.

    ``version`` is that of the lipaudit that made the report, ``script`` the name of an asset, ``data`` JSON as :func:`embedded` gives it.
    """
    style, code = "\n".join(map(_asset, _STYLES)), _asset(script) if script else ""
    kept = f'<script type="application/json" id="report">{data}</script>\n' if data else ""
    run = f"<script>{code}</script>\n" if code else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_policy(style, code)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="{text(f"lipaudit {version}".strip())}">
<link rel="icon" href="data:,">
<title>{text(title)}</title>
<style>{style}</style>
</head>
<body>
{body}
{kept}{run}</body>
</html>
"""


def embedded(json_text: str) -> str:
    """JSON that no parser of HTML can take for the end of its element.

    What is escaped stands inside strings only, where JSON reads the escapes as the same characters.
    """
    return json_text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def contents(parts: Iterable[tuple[str, str, str]]) -> str:
    """Links to the parts (key, heading, content) that have a content."""
    links = "".join(f'<li><a href="#{key}">{name}</a></li>' for key, name, body in parts if body)
    return f'<nav aria-label="Contents"><ul>{links}</ul></nav>'


def _asset(name: str) -> str:
    return (resources.files("lipaudit.formats.html") / "assets" / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Nothing but this page's own style and script, and its empty icon."""
    scripts = f"'{_hash(script)}'" if script else "'none'"
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src {scripts}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode("utf-8")).digest()).decode("ascii")
