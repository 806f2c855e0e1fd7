"""``lipaudit`` on a fleet: what the command prints, keeps and returns."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable
from pathlib import Path

import pytest

from lipaudit.cli import main
from lipaudit.errors import ClusterError
from lipaudit.fleet.entry import Entry
from lipaudit.fleet.task import Task, perform
from tests.fleet.fleets import Fleet
from tests.places import ROOT

RESNET, SE = "sample_models/digits_resnet.onnx", "sample_models/digits_se.onnx"
DENSE = "tests.fleet.networks:dense"
TINY = "tests.fleet.networks:tiny --input 1x6x6\n"


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    monkeypatch.chdir(ROOT)
    return Fleet(tmp_path)


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker processes, which take seconds to start."""

    def run(tasks: Iterable[Task], _jobs: int, _debug: bool) -> Generator[Entry, None, None]:
        yield from map(perform, tasks)

    monkeypatch.setattr("lipaudit.fleet.local.run_local", run)


def test_a_fleet_has_one_summary_one_record_and_the_worst_exit_code(
    fleet: Fleet, capfd: pytest.CaptureFixture[str]
) -> None:
    broken = fleet.folder / "broken.onnx"
    broken.write_bytes(b"no model")
    models = fleet.list(f"{SE} --domain pixels --mean 0 --std 1\n{TINY}{broken}\ntests.fleet.networks:killed\n{TINY}")
    args = [RESNET, "--models-from", str(models), "--jobs", "2", "-o", str(fleet.record), "--effort", "none"]
    assert main([*args, "--max-log10-bound", "5"]) == 3
    out, err = capfd.readouterr()
    rows = out.splitlines()
    assert [line.split()[:2] for line in rows[2:7]] == [
        [RESNET, "finite"],
        [SE, "finite"],
        ["tests.fleet.networks:tiny", "finite"],
        [str(broken), "failed"],
        ["tests.fleet.networks:killed", "failed"],
    ]
    assert rows[-1] == "5 models: 3 with a finite bound, 2 failed; 1 exceeds a gate."
    column = rows[0].index("gates")
    assert [line[column:].split("  ")[0] for line in rows[2:5]] == ["met", "max-log10-bound", "met"]
    assert f"lipaudit: gate exceeded: {SE}: the log10 upper bound" in err
    assert f"lipaudit: error: {broken} is not an ONNX file or is truncated" in err
    assert "lipaudit: 1 of 6 models are named twice and audited once" in err
    assert err.endswith(f"lipaudit: every report is in {fleet.record}\n")
    assert "Traceback" not in err
    specs = [entry["spec"] for entry in fleet.entries()]
    assert specs == [line.split()[0] for line in rows[2:7]]

    before = fleet.record.read_bytes()
    assert main([*args, "--format", "json", "--quiet"]) == 3  # the failed ones once more, the others not
    out, err = capfd.readouterr()
    assert [entry["status"] for entry in json.loads(out)["models"]] == ["finite"] * 3 + ["failed"] * 2
    assert fleet.record.read_bytes() == before
    assert err.count("\n") == 2


def test_everything_is_checked_before_anything_is_audited(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    models = fleet.list("resnet50\n\nsample_models/no*.onnx\n")
    assert main(["--models-from", str(models), "-o", str(fleet.record)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        f"lipaudit: error: {models}, line 3 is wrong: nothing matches 'sample_models/no*.onnx': see `lipaudit list PATTERN` "
        "for the names\n"
    )
    assert not fleet.record.exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--jobs", "2"], "Missing argument 'MODEL...'"),
        (["net", "--jobs", "0"], "--jobs must be a whole number from 1, got '0'"),
        (["net", "--jobs", "2", "--cluster", "tcp://a:1"], "--jobs cannot be combined with --cluster"),
        (["net", "--jobs", "2", "--depth", "1"], "a fleet has one summary"),
        (["net", "--jobs", "2", "--plot", "x.png"], "--plot draws one model, got a fleet"),
        (["net", "--jobs", "2", "--structure", "--max-layer", "2"], "--max-layer cannot be combined with --structure"),
        (["net", "--restart"], "--restart requires -o FILE.jsonl"),
        (["net", "--restart", "--jobs", "2", "-o", "x.md"], "--restart requires -o FILE.jsonl"),
        (["net", "--jobs", "2", "--radius", "1"], "--radius requires --domain ball"),
        (["net", "--jobs", "2", "--method", "nobody"], ", gram, "),
        (["net", "--models-from", "no-such-file"], "the models cannot be read from no-such-file"),
        (["net", "-o", "no/folder/fleet.jsonl"], "there is no folder"),
        (["net", "--models-from", "README.md", "-o", "README.md", "--format", "jsonl"], "line 3 is wrong"),
        ([RESNET, "-o", RESNET, "--format", "jsonl"], f"would replace {RESNET}, which the audit reads"),
        (["net", "--format", "jsonl", "-o", "README.md"], "README.md exists and is not the record of a fleet"),
    ],
)
def test_a_wrong_request_is_one_line(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], args: list[str], message: str
) -> None:
    assert main(args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("lipaudit: error: ")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.usefixtures("in_process")
def test_other_settings_need_another_record(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["tests.fleet.networks:tiny", "--input", "1x6x6", "-o", str(fleet.record), "--quiet"]
    assert main(args) == 0
    assert main([*args, "--tol", "0.01"]) == 2
    assert "(tol 0.001, now 0.01): name another file with -o, or start over with --restart" in capsys.readouterr().err
    assert main([*args, "--tol", "0.01", "--restart"]) == 0
    (entry,) = fleet.entries()
    assert entry["report"]["settings"]["tolerance"] == 0.01


@pytest.mark.usefixtures("in_process")
def test_a_restart_forgets_nothing_where_nothing_can_begin(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def connected(*_: object) -> None:
        raise ClusterError("no scheduler answers")

    args = [RESNET, "-o", str(fleet.record), "--quiet"]
    assert main(args) == 0
    before = fleet.record.read_bytes()
    monkeypatch.setattr("lipaudit.fleet.cluster.connected", connected)
    assert main([*args, "--restart", "--cluster", "tcp://127.0.0.1:9"]) == 2
    assert capsys.readouterr().err == "lipaudit: error: no scheduler answers\n"
    assert main([*args, "--restart", "--radius", "1"]) == 2
    assert main([*args, "no*.onnx", "--restart"]) == 3
    assert fleet.record.read_bytes() == before


@pytest.mark.parametrize("replaced", [False, True])
def test_a_record_that_goes_away_is_never_said_to_be_there(
    fleet: Fleet, replaced: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(tasks: Iterable[Task], _jobs: int, _debug: bool) -> Generator[Entry, None, None]:
        yield from map(perform, tasks)
        fleet.record.unlink()
        if replaced:
            fleet.record.write_text("precious")

    monkeypatch.setattr("lipaudit.fleet.local.run_local", run)
    assert main([RESNET, "-o", str(fleet.record)]) == (2 if replaced else 0)
    err = capsys.readouterr().err
    assert (f"lipaudit: every report is in {fleet.record}" in err) == (not replaced)
    if replaced:
        assert fleet.record.read_text() == "precious"
        fleet.record = Path(err.split(" is in ")[1].strip())
    assert [entry["status"] for entry in fleet.entries()] == ["done"]


@pytest.mark.usefixtures("in_process")
def test_changed_content_is_audited_again(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    model = fleet.folder / "net.onnx"
    model.write_bytes((ROOT / RESNET).read_bytes())
    args = [str(model), "-o", str(fleet.record), "--format", "tsv"]
    assert main(args) == 0
    (first,) = fleet.entries()
    model.write_bytes((ROOT / "sample_models/digits_unet.onnx").read_bytes())
    assert main(args) == 0
    assert "1 that have other files or were audited by another lipaudit are audited again" in capsys.readouterr().err
    (second,) = fleet.entries()
    assert first["files"] != second["files"]
    assert second["files"] == {str(model): second["report"]["model"]["file_sha256"]}


@pytest.mark.usefixtures("in_process")
def test_jsonl_goes_to_stdout_where_no_file_is_named(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    models = fleet.list(TINY)
    assert main(["--models-from", str(models), "--format", "jsonl"]) == 0
    header, entry = map(json.loads, capsys.readouterr().out.splitlines())
    assert (header["kind"], entry["spec"], entry["status"]) == ("fleet", "tests.fleet.networks:tiny", "done")


@pytest.mark.usefixtures("in_process")
def test_an_effort_holds_for_the_whole_fleet_and_a_line_may_have_its_own_and_a_start(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    proof = str(fleet.folder / "proof.safetensors")
    shape = ["--input", "6", "--effort", "quick", "--certificate", proof]
    assert main([DENSE, *shape, "--quiet"]) == 0
    capsys.readouterr()
    own = {"model": DENSE, "input": 6, "warm-start": proof, "effort": "quick"}
    models = fleet.list(f"{DENSE} --input 6\n{DENSE} --input 6 --effort standard\n{json.dumps(own)}\n")
    assert main(["--models-from", str(models), "--effort", "none", "--format", "jsonl", "--quiet"]) == 0
    _, *entries = map(json.loads, capsys.readouterr().out.splitlines())
    reports = [entry["report"] for entry in entries]
    settings = [report["settings"] for report in reports]
    assert [each["effort"] for each in settings] == ["none", "standard", "quick"]
    assert [each["warm_start_sha256"] is None for each in settings] == [True, True, False]
    none, standard, warm = (report["network"]["log10_upper_bound"] for report in reports)
    assert max(standard, warm) < none


@pytest.mark.usefixtures("in_process")
def test_a_summary_may_go_to_a_file(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    path = fleet.folder / "summary.md"
    args = ["tests.fleet.networks:tiny", "--input", "1x6x6", "--jobs", "1", "--format", "markdown", "-o", str(path)]
    assert main(args) == 0
    assert capsys.readouterr() == ("", f"lipaudit: summary written to {path}\n")
    assert path.read_text().startswith("| model | status |")


def test_a_few_models_without_these_options_are_no_fleet(capsys: pytest.CaptureFixture[str], fleet: Fleet) -> None:
    assert main([RESNET, "sample_models/digits_unet.onnx", "--format", "json", "--quiet"]) == 0
    assert [entry["model"]["spec"] for entry in json.loads(capsys.readouterr().out)] == [
        RESNET,
        "sample_models/digits_unet.onnx",
    ]
