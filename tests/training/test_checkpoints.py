"""Audits of checkpoints: files, history, and a training that does not notice them."""

from __future__ import annotations

import csv
import io
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

import lipaudit
from lipaudit.errors import CaptureError, ModelLoadError, NonFiniteWeightsError, OutputError, UsageError
from lipaudit.records.report import AuditReport
from lipaudit.training import AuditCheckpoints
from lipaudit.training.history import HEADER
from lipaudit.training.wrappers import unwrapped

SHAPE = (1, 8, 8)


def small(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(256, 3)
    )


def history(folder: Path) -> list[dict[str, str]]:
    text = (folder / "history.tsv").read_text(encoding="utf-8")
    return list(csv.DictReader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE))


def read(path: Path) -> AuditReport:
    return AuditReport.from_json(path.read_bytes())


def test_the_report_is_the_audit_of_the_model_at_that_step(tmp_path: Path) -> None:
    audits = AuditCheckpoints(tmp_path / "new" / "audits", SHAPE, tol=1e-2)
    net = small()
    first = audits(net, 5)
    with torch.no_grad():
        net[5].weight.mul_(2)
    second = audits(net, 10)
    assert sorted(p.name for p in audits.folder.iterdir()) == [
        "history.tsv",
        "step-000000005.json",
        "step-000000010.json",
    ]
    assert (read(audits.path(5)), read(audits.path(10))) == (first, second)
    alone = lipaudit.audit(net, input_shape=SHAPE, tol=1e-2)
    assert (second.network, second.layers, second.settings) == (alone.network, alone.layers, alone.settings)
    found = lipaudit.diff(first, second)
    assert [(c.record.name, c.move.verdict if c.move else "") for c in found.layers][-1] == ("5", "grew")
    assert found.network.factor == pytest.approx(2, rel=1e-2)


def test_the_history_has_a_line_per_checkpoint_in_the_order_of_steps(tmp_path: Path) -> None:
    audits = AuditCheckpoints(tmp_path, SHAPE)
    reports = {step: audits(small(step), step) for step in (100, 7, 1000)}
    lines = history(tmp_path)
    assert [line["step"] for line in lines] == ["7", "100", "1000"]
    assert (tmp_path / "history.tsv").read_text().split("\n")[0].split("\t") == list(HEADER)
    for line in lines:
        report = reports[int(line["step"])]
        assert float(line["log10_upper_bound"]) == report.network.log10_upper_bound
        assert (line["status"], line["rigor"], line["domain"]) == ("finite", "certified", "global")
        assert read(tmp_path / line["report"]) == report
        largest = max(report.layers, key=lambda layer: layer.share or 0.0)
        assert line["costs_most"].startswith(f"{largest.name} {100 * (largest.share or 0):.1f}%")


def test_names_of_files_sort_as_steps_do(tmp_path: Path) -> None:
    audits = AuditCheckpoints(tmp_path)
    steps = [0, 9, 10, 99, 100, 123_456, 999_999_999]
    names = [audits.path(step).name for step in steps]
    assert sorted(names) == names
    assert len(set(map(len, names))) == 1


class Trouble(nn.Module):
    """A network without a bound."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x


def test_a_network_without_a_bound_has_a_report_and_a_reason(tmp_path: Path) -> None:
    report = AuditCheckpoints(tmp_path, {"x": (1, 4)})(Trouble(), 1)
    (line,) = history(tmp_path)
    assert (report.network.status, line["status"], line["log10_upper_bound"]) == ("unbounded", "unbounded", "")
    assert "mul" in line["reason"]


def train(audits: AuditCheckpoints | None, steps: int = 6) -> nn.Module:
    random.seed(1)
    np.random.seed(1)
    net = small()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for step in range(steps):
        x = torch.randn(4, *SHAPE) + random.random() + float(np.random.rand())
        loss = nn.functional.cross_entropy(net(x), torch.randint(3, (4,)))
        loss.backward()
        if audits is not None and step % 2 == 0:
            audits(net, step)  # between the gradients and the step
        optimizer.step()
        optimizer.zero_grad()
    return net


def draws(model: nn.Module) -> nn.Module:
    """A choice of the network that uses every generator, and leaves the model in another mode."""
    random.random()
    np.random.rand()
    torch.rand(3)
    return model.eval()


@pytest.mark.parametrize("network", [None, draws])
def test_a_training_ends_in_the_same_bits_with_and_without_audits(tmp_path: Path, network: Any) -> None:
    plain = train(None)
    audited = train(AuditCheckpoints(tmp_path, SHAPE, network=network, lower_bound=True))
    assert len(history(tmp_path)) == 3
    assert plain.training
    assert audited.training
    for (name, a), (other, b) in zip(plain.state_dict().items(), audited.state_dict().items(), strict=True):
        assert name == other
        assert torch.equal(a, b)


def test_modes_gradients_and_hooks_are_left_alone(tmp_path: Path) -> None:
    net = small()
    net[1].eval()  # a frozen batch norm in a network that trains
    net(torch.randn(2, *SHAPE)).sum().backward()
    before = [(p.grad.clone(), p.requires_grad, p.data_ptr()) for p in net.parameters() if p.grad is not None]
    net[0].weight.requires_grad_(False)
    AuditCheckpoints(tmp_path, SHAPE)(net, 1)
    assert [m.training for m in net] == [True, False, True, True, True, True]
    assert not net[0].weight.requires_grad
    for parameter, (gradient, _, place) in zip(net.parameters(), before, strict=True):
        assert torch.equal(parameter.grad, gradient)  # type: ignore[arg-type]
        assert parameter.data_ptr() == place


def test_the_audit_does_not_depend_on_what_the_loop_has_switched_on(tmp_path: Path) -> None:
    net = small()
    alone = AuditCheckpoints(tmp_path / "a", SHAPE, lower_bound=True)(net, 1)
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        inside = AuditCheckpoints(tmp_path / "b", SHAPE, lower_bound=True)(net, 1)
    assert (inside.network, inside.layers) == (alone.network, alone.layers)
    assert alone.network.lower_bound is not None


def test_a_step_is_not_overwritten_unless_asked_for(tmp_path: Path) -> None:
    net = small()
    audits = AuditCheckpoints(tmp_path, SHAPE)
    report = audits(net, 3)
    assert audits(net, 3) is report
    with torch.no_grad():
        net[0].weight.add_(1)
    for again in (audits, AuditCheckpoints(tmp_path, SHAPE)):
        with pytest.raises(
            UsageError, match=r"step-000000003\.json is the report of other weights: choose another folder"
        ):
            again(net, 3)
    assert read(audits.path(3)) == report
    replaced = AuditCheckpoints(tmp_path, SHAPE, overwrite=True)(net, 3)
    assert read(audits.path(3)) == replaced != report
    assert [line["step"] for line in history(tmp_path)] == ["3"]
    audits.path(4).write_text("notes")
    with pytest.raises(UsageError, match=r"step-000000004\.json is no report of an audit"):
        audits(net, 4)
    assert audits.path(4).read_text() == "notes"


def test_a_resumed_run_keeps_the_report_of_its_last_checkpoint(tmp_path: Path) -> None:
    report = AuditCheckpoints(tmp_path, SHAPE)(small(), 3)
    content = AuditCheckpoints(tmp_path, SHAPE).path(3).read_bytes()
    assert AuditCheckpoints(tmp_path, SHAPE)(small(), 3) == report
    assert AuditCheckpoints(tmp_path, SHAPE).path(3).read_bytes() == content
    with pytest.raises(UsageError, match="is another audit of these weights"):
        AuditCheckpoints(tmp_path, SHAPE, tol=1e-2)(small(), 3)
    with pytest.raises(UsageError, match="is another audit of these weights"):
        AuditCheckpoints(tmp_path, (1, 1, 8, 8), seed=3)(small(), 3)
    assert AuditCheckpoints(tmp_path, SHAPE).path(3).read_bytes() == content


def test_a_later_run_goes_on_with_the_history(tmp_path: Path) -> None:
    AuditCheckpoints(tmp_path, SHAPE)(small(), 1)
    AuditCheckpoints(tmp_path, SHAPE)(small(), 2)
    assert [line["step"] for line in history(tmp_path)] == ["1", "2"]


@pytest.mark.parametrize("content", ["", "hello\n", "\t".join(HEADER) + "\nno step\n", "step\treport\n1\ta\n"])
def test_what_is_no_history_is_not_overwritten(tmp_path: Path, content: str) -> None:
    (tmp_path / "history.tsv").write_text(content)
    with pytest.raises(UsageError, match=r"history\.tsv is no history of audited checkpoints"):
        AuditCheckpoints(tmp_path, SHAPE)(small(), 1)
    assert (tmp_path / "history.tsv").read_text() == content


class Exporting(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no such network")


def test_what_cannot_be_audited_raises_the_audits_own_error(tmp_path: Path) -> None:
    audits = AuditCheckpoints(tmp_path / "a", SHAPE)
    with pytest.raises(CaptureError):
        audits(Exporting(), 1)
    net = small()
    with torch.no_grad():
        net[0].weight[0, 0, 0, 0] = torch.nan
    with pytest.raises(NonFiniteWeightsError, match=r"0\.weight"):
        audits(net, 1)
    with pytest.raises(UsageError, match="the size of input"):
        AuditCheckpoints(tmp_path / "b")(small(), 1)
    with pytest.raises(ModelLoadError, match="lazy module"):
        audits(nn.LazyLinear(2), 1)
    with pytest.raises(UsageError, match=r"must be an nn\.Module, got 'resnet50'"):
        audits("resnet50", 1)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"must be an nn\.Module, got None"):
        AuditCheckpoints(tmp_path / "c", SHAPE, network=lambda _: None)(small(), 1)  # type: ignore[arg-type, return-value]
    assert list(tmp_path.rglob("*.json")) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot make the folder"):
        AuditCheckpoints(tmp_path / "file" / "audits", SHAPE)(small(), 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"at": "step"}, "^at must be 'save' or 'epoch', got 'step'"),
        ({"every": 0}, "^every must be an integer above 0, got 0"),
        ({"every": True}, "got True"),
        ({"every": 1.5}, r"got 1\.5"),
        ({"tolerance": 1e-3}, r"no option of an audit of checkpoints 'tolerance': choose one of .*tol"),
        ({"structure": True}, "no option .* 'structure'"),
        ({"tol": 5}, "^tol must be a number from 1e-09 to 1, got 5"),
        ({"domain": "ball"}, "requires its centre and its radius"),
        ({"arch": "resnet18"}, "no option .* 'arch'"),
    ],
)
def test_wrong_options_are_refused_at_once(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        AuditCheckpoints(tmp_path, SHAPE, **options)


@pytest.mark.parametrize("step", [-1, 10**9, True, 1.0, "1"])
def test_what_is_no_step_is_refused(tmp_path: Path, step: Any) -> None:
    with pytest.raises(UsageError, match="the step must be an integer from 0 to 999,999,999"):
        AuditCheckpoints(tmp_path, SHAPE)(small(), step)
    assert list(tmp_path.iterdir()) == []


def test_wrappers_are_taken_off(tmp_path: Path) -> None:
    net = small()
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        parallel = DistributedDataParallel(net)
        compiled = torch.compile(parallel, backend="eager")
        for model in (net, parallel, DataParallel(net), compiled, torch.compile(net, backend="eager")):
            assert unwrapped(model) is net  # type: ignore[arg-type]
        report = AuditCheckpoints(tmp_path, SHAPE)(compiled, 1)  # type: ignore[arg-type]
    finally:
        torch.distributed.destroy_process_group()
    assert [layer.name for layer in report.layers] == ["0", "5"]


def test_a_networks_own_attribute_module_is_no_wrapper() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = nn.Linear(2, 2)

    net = Own()
    assert unwrapped(net) is net


@pytest.mark.filterwarnings(
    "ignore:FSDP is switching to use `NO_SHARD`", "ignore:The `NO_SHARD` sharding strategy is deprecated"
)
def test_divided_weights_are_refused() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        with pytest.raises(UsageError, match="divided among processes"):
            unwrapped(fully_shard(small(), mesh=mesh))
        with pytest.raises(UsageError, match=r"the network in FullyShardedDataParallel is divided among processes"):
            unwrapped(nn.Sequential(FullyShardedDataParallel(nn.Linear(2, 2), device_id=torch.device("cpu"))))
        sharded = torch.distributed.tensor.distribute_tensor(torch.ones(2, 2), mesh)
        layer = nn.Linear(2, 2, bias=False)
        layer.weight = nn.Parameter(sharded)
        with pytest.raises(UsageError, match="the weight weight is divided"):
            unwrapped(layer)
    finally:
        torch.distributed.destroy_process_group()
    partitioned = nn.Linear(2, 2)
    partitioned.bias.ds_id = 1  # type: ignore[assignment]  # what DeepSpeed sets
    with pytest.raises(UsageError, match="the weight bias is divided"):
        unwrapped(partitioned)


def test_a_part_of_the_model_can_be_audited(tmp_path: Path) -> None:
    whole = nn.ModuleDict({"body": small(), "head": nn.Linear(3, 1)})
    report = AuditCheckpoints(tmp_path, SHAPE, network=lambda model: model["body"])(whole, 1)  # type: ignore[index]
    assert [layer.name for layer in report.layers] == ["0", "5"]


def test_a_hook_that_changes_weights_is_an_error_and_leaves_no_report(tmp_path: Path) -> None:
    net = small()
    weight = net[5].weight  # an audit runs on copies of what the modules hold, and a hook may hold the weights itself

    def change(_module: nn.Module, _inputs: Any) -> None:
        weight.data.add_(0.1)  # type: ignore[operator, union-attr]

    net[5].register_forward_pre_hook(change)
    audits = AuditCheckpoints(tmp_path, SHAPE)
    with pytest.raises(UsageError, match="the weights changed while they were audited, by a hook"):
        audits(net, 1)
    assert list(tmp_path.iterdir()) == []


def test_a_history_that_cannot_be_read_is_found_before_the_audit(tmp_path: Path) -> None:
    for content in (b"\xff\xfe", b"text"):
        (tmp_path / "history.tsv").write_bytes(content)
        with pytest.raises(UsageError, match="no history of audited checkpoints: move it away"):
            AuditCheckpoints(tmp_path, SHAPE)(small(), 1)
    (tmp_path / "history.tsv").unlink()
    (tmp_path / "history.tsv").mkdir()
    with pytest.raises(OutputError, match=r"cannot read .*history\.tsv: Is a directory; move it away"):
        AuditCheckpoints(tmp_path, SHAPE)(small(), 1)
    assert [path.name for path in tmp_path.iterdir()] == ["history.tsv"]
