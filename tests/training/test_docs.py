"""What docs/training.md shows runs, and its assertions hold."""

from __future__ import annotations

import re
from pathlib import Path

import torch

PAGE = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")


def test_the_examples_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    assert len(blocks) == 2
    torch.manual_seed(0)
    names: dict[str, object] = {}
    exec("\n".join(blocks), names)
    assert set(names["regularizer"].values) == {"0", "3"}  # type: ignore[attr-defined]
    assert not any("parametrizations" in key for key in names["model"].state_dict())  # type: ignore[attr-defined]
