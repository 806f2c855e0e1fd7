"""What is stored comes back bit for bit, belongs to its content alone, and a damaged row is no figure."""

from __future__ import annotations

import math
import multiprocessing
import random
import sqlite3
from pathlib import Path

import pytest
import torch

from lipaudit.errors import OutputError
from lipaudit.spectral import cache as module
from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.cache import FILE, NormStore, stored_key
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.convolution.norm import ZERO
from lipaudit.spectral.fingerprint import content_key
from lipaudit.spectral.linear_map import OperatorNorm

CPU = torch.device("cpu")


def test_figures_come_back_bit_for_bit(tmp_path: Path) -> None:
    norms = {bytes([i]) * 32: OperatorNorm(Bracket(-0.1 * i, math.pi**i), f"grid {i}x{i}") for i in range(5)}
    norms |= {b"zero": ZERO, b"rigor": OperatorNorm(Bracket(0.0, 1e300, Rigor.NUMERICAL), "é")}
    NormStore(tmp_path / "a" / "b").write(norms)
    found = NormStore(tmp_path / "a" / "b").read([*norms, b"unknown"])
    assert found == norms
    NormStore(tmp_path / "a" / "b").write({})
    assert NormStore(tmp_path / "a" / "b").read([]) == {}


def test_more_keys_than_one_query_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ASKED", 3)
    norms = {i.to_bytes(4, "big"): OperatorNorm(Bracket.exact(float(i)), "") for i in range(1, 11)}
    NormStore(tmp_path).write(norms)
    assert NormStore(tmp_path).read(norms) == norms


@pytest.mark.parametrize(
    "change", ["log_upper = log_upper - 1", "note = 'x'", "check_sum = NULL", "rigor = 'numerical'"]
)
def test_a_damaged_row_is_no_figure(tmp_path: Path, change: str) -> None:
    NormStore(tmp_path).write({b"key": OperatorNorm(Bracket.exact(2.0), "matrix")})
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute(f"UPDATE norms SET {change}")
    connection.close()
    assert NormStore(tmp_path).read([b"key"]) == {}


def test_what_is_no_store_is_refused_once(tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / FILE).write_text("this is no database, and it is longer than a header of one " * 20)
    with pytest.raises(OutputError, match=r"norms\.sqlite.*\(cache\)"):
        NormStore(tmp_path / "text")
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"\(cache\)"):
        NormStore(tmp_path / "file")


def test_keys_tell_contents_apart() -> None:
    kernel = torch.randn(2, 2, 3, 3, generator=torch.Generator().manual_seed(0))
    base = Convolution.like_torch(kernel, 8, padding=1)
    others = [
        Convolution.like_torch(kernel, 9, padding=1),
        Convolution.like_torch(kernel, 8, padding=0),
        Convolution.like_torch(kernel, 8, padding=1, stride=2),
        Convolution.like_torch(kernel, 8, padding=1, dilation=2),
        Convolution.like_torch(kernel, 8, padding=1, padding_mode="circular"),
        Convolution.like_torch(kernel, 8, padding=1, transposed=True),
        Convolution.like_torch(kernel.double(), 8, padding=1),
        Convolution.like_torch(kernel + 1e-7, 8, padding=1),
        Convolution.like_torch(kernel.transpose(2, 3), 8, padding=1),
    ]
    keys = {content_key(base), *map(content_key, others), content_key(kernel), content_key(kernel.reshape(4, 9))}
    assert len(keys) == 12
    same = Convolution.like_torch(kernel.clone().requires_grad_(True), 8, padding=1)
    assert content_key(same) == content_key(base)


def test_stored_keys_name_the_tolerance_the_device_and_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {stored_key(b"a", 1e-3, CPU), stored_key(b"a", 1e-4, CPU), stored_key(b"a", 1e-3, torch.device("cuda"))}
    monkeypatch.setattr(module, "_code", lambda: b"another version")
    assert len({*keys, stored_key(b"a", 1e-3, CPU), stored_key(b"b", 1e-3, CPU)}) == 5


def test_the_code_is_every_file_of_the_package_and_its_subpackages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("cache.py", "matrix/gram.py", "convolution/deeper/norm.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(module, "__file__", str(tmp_path / "cache.py"))
    digests = []
    try:
        for name in ("", "cache.py", "matrix/gram.py", "convolution/deeper/norm.py"):
            if name:
                (tmp_path / name).write_text("changed")
            module._code.cache_clear()
            digests.append(module._code())
    finally:
        module._code.cache_clear()
    assert len(set(digests)) == 4


def _write(folder: Path, number: int) -> None:
    store = NormStore(folder)
    for i in range(20):
        store.write({f"{number}-{i}".encode(): OperatorNorm(Bracket.exact(1.0 + number), "")})


def test_several_processes_share_a_folder(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_write, args=(tmp_path, number)) for number in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    keys = [f"{number}-{i}".encode() for number in range(2) for i in range(20)]
    assert len(NormStore(tmp_path).read(keys)) == 40


def test_flipped_bits_give_an_error_of_ours_or_the_same_figures(tmp_path: Path) -> None:
    norms = {bytes([i]) * 32: OperatorNorm(Bracket(-0.1 * i, 0.3 * i), "torus") for i in range(1, 30)}
    NormStore(tmp_path).write(norms)
    whole = (tmp_path / FILE).read_bytes()
    generator = random.Random(10)
    refused = 0
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(generator.randint(1, 20)):
            damaged[generator.randrange(len(damaged))] ^= 1 << generator.randrange(8)
        (tmp_path / FILE).write_bytes(bytes(damaged))
        try:
            found = NormStore(tmp_path).read(norms)
        except OutputError:
            refused += 1
            continue
        assert found.items() <= norms.items()
    assert refused > 0


def test_another_table_is_refused_at_once(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("CREATE TABLE norms (a, b)")
    connection.close()
    with pytest.raises(OutputError, match=r"norms\.sqlite"):
        NormStore(tmp_path)
    with pytest.raises(OutputError):
        NormStore(tmp_path / "a\0b")
