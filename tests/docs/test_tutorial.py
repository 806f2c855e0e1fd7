"""docs/tutorial.md from the second section to the last: its commands and examples run in order and print what stands below them."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from tests.docs.commands import ROOT, Done, commands, copy_of_the_samples, run_line
from tests.docs.test_commands import LEFT_OUT

PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```(sh|python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"[0-9]+\.?[0-9]*(?:e[+-][0-9]+)?")
_MACHINE = {"lower", "ratio", "share"}  # columns whose last digits may differ between machines


def test_the_tutorial_prints_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy_of_the_samples(tmp_path)
    monkeypatch.chdir(tmp_path)
    install, *found = _BLOCK.findall(PAGE)
    assert install[1].splitlines() == list(LEFT_OUT["tutorial.md"])
    names: dict[str, object] = {"__name__": "tutorial"}
    printed, shown = "", 0
    for language, text in found:
        if language == "text":
            assert_shown(text, printed)
            shown += 1
        else:
            printed = run_python(text, names) if language == "python" else run_block(text, tmp_path)
    assert shown == 6
    assert (tmp_path / "report.html").stat().st_size > 10_000


def run_block(text: str, folder: Path) -> str:
    """What the commands of a block print, on stderr first."""
    printed = []
    for command in commands(text):
        done: Done = run_line(command, folder)
        assert done.code == command.code, f"{command.text} ended with {done.code}: {done.err}"
        printed.append(done.err + done.out)
    return "".join(printed)


def run_python(text: str, names: dict[str, object]) -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        exec(compile(text, "tutorial.md", "exec"), names)
    return out.getvalue()


def assert_shown(shown: str, printed: str) -> None:
    """Line by line the same, upper bounds to the last digit shown; other figures up to what differs by machine."""
    expected, lines = shown.splitlines(), printed.splitlines()
    start = next(i for i, line in enumerate(lines) if alike(expected[0], line))
    lines = lines[start : start + len(expected)]
    assert len(lines) == len(expected)
    spans: list[tuple[int, int]] = []  # of the columns of the table that a line is in
    heads: list[str] = []
    for above, line, other in zip(["", *expected], expected, lines, strict=False):
        if not line:
            spans = []
        elif set(line) == {"-", " "}:
            spans = [found.span() for found in re.finditer("-+", line)]
            heads = [above[slice(*span)].strip() for span in spans]
        elif spans:
            for head, span in zip(heads, spans, strict=True):
                cells = line[slice(*span)], other[slice(*span)]
                assert alike(*cells, by_machine=head in _MACHINE), f"{line}\n{other}"
            continue
        assert alike(line, other), f"{line}\n{other}"


def alike(text: str, other: str, by_machine: bool = False) -> bool:
    """Whether two texts are the same but for what may differ: percentages, lower ends of a bracket, the last of all digits."""
    if _NUMBER.sub("", text) != _NUMBER.sub("", other):
        return False
    for word, found in zip(_NUMBER.finditer(text), _NUMBER.findall(other), strict=True):
        lower_end = by_machine or text.startswith("..", word.end())
        tolerance = 5e-3 if lower_end else 1e-6 if len(word[0]) > 9 else 0
        percent = text.startswith("%", word.end())
        if float(word[0]) != pytest.approx(float(found), rel=tolerance, abs=0.11 if percent else 0):
            return False
    return True


_HEADS = "layer  lower  upper\n-----  -----  -----\n"


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a b 24.11", "a b 24.11", True),
        ("a b 24.11", "a b 24.12", False),
        ("a b 24.11", "a c 24.11", False),
        ("31.2% of", "31.3% of", True),
        ("31.2% of", "32.2% of", False),
        ("is 4.311236263477296", "is 4.311236263477299", True),
        ("is 4.311236263477296", "is 4.3113", False),
        (_HEADS + "a      1.001  2.002", _HEADS + "a      1.002  2.002", True),
        (_HEADS + "a      1.001  2.002", _HEADS + "a      1.001  2.001", False),
        ("1.068..1.069", "1.067..1.069", True),
        ("1.068..1.069", "1.068..1.068", False),
        ("a\nb", "a", False),
    ],
)  # fmt: skip
def test_upper_figures_may_not_differ(shown: str, printed: str, same: bool) -> None:
    if same:
        assert_shown(shown, printed)
    else:
        with pytest.raises((AssertionError, StopIteration)):
            assert_shown(shown, printed)


def test_the_arithmetic_of_the_residual_block() -> None:
    first, block, second, last, product = map(
        float, re.search(r"\$([\d.]+) \\cdot \(1 \+ ([\d.]+) \\cdot ([\d.]+)\) \\cdot ([\d.]+) = ([\d.]+)\$", PAGE).groups()  # type: ignore[union-attr]
    )  # fmt: skip
    assert first * (1 + block * second) * last == pytest.approx(product, abs=1e-3)
