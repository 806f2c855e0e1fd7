import json
import shutil
import socket
import urllib.request

import pytest
import torch
import torchvision

from lipaudit.errors import ModelLoadError, ModelNotFoundError, UsageError, WeightsUnavailableError
from lipaudit.frontends.load import load
from lipaudit.frontends.registry import expand, registry_names


@pytest.fixture
def no_network(monkeypatch, tmp_path):
    def refuse(*_args, **_options):
        raise OSError("no network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


def test_random_weights_are_seeded_and_said_so():
    state = torch.random.get_rng_state()
    first = load("squeezenet1_1", weights="random")
    second = load("torchvision:squeezenet1_1", weights="random")
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(first.module.parameters(), second.module.parameters(), strict=True))
    assert first.weights == "random"
    assert "random" in first.notes[0]
    assert first.input_shapes == {"x": (1, 3, 224, 224)}
    assert not first.module.training


def test_default_inputs_follow_the_weights():
    assert load("inception_v3", weights="random").input_shapes == {"x": (1, 3, 299, 299)}
    assert load("r3d_18", weights="random").input_shapes == {"x": (1, 3, 16, 112, 112)}
    assert list(load("raft_small", weights="random").input_shapes) == ["image1", "image2"]
    assert load("timm:mobilenetv3_small_050", weights="random").input_shapes == {"x": (1, 3, 224, 224)}


def test_detection_models_are_reduced_to_their_backbone():
    loaded = load("ssdlite320_mobilenet_v3_large", weights="random")
    assert loaded.input_shapes == {"x": (1, 3, 320, 320)}
    assert any("backbone" in note for note in loaded.notes)
    with torch.no_grad():
        outputs = loaded.module(torch.zeros(1, 3, 64, 64))
    assert all(isinstance(t, torch.Tensor) for t in outputs.values())


@pytest.mark.parametrize("aux", [True, False])
def test_googlenet_state_dicts_load_with_and_without_auxiliary_heads(tmp_path, aux):
    model = torchvision.models.googlenet(weights=None, init_weights=False, aux_logits=aux, transform_input=True).eval()
    torch.save(model.state_dict(), tmp_path / "g.pth")
    loaded = load("googlenet", weights=str(tmp_path / "g.pth"))
    x = torch.rand(1, 3, 64, 64)
    with torch.no_grad():
        assert torch.equal(loaded.module(x), model(x))
    assert any("transform_input" in note for note in loaded.notes)
    assert loaded.preprocessing is not None
    assert loaded.preprocessing.std == (0.229, 0.224, 0.225)


@pytest.mark.parametrize("name", ["mnasnet0_5", "fcn_resnet50", "quantized_resnet18"])
def test_state_dicts_of_every_kind_of_builder(tmp_path, name):
    options = {"weights_backbone": None, "aux_loss": True} if name.startswith("fcn") else {}
    model = torchvision.models.get_model(name, weights=None, **options).eval()
    torch.save(model.state_dict(), tmp_path / "w.pth")
    loaded = load(name, weights=str(tmp_path / "w.pth"))
    found = loaded.module.state_dict()
    assert found.keys() == model.state_dict().keys()
    assert all(torch.equal(found[key], value) for key, value in model.state_dict().items())


def test_unknown_names_get_suggestions():
    with pytest.raises(ModelNotFoundError, match="did you mean resnet50"):
        load("resnte50")
    with pytest.raises(ModelNotFoundError, match="in timm; did you mean resnet18"):
        load("timm:resnt18")
    with pytest.raises(ModelNotFoundError, match="in torchvision"):
        load("torchvision:zzzzqqqq")


def test_unknown_tags_list_the_valid_ones():
    with pytest.raises(UsageError, match="IMAGENET1K_V1, IMAGENET1K_V2"):
        load("resnet50@V3")
    with pytest.raises(UsageError, match="a1_in1k"):
        load("timm:resnet18.nonsense")


def test_weights_that_cannot_be_fetched(no_network):
    for spec in ("squeezenet1_1", "timm:resnet18.a1_in1k"):
        with pytest.raises(WeightsUnavailableError, match=r"weights=FILE.*weights='random'") as caught:
            load(spec)
        assert caught.value.exit_code == 3


def test_contradicting_requests_are_refused():
    with pytest.raises(UsageError, match=r"it names the weights IMAGENET1K_V1\)"):
        load("resnet18@IMAGENET1K_V1", weights="random")
    with pytest.raises(UsageError, match=r"^arch cannot be combined with resnet18 "):
        load("resnet18", arch="resnet34")
    with pytest.raises(UsageError, match="pattern"):
        load("timm:resnet18.*")


def test_wildcards():
    assert "timm:resnet18.a1_in1k" in expand("timm:resnet18.*")
    assert "torchvision:resnet18" in expand("resnet*")
    assert expand("resnet18") == ["resnet18"]
    found = expand("timm:resnet18.*")
    assert found == sorted(found)
    with pytest.raises(ModelNotFoundError):
        expand("timm:nothinglikethis*")


def test_wildcards_over_files(tmp_path):
    for name in ("b.onnx", "a.onnx", "c.txt"):
        (tmp_path / name).write_bytes(b"x")
    assert expand(f"{tmp_path}/*.onnx") == [f"{tmp_path}/a.onnx", f"{tmp_path}/b.onnx"]


def test_a_file_whose_name_has_a_wildcard_is_that_file(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("net*.onnx", "net1.onnx", "net?.onnx"):
        shutil.copy("sample_models/digits_resnet.onnx", tmp_path / name)
    for name in (f"{tmp_path}/net*.onnx", f"{tmp_path}/net?.onnx", "~/net*.onnx"):
        assert expand(name) == [name]
        assert load(name).spec == name
    assert len(expand(f"{tmp_path}/ne*.onnx")) == 3


def test_names_of_both_registries():
    names = registry_names()
    assert set(names) == {"torchvision", "timm", "timm_tags"}
    assert "resnet18" in names["torchvision"]
    assert "resnet18" in names["timm"]
    assert "resnet18.a1_in1k" in names["timm_tags"]
    assert all(pool == sorted(pool) for pool in names.values())


def test_nothing_is_printed(capsys, no_network):
    load("timm:resnet18", weights="random")
    with pytest.raises(WeightsUnavailableError):
        load("squeezenet1_1")
    assert capsys.readouterr().out == ""


def test_a_directory_without_a_separator(tmp_path, monkeypatch):
    (tmp_path / "models").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelLoadError, match="is a directory"):
        load("models")


def test_a_vision_transformer_is_read_at_the_size_it_is_built_for(monkeypatch):
    small = torchvision.models.VisionTransformer(
        image_size=64, patch_size=32, num_layers=1, num_heads=1, hidden_dim=8, mlp_dim=8
    )
    monkeypatch.setattr("lipaudit.frontends.torchvision._build_random", lambda _name: small)
    loaded = load("vit_h_14", weights="random")  # its default weights are for 518 x 518
    assert loaded.input_shapes == {"x": (1, 3, 64, 64)}
    assert loaded.module(torch.zeros(1, 3, 64, 64)).shape == (1, 1000)


def _values(module):
    return [*module.parameters(), *module.buffers()]


@pytest.mark.parametrize("name", ["squeezenet1_1", "timm:resnet18", "ssdlite320_mobilenet_v3_large"])
def test_structure_is_built_without_weights(name, no_network):
    loaded = load(name, structure=True)
    assert all(value.is_meta for value in _values(loaded.module))
    assert loaded.weights == "not read"
    assert loaded.preprocessing is not None
    assert not loaded.module.training
    assert loaded.input_shapes == load(name, weights="random").input_shapes


def test_regnets_compute_their_widths_and_are_built_with_values():
    loaded = load("torchvision:regnet_y_400mf", structure=True)
    assert not any(value.is_meta for value in _values(loaded.module))
    assert loaded.weights == "not read"


@pytest.mark.parametrize("spec", ["hf-hub:someone/net", "timm:hf-hub:someone/net", "hf_hub:someone/net@v1"])
def test_a_repository_of_the_hub(tmp_path, monkeypatch, spec):
    """As timm's own ``save_for_hf`` writes it: a configuration and weights."""
    import timm
    from safetensors.torch import save_file
    from timm.models import _hub

    torch.manual_seed(3)
    network = timm.create_model("test_resnet", num_classes=5).eval()
    save_file(network.state_dict(), tmp_path / "model.safetensors")
    settings = {
        "architecture": "test_resnet",
        "num_classes": 5,
        "pretrained_cfg": {"input_size": [3, 32, 32], "num_classes": 5},
    }
    (tmp_path / "config.json").write_text(json.dumps(settings))
    asked = []

    def download(repo_id, filename, revision=None, cache_dir=None, **_options):
        asked.append((repo_id, filename, revision))
        return str(tmp_path / filename)

    monkeypatch.setattr(_hub, "hf_hub_download", download)
    monkeypatch.setattr("lipaudit.frontends.timm._check_reachable", lambda name, spec: None)
    loaded = load(spec)
    x = torch.rand(1, 3, 32, 32)
    assert torch.equal(loaded.module(x), network(x))
    assert (loaded.input_shapes, loaded.source, loaded.spec) == ({"x": (1, 3, 32, 32)}, "timm", spec)
    assert {(name, revision) for name, _, revision in asked} == {("someone/net", "v1" if "@" in spec else None)}


def test_a_repository_that_cannot_be_reached_or_named(monkeypatch):
    def fail(*_arguments):
        raise OSError("no such host")

    monkeypatch.setattr("socket.getaddrinfo", fail)
    for variable in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    for options in ({}, {"weights": "random"}, {"structure": True}):
        with pytest.raises(WeightsUnavailableError, match="hf-hub:no-one/nothing cannot be fetched from the hub"):
            load("hf-hub:no-one/nothing", **options)
    for spec in ("hf-hub:", "hf-hub:name", "hf-hub:a/b/c", "timm:hf-hub:../x y"):
        with pytest.raises(UsageError, match="hf-hub:OWNER/NAME"):
            load(spec)
