"""``--warm-start``: the option, what the report says of it, and the files that are refused."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.cli import main
from lipaudit.errors import UsageError

MODEL = "tests.auditing.test_warm_start:checkpoint"


def checkpoint(seed: int = 0) -> nn.Sequential:
    """A network, and for another seed the next checkpoint of its training."""
    torch.manual_seed(4)
    net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 3))
    torch.manual_seed(seed)
    with torch.no_grad():
        for weight in net.parameters():
            weight += 0.01 * weight.std() * torch.randn_like(weight)
    return net


@pytest.fixture(scope="module")
def proof(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("first") / "proof.safetensors"
    lipaudit.audit(checkpoint(1), (1, 6), effort="quick", certificate=path)
    return path


def test_the_report_says_where_the_search_started(proof: Path, tmp_path: Path) -> None:
    later = tmp_path / "later.safetensors"
    report = lipaudit.audit(checkpoint(2), (1, 6), effort="quick", warm_start=proof, certificate=later)
    cold = lipaudit.audit(checkpoint(2), (1, 6), effort="quick")
    assert report.network.log10 == pytest.approx(cold.network.log10, abs=1e-3)
    assert report.settings.warm_start_sha256 == hashlib.sha256(proof.read_bytes()).hexdigest()
    assert "The search for a tighter bound started at the certificate proof.safetensors." in report.notes
    assert "started at a certificate" in report.network.bounds[1].note
    assert lipaudit.verify(report, checkpoint(2), later).verified
    change = lipaudit.diff(cold, report)
    assert any(
        note.startswith("Another certificate at which that search started: none before") for note in change.notes
    )
    assert (cold.settings.warm_start_sha256, cold.notes) == (None, ())


class Squared(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x


def test_a_network_without_forms_says_that_the_certificate_was_of_no_use(proof: Path) -> None:
    report = lipaudit.audit(Squared(), (1, 6), effort="quick", warm_start=proof)
    assert report.settings.warm_start_sha256 is None
    assert report.notes[-1].startswith("The certificate proof.safetensors was of no use: ")


def torch_file(path: Path, _: Path) -> None:
    torch.save({"multipliers/relu": torch.ones(12)}, path)


def deep_header(path: Path, _: Path) -> None:
    path.write_bytes((200_000).to_bytes(8, "little") + b"[" * 200_000 + b" ")


def long_header(path: Path, _: Path) -> None:
    path.write_bytes((2**62).to_bytes(8, "little") + b"{}")


def large_tensor(path: Path, _: Path) -> None:
    header = (
        b'{"multipliers/relu":{"dtype":"F64","shape":[1152921504606846976],"data_offsets":[0,9223372036854775808]}}'
    )
    path.write_bytes(len(header).to_bytes(8, "little") + header)


def cut_off(path: Path, proof: Path) -> None:
    path.write_bytes(proof.read_bytes()[:-9])


@pytest.mark.parametrize("write", [torch_file, deep_header, long_header, large_tensor, cut_off])
def test_a_file_that_is_no_certificate_is_refused(
    write: Callable[[Path, Path], None], proof: Path, tmp_path: Path
) -> None:
    write(tmp_path / "file.safetensors", proof)
    with pytest.raises(UsageError, match=r"file.safetensors: it is no certificate that lipaudit wrote"):
        lipaudit.audit(checkpoint(), (1, 6), effort="quick", warm_start=tmp_path / "file.safetensors")


def test_the_command_refuses_the_certificate_of_another_network(
    proof: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = f"{__name__}:wider"
    assert main([other, "--input", "6", "--warm-start", str(proof), "--effort", "quick", "-q"]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert f"the search cannot start at {proof}: its scales do not fit, linear needs 13 float64 scales" in message
    assert "or leave out --warm-start" in message
    assert main([MODEL, other, "--effort", "quick", "--warm-start", str(proof)]) == 2
    assert "--warm-start is the certificate of one model" in " ".join(capsys.readouterr().err.split())
    assert main([MODEL, "--warm-start", str(proof), "--effort", "none"]) == 2


def wider() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 13), nn.ReLU(), nn.Linear(13, 12), nn.ReLU(), nn.Linear(12, 3))
