import copy
import io
import json
import os
import zipfile

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import lipaudit
from lipaudit.errors import ModelLoadError, UsageError
from lipaudit.frontends.load import load
from lipaudit.frontends.pt2_check import _objection
from lipaudit.frontends.size_conditions import check_guards


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
    loaded = load(str(path))
    x = torch.rand(1, 3, 8, 8)
    assert torch.equal(loaded.module(x), network(x))
    assert loaded.input_shapes == {"input": (1, 3, 8, 8)}
    with torch.no_grad():
        program = torch.export.export(loaded.module, (x,), strict=False).run_decompositions({})
    convolution = next(n for n in program.graph.nodes if "conv2d" in str(n.target))
    assert [path for path, _ in convolution.meta["nn_module_stack"].values()][-1] == "0"


@pytest.mark.parametrize("free", [torch.export.Dim("b"), torch.export.Dim.AUTO])
def test_an_open_batch_axis_is_one_sample(tmp_path, free):
    network, path = _network(), tmp_path / "net.pt2"
    torch.export.save(
        torch.export.export(network, (torch.rand(2, 3, 8, 8),), dynamic_shapes={"input": {0: free}}), path
    )
    loaded = load(str(path))
    assert loaded.input_shapes == {"input": (1, 3, 8, 8)}
    x = torch.rand(1, 3, 8, 8)
    assert torch.allclose(loaded.module(x), network(x), atol=1e-6)
    want = lipaudit.audit(network, input_shape=(3, 8, 8)).network.upper_bound
    assert lipaudit.audit(str(path)).network.upper_bound == pytest.approx(want, rel=1e-6)


def test_open_axes_take_other_sizes_where_the_program_allows_them(tmp_path):
    network, path = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.ReLU()).eval(), str(tmp_path / "net.pt2")
    free = torch.export.Dim.AUTO
    program = torch.export.export(network, (torch.rand(1, 3, 9, 9),), dynamic_shapes={"input": {2: free, 3: free}})
    torch.export.save(program, path)
    assert load(path).input_shapes == {"input": (1, 3, 9, 9)}
    loaded = load(path, input_shapes={"": (12,)})
    assert loaded.input_shapes == {"input": (1, 3, 12, 12)}
    x = torch.rand(1, 3, 12, 12)
    assert torch.allclose(loaded.module(x), network(x), atol=1e-6)
    with pytest.raises(UsageError, match="was exported for sizes with"):  # the export assumed more than one window
        load(path, input_shapes={"": (3,)})
    with pytest.raises(ModelLoadError, match="with these axes open"):
        load(path, input_shapes={"": (4, 9, 9)})


class _Pairs(nn.Module):
    """Sums of neighbours: an even number of entries."""

    def forward(self, x):
        return x.reshape(x.shape[0], x.shape[1] // 2, 2).sum(-1)


class _Branch(nn.Module):
    """Another function for short inputs."""

    def forward(self, x):
        return x * 2 if x.shape[1] > 10 else x * 3


@pytest.mark.parametrize(
    ("network", "size", "allowed", "refused"),
    [(_Pairs(), 8, 12, 13), (_Branch(), 8, 6, 12), (_Branch(), 12, 20, 9)],
)
def test_conditions_of_a_program(tmp_path, network, size, allowed, refused):
    path = str(tmp_path / "net.pt2")
    program = torch.export.export(network, (torch.rand(1, size),), dynamic_shapes={"x": {1: torch.export.Dim.AUTO}})
    torch.export.save(program, path)
    want = lipaudit.audit(network, input_shape={"x": (1, allowed)}).network.upper_bound
    assert lipaudit.audit(path, input_shape={"x": (1, allowed)}).network.upper_bound == pytest.approx(want)
    with pytest.raises(UsageError, match="was exported for sizes with"):
        lipaudit.audit(path, input_shape={"x": (1, refused)})


def test_conditions_that_cannot_be_read_are_refused():
    shapes = {"x": (1, 6)}
    check_guards(["L['x'].size()[1] % 2 == 0 and not L['x'].size()[0] > 1", "torch.sym_max(2, 3) == 3"], shapes, "p")
    for guard in (
        "L['y'].size()[0] == 1",
        "L['x'].stride()[1] == 1",
        "__import__('os').system('true') == 0",
        "9**9**9 > 1",
        "L['x'].size()[9] == 1",
        "1 // 0 == 0",
        "(" * 3000 + "1" + ")" * 3000,
        "L[",
    ):
        with pytest.raises(UsageError, match="cannot read"):
            check_guards([guard], shapes, "p")


def test_arguments_that_are_none_and_held_inputs(tmp_path):
    class Net(nn.Module):
        def forward(self, x, ids, mask=None, labels=None):
            y = x * ids.to(x.dtype)
            return y if mask is None else y * mask

    arguments = (torch.rand(1, 3), torch.tensor([[1, 2, 3]]), torch.rand(1, 3), None)
    path = str(tmp_path / "net.pt2")
    torch.export.save(torch.export.export(Net(), arguments), path)
    held = {"ids": [[0, 1, 4]], "mask": 0.5}
    assert lipaudit.audit(path, fix=held).network.upper_bound == pytest.approx(2.0)
    assert lipaudit.audit(path, fix=held).model.input_shapes == {"x": (1, 3)}
    for fix, message in (
        ({}, "hold it at a value with fix="),
        ({"ids": 1, "other": 1}, "no input named 'other'"),
        ({"ids": [1]}, "has the shape"),
        ({"ids": 1, "x": 0.0, "mask": 1}, "every input is held"),
    ):
        with pytest.raises(UsageError, match=message):
            lipaudit.audit(path, fix=fix)


def test_training_mode_is_refused(tmp_path):
    program = torch.export.export(nn.Sequential(nn.BatchNorm2d(3)).train(), (torch.rand(1, 3, 4, 4),))
    torch.export.save(program, tmp_path / "net.pt2")
    with pytest.raises(ModelLoadError, match="training mode"):
        load(str(tmp_path / "net.pt2"))


def test_a_batch_is_refused(tmp_path):
    torch.export.save(torch.export.export(_network(), (torch.rand(2, 3, 8, 8),)), tmp_path / "net.pt2")
    with pytest.raises(ModelLoadError, match="batch of 1"):
        load(str(tmp_path / "net.pt2"))


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
    assert load(str(path)).input_shapes == {"input": (1, 3, 8, 8)}
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
        load(str(path))
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
        load(str(path))


def test_damaged_archives(saved):
    _, path = saved
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelLoadError, match="truncated"):
        load(str(path))
    path.write_bytes(content)
    _rewrite(path, lambda name, data: None if name.endswith("weight_0") else data)
    with pytest.raises(ModelLoadError, match=r"net\.pt2"):
        load(str(path))


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
        load(str(path))
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
        load(str(path))
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
        load(str(path))
    assert not trap.exists()


def test_texts_that_a_user_added_do_not_matter(tmp_path):
    network, path = _network(), tmp_path / "net.pt2"
    program = torch.export.export(network, (torch.rand(1, 3, 8, 8),))
    torch.export.save(program, path, extra_files={"notes.txt": "trained on Tuesday"})
    x = torch.rand(1, 3, 8, 8)
    assert torch.equal(load(str(path)).module(x), network(x))


@pytest.mark.parametrize(
    "formula",
    [
        *("9**9**9", "Pow(9, Pow(9, 9))", "(9**64)**64", "s0**(s0**9)", "2**" + "9" * 30, "9" * 20_000),
        *("(" * 5000 + "s0" + ")" * 5000, "-" * 9000 + "s0"),
    ],
)
def test_formulas_without_measure_are_refused(formula):
    assert _objection("expr_str", formula) == "a symbolic expression that is not arithmetic"


@pytest.mark.parametrize(
    "formula", ["2*s0 + 1", "Mod(s0, 8)*Pow(s1, 2)", "Max(1, (s0 - 3)//2 + 1)**2", "Integer(65536)*s3", "s0**-1"]
)
def test_formulas_of_exports_are_read(formula):
    assert _objection("expr_str", formula) == ""


def test_a_description_that_nests_without_measure_is_refused(saved):
    _rewrite(saved[1], lambda name, c: b"[" * 100_000 + b"]" * 100_000 if name.endswith("models/model.json") else c)
    with pytest.raises(ModelLoadError, match="nests without measure"):
        load(str(saved[1]))


def test_entries_that_lie_over_each_other_are_refused(saved):
    """One stretch of bytes under many names: the central directory says where an entry is."""
    with zipfile.ZipFile(saved[1], "a") as archive:
        largest = max((i for i in archive.infolist() if "/weights/weight_" in i.filename), key=lambda i: i.file_size)
        for number in range(100, 400):
            twin = copy.copy(largest)
            twin.filename = twin.orig_filename = largest.filename.rpartition("_")[0] + f"_{number}"
            archive.filelist.append(twin)
            archive.NameToInfo[twin.filename] = twin
        archive._didModify = True
    with pytest.raises(ModelLoadError, match="larger than the file"):
        load(str(saved[1]))


class _Canvas(nn.Module):
    def forward(self, x):
        return x + torch.zeros(40_000, 40_000).sum()


class _Copies(nn.Module):
    def forward(self, x):
        return (x.expand(50_000, 50_000) * 2).amax(0, keepdim=True)[:, :1]


@pytest.mark.parametrize("network", [_Canvas(), _Copies()])
def test_programs_that_ask_for_much_memory_are_refused(tmp_path, network):
    """Exported from shapes alone, so that nothing of that size is ever made."""
    with FakeTensorMode():
        program = torch.export.export(network, (torch.empty(1, 1),), strict=False)
    torch.export.save(program, tmp_path / "net.pt2")
    with pytest.raises(ModelLoadError, match=r"would need about (6.4|10)GB of memory.*max_memory="):
        load(str(tmp_path / "net.pt2"))
