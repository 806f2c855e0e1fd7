from __future__ import annotations

import os
from pathlib import Path

import pytest

from lipaudit.errors import OutputError
from lipaudit.report.write import check_writable, write_whole


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
