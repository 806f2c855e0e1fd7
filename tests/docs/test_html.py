"""What the documentation of the page shows is so."""

from __future__ import annotations

import re

from lipaudit.cli import cli
from lipaudit.formats.html.page import render
from tests.places import DOCS
from tests.records import (
    fakes,
)

PAGE = (DOCS / "html.md").read_text(encoding="utf-8")


def test_the_images_are_there_and_small() -> None:
    named = re.findall(r"!\[[^\]]+\]\((images/[^)]+)\)", PAGE)
    assert len(named) == 3
    for name in named:
        content = (DOCS / name).read_bytes()
        assert content.startswith(b"\x89PNG")
        assert len(content) < 200_000


def test_the_option_has_the_name_of_the_page() -> None:
    assert "--plot" in {name for parameter in cli.commands["audit"].params for name in parameter.opts}
    assert PAGE.count("--plot") > 1


def test_the_page_says_every_heading_that_there_is() -> None:
    headings = set(re.findall(r"<h2[^>]*>([^<]+)</h2>", render(fakes.unsupported()) + render(fakes.two_outputs())))
    words = {"Over depth": "Over depth", "Graph": "graph", "Layers": "table of layers", "Data": "as JSON"}
    assert "Costs most" in headings
    assert [heading for heading in headings if words.get(heading, heading) not in PAGE] == []
