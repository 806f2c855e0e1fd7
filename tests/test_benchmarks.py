"""The scripts in benchmarks/: what they time, and that they run and print what the documentation says."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from torch import nn

from benchmarks import ratios, scaling, timing, together
from benchmarks.layers import load_layers
from benchmarks.published import PAPER
from lipaudit.spectral.bracket import Bracket
from tests.models.cifar_resnet20 import ResNet20
from tests.places import ROOT

DEPTHWISE = "timm:test_efficientnet"  # a small network with kernels of 1 x 1, of 3 x 3, and with groups


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


class Repeated(nn.Module):
    """One convolution three times, twice in the same geometry."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x):
        x = torch.relu(self.first(torch.relu(self.first(x))))
        return self.first(nn.functional.avg_pool2d(x, 2))


class Clock:
    """A clock that only calls move."""

    def __init__(self):
        self.now = 0.0
        self.calls = []

    def call(self, name, *seconds):
        left = list(seconds)

        def function():
            self.calls.append(name)
            self.now += left.pop(0)
            return f"{name}{len(left)}"

        return function


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(timing.time, "process_time", lambda: clock.now)
    return clock


def test_small_calls_take_turns_and_the_first_is_not_counted(clock):
    calls = [timing.Call(clock.call("a", 0.19, 1, 3, 2), repeats=3), timing.Call(clock.call("b", 0.1, 5, 7), repeats=2)]
    a, b = timing.take_turns(calls)
    assert clock.calls == ["a", "b", "a", "b", "a", "b", "a"]
    assert (a.seconds, a.result) == (pytest.approx(2), "a0")
    assert b.seconds == pytest.approx(6)


def test_long_calls_are_few_and_all_count(clock):
    calls = [timing.Call(clock.call("a", 4, 1, 2)), timing.Call(clock.call("b", 0.5), few=1, small=0.1)]
    a, b = timing.take_turns(calls)
    assert clock.calls == ["a", "b", "a", "a"]
    assert (a.seconds, b.seconds) == (pytest.approx(2), pytest.approx(0.5))


def test_a_repeated_kernel_is_one_layer_per_geometry():
    found = load_layers(f"{__name__}:Repeated", "3x8x8", "random")
    assert [(layer.uses, layer.convolution.input_size) for layer in found] == [(2, (8, 8)), (1, (4, 4))]


def test_weights_from_a_file_with_batch_norms_folded(tmp_path):
    torch.manual_seed(5)
    network = ResNet20().eval()
    network.bn1.weight.data = torch.linspace(-1, 2, 16)
    network.bn1.running_var.data = torch.linspace(0.5, 3, 16)
    torch.save(network.state_dict(), tmp_path / "weights.pth")
    named = load_layers(f"tests.models.cifar_resnet20:ResNet20={tmp_path / 'weights.pth'}", "3x32x32")
    as_file = load_layers(str(tmp_path / "weights.pth"), "3x32x32", arch="tests.models.cifar_resnet20:ResNet20")
    scale = network.bn1.weight / (network.bn1.running_var + network.bn1.eps).sqrt()
    expected = (network.conv1.weight * scale[:, None, None, None]).detach()
    for layers in (named, as_file):
        assert len(layers) == 19
        torch.testing.assert_close(layers[0].convolution.kernel.float(), expected)


def test_ratios_of_a_network(capsys):
    ratios.main(["--networks", DEPTHWISE, "--input", "32", "--methods", PAPER, "araujo2021", "--repeats", "1"])
    text = capsys.readouterr().out
    layers = load_layers(DEPTHWISE, "32")
    counts = {}
    pattern = rf"{DEPTHWISE}: (.*) \((\d+)\): lipaudit (\S+) s; {PAPER} (\S+) s, ratio (\S+), below in \d+.*; araujo2021 .*ratio"
    for part, count, ours, theirs, ratio in re.findall(pattern, text):
        counts[part] = int(count)
        assert float(ratio) == pytest.approx(float(theirs) / float(ours), rel=0.1)
    assert counts == {
        "all layers": len(layers),
        "kernels larger than 1x1": sum(max(layer.convolution.kernel_size) > 1 for layer in layers),
        "depthwise or grouped": sum(layer.convolution.groups > 1 for layer in layers),
    }
    assert 0 < counts["depthwise or grouped"] < counts["kernels larger than 1x1"] < counts["all layers"]
    assert len(re.findall(r"^ +[+-]\d+\.\d\d ms  ", text, re.MULTILINE)) == ratios.SLOWEST


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--sizes", "32", "64"], r"input 32: \S+ s; 64: \S+ s; ratio \d+\.\d+"),
        (["--tolerances", "1e-3", "1e-6"], r"tolerance 0.001: \S+ s; 1e-06: \S+ s; ratio \d+\.\d+"),
    ],
)
def test_lipaudit_alone_two_ways(capsys, options, line):
    ratios.main(["--networks", DEPTHWISE, "--input", "32", "--only-large", "--repeats", "1", *options])
    text = capsys.readouterr().out
    assert re.search(f"^{DEPTHWISE}: {line}$", text, re.MULTILINE)
    assert re.search(r" \d+-\d+ 3x3 s\d", text)
    assert not re.search(r" \d+-\d+ 1x1 s\d", text)


def test_all_layers_in_one_call(capsys):
    ratios.main(["--networks", DEPTHWISE, "--input", "32", "--repeats", "1", "--together"])
    text = capsys.readouterr().out
    assert f"one by one, overlap in all {len(load_layers(DEPTHWISE, '32'))} layers" in text
    (ours,) = re.findall(r"^lipaudit +(\S+) +1.00 .*certified; widest upper / lower", text, re.MULTILINE)
    ((theirs, ratio),) = re.findall(rf"^{PAPER} +(\S+) +(\S+) ", text, re.MULTILINE)
    assert float(ratio) == pytest.approx(float(theirs) / float(ours), rel=0.05)


def test_brackets_that_do_not_overlap_end_the_run(monkeypatch):
    true = together.convolution_norm

    def doubled(convolution, tol):
        norm = true(convolution, tol)
        return replace(norm, bracket=norm.bracket * Bracket.exact(2.0))

    monkeypatch.setattr(together, "convolution_norm", doubled)
    with pytest.raises(SystemExit, match="do not overlap"):
        ratios.main(["--networks", DEPTHWISE, "--input", "32", "--repeats", "1", "--together"])


def test_ratios_refuse_two_comparisons_at_once(capsys):
    with pytest.raises(SystemExit):
        ratios.main(["--sizes", "32", "64", "--tolerances", "1e-3", "1e-6"])
    assert "one at a time" in capsys.readouterr().err


def test_the_phases_of_the_command_fill_its_time():
    command = [sys.executable, "-m", "benchmarks.command", "timm:test_resnet", "--input", "32", "--repeats", "1"]
    done = subprocess.run([*command, "--memory"], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    header, row, *layers = done.stdout.splitlines()[1:]
    assert header.split()[3:10] == ["import", "load", "capture", "norms", "propagation", "report", "exit"]
    name, wall, *phases, share, peak = row.split()
    assert name == "timm:test_resnet"
    assert len(phases) == 7
    assert sum(map(float, phases)) == pytest.approx(float(wall), abs=0.05)
    assert float(share.rstrip("%")) / 100 == pytest.approx(float(phases[3]) / float(wall), abs=0.02)
    assert 0 < float(peak) < 4096
    assert layers.pop(0).startswith("  MiB over import: load ")
    assert layers
    assert all(re.fullmatch(r" +\d+ MiB above all weights: \S+, weight [\dx]+", line) for line in layers)


def test_scaling_writes_a_table_and_an_image(capsys, tmp_path):
    arguments = ["--axes", "channels", "depth", "--most", "4", "--size", "8", "--repeats", "1", "--limit", "1e-9"]
    scaling.main(["-o", str(tmp_path / "new"), *arguments])
    with (tmp_path / "new" / "scaling.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    values = {(row["axis"], row["method"]): [] for row in rows}
    for row in rows:
        values[row["axis"], row["method"]].append(int(row["value"]))
        assert float(row["cpu_seconds"]) > 0
    # the paper's algorithm is left out from the third point on: its limit here is nearly zero
    assert values == {
        ("channels", "lipaudit"): [1, 4],
        ("channels", PAPER): [1, 4],
        ("depth", "lipaudit"): [1, 2, 4],
        ("depth", "whole audit"): [1, 2, 4],
        ("depth", PAPER): [1, 2],
    }
    assert f"depth 4: {PAPER} left out" in capsys.readouterr().out
    assert (tmp_path / "new" / "scaling.png").read_bytes().startswith(b"\x89PNG")


def test_a_forecast_follows_the_growth_between_the_last_two_points():
    assert scaling.forecast([], 3) == scaling.forecast([(1, 2.0)], 3) == 0
    assert scaling.forecast([(1, 9.0), (2, 1.0), (4, 8.0)], 8) == pytest.approx(64)
