"""The frame of every page: its style and script, and the policy that lets it load nothing else.

The page forbids itself everything from elsewhere (a Content-Security-Policy with the hashes of its own style and script), so that even
a name that broke out of its place could load and run nothing.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from lipaudit.formats.html.environment import asset, render_template

_STYLES = ("page.css", "drawings.css", "table.css", "print.css")


@dataclass(frozen=True)
class Part:
    """A section of a page: what leads to it, its heading, the template of its content and what that shows."""

    key: str
    heading: str
    template: str
    content: Any


def document(
    template: str,
    title: str,
    version: str,
    parts: Sequence[Part],
    values: Mapping[str, Any],
    script: str = "",
    data: str = "",
) -> str:
    """A whole page; parts without a content are left out.

    ``version`` is that of the lipaudit that made the report. ``values`` are those of the page's own template. ``script`` is the name of
    an asset, ``data`` JSON that the page keeps.
    """
    style, code = "\n".join(map(asset, _STYLES)), asset(script) if script else ""
    return render_template(
        template,
        title=title,
        generator=f"lipaudit {version}".strip(),
        policy=_policy(style, code),
        style=Markup(style),
        script=Markup(code),
        data=Markup(_embedded(data)),
        parts=[part for part in parts if part.content],
        **values,
    )


def _embedded(json_text: str) -> str:
    """JSON that no parser of HTML can take for the end of its element.

    What is escaped stands inside strings only, where JSON reads the escapes as the same characters.
    """
    return json_text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _policy(style: str, script: str) -> str:
    """Nothing but this page's own style and script, and its empty icon."""
    scripts = f"'{_hash(script)}'" if script else "'none'"
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src {scripts}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode("utf-8")).digest()).decode("ascii")
