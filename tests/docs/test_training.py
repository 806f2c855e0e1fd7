"""What docs/training.md shows runs, and its assertions hold."""

from __future__ import annotations

import json
import math
import re
import shlex
from pathlib import Path

import pytest
import torch

from benchmarks import temperature
from lipaudit.cli import main
from lipaudit.records.report import AuditReport
from sample_models.data import load_classes
from tests.places import DOCS, ROOT, SAMPLES

PAGE = (DOCS / "training.md").read_text(encoding="utf-8")


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    loss, network, radii, rescaled, pair, warm, checkpoints, text = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    torch.manual_seed(0)
    names: dict[str, object] = {}
    exec("\n".join((loss, network, radii, rescaled)), names)
    assert set(names["regularizer"].values) == {"0", "3"}  # type: ignore[attr-defined]
    assert names["network_bound"].shares == {"0": 1.0, "3": 1.0}  # type: ignore[attr-defined]
    assert not any("parametrizations" in key for key in names["model"].state_dict())  # type: ignore[attr-defined]
    exec("\n".join((pair, warm)), names)
    exec("\n".join((checkpoints, text)), names)
    assert sorted(path.name for path in Path("audits").iterdir()) == [
        "history.tsv",
        "step-000000001.json",
        "step-000000005.json",
    ]
    assert AuditReport.from_json(Path("audits/step-000000005.json").read_text()) == names["report"]
    capsys.readouterr()
    claim, certify, command = (
        line for lines in re.findall(r"```sh\n(.*?)```", PAGE, re.S) for line in lines.splitlines()
    )
    assert main(shlex.split(command)[1:]) == 0
    out, err = capsys.readouterr()
    assert "2 rows in both reports" in out
    assert err == ""
    Path("sample_models").symlink_to(ROOT / "sample_models")
    images, classes = load_classes("test")
    torch.save({"x": images[:2], "y": classes[:2]}, "digits.pt")
    assert [main(shlex.split(line)[1:]) for line in (claim, certify)] == [0, 0]
    out, err = capsys.readouterr()
    assert "--claim 1.0 (proved" in err
    assert re.search(r"36/255 +100.0%", out)


def test_the_table_of_certified_accuracy_is_the_recorded_one() -> None:
    recorded = json.loads((SAMPLES / "accuracy.json").read_text())["digits_one_lipschitz"]["certified_accuracy"]
    (radii,) = re.findall(r"^\| radius, pixels in \[0, 1\] \| (.*) \|$", PAGE, re.MULTILINE)
    (shares,) = re.findall(r"^\| certified accuracy \(%\) \| (.*) \|$", PAGE, re.MULTILINE)
    shown = dict(zip(radii.split(" | "), map(float, shares.split(" | ")), strict=True))
    assert shown == {name: math.floor(1000 * share) / 10 for name, share in recorded.items()}


def test_the_table_of_temperatures_is_that_of_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    threads = torch.get_num_threads()
    try:
        temperature.main(["--epochs", "1"])
    finally:
        torch.set_num_threads(threads)
    header, line, *found = capsys.readouterr().out.splitlines()
    (shown,) = re.findall(rf"^{re.escape(header)}\n{re.escape(line)}\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    cells, documented = ([row.split(" | ") for row in table] for table in (found, shown.splitlines()))
    assert [row[:2] for row in cells] == [row[:2] for row in documented]
    assert all(float(row[3]) <= 1 for table in (cells, documented) for row in table[1:])
