"""The documentation of the methods is that of the registry."""

from __future__ import annotations

from pathlib import Path

import pytest

from lipaudit.spectral.published.registry import Method, all_methods

PAGE = Path(__file__).parents[3] / "docs" / "methods.md"


@pytest.mark.parametrize("method", all_methods(), ids=lambda method: method.name)
def test_every_method_is_documented(method: Method) -> None:
    text = PAGE.read_text(encoding="utf-8")
    row = next(line for line in text.splitlines() if line.startswith(f"| `{method.name}` |"))
    cells = [cell.strip() for cell in row.strip("|").split(" | ")]
    assert cells[1:4] == [method.summary, method.claim, str(method.iterations or "")]
    assert f"**`{method.name}`**" in text
    if method.name != "gram":
        assert f"- `{method.name}`: {method.reference}." in text
