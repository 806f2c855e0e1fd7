"""The templates of the pages. Nothing from a report reaches a page but through the escaping that this environment applies.

Every value that a template writes has its control characters escaped (:func:`lipaudit.escaping.printable`) and is then escaped for HTML; a
name that a template does not know, and a value that is None, are errors. Only what Python marks as markup, which is this package's own
style, script and JSON, is written as it is.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lipaudit.escaping import printable
from lipaudit.text.numbers import share_text


def render_template(template: str, **values: Any) -> str:
    """The ``template`` with these values."""
    return _environment().get_template(template).render(values)


def asset(name: str) -> str:
    """A file of the package's own style or script."""
    return (resources.files("lipaudit.formats.html") / "assets" / name).read_text(encoding="utf-8")


def number(value: float) -> str:
    """A length or position in a drawing: at most two decimals.

    >>> number(3.0), number(1 / 3), number(-0.001)
    ('3', '0.33', '0')
    """
    short = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if short in ("-0", "") else short


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("lipaudit.formats.html"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "share": share_text}
    return environment


def _shown(value: Any) -> Any:
    """A value as a template writes it, before it is escaped for HTML."""
    if value is None:
        raise TypeError("a template writes a value that is None")
    return value if isinstance(value, Markup | StrictUndefined) else printable(str(value))
