"""What the code of a network does wrong is an error of that network: never a passed gate, never a defect of lipaudit."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.cli import main
from lipaudit.errors import CaptureError, ModelLoadError, NoTensorError, UsageError
from lipaudit.training import LipschitzRegularizer

CODE = """
import sys
from torch import nn

class Leaves(nn.Module):
    def forward(self, x):
        sys.exit(0)

def zero(): sys.exit(0)
def seven(): sys.exit(7)
def text(): sys.exit("set DATA_DIR")
def forward(): return Leaves()
def fine(): return nn.Linear(4, 2)
"""


class Function(nn.Module):
    """A network that computes ``function``."""

    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def leave(_x: torch.Tensor) -> torch.Tensor:
    sys.exit(0)


@pytest.fixture
def leaving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "leaving_networks.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    return "leaving_networks"


@pytest.mark.parametrize(
    ("factory", "code"), [("zero", "0"), ("seven", "7"), ("text", "'set DATA_DIR'"), ("forward", "0")]
)
def test_a_model_that_ends_python_fails_its_gate(
    leaving: str, factory: str, code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = f"{leaving}:{factory}"
    gates = ["--input", "1,4", "--strict", "--max-log10-bound", "1"]
    assert main([spec, *gates]) == 3
    assert f"the code of {spec} ended Python with sys.exit({code})" in capsys.readouterr().err
    assert main([spec, f"{leaving}:fine", *gates, "--format", "tsv"]) == 3
    out = capsys.readouterr().out
    assert f"{leaving}:fine" in out
    assert main(["compare", spec, "--input", "1,4", "--methods", "ryu2019"]) == 3
    assert "ended Python" in capsys.readouterr().err


def test_in_python_the_caller_goes_on() -> None:
    network = Function(leave)
    for call in (lipaudit.audit, lipaudit.compare, LipschitzRegularizer):
        with pytest.raises(ModelLoadError, match=r"the code of .*Function ended Python with sys.exit\(0\)"):
            call(network, (1, 4))


@pytest.mark.parametrize("result", [None, "a", 3.0, (), {"loss": None}])
def test_a_network_without_a_tensor_has_no_bound(result: object) -> None:
    with pytest.raises(NoTensorError, match="forward returns no tensor"):
        lipaudit.audit(Function(lambda _x: result), (1, 4))


def test_a_constant_tensor_has_the_bound_0_and_a_note() -> None:
    report = lipaudit.audit(Function(lambda _x: torch.ones(3)), (1, 4))
    assert report.network.upper_bound == 0
    assert any("does not read its input 'x'" in note for note in report.notes)


def test_a_token_outside_of_the_vocabulary() -> None:
    table = nn.Embedding(10, 4)
    for network in (
        Function(lambda x: x * table(torch.tensor([30]))),
        Function(lambda x: x * table(torch.arange(x.shape[1] + 7))[:4, 0]),
    ):
        with pytest.raises(CaptureError, match=r"IndexError: index out of range in self; .*held .*input sizes"):
            lipaudit.audit(network, (1, 4))


class Collects(nn.Module):
    """Reads ``scale`` among its further keywords."""

    def forward(self, *xs: torch.Tensor, **more: torch.Tensor) -> torch.Tensor:
        return sum(xs, torch.zeros(1)) + more.get("bias", torch.zeros(1))


class Reads(nn.Module):
    """Reads ``bias`` among its further keywords."""

    def forward(self, x: torch.Tensor, **more: torch.Tensor) -> torch.Tensor:
        return x + more.get("bias", torch.zeros(1))


def test_names_of_arguments_that_collect_others() -> None:
    for name in ("xs", "more"):
        with pytest.raises(
            UsageError, match=f"no input named '{name}', under which forward collects further arguments"
        ):
            lipaudit.audit(Collects(), {name: (1, 4)})
    assert lipaudit.audit(Collects(), {"input": (1, 4)}).network.upper_bound == pytest.approx(1)
    with pytest.raises(UsageError, match=r"does not read the input 'typo', .*check the name"):
        lipaudit.audit(Collects(), {"typo": (1, 4)})
    with pytest.raises(UsageError, match=r"does not read the input 'baas', .*check the name"):
        lipaudit.audit(Reads(), {"x": (1, 4), "baas": (1, 4)})
    assert lipaudit.audit(Reads(), {"x": (1, 4), "bias": (1, 4)}).network.upper_bound == pytest.approx(2**0.5)


def test_an_input_that_is_not_read_is_named() -> None:
    class First(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return 2 * x

    report = lipaudit.audit(First(), {"x": (1, 4), "y": (1, 4)})
    assert report.network.upper_bound == pytest.approx(2)
    assert "The network does not read its input 'y': no output depends on it." in report.notes
