from __future__ import annotations

import os
from pathlib import Path

import pytest

from lipaudit.cli.config import find_config
from lipaudit.errors import UsageError


def table(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "pyproject.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_the_nearest_file_with_the_table_is_read(tmp_path: Path) -> None:
    above = table(tmp_path, "[tool.lipaudit]\nmax-layer = 8\nno-unbounded = true\n")
    table(tmp_path / "a", "[project]\nname = 'a'\n")
    table(tmp_path / "a" / "b", "[tool.ruff]\nline-length = 1\n")
    found = find_config(tmp_path / "a" / "b")
    assert found is not None
    assert (found.file, found.values) == (above, {"max_layer": 8, "no_unbounded": True})
    nearer = table(tmp_path / "a", "[tool.lipaudit]\n")
    found = find_config(tmp_path / "a" / "b")
    assert found is not None
    assert (found.file, found.values) == (nearer, {})


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_repository_ends_the_search(tmp_path: Path, kind: str) -> None:
    table(tmp_path, "[tool.lipaudit]\nstrict = true\n")
    inner = tmp_path / "repository" / "src"
    inner.mkdir(parents=True)
    git = tmp_path / "repository" / ".git"
    git.mkdir() if kind == "folder" else git.write_text("gitdir: elsewhere")
    assert find_config(inner) is None
    table(tmp_path / "repository", "[tool.lipaudit]\nstrict = false\n")
    found = find_config(inner)
    assert found is not None
    assert found.values == {"strict": False}


def test_every_key(tmp_path: Path) -> None:
    keys = "max-log10-bound = -1\nmax-layer = 0.5\nno-unbounded = false\nstrict = true\ndomain = 'pixels'\ntol = 1e-4\n"
    keys += "mean = [0.5, -1]\nstd = 2\neffort = 'standard'\n"
    table(tmp_path, f"[tool.lipaudit]\n{keys}")
    found = find_config(tmp_path)
    assert found is not None
    assert found.values == {
        "max_log10_bound": -1,
        "max_layer": 0.5,
        "no_unbounded": False,
        "strict": True,
        "domain": "pixels",
        "tol": 1e-4,
        "mean": "0.5,-1.0",
        "std": "2.0",
        "effort": "standard",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[tool.lipaudit]\nmax-layers = 3\n",
            "there is no key of [tool.lipaudit] 'max-layers': choose one of max-log10-bound, ",
        ),
        ("[tool.lipaudit]\nmax_layer = 3\n", "there is no key of [tool.lipaudit] 'max_layer'"),
        (
            "[tool.lipaudit]\nmax-layer = '3'\n",
            "max-layer in [tool.lipaudit] must be a finite number above 0, got '3'",
        ),
        ("[tool.lipaudit]\nmax-layer = true\n", "must be a finite number above 0, got True"),
        ("[tool.lipaudit]\nmax-layer = 0\n", "must be a finite number above 0, got 0"),
        ("[tool.lipaudit]\nmax-log10-bound = nan\n", "must be a finite number, got nan"),
        ("[tool.lipaudit]\nmax-log10-bound = inf\n", "must be a finite number, got inf"),
        ("[tool.lipaudit]\nstrict = 1\n", "strict in [tool.lipaudit] must be true or false, got 1"),
        ("[tool.lipaudit]\nno-unbounded = 'yes'\n", "must be true or false, got 'yes'"),
        ("[tool.lipaudit]\ndomain = 'ball'\n", 'must be "global" or "pixels", got \'ball\''),
        ("[tool.lipaudit]\ndomain = ['pixels']\n", 'must be "global" or "pixels", got [\'pixels\']'),
        ("[tool.lipaudit]\nmean = [0.5, true]\n", "mean must be a number, or one per channel"),
        ("[tool.lipaudit]\nmean = []\nstd = 1\n", "mean must be a number, or one per channel"),
        ("[tool.lipaudit]\nmean = '0.5'\n", "mean must be a number, or one per channel"),
        ("[tool.lipaudit]\nmean = 0\nstd = [1, 0]\n", "std must be finite numbers other than 0"),
        ("[tool.lipaudit]\nmean = 0.5\n", "mean requires std"),
        ("[tool]\nlipaudit = 3\n", "tool.lipaudit must be a table"),
        ("[tool.lipaudit\n", "is not valid TOML ("),
    ],
)
def test_a_wrong_table_names_the_file_and_the_key(tmp_path: Path, text: str, message: str) -> None:
    file = table(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        find_config(tmp_path)
    assert str(caught.value).startswith(str(file))
    assert message in str(caught.value)
    assert "--no-config" in str(caught.value)


def test_bytes_that_are_no_text_are_no_toml(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="is not valid TOML"):
        find_config(tmp_path)


def test_a_huge_integer_is_no_finite_number(tmp_path: Path) -> None:
    table(tmp_path, f"[tool.lipaudit]\nmax-layer = 1{'0' * 400}\n")
    with pytest.raises(UsageError, match="must be a finite number above 0"):
        find_config(tmp_path)


def test_a_file_without_tools_is_no_matter(tmp_path: Path) -> None:
    table(tmp_path, "tool = 3\n")
    (tmp_path / ".git").mkdir()
    assert find_config(tmp_path) is None


@pytest.mark.parametrize("kind", ["folder", "dangling link", "circle", "pipe", "link to a folder"])
def test_what_is_no_file_is_an_error_and_not_the_absence_of_gates(tmp_path: Path, kind: str) -> None:
    file, inner = tmp_path / "pyproject.toml", tmp_path / "inner"
    inner.mkdir()
    if kind == "folder":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to({"dangling link": "none", "circle": "pyproject.toml", "link to a folder": "inner"}[kind])
    for folder in (tmp_path, inner):
        with pytest.raises(UsageError) as caught:
            find_config(folder)
        assert str(caught.value).startswith(f"{file}: it is not a file, ")
        assert "--no-config" in str(caught.value)


def test_a_link_to_a_file_is_read(tmp_path: Path) -> None:
    table(tmp_path / "shared", "[tool.lipaudit]\nstrict = true\n")
    (tmp_path / "pyproject.toml").symlink_to("shared/pyproject.toml")
    found = find_config(tmp_path)
    assert found is not None
    assert found.values == {"strict": True}
