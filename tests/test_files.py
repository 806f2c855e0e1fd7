from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lipaudit.errors import OutputError
from lipaudit.files import check_writable, write_whole


def test_a_file_is_written_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    check_writable(path)
    assert list(tmp_path.iterdir()) == []
    write_whole(path, "größe\n")
    assert path.read_text(encoding="utf-8") == "größe\n"
    assert list(tmp_path.iterdir()) == [path]


def test_the_mode_of_an_old_file_is_kept_and_links_are_followed(tmp_path: Path) -> None:
    old, link = tmp_path / "old.json", tmp_path / "link.json"
    old.write_text("old")
    old.chmod(0o640)
    link.symlink_to(old)
    write_whole(link, "new")
    assert link.is_symlink()
    assert old.read_text() == "new"
    assert old.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_a_failure_leaves_the_old_file_and_no_half_written_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    path = tmp_path / "report.json"
    path.write_text("old")

    def fail(_descriptor: int) -> None:
        raise error

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises((KeyboardInterrupt, OutputError)):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "message"),
    [("", "it is a folder"), ("no/such/report.json", "there is no folder .*; create it"), ("x" * 300, "name too long")],
)
def test_an_unwritable_path_is_refused_beforehand(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(OutputError, match=f"(?i){message}"):
        check_writable(tmp_path / name)


def test_a_device_is_written_to_and_not_replaced() -> None:
    device = Path(os.devnull)
    check_writable(device)
    write_whole(device, "text")
    assert not device.is_file()


def test_a_name_as_long_as_names_can_be(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 250 + ".json")
    check_writable(path)
    write_whole(path, "new")
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_links_that_lead_nowhere_make_the_file_and_circles_are_refused(tmp_path: Path) -> None:
    link, circle = tmp_path / "link", tmp_path / "circle"
    link.symlink_to("later.json")
    circle.symlink_to("circle")
    check_writable(link)
    write_whole(link, "new")
    assert link.is_symlink()
    assert (tmp_path / "later.json").read_text() == "new"
    with pytest.raises(OutputError, match="symbolic links"):
        check_writable(circle)
    with pytest.raises(OutputError, match="symbolic links"):
        write_whole(circle, "new")


WRITE = """
import sys
from pathlib import Path
from lipaudit.files import check_writable, write_whole
check_writable(Path(sys.argv[1]))
write_whole(Path(sys.argv[1]), "report\\n" * 20000)
"""
REPORT = "report\n" * 20000


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command of a shell in which ``$write PATH`` writes a report."""
    script = folder / "write.py"
    script.write_text(WRITE)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        ["bash", "-c", f"write='{sys.executable} {script}'; {command}"],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link"])
def test_what_is_open_is_written_to_and_keeps_what_it_has(tmp_path: Path, name: str) -> None:
    (tmp_path / "link").symlink_to("/dev/stdout")
    (tmp_path / "log").write_text("old\n")
    done = shell(f"{{ $write {name}; echo after; }} >> log", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "log").read_text() == f"old\n{REPORT}after\n"
    done = shell(f"{{ echo before; $write {name}; echo after; }} > log", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "log").read_text() == f"before\n{REPORT}after\n"


@pytest.mark.parametrize("command", ["$write /dev/stdout | cat", "$write >(cat > copy); wait $!; cat copy"])
def test_pipes_of_a_shell_are_written_to(tmp_path: Path, command: str) -> None:
    done = shell(command, tmp_path)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", REPORT)


def test_a_descriptor_that_cannot_be_written_to_is_refused_beforehand() -> None:
    with Path(os.devnull).open() as file, pytest.raises(OutputError, match="Bad file descriptor"):
        check_writable(Path(f"/dev/fd/{file.fileno()}"))


def test_a_named_pipe_is_not_opened_before_there_is_something_to_read(tmp_path: Path) -> None:
    pipe, found = tmp_path / "pipe", []
    os.mkfifo(pipe)
    check_writable(pipe)  # nobody reads yet
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()), daemon=True)
    reader.start()
    check_writable(pipe)
    write_whole(pipe, REPORT)
    reader.join(timeout=20)
    assert found == [REPORT.encode()]
    assert pipe.is_fifo()
