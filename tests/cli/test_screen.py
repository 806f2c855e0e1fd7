"""The command line on a pseudo-terminal: the first screen fits, no line is too long, and the progress leaves nothing behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.places import ROOT

if os.name == "nt":
    pytest.skip("pseudo-terminals of POSIX", allow_module_level=True)

import fcntl
import pty
import struct
import termios

# the audit replaced by a report that is there, so that torch need not be imported
STAND_IN = (
    "import sys, lipaudit.cli as cli; from tests.formats.test_table import REPORTS, vision_transformer;"
    "from tests.stand_in import replace_audit;"
    "reports = {**REPORTS, 'vit': vision_transformer()};"
    "replace_audit(lambda spec, **options: reports[spec]);"
    "sys.exit(cli.main(sys.argv[1:]))"
)
REAL = "import sys; from lipaudit.cli import main; sys.exit(main(sys.argv[1:]))"


def on_a_terminal(code: str, *args: str, width: int = 80, height: int = 24) -> str:
    """What stdout and stderr show on a terminal of this size."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    bare = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")}
    command = [sys.executable, "-c", code, *args]
    with subprocess.Popen(
        command, stdin=follower, stdout=follower, stderr=follower, cwd=ROOT, env={**bare, "TERM": "xterm"}
    ) as process:
        os.close(follower)
        shown = bytearray()
        while True:
            try:
                read = os.read(leader, 65536)
            except OSError:  # the other end is closed
                break
            if not read:
                break
            shown += read
        assert process.wait(timeout=300) == 0, shown.decode()
    os.close(leader)
    return shown.decode()


def as_seen(shown: str) -> list[str]:
    """The lines that stay on the screen: what a carriage return overwrote is gone, and so are colours."""
    plain = re.sub("\x1b\\[[?0-9;]*[A-Za-z]", "", shown)
    return [line.split("\r")[-1] for line in plain.replace("\r\n", "\n").rstrip("\n").split("\n")]


def assert_fits(lines: list[str], width: int, height: int) -> None:
    assert max(map(len, lines)) <= width
    assert len(lines) < height  # the last line is the prompt's
    assert any("█" in line for line in lines) or any("unbounded" in line for line in lines)


@pytest.mark.parametrize(("spec", "width", "height"), [("finite", 80, 24), ("gated", 100, 24), ("vit", 140, 30)])
def test_the_first_screen_fits_the_terminal(spec: str, width: int, height: int) -> None:
    shown = on_a_terminal(STAND_IN, spec, width=width, height=height)
    assert_fits(as_seen(shown), width, height)
    assert "\x1b[1m" in shown


@pytest.mark.parametrize(
    "args", [("sample_models/digits_resnet.onnx", "--effort", "none"), ("tests.fleet.networks:dense", "--input", "1x6")]
)
def test_a_real_audit_leaves_its_first_screen_and_nothing_of_its_progress(args: tuple[str, ...]) -> None:
    shown = on_a_terminal(REAL, *args)
    lines = as_seen(shown)
    assert "loading" in shown
    assert lines[0].startswith(f"{args[0]} · ")
    if "--effort" not in args:
        assert "searching, about 10^" in shown
    assert_fits(lines, 80, 24)


@pytest.mark.parametrize(
    "args", [["explain", "bound", "share"], ["rules", "softmax"], ["methods", "ryu"], ["--help"], ["audit", "--help"]]
)
def test_explanations_and_lists_obey_the_width(args: list[str]) -> None:
    assert max(map(len, as_seen(on_a_terminal(REAL, *args)))) <= 80


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["resnet50", "timm:vit_tiny_patch16_224", "efficientnet_b0", "timm:efficientnet_lite0"]
)
def test_large_networks_fit_one_screen(name: str) -> None:
    lines = as_seen(on_a_terminal(REAL, name, "--weights", "random"))
    assert_fits(lines, 80, 24)
    rows = lines[next(i for i, line in enumerate(lines) if line.startswith("---")) + 1 :]
    assert len(rows[: rows.index("")]) >= 3
