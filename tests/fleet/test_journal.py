"""The record of a fleet: what is kept, what is dropped, what still counts, and who may write."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lipaudit
from lipaudit.errors import OutputError, UsageError
from lipaudit.fleet import journal as module
from lipaudit.fleet.entry import DONE, Entry
from lipaudit.fleet.journal import Journal, opened
from lipaudit.fleet.model import FleetModel
from lipaudit.frontends.input_files import file_hashes
from tests.records import (
    fakes,
)

SETTINGS = {"tol": 0.001, "weights": None, "input_shape": [3, 8, 8]}
REPORT = fakes.report().to_dict()
A, B, C = FleetModel("a"), FleetModel("b", {"weights": "random"}), FleetModel("c\udce9\n<|")


def done(request: FleetModel, **changes: Any) -> Entry:
    return Entry(request.spec, request.options, **{"status": DONE, "report": REPORT, **changes})


def failed(request: FleetModel) -> Entry:
    return Entry.failed(request.spec, request.options, "too small", 3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "fleet.jsonl"


def specs(path: Path) -> list[str]:
    return [json.loads(line)["spec"] for line in path.read_text().splitlines()[1:]]


def test_every_line_is_json_and_the_first_says_what_the_file_is(path: Path) -> None:
    with opened(path, SETTINGS) as journal:
        journal.append(done(A))
        journal.append(failed(B))
        header, first, second = map(json.loads, path.read_text().splitlines())  # before it is closed
    assert (header["kind"], header["settings"]) == ("fleet", SETTINGS)
    assert first == {
        "spec": "a",
        "options": {},
        "status": "done",
        "error": None,
        "exit_code": 0,
        "files": {},
        "report": REPORT,
    }
    assert (second["status"], second["error"], second["exit_code"], second["report"]) == (
        "failed",
        "too small",
        3,
        None,
    )


def test_what_was_recorded_is_found_again(path: Path) -> None:
    with opened(path, SETTINGS) as journal:
        assert [journal.state(request) for request in (A, B, C)] == ["new", "new", "new"]
        journal.append(done(A))
        journal.append(failed(B))
        journal.append(done(C))
    with opened(path, SETTINGS) as journal:
        assert [journal.state(request) for request in (A, B, C)] == ["done", "failed", "done"]
        assert journal.state(FleetModel("b")) == "new"  # other options
        assert list(journal.entries([C, A])) == [done(C), done(A)]
        assert next(journal.entries([A])).audit_report() == fakes.report()


def test_the_last_line_for_a_model_counts(path: Path) -> None:
    with opened(path, SETTINGS) as journal:
        journal.append(failed(A))
        journal.append(done(A))
    with opened(path, SETTINGS) as journal:
        assert journal.state(A) == "done"


@pytest.mark.parametrize("cut", [1, 2, 100, None])
def test_a_torn_last_line_is_dropped_and_nothing_else(path: Path, cut: int | None) -> None:
    with opened(path, SETTINGS) as journal:
        journal.append(done(A))
        whole = path.read_bytes()
        journal.append(done(B))
    data = path.read_bytes()
    path.write_bytes(data[:-cut] if cut else whole + b"\0" * 30 + b"\n")
    with opened(path, SETTINGS) as journal:
        assert journal.torn
        assert [journal.state(request) for request in (A, B)] == ["done", "new"]
        assert path.read_bytes() == whole
        journal.append(done(B))
    assert path.read_bytes() == data


@pytest.mark.parametrize("length", [0, 1, 10, 60])
def test_a_torn_header_is_as_good_as_none(path: Path, length: int) -> None:
    with opened(path, SETTINGS):
        pass
    path.write_bytes(path.read_bytes()[:length])
    with opened(path, SETTINGS) as journal:
        assert not journal.torn
        journal.append(done(A))
    assert specs(path) == ["a"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("no json", "it is not an object"),
        ("[" * 100_000, "it is not an object"),
        ("[]", "it is not an object"),
        ('{"spec": "a", "options": {}, "status": "done", "exit_code": 0}', "files is missing"),
        ('{"spec": "a", "options": {}, "status": "done", "exit_code": 0, "files": {}}', "it is done but has no report"),
        ('{"spec": "a", "options": {}, "status": "x", "exit_code": 0, "files": {}}', "neither done nor failed"),
    ],
)
def test_damage_in_the_middle_is_refused_with_its_line(path: Path, line: str, message: str) -> None:
    with opened(path, SETTINGS) as journal:
        journal.append(done(A))
    path.write_text(path.read_text() + line + "\n" + done(B).to_line() + "\n")
    before = path.read_bytes()
    with pytest.raises(UsageError, match=f"line 3 is not the outcome of an audit .*{message}"), opened(path, SETTINGS):
        pass
    assert path.read_bytes() == before


@pytest.mark.parametrize("line", ["no json", '{"spec": "a"}', "[" * 100_000])
def test_a_whole_last_line_that_is_no_outcome_is_no_torn_one(path: Path, line: str) -> None:
    with opened(path, SETTINGS) as journal:
        journal.append(done(A))
    path.write_text(path.read_text() + line + "\n")
    before = path.read_bytes()
    with pytest.raises(UsageError, match=f"^{path} is damaged: line 3 is not the outcome"), opened(path, SETTINGS):
        pass
    assert path.read_bytes() == before


def test_an_edited_report_is_named_by_its_line(path: Path) -> None:
    with opened(path, SETTINGS) as journal:
        journal.append(done(A))
        journal.append(done(B, report={"tool": {"version": lipaudit.__version__}}))
    with opened(path, SETTINGS) as journal:
        found = journal.outcomes([A, B])
        assert next(found) == (done(A), fakes.report())
        with pytest.raises(
            UsageError, match=f"^{path} is damaged: line 3 holds no report of an audit .*; remove the line"
        ):
            next(found)


def test_a_header_without_a_version_is_named(path: Path) -> None:
    with opened(path, SETTINGS):
        pass
    header = json.loads(path.read_text())
    del header["tool"]["version"]
    path.write_text(json.dumps(header) + "\n")
    with pytest.raises(UsageError, match=rf"^{path} is damaged: line 1 .*\(tool.version\)"), opened(path, SETTINGS):
        pass


@pytest.mark.parametrize("name", ["weights", "tol"])
def test_a_setting_that_is_missing_is_named(path: Path, name: str) -> None:
    with opened(path, {key: value for key, value in SETTINGS.items() if key != name}):
        pass
    with (
        pytest.raises(UsageError, match=rf"other settings \({name} missing, now (null|0\.001)\)"),
        opened(path, SETTINGS),
    ):
        pass


def test_a_restart_forgets_nothing_before_it_begins(path: Path) -> None:
    with opened(path, SETTINGS) as journal:
        journal.append(done(A))
    before = path.read_bytes()
    with opened(path, SETTINGS, restart=True) as journal:
        assert journal.state(A) == "new"
        assert path.read_bytes() == before
        journal.begin()
        assert specs(path) == []
        journal.append(done(B))
        journal.append(done(A))
        assert list(journal.entries([A, B])) == [done(A), done(B)]
    assert specs(path) == ["b", "a"]


@pytest.mark.parametrize("finish", [Journal.restore, lambda journal: journal.settle([A, B])])
def test_a_record_that_was_removed_is_written_again(path: Path, finish: Callable[[Journal], None]) -> None:
    with opened(path, SETTINGS) as journal:
        journal.append(done(A))
        journal.append(done(B))
        whole = path.read_bytes()
        path.unlink()
        finish(journal)
    assert path.read_bytes() == whole


@pytest.mark.parametrize("finish", [Journal.restore, lambda journal: journal.settle([A])])
def test_a_file_in_the_place_of_the_record_is_left_alone(path: Path, finish: Callable[[Journal], None]) -> None:
    with opened(path, SETTINGS) as journal:
        journal.append(done(A))
        whole = path.read_bytes()
        path.unlink()
        path.write_text("precious")
        with pytest.raises(OutputError, match=f"another file has taken the place of {path} .* recorded is in "):
            finish(journal)
    assert path.read_text() == "precious"
    (other,) = set(path.parent.iterdir()) - {path}
    assert other.suffix == ".jsonl"
    assert other.read_bytes() == whole


def test_a_folder_that_was_removed_is_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "fleet.jsonl"
    path.parent.mkdir()
    with opened(path, SETTINGS) as journal:
        journal.append(done(A))
        shutil.rmtree(path.parent)
        with pytest.raises(OutputError, match=r"cannot be kept in .*: No such file or directory"):
            journal.settle([A])


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_a_limit_of_the_size_of_files_is_one_clear_error(path: Path) -> None:
    import resource

    with opened(path, SETTINGS) as journal:
        journal.append(done(A))
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100, limits[1]))
    try:
        with (
            pytest.raises(OutputError, match=r"cannot be kept in .*: File too large"),
            opened(path, SETTINGS) as journal,
        ):
            journal.append(done(B))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before


def test_a_machine_without_a_temporary_folder_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/no/such/folder")
    with pytest.raises(OutputError, match="cannot be kept in a temporary file: No such file"), opened(None, SETTINGS):
        pass


def test_other_settings_are_refused_by_name(path: Path) -> None:
    with opened(path, SETTINGS) as journal:
        journal.append(done(A))
    other = {**SETTINGS, "tol": 0.01}
    with pytest.raises(
        UsageError, match=r"tol 0.001, now 0.01\): name another file with -o, or start over with --restart"
    ):
        opened(path, other).__enter__()
    with opened(path, other, restart=True) as journal:
        assert journal.state(A) == "new"


@pytest.mark.parametrize("text", ["precious\n", "precious", '{"loss": 0.5}\n', "{}", "\n"])
@pytest.mark.parametrize("restart", [False, True])
def test_a_file_that_is_no_record_is_left_alone(path: Path, text: str, restart: bool) -> None:
    path.write_text(text)
    with pytest.raises(UsageError, match="is not the record of a fleet"):
        opened(path, SETTINGS, restart).__enter__()
    assert path.read_text() == text


def test_a_record_of_a_later_format_is_refused(path: Path) -> None:
    with opened(path, SETTINGS):
        pass
    path.write_text(path.read_text().replace('"schema_version": "1.0"', '"schema_version": "2.0"'))
    with pytest.raises(UsageError, match=r"the record of a fleet .* has schema version 2\.0, this lipaudit reads 1\.x"):
        opened(path, SETTINGS).__enter__()


def test_other_content_or_another_lipaudit_is_audited_again(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "net.onnx"
    model.write_bytes(b"one")
    request = FleetModel(str(model))
    with opened(path, SETTINGS) as journal:
        journal.append(done(request, files=file_hashes([request.spec])))
    with opened(path, SETTINGS) as journal:
        assert journal.state(request) == "done"
        model.write_bytes(b"two")
        assert journal.state(request) == "changed"
        model.unlink()
        assert journal.state(request) == "changed"
        model.write_bytes(b"one")
        assert journal.state(request) == "done"
        monkeypatch.setattr(module, "__version__", "9.9")
        assert journal.state(request) == "changed"


def test_settling_writes_one_line_per_model_in_the_order_of_the_request(path: Path) -> None:
    with opened(path, SETTINGS) as journal:
        for entry in (done(C), failed(B), done(A), done(B)):
            journal.append(entry)
        journal.settle([A, B])
    assert specs(path) == ["a", "b", C.spec]
    assert list(path.parent.iterdir()) == [path]
    before = path.stat()
    with opened(path, SETTINGS) as journal:
        assert [journal.state(request) for request in (A, B, C)] == ["done"] * 3
        journal.settle([A, B, C])
    assert path.stat().st_ino == before.st_ino  # there was nothing to change


def test_settling_records_the_version_that_audits(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(path, SETTINGS) as journal:
        journal.append(done(A))
    monkeypatch.setattr(module, "__version__", "9.9")
    with opened(path, SETTINGS) as journal:
        journal.settle([A])
    assert json.loads(path.read_text().splitlines()[0])["tool"]["version"] == "9.9"


def test_without_a_file_everything_works_and_nothing_is_kept() -> None:
    with opened(None, SETTINGS) as journal:
        journal.append(done(A))
        journal.settle([A])
        assert list(journal.entries([A])) == [done(A)]
        assert [json.loads(line).get("spec") for line in journal.lines([A])] == [None, "a"]


def test_two_runs_never_share_a_record(path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from lipaudit.fleet.lock import lock;"
        "from lipaudit.errors import UsageError\n"
        "try: lock(Path(sys.argv[1]))\nexcept UsageError as error: sys.exit(str(error))"
    )

    def other() -> str:
        command = [sys.executable, "-c", code, str(path)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stderr

    with opened(path, SETTINGS) as journal:
        assert f"another run writes to {path}: wait until it ends, or name another file with -o" in other()
        journal.append(done(B))
        journal.append(done(A))
    assert other() == ""


def test_a_record_may_be_a_link(path: Path, tmp_path: Path) -> None:
    real = tmp_path / "real.jsonl"
    path.symlink_to(real)
    with opened(path, SETTINGS) as journal:
        journal.append(done(B))
        journal.append(done(A))
        journal.settle([A, B])
    assert path.is_symlink()
    assert specs(real) == ["a", "b"]


def test_a_folder_is_no_record(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a regular file"):
        opened(tmp_path, SETTINGS).__enter__()


def test_a_full_disk_is_one_clear_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with opened(path, SETTINGS) as journal:
        monkeypatch.setattr(module.os, "fsync", full)
        with pytest.raises(
            OutputError, match=r"cannot be kept in .*: No space left on device; what was recorded before is kept"
        ):
            journal.append(done(A))
        assert isinstance(journal, Journal)
