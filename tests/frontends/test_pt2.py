import io
import json
import os
import zipfile

import pytest
import torch
from torch import nn

from lipaudit import frontends
from lipaudit.errors import ModelLoadError


def _network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2)).eval()


@pytest.fixture
def saved(tmp_path):
    network, path = _network(), tmp_path / "net.pt2"
    torch.export.save(torch.export.export(network, (torch.rand(1, 3, 8, 8),)), path)
    return network, path


def _rewrite(path, change):
    """Pass every member through ``change(name, content)``, which may return None to drop it."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            replaced = change(name, content)
            if replaced is not None:
                archive.writestr(name, replaced)


def test_round_trip(saved):
    network, path = saved
    loaded = frontends.load(str(path))
    x = torch.rand(1, 3, 8, 8)
    assert torch.equal(loaded.module(x), network(x))
    assert loaded.input_shapes == {"input": (1, 3, 8, 8)}
    with torch.no_grad():
        program = torch.export.export(loaded.module, (x,), strict=False).run_decompositions({})
    convolution = next(n for n in program.graph.nodes if "conv2d" in str(n.target))
    assert [path for path, _ in convolution.meta["nn_module_stack"].values()][-1] == "0"


def test_symbolic_axes_keep_the_exported_size(tmp_path):
    network = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.ReLU()).eval()
    free = torch.export.Dim.AUTO
    program = torch.export.export(network, (torch.rand(1, 3, 9, 9),), dynamic_shapes={"input": {2: free, 3: free}})
    torch.export.save(program, tmp_path / "net.pt2")
    assert frontends.load(str(tmp_path / "net.pt2")).input_shapes == {"input": (1, 3, 9, 9)}
    with pytest.raises(ModelLoadError, match="export it at that size"):
        frontends.load(str(tmp_path / "net.pt2"), input_shapes={"": (12,)})


def test_training_mode_is_refused(tmp_path):
    program = torch.export.export(nn.Sequential(nn.BatchNorm2d(3)).train(), (torch.rand(1, 3, 4, 4),))
    torch.export.save(program, tmp_path / "net.pt2")
    with pytest.raises(ModelLoadError, match="training mode"):
        frontends.load(str(tmp_path / "net.pt2"))


def test_a_batch_is_refused(tmp_path):
    torch.export.save(torch.export.export(_network(), (torch.rand(2, 3, 8, 8),)), tmp_path / "net.pt2")
    with pytest.raises(ModelLoadError, match="batch of 1"):
        frontends.load(str(tmp_path / "net.pt2"))


class _Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_sample_inputs_are_never_read(saved, tmp_path):
    _, path = saved
    trap = tmp_path / "executed"
    buffer = io.BytesIO()
    torch.save(_Bomb(str(trap)), buffer)
    _rewrite(path, lambda name, content: buffer.getvalue() if "sample_inputs" in name else content)
    assert frontends.load(str(path)).input_shapes == {"input": (1, 3, 8, 8)}
    assert not trap.exists()


def test_pickled_weights_that_need_code_are_refused(saved, tmp_path):
    _, path = saved
    trap = tmp_path / "executed"
    buffer = io.BytesIO()
    torch.save(_Bomb(str(trap)), buffer)

    def change(name, content):
        if name.endswith("weights_config.json"):
            document = json.loads(content)
            document["config"]["0.weight"]["use_pickle"] = True
            return json.dumps(document)
        return buffer.getvalue() if name.endswith("weight_0") else content

    _rewrite(path, change)
    with pytest.raises(ModelLoadError, match="refused"):
        frontends.load(str(path))
    assert not trap.exists()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"torch.ops.aten.relu.default"', '"torch.os.mkdir"'),
        ('"torch.ops.aten.relu.default"', '"torch.ops.aten.from_file.default"'),
        ('"torch.ops.aten.relu.default"', '"torch.load"'),
        ('"torch.ops.aten.relu.default"', '"#extension:relu"'),
        ('"name": "relu"', '"name": "relu): import os #"'),
        ('"as_int": 8', '"as_expr": {"expr_str": "__import__(\'os\').getcwd()", "hint": {"as_int": 8}}'),
        ('"as_int": 8', '"as_expr": {"expr_str": "s0.__class__", "hint": {"as_int": 8}}'),
        ("builtins.tuple", "collections.defaultdict"),
    ],
)
def test_programs_that_could_run_code_are_refused(saved, old, new):
    _, path = saved

    def change(name, content):
        if not (name.endswith(".json") and "/models/" in name):
            return content
        assert old in content.decode()
        return content.decode().replace(old, new)

    _rewrite(path, change)
    with pytest.raises(ModelLoadError, match="refused"):
        frontends.load(str(path))


def test_damaged_archives(saved):
    _, path = saved
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelLoadError, match="truncated"):
        frontends.load(str(path))
    path.write_bytes(content)
    _rewrite(path, lambda name, data: None if name.endswith("weight_0") else data)
    with pytest.raises(ModelLoadError, match=r"net\.pt2"):
        frontends.load(str(path))


def _bomb(trap):
    buffer = io.BytesIO()
    torch.save(_Bomb(str(trap)), buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("spelling", ["model.PT", "Model.pt", "MODEL.pt"])
def test_entries_in_another_case_are_refused(saved, tmp_path, spelling):
    _, path = saved
    trap = tmp_path / "executed"
    with zipfile.ZipFile(path) as archive:
        members = [(n, archive.read(n)) for n in archive.namelist()]
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members:
            if name.endswith("sample_inputs/model.pt"):
                name, content = name.replace("model.pt", spelling), _bomb(trap)
            archive.writestr(name, content)
    with pytest.raises(ModelLoadError, match=r"does not write: refused"):
        frontends.load(str(path))
    assert not trap.exists()


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")  # the duplicate is the point of the test
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("name", ["data/sample_inputs/model.pt", "data/sample_inputs/model.PT", "models/model.json"])
def test_entries_that_come_twice_are_refused(saved, tmp_path, name, first):
    _, path = saved
    trap = tmp_path / "executed"
    with zipfile.ZipFile(path) as archive:
        members = [(n, archive.read(n)) for n in archive.namelist()]
    members.insert(0 if first else len(members), (f"net/{name}", _bomb(trap)))
    with zipfile.ZipFile(path, "w") as archive:
        for entry, content in members:
            archive.writestr(entry, content)
    with pytest.raises(ModelLoadError, match="refused"):
        frontends.load(str(path))
    assert not trap.exists()


@pytest.mark.parametrize(
    "name",
    [
        "net/data/weights/model.pt",  # the older layout, which torch unpickles
        "net/data/constants/model.pt",
        "net/data/constants/custom_obj_0",
        "net/data/aotinductor/model/model.so",
        "net/models/other.json",
        "net/serialized_exported_program.json",
        "other/archive_version",
    ],
)
def test_other_entries_are_refused(saved, tmp_path, name):
    _, path = saved
    trap = tmp_path / "executed"
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, _bomb(trap))
    with pytest.raises(ModelLoadError, match="refused"):
        frontends.load(str(path))
    assert not trap.exists()


def test_texts_that_a_user_added_do_not_matter(tmp_path):
    network, path = _network(), tmp_path / "net.pt2"
    program = torch.export.export(network, (torch.rand(1, 3, 8, 8),))
    torch.export.save(program, path, extra_files={"notes.txt": "trained on Tuesday"})
    x = torch.rand(1, 3, 8, 8)
    assert torch.equal(frontends.load(str(path)).module(x), network(x))
