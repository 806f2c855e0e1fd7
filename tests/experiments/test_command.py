"""``lipaudit reproduce``: what it prints and writes, and how it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lipaudit.cli import main
from lipaudit.errors import WeightsUnavailableError
from lipaudit.experiments.harness import registry
from lipaudit.experiments.harness.registry import Experiment, Request
from lipaudit.experiments.harness.result import Claim, Plot, Result, Series, Table
from tests.places import ROOT


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

    entry = Experiment("fake", "nothing", "small", "large", fake, ("resnet18",), ("resnet18", "vgg16"))
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
    monkeypatch.setattr("lipaudit.formats.matplotlib_.find_spec", lambda name: None)
    assert main(["reproduce", "fake", "-o", str(tmp_path)]) == 0
    assert 'no plot was written: matplotlib is not installed (the extra "plot")' in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["fake.csv"]


def test_wrong_requests(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["reproduce", "nope"]) == 2
    assert "no experiment 'nope'" in capsys.readouterr().err
    assert main(["reproduce", "spectral-table", "--weights", "random"]) == 2
    assert "no weights are read" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert main(["reproduce", "fake", "-o", str(tmp_path / "file")]) == 2
    assert "it is a file" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [["--full"], ["--device", "cpu"], ["-o", "somewhere"], ["--seed", "1"], ["--weights", "random"]],
)
def test_options_without_a_name_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", *options]) == 2
    out, err = capsys.readouterr()
    assert "requires the NAME of an experiment" in err
    assert out == ""
    assert list(tmp_path.iterdir()) == []


def test_debug_lists_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--debug"]) == 0
    assert "memory-table" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--weights", "gone.pth"], 3, "there is no file gone.pth"),
        (["--weights", "BOGUS_TAG"], 3, "--weights takes IMAGENET1K_V1, DEFAULT, random, or a file"),
        (["--device", "cuda"], 2, "no CUDA device"),
        (["--seed", str(2**70)], 2, "--seed"),
    ],
)
def test_what_is_known_beforehand_is_refused_beforehand(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    code: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(["reproduce", "convergence", "resnet18-layers", *options, "-o", "new"]) == code
    out, err = capsys.readouterr()
    assert message in err
    assert out == ""
    assert list(tmp_path.iterdir()) == []


def test_one_experiment_fails_and_the_others_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(request: Request) -> Result:
        raise WeightsUnavailableError("no route to host")

    entry = Experiment("failing", "nothing", "small", "large", fail)
    monkeypatch.setattr(registry, "_EXPERIMENTS", {**registry._EXPERIMENTS, "failing": entry})
    assert main(["reproduce", "failing", "-o", str(tmp_path / "new" / "folder")]) == 3
    assert list(tmp_path.iterdir()) == []
    assert main(["reproduce", "failing", "fake", "-o", str(tmp_path)]) == 3
    out, err = capsys.readouterr()
    assert "failing: no route to host" in err
    assert "7 is 8" in out
    assert (tmp_path / "fake.csv").is_file()


def test_folders_in_the_way(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "fake.csv").mkdir()
    assert main(["reproduce", "fake", "-o", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert "fake.csv: it is a folder" in err
    assert out == ""
    assert main(["reproduce", "fake", "-o", ""]) == 2
    assert "an empty text names no folder" in capsys.readouterr().err


def test_a_full_stdout_loses_no_file(tmp_path: Path) -> None:
    program = (
        "import sys, tests.experiments.test_command as t; from lipaudit.experiments.harness import registry; import lipaudit.experiments; "
        "registry.register(t.Experiment('fake', '', '', '', t.fake)); sys.exit(t.main())"
    )
    arguments = [sys.executable, "-c", program, "reproduce", "fake", "-o", str(tmp_path)]
    with open("/dev/full", "w") as full:
        done = subprocess.run(arguments, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert f"written to {tmp_path / 'fake.csv'}" in done.stderr
    assert "cannot write to stdout" in done.stderr
    assert (tmp_path / "fake.csv").read_text() == "n\n7\n"


def test_files_that_cannot_be_written_lose_no_text(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    assert main(["reproduce", "fake", "-o", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert "7 is 8" in out
    assert "No space left on device" in err


def run_with_matplotlib(tmp_path: Path, content: str | None, backend: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, with a broken matplotlib in front of the installed one."""
    paths = [str(ROOT)]
    if content is not None:
        (tmp_path / "broken" / "matplotlib").mkdir(parents=True)
        (tmp_path / "broken" / "matplotlib" / "__init__.py").write_text(content)
        paths.insert(0, str(tmp_path / "broken"))
    program = (
        "import sys, tests.experiments.test_command as t; from lipaudit.experiments.harness import registry; import lipaudit.experiments; "
        "registry.register(t.Experiment('fake', '', '', '', t.fake)); sys.exit(t.main())"
    )
    return subprocess.run(
        [sys.executable, "-c", program, "reproduce", "fake", "-o", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        env={**os.environ, "MPLBACKEND": backend, "PYTHONPATH": os.pathsep.join(paths)},
    )


def test_a_matplotlib_that_cannot_be_imported_is_no_plot_and_no_defect(tmp_path: Path) -> None:
    done = run_with_matplotlib(tmp_path, "raise ImportError('libfreetype is missing')", "")
    assert done.returncode == 0
    assert "7 is 8" in done.stdout
    assert f"written to {tmp_path / 'out' / 'fake.csv'}; no plot was written: " in done.stderr
    assert "ImportError: libfreetype is missing" in done.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["fake.csv"]


def test_the_backend_of_the_environment_is_not_read(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    done = run_with_matplotlib(tmp_path, None, "nonsense")
    assert (done.returncode, done.stderr.count("no plot")) == (0, 0)
    assert (tmp_path / "out" / "fake.png").read_bytes().startswith(b"\x89PNG")


def test_the_help_names_the_paper_and_the_experiments_that_read_weights_or_images(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["reproduce", "--help"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Efficient Bound of Lipschitz Constant for Convolutional Layers by Gram Iteration, ICML 2023" in out
    for experiment in registry.all_experiments():
        reads = experiment.uses_weights or bool(experiment.full_data)
        assert (experiment.name in out) == (reads and experiment.name != "fake"), experiment.name
