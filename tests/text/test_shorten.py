from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lipaudit.text.shorten import ELLIPSIS, shorten_end, shorten_paths

PARTS = st.lists(st.sampled_from(["layer1", "blocks", "0", "11", "conv", "attn", "downsample"]), min_size=1, max_size=7)
PATHS = st.lists(PARTS.map(".".join), min_size=1, max_size=40)


@given(PATHS, st.integers(min_value=8, max_value=40))
def test_paths_fit_and_different_paths_stay_different(paths: list[str], width: int) -> None:
    short = shorten_paths(paths, width)
    assert all(len(text) <= width for text in short)
    assert len(set(short)) == len(set(paths))
    assert len({(path, text) for path, text in zip(paths, short, strict=True)}) == len(set(paths))


def test_paths_that_fit_stay_as_they_are() -> None:
    assert shorten_paths(["conv1", "layer1.0.conv1"], 14) == ["conv1", "layer1.0.conv1"]


def test_beginning_and_end_of_a_path_are_kept() -> None:
    (short,) = shorten_paths(["features.denseblock1.denselayer1.conv1"], 20)
    assert short.startswith("f")
    assert short.endswith(".denselayer1.conv1")
    assert ELLIPSIS in short


def test_paths_that_no_cut_keeps_apart_are_numbered() -> None:
    paths = [f"{'a' * 20}.{left}.{'b' * 20}.{right}.{'c' * 20}" for left in "01" for right in "01"]
    short = shorten_paths(paths, 12)
    assert len(set(short)) == 4
    assert [text[-4:] for text in short] == ["…(1)", "…(2)", "…(3)", "…(4)"]


def test_the_last_components_of_a_path_stay_whole() -> None:
    paths = [f"/blocks/blocks.[0-2]/{part}/LayerNormalization ×3" for part in ("norm1", "norm2")]
    for width in (29, 35, 48):
        assert [text[text.rindex("/norm") :] for text in shorten_paths(paths, width)] == [
            "/norm1/LayerNormalization ×3",
            "/norm2/LayerNormalization ×3",
        ]


def test_shortened_end_shows_that_something_is_missing() -> None:
    assert shorten_end("adaptive_avg_pool2d", 9) == "adaptive…"
    assert shorten_end("conv2d", 6) == "conv2d"
