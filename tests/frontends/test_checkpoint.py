import os
import pickle

import pytest
import torch
from torch import nn

from lipaudit.errors import ModelLoadError, ModelNotFoundError, UsageError
from lipaudit.frontends.checkpoint import CONTAINERS, apply_state_dict, read_state_dict
from lipaudit.frontends.load import load

ARCH = "small_network:build"
SOURCE = """
from torch import nn
def build():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
"""


@pytest.fixture
def network(tmp_path, monkeypatch):
    (tmp_path / "small_network.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval()


def _load(path):
    return load(str(path), arch=ARCH, input_shapes={"": (3, 8, 8)})


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".th", ".bin", ".ckpt", ".safetensors"])
def test_state_dict_files(network, tmp_path, suffix):
    from safetensors.torch import save_file

    path = tmp_path / f"weights{suffix}"
    if suffix == ".safetensors":
        save_file(network.state_dict(), path)
    else:
        torch.save(network.state_dict(), path)
    loaded = _load(path)
    x = torch.rand(1, 3, 8, 8)
    assert torch.equal(loaded.module(x), network(x))
    assert (loaded.source, loaded.weights) == ("checkpoint", path.name)
    assert loaded.file_sha256 is not None
    assert len(loaded.file_sha256) == 64


@pytest.mark.parametrize("key", CONTAINERS)
@pytest.mark.parametrize(
    "prefix", ["", "module.", "_orig_mod.", "module._orig_mod.", "model.", "net.", "module.model._orig_mod."]
)
def test_containers_and_prefixes(network, tmp_path, key, prefix):
    state = {prefix + name: value for name, value in network.state_dict().items()}
    torch.save({"epoch": 3, "optimizer": {"lr": 0.1}, key: state}, tmp_path / "w.pth")
    loaded = _load(tmp_path / "w.pth")
    x = torch.rand(1, 3, 8, 8)
    assert torch.equal(loaded.module(x), network(x))


def test_a_lightning_checkpoint(network, tmp_path):
    """As trainer.save_checkpoint writes it: the network under an attribute, beside a loss with weights and averaged weights."""
    state = {f"model.{name}": value for name, value in network.state_dict().items()}
    state |= {f"ema_model.{name}": torch.zeros_like(value) for name, value in network.state_dict().items()}
    content = {
        "epoch": 3,
        "state_dict": state | {"criterion.weight": torch.ones(3)},
        "loops": {},
        "hyper_parameters": {"lr": 0.1},
    }
    torch.save(content, tmp_path / "last.ckpt")
    x = torch.rand(1, 3, 8, 8)
    assert torch.equal(_load(tmp_path / "last.ckpt").module(x), network(x))


def test_two_networks_without_a_usual_name_are_refused(network, tmp_path):
    state = {f"{who}.{name}": value for name, value in network.state_dict().items() for who in ("student", "teacher")}
    torch.save(state, tmp_path / "w.pth")
    with pytest.raises(ModelLoadError, match=r"2 networks of this architecture, under student\. and teacher\."):
        _load(tmp_path / "w.pth")
    del state["student.0.weight"]
    torch.save(state, tmp_path / "w.pth")
    x = torch.rand(1, 3, 8, 8)
    assert torch.equal(_load(tmp_path / "w.pth").module(x), network(x))
    state["teacher.3.weight"] = torch.ones(1)  # another layer: not this architecture
    torch.save(state, tmp_path / "w.pth")
    with pytest.raises(ModelLoadError, match="1 unexpected"):
        _load(tmp_path / "w.pth")


def test_the_documented_container_comes_first(network, tmp_path):
    ema = {name: torch.zeros_like(value) for name, value in network.state_dict().items()}
    torch.save({"state_dict_ema": ema, "state_dict": network.state_dict()}, tmp_path / "w.pth")
    assert torch.equal(read_state_dict(str(tmp_path / "w.pth"))["0.weight"], network[0].weight)


class _Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("writer", ["torch", "legacy", "pickle"])
def test_a_malicious_pickle_is_refused_and_never_executed(network, tmp_path, writer):
    trap = tmp_path / "executed"
    content = {"state_dict": network.state_dict(), "bomb": _Bomb(str(trap))}
    path = tmp_path / "evil.pth"
    if writer == "pickle":
        path.write_bytes(pickle.dumps(content))
    else:
        torch.save(content, path, _use_new_zipfile_serialization=writer == "torch")
    with pytest.raises(ModelLoadError, match="refused, nothing in it was executed"):
        _load(path)
    assert not trap.exists()
    with pytest.raises(ModelLoadError):
        load(ARCH, weights=str(path), input_shapes={"": (3, 8, 8)})
    assert not trap.exists()


def test_a_pickled_module_is_refused(network, tmp_path):
    torch.save(network, tmp_path / "whole.pt")
    with pytest.raises(ModelLoadError, match=r"needs Python code.*state_dict"):
        _load(tmp_path / "whole.pt")


@pytest.mark.filterwarnings("ignore:.torch.jit:FutureWarning")  # the old format is the point of the test
def test_a_torchscript_archive_is_refused(network, tmp_path):
    torch.jit.trace(network, torch.rand(1, 3, 8, 8)).save(str(tmp_path / "script.pt"))
    with pytest.raises(ModelLoadError, match="TorchScript"):
        _load(tmp_path / "script.pt")


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
@pytest.mark.parametrize("part", [0.1, 0.6, 0.98])
def test_truncated_files(network, tmp_path, suffix, part):
    from safetensors.torch import save_file

    path = tmp_path / f"w{suffix}"
    (save_file if suffix == ".safetensors" else torch.save)(network.state_dict(), path)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * part)])
    with pytest.raises(ModelLoadError, match="w"):
        _load(path)


@pytest.mark.parametrize("content", [b"", b"hello, this is no checkpoint", bytes(range(256)) * 8])
@pytest.mark.parametrize("suffix", [".pth", ".safetensors", ".onnx", ".pt2"])
def test_other_files_are_refused(network, tmp_path, content, suffix):
    path = tmp_path / f"noise{suffix}"
    path.write_bytes(content)
    with pytest.raises(ModelLoadError, match="noise"):
        load(str(path), arch=ARCH if suffix in (".pth", ".safetensors") else None)


def test_objects_that_are_no_state_dict(network, tmp_path):
    for value in ([1, 2], {"epoch": 3}, {}, torch.zeros(3)):
        torch.save(value, tmp_path / "w.pth")
        with pytest.raises(ModelLoadError, match="holds no state dict"):
            _load(tmp_path / "w.pth")


def test_another_architecture_is_described(tmp_path, network):
    state = network.state_dict()
    del state["0.bias"]
    state["0.weight"] = torch.zeros(4, 3, 5, 5)
    state["head.weight"] = torch.zeros(1)
    torch.save(state, tmp_path / "w.pth")
    with pytest.raises(ModelLoadError, match="looks like another architecture") as caught:
        _load(tmp_path / "w.pth")
    message = str(caught.value)
    assert "1 missing (0.bias)" in message
    assert "1 unexpected (head.weight)" in message
    assert "0.weight (4, 3, 5, 5) instead of (4, 3, 3, 3)" in message


def test_only_the_batch_counter_may_be_missing(network, tmp_path):
    state = network.state_dict()
    del state["1.num_batches_tracked"]
    torch.save(state, tmp_path / "w.pth")
    assert torch.equal(_load(tmp_path / "w.pth").module[0].weight, network[0].weight)


def test_float64_checkpoints_are_not_rounded(network, tmp_path):
    state = network.double().state_dict()
    state["0.weight"] += 1e-12
    torch.save(state, tmp_path / "w.pth")
    loaded = _load(tmp_path / "w.pth")
    assert torch.equal(loaded.module[0].weight, state["0.weight"])
    assert loaded.input_dtypes == {"input": torch.float64}


def test_half_precision_checkpoints_are_widened_exactly(network):
    state = {name: v.half() if v.is_floating_point() else v for name, v in network.state_dict().items()}
    target = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    assert apply_state_dict(target, state, "w", "a") == torch.float32
    assert torch.equal(target[0].weight, state["0.weight"].float())


def test_bad_requests(network, tmp_path):
    torch.save(network.state_dict(), tmp_path / "w.pth")
    path = str(tmp_path / "w.pth")
    with pytest.raises(UsageError, match="name it with arch, "):
        load(path)
    with pytest.raises(UsageError, match="its own weights"):
        load(path, arch=ARCH, weights="random")
    with pytest.raises(UsageError, match="must be one architecture"):
        load(path, arch="other.pth")
    with pytest.raises(ModelNotFoundError, match="no file"):
        load(str(tmp_path / "none.pth"), arch=ARCH)
    with pytest.raises(ModelLoadError, match="is a directory"):
        load(str(tmp_path), arch=ARCH)


def test_containers_that_hold_themselves(network, tmp_path):
    ring: dict[str, object] = {}
    ring["state_dict"] = ring
    two: dict[str, object] = {"state_dict": {}}
    two["state_dict"] = {"model": two}
    for content in (ring, two):
        torch.save(content, tmp_path / "w.pth")
        with pytest.raises(ModelLoadError, match="holds itself"):
            _load(tmp_path / "w.pth")


def _changed(network, **changes):
    return {n: changes["change"](v) if n == "0.weight" else v for n, v in network.state_dict().items()}


@pytest.mark.parametrize(
    "change",
    [
        lambda w: torch.complex(w, torch.ones_like(w)),
        lambda w: torch.full(w.shape, 2**24 + 1, dtype=torch.int64),
        lambda w: torch.full(w.shape, -(2**63), dtype=torch.int64) + 1,
        lambda w: torch.full(w.shape, 2**31 - 1, dtype=torch.int32),
    ],
)
def test_values_that_the_model_cannot_hold_are_refused(network, tmp_path, change):
    torch.save(_changed(network, change=change), tmp_path / "w.pth")
    with pytest.raises(ModelLoadError, match=r"0\.weight as torch.*cannot hold its values exactly"):
        _load(tmp_path / "w.pth")


def test_integers_that_the_model_can_hold_are_kept(network, tmp_path):
    state = _changed(network, change=lambda w: torch.full(w.shape, 2**25, dtype=torch.int64))
    torch.save(state, tmp_path / "w.pth")
    assert torch.equal(_load(tmp_path / "w.pth").module[0].weight.long(), state["0.weight"])


def test_fractions_for_an_integer_buffer_are_refused(network):
    network.register_buffer("index", torch.arange(3))
    state = {**network.state_dict(), "index": torch.tensor([0.0, 1.5, 2.0])}
    with pytest.raises(ModelLoadError, match=r"index as torch\.float32"):
        apply_state_dict(network, state, "w", "a")
    apply_state_dict(network, {**state, "index": torch.tensor([2.0, 1.0, 0.0])}, "w", "a")
    assert network.index.tolist() == [2, 1, 0]


@pytest.mark.parametrize(
    "change",
    [
        lambda w: w.to_sparse(),
        lambda w: w.to("meta"),
    ],
)
def test_tensors_that_are_not_dense_are_refused(network, tmp_path, change):
    torch.save(_changed(network, change=change), tmp_path / "w.pth")
    with pytest.raises(ModelLoadError, match=r"0\.weight as no dense tensor"):
        _load(tmp_path / "w.pth")


def test_whatever_else_fails_names_the_file(network, tmp_path):
    torch.save(_changed(network, change=lambda w: w.to(torch.float8_e4m3fn)), tmp_path / "w.pth")
    with pytest.raises(
        ModelLoadError, match=r"w\.pth cannot be loaded: \w+: .*save or export the model again"
    ) as caught:
        _load(tmp_path / "w.pth")
    assert not isinstance(caught.value.__cause__, ModelLoadError)


@pytest.mark.parametrize("name", ["a" * 5000 + ".onnx", "~nosuchuser/x.onnx", "a\0b.onnx"])
def test_names_that_no_file_can_have(name):
    with pytest.raises(ModelNotFoundError, match="not the path of a file"):
        load(name)


@pytest.mark.parametrize("structure", [False, True])
def test_what_is_wrong_with_a_file_comes_before_a_missing_architecture(network, tmp_path, structure):
    torch.save(network, tmp_path / "whole.pt")
    with pytest.raises(ModelLoadError, match="needs Python code"):
        load(str(tmp_path / "whole.pt"), structure=structure)
    torch.save(network.state_dict(), tmp_path / "plain.pt")
    message = (
        "name the architecture as the model, for example resnet50"
        if structure
        else "name it with arch, for example arch='resnet50'"
    )
    with pytest.raises(UsageError, match=message):
        load(str(tmp_path / "plain.pt"), structure=structure)
