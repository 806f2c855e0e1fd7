"""``lipaudit reproduce``: what it prints and writes, and how it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from lipaudit.cli import main
from lipaudit.experiments import registry
from lipaudit.experiments.registry import Experiment, Request
from lipaudit.experiments.result import Claim, Plot, Result, Series, Table


def fake(request: Request) -> Result:
    request.report(1, 1, "fake")
    return Result(
        "fake",
        "a fake",
        f"full {request.full}, seed {request.seed}, weights {request.weights}, {request.device}",
        (Table("values", ("n",), ((7,),)),),
        (Claim("7 is 8", "8", "7", False),),
        (Plot("p", "x", "y", (Series("s", (1.0,), (2.0,)),)),),
    )


@pytest.fixture(autouse=True)
def fake_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    import lipaudit.experiments  # noqa: F401

    entry = Experiment("fake", "nothing", "small", "large", fake, uses_weights=True)
    monkeypatch.setattr(registry, "_EXPERIMENTS", {**registry._EXPERIMENTS, "fake": entry})


def test_without_a_name_the_experiments_are_listed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce"]) == 0
    out = capsys.readouterr().out
    assert "spectral-table: Figure 2" in out
    assert "memory-table" in out
    assert list(tmp_path.iterdir()) == []


def test_a_claim_that_does_not_hold_is_no_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "new"
    options = ["--full", "--seed", "5", "--weights", "random", "--device", "cpu", "-o", str(folder)]
    assert main(["reproduce", "fake", *options]) == 0
    out, err = capsys.readouterr()
    assert "full True, seed 5, weights random, cpu" in out
    assert "[does not hold] 7 is 8" in out
    assert f"written to {folder / 'fake.csv'}, {folder / 'fake.png'}" in err
    assert (folder / "fake.csv").read_text() == "n\n7\n"
    assert (folder / "fake.png").read_bytes().startswith(b"\x89PNG")


def test_the_default_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "fake"]) == 0
    assert (tmp_path / "lipaudit-reproduce" / "fake.csv").is_file()


def test_a_missing_matplotlib_is_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lipaudit.experiments.plot.find_spec", lambda name: None)
    assert main(["reproduce", "fake", "-o", str(tmp_path)]) == 0
    assert "no plot was written: pip install 'lipaudit[plot]'" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["fake.csv"]


def test_wrong_requests(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["reproduce", "nope"]) == 2
    assert "no experiment 'nope'" in capsys.readouterr().err
    assert main(["reproduce", "spectral-table", "--weights", "random"]) == 2
    assert "reads no weights" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert main(["reproduce", "fake", "-o", str(tmp_path / "file")]) == 2
    assert "it is a file" in capsys.readouterr().err


def test_weights_out_of_reach_end_with_3_and_the_other_experiments_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["reproduce", "resnet18-layers", "fake", "--weights", "gone.pth", "-o", str(tmp_path)]) == 3
    out, err = capsys.readouterr()
    assert "resnet18-layers: there is no file gone.pth" in err
    assert "weights gone.pth" in out
    assert (tmp_path / "fake.csv").is_file()
