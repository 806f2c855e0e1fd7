import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from lipaudit import frontends
from lipaudit.errors import ModelLoadError, UsageError
from tests.frontends.onnx_cases import graph_model


def _convolution(shape):
    w = numpy_helper.from_array(np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32), "w")
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], name="conv"), helper.make_node("Relu", ["c"], ["y"])]
    return graph_model(nodes, {"x": shape}, ["y"], [w])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "net.onnx"


def _save_external(path):
    onnx.save(_convolution((1, 3, 8, 8)), path, save_as_external_data=True, location="net.data", size_threshold=0)


def test_external_data_beside_the_model(path):
    _save_external(path)
    loaded = frontends.load(str(path))
    assert loaded.module(torch.rand(1, 3, 8, 8)).shape == (1, 4, 6, 6)


def test_a_missing_external_data_file(path):
    _save_external(path)
    (path.parent / "net.data").unlink()
    with pytest.raises(ModelLoadError, match=r"'net\.data', which is missing"):
        frontends.load(str(path))


def test_a_truncated_external_data_file(path):
    _save_external(path)
    (path.parent / "net.data").write_bytes(b"1234")
    with pytest.raises(ModelLoadError, match="too early"):
        frontends.load(str(path))


@pytest.mark.parametrize("location", ["../secret.data", "/etc/passwd", "link.data", "sub/../../secret.data"])
def test_external_data_outside_of_the_folder(tmp_path, location):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.data").write_bytes(bytes(1000))
    (folder / "link.data").symlink_to(tmp_path / "secret.data")
    _save_external(folder / "net.onnx")
    model = onnx.load(folder / "net.onnx", load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        if entry.key == "location":
            entry.value = location
    (folder / "net.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelLoadError, match=r"outside of the model's folder: refused"):
        frontends.load(str(folder / "net.onnx"))


@pytest.mark.parametrize("part", [0.02, 0.3, 0.7, 0.95, 0.999])
def test_truncated_files(path, part):
    content = _convolution((1, 3, 8, 8)).SerializeToString()
    path.write_bytes(content[: int(len(content) * part)])
    with pytest.raises(ModelLoadError, match=r"net\.onnx"):
        frontends.load(str(path))


def test_an_empty_graph(path):
    onnx.save(graph_model([], {"x": (1, 3)}, ["x"]), path)
    with pytest.raises(ModelLoadError, match="empty graph"):
        frontends.load(str(path))


def test_a_graph_that_reads_what_nothing_computes(path):
    onnx.save(graph_model([helper.make_node("Relu", ["z"], ["y"])], {"x": (1, 3)}, ["y"]), path)
    with pytest.raises(ModelLoadError, match="reads 'z'"):
        frontends.load(str(path))


def test_integer_inputs(path):
    onnx.save(graph_model([helper.make_node("Abs", ["x"], ["y"])], {"x": (1, 3)}, ["y"], dtype=TensorProto.INT64), path)
    with pytest.raises(ModelLoadError, match="INT64 values"):
        frontends.load(str(path))


def test_symbolic_axes(path):
    onnx.save(_convolution(("batch", 3, "height", "width")), path)
    with pytest.raises(UsageError, match=r"symbolic axes height, width.*--input 3xSIZExSIZE"):
        frontends.load(str(path))
    assert frontends.load(str(path), input_shapes={"": (9,)}).input_shapes == {"x": (1, 3, 9, 9)}
    assert frontends.load(str(path), input_shapes={"x": (3, 8, 9)}).input_shapes == {"x": (1, 3, 8, 9)}
    with pytest.raises(UsageError, match="differs in axis 1"):
        frontends.load(str(path), input_shapes={"": (4, 9, 9)})
    with pytest.raises(UsageError, match="no input named"):
        frontends.load(str(path), input_shapes={"z": (4, 9, 9)})


def test_a_symbolic_batch_alone_is_one(path):
    onnx.save(_convolution(("batch", 3, 8, 8)), path)
    assert frontends.load(str(path)).input_shapes == {"x": (1, 3, 8, 8)}


def test_fixed_sizes_cannot_be_changed(path):
    onnx.save(_convolution((1, 3, 8, 8)), path)
    with pytest.raises(UsageError, match="fixes the input 'x' at 1x3x8x8"):
        frontends.load(str(path), input_shapes={"": (16,)})


def test_a_size_that_the_network_rejects(path):
    onnx.save(_convolution(("batch", 3, "height", "width")), path)
    with pytest.raises(ModelLoadError, match=r"conv.*does not accept.*--input"):
        frontends.load(str(path), input_shapes={"": (2,)})


def test_a_fixed_batch_is_reduced_to_one_where_rows_are_independent(path):
    onnx.save(_convolution((3, 3, 8, 8)), path)
    loaded = frontends.load(str(path))
    assert loaded.input_shapes == {"x": (1, 3, 8, 8)}
    assert any("batch of 3" in note for note in loaded.notes)


def test_a_fixed_batch_whose_rows_mix_is_refused(path):
    # (2, 8) -> (1, 16) -> (2, 8) mixes nothing at batch 2 but means something else at batch 1
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
        helper.make_node("Reshape", ["t", "shape"], ["y"], name="reshape"),
    ]
    shape = numpy_helper.from_array(np.array([2, -1]), "shape")
    onnx.save(graph_model(nodes, {"x": (2, 8)}, ["y"], [shape]), path)
    with pytest.raises(ModelLoadError, match="batch"):
        frontends.load(str(path))


def test_names_that_collide_with_module_attributes(path):
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="forward"),
        helper.make_node("Relu", ["a"], ["y"], name="/a.b/c"),
    ]
    onnx.save(graph_model(nodes, {"x": (1, 3)}, ["y"]), path)
    loaded = frontends.load(str(path))
    assert list(loaded.node_names.values()) == ["forward", "/a.b/c"]
    assert all(isinstance(loaded.module.get_submodule(name), torch.nn.Module) for name in loaded.node_names)


@pytest.mark.parametrize(
    ("key", "value"), [("offset", "abc"), ("offset", "-8"), ("length", "-1"), ("length", "9" * 30)]
)
def test_external_data_at_no_number_of_bytes(path, key, value):
    _save_external(path)
    model = onnx.load(path, load_external_data=False)
    entries = model.graph.initializer[0].external_data
    kept = [e for e in entries if e.key != key]
    del entries[:]
    entries.extend([*kept, onnx.StringStringEntryProto(key=key, value=value)])
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelLoadError, match="no numbers of bytes"):
        frontends.load(str(path))


def test_a_node_name_that_is_no_text(path):
    content = _convolution((1, 3, 8, 8)).SerializeToString()
    path.write_bytes(content.replace(b"conv", b"\xff\xfenv"))
    with pytest.raises(ModelLoadError, match=r"net\.onnx"):
        frontends.load(str(path))


def test_an_input_without_axes_is_one_clear_error(path):
    three = numpy_helper.from_array(np.float32(3), "w")
    onnx.save(graph_model([helper.make_node("Mul", ["x", "w"], ["y"])], {"x": ()}, ["y"], [three]), path)
    assert frontends.load(str(path)).input_shapes == {"x": ()}
