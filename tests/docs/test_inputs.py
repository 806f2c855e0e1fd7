"""The example of docs/inputs.md on parametrisations writes the files that it says, with the bounds that it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

import lipaudit
from tests.places import DOCS

SECTION = (DOCS / "inputs.md").read_text(encoding="utf-8").partition("## Parametrisations")[2].partition("\n## ")[0]


@pytest.mark.filterwarnings("ignore:No complete tensor found:UserWarning", "ignore::DeprecationWarning")
def test_a_network_with_parametrisations_has_the_same_bounds_in_every_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    (example,) = re.findall(r"^```python\n(.*?)^```", SECTION, flags=re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"torch": torch}
    exec(compile(example, "inputs.md", "exec"), names)
    parametrised, plain = (lipaudit.audit(file, effort="none") for file in ("net.pt2", "net.onnx"))
    assert [row.op for row in parametrised.layers] == [row.op for row in plain.layers] == ["linear", "linear"]
    for one, other in zip(parametrised.layers, plain.layers, strict=True):
        assert one.upper_bound == pytest.approx(1.0, rel=2e-2)
        assert one.upper_bound == pytest.approx(other.upper_bound, rel=1e-5)
    assert (parametrised.network.rigor, plain.network.rigor) == ("numerical", "certified")
