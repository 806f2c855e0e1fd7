"""Devices by name, full precision of float32 and what it leaves behind, and clocks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from lipaudit import device
from lipaudit.device import find_device, full_precision, timed, without_cudnn
from lipaudit.errors import DeviceUnavailableError


def test_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert find_device("auto") == find_device("cpu") == torch.device("cpu")
    with pytest.raises(DeviceUnavailableError, match="--device cpu"):
        find_device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert find_device("auto") == find_device("cuda") == torch.device("cuda")


@pytest.fixture
def _rounded_products() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision(before)


def precisions() -> list[str]:
    return [kind.fp32_precision for kind in device._kinds()]


@pytest.mark.usefixtures("_rounded_products")
@pytest.mark.parametrize("error", [None, ValueError("within")])
def test_full_precision_is_that_of_every_operation_and_is_restored(error: Exception | None) -> None:
    before = precisions()
    assert "tf32" in before

    def compute() -> None:
        with full_precision():
            assert set(precisions()) == {"ieee"}
            with full_precision(), without_cudnn():
                assert not torch.backends.cudnn.enabled
            assert set(precisions()) == {"ieee"}
            if error is not None:
                raise error

    if error is None:
        compute()
    else:
        with pytest.raises(ValueError, match="within"):
            compute()
    assert precisions() == before
    assert torch.backends.cudnn.enabled
    assert torch.backends.cudnn.allow_tf32
    assert torch.get_float32_matmul_precision() == "high"


def test_a_time_is_the_difference_of_two_clock_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([3.0, 10.5])
    monkeypatch.setattr("lipaudit.device.time.perf_counter", lambda: next(readings))
    assert timed(lambda: "value", torch.device("cpu")) == ("value", 7.5)
