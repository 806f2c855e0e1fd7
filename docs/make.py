"""Writes everything that is generated from the source: ``python -m docs.make``.

That is the catalogue in ``lipaudit/catalog``, ``docs/cli.md``, ``docs/report.md``, ``docs/rules.md`` and the table of ``docs/methods.md``.
"""

from __future__ import annotations

import re
from pathlib import Path

from docs import make_cli, make_report
from lipaudit.catalog import collect, methods, rules

DOCS = Path(__file__).parent


def main() -> None:
    """Write all of it."""
    collect.write()
    make_cli.PAGE.write_text(make_cli.render(), encoding="utf-8")
    make_report.PAGE.write_text(make_report.render(), encoding="utf-8")
    (DOCS / "rules.md").write_text(rules.render(rules.find_rules(), "markdown") + "\n", encoding="utf-8")
    page = DOCS / "methods.md"
    table, _ = methods.render(methods.find_methods(), "markdown").split("\n\n")
    text = page.read_text(encoding="utf-8")
    page.write_text(
        re.sub(r"^\| method \| computes \|.*?(?=\n\n)", lambda _: table, text, flags=re.M | re.S), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
