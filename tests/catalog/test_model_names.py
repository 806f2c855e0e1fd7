"""The names of models: from the registries once for each pair of versions, then from a file."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from lipaudit.catalog import model_names
from lipaudit.catalog.model_names import ModelNames, collect_names, kept_names

NAMES = ModelNames(("resnet18", "vit_b_16"), ("resnet18", "resnet18d"), ("resnet18.a1_in1k",))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*", ["torchvision:resnet18", "torchvision:vit_b_16", "timm:resnet18", "timm:resnet18d"]),
        ("net18", ["torchvision:resnet18", "timm:resnet18", "timm:resnet18d"]),
        ("torchvision:*", ["torchvision:resnet18", "torchvision:vit_b_16"]),
        ("timm:resnet18.*", ["timm:resnet18.a1_in1k"]),
        ("resnet1[0-8]", ["torchvision:resnet18", "timm:resnet18"]),
        ("hf-hub:resnet18", []),
        ("nothing", []),
    ],
)
def test_patterns_find_names(pattern: str, names: list[str]) -> None:
    assert NAMES.matching(pattern) == names


def test_names_are_kept_for_the_next_time(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept_names() is None
    names = collect_names()
    assert {"resnet18"} <= set(names.torchvision) & set(names.timm)
    assert kept_names() == names
    monkeypatch.setattr(metadata, "version", lambda name: "99")
    assert kept_names() is None  # those of another version


@pytest.mark.parametrize("content", ["", "[]", '{"torchvision": 1}', '{"timm": []}', "\udcff"])
def test_a_file_of_something_else_is_read_as_none(cache: Path, content: str) -> None:
    file = model_names._cache_file()
    file.parent.mkdir()
    file.write_text(content, encoding="utf-8", errors="surrogateescape")
    assert kept_names() is None


def test_a_cache_that_cannot_be_written_stops_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cache / "lipaudit").write_text("a file where the folder would be")
    monkeypatch.setattr(
        "lipaudit.frontends.registry.registry_names", lambda: {"torchvision": ["a"], "timm": [], "timm_tags": []}
    )
    assert collect_names() == ModelNames(("a",), (), ())
