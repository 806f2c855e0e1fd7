"""``lipaudit.audit`` as a caller sees it: nothing of theirs is touched, and runs repeat to the byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.api import state_dict_sha256
from lipaudit.errors import CaptureError, NonFiniteWeightsError, UsageError

SAMPLES = Path(__file__).parents[1] / "sample_models"


def small() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(2, 3, 3, 1, 1), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 2))


def test_the_module_is_left_as_it_was() -> None:
    net = small().train()
    net[0].bias.requires_grad_(False)
    net[4].weight.grad = torch.ones_like(net[4].weight)
    calls: list[str] = []
    net[2].register_forward_hook(lambda *_: calls.append("hook"))
    before = {k: v.clone() for k, v in net.state_dict().items()}
    lipaudit.audit(net, input_shape=(2, 4, 4), lower_bound=True)
    assert all(m.training for m in net.modules())
    assert not net[0].bias.requires_grad
    assert net[0].weight.requires_grad
    assert bool((net[4].weight.grad == 1).all())
    assert len(net[2]._forward_hooks) == 1
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())


def test_two_runs_give_the_same_bytes() -> None:
    def text() -> str:
        document = json.loads(lipaudit.audit(str(SAMPLES / "digits_mobile.onnx"), lower_bound=True).to_json())
        del document["created"], document["timings"]
        return json.dumps(document)

    assert text() == text()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_any_dtype_counts_its_own_numbers(dtype: torch.dtype) -> None:
    stored = small().to(dtype)
    same_numbers = small().to(dtype).to(torch.float64)
    bounds = [lipaudit.audit(n, input_shape=(2, 4, 4)).network.log10_upper_bound for n in (stored, same_numbers)]
    assert bounds[0] == pytest.approx(bounds[1], abs=1e-9)


def test_rows_read_each_other_and_the_input() -> None:
    report = lipaudit.audit(small(), input_shape=(2, 4, 4))
    first, last = report.layers
    assert first.inputs == ("input",)
    assert last.inputs == (first.name,)
    assert first.folded == ("1",)
    assert report.network.upper_bound == pytest.approx(first.upper_bound * last.upper_bound, rel=1e-9)
    assert sum(layer.share for layer in report.layers if layer.share > 0) == pytest.approx(1)
    assert all((layer.share > 0) == (layer.upper_bound > 1) for layer in report.layers)
    assert report.model.num_parameters == sum(p.numel() for p in small().parameters())


def test_errors_name_the_problem() -> None:
    broken = small()
    broken[4].weight.data[0, 0] = float("inf")
    with pytest.raises(NonFiniteWeightsError, match=r"4\.weight"):
        lipaudit.audit(broken, input_shape=(2, 4, 4))
    with pytest.raises(CaptureError, match="1, 2, 5, 5"):
        lipaudit.audit(small(), input_shape=(2, 5, 5))
    with pytest.raises(UsageError, match="tolerance"):
        lipaudit.audit(small(), input_shape=(2, 4, 4), tol=0.0)
    with pytest.raises(UsageError, match="weights"):
        lipaudit.audit(small(), input_shape=(2, 4, 4), weights="random")
    with pytest.raises(UsageError, match="input"):
        lipaudit.audit(small())


def test_hash_ignores_order_and_sees_every_bit() -> None:
    a, b = small(), small()
    assert state_dict_sha256(a) == state_dict_sha256(b)
    b[4].bias.data[0] += 1e-6
    assert state_dict_sha256(a) != state_dict_sha256(b)
    tied = nn.Module()
    tied.x = tied.y = nn.Parameter(torch.ones(2))
    assert len(state_dict_sha256(tied)) == 64


def test_pixels_are_measured_where_the_normalisation_is_known(tmp_path: Path) -> None:
    from torchvision.models import squeezenet1_1

    torch.save(squeezenet1_1(weights=None).state_dict(), tmp_path / "weights.pth")
    report = lipaudit.audit("squeezenet1_1", weights=str(tmp_path / "weights.pth"), input_shape=(64,))
    assert report.model.preprocessing is not None
    ratio = report.network.pixel_upper_bound / report.network.upper_bound
    assert 1 / 0.224 <= ratio <= 1 / 0.224 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (nn.Conv1d(2, 3, 3), {"input": (1, 2, 16)}),
        (nn.Linear(4, 2), (1, 4)),
        (nn.Linear(4, 2), {"input": (1, 7, 4)}),
        (nn.Conv3d(1, 1, 2), (1, 1, 4, 4, 4)),
        (nn.Conv2d(1, 2, 3), (1, 8, 8)),
    ],
)
def test_shapes_of_any_rank(module: nn.Module, shape: tuple[int, ...] | dict[str, tuple[int, ...]]) -> None:
    report = lipaudit.audit(module, input_shape=shape)
    expected = shape["input"] if isinstance(shape, dict) else shape
    assert report.model.input_shape[-len(expected) :] == expected
    assert report.network.status == "finite"


def test_a_bare_number_is_no_shape_of_an_unknown_model() -> None:
    with pytest.raises(UsageError, match="one number"):
        lipaudit.audit(nn.Linear(10, 2), input_shape=(10,))
