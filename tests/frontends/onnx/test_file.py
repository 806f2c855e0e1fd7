import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from lipaudit import audit
from lipaudit.errors import ModelLoadError, UsageError
from lipaudit.frontends.load import load
from tests.frontends.onnx.cases import graph_model


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
    loaded = load(str(path))
    assert loaded.module(torch.rand(1, 3, 8, 8)).shape == (1, 4, 6, 6)


def test_a_missing_external_data_file(path):
    _save_external(path)
    (path.parent / "net.data").unlink()
    with pytest.raises(ModelLoadError, match=r"'net\.data', which is missing"):
        load(str(path))


def test_a_truncated_external_data_file(path):
    _save_external(path)
    (path.parent / "net.data").write_bytes(b"1234")
    with pytest.raises(ModelLoadError, match="too early"):
        load(str(path))


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
        load(str(folder / "net.onnx"))


@pytest.mark.parametrize("part", [0.02, 0.3, 0.7, 0.95, 0.999])
def test_truncated_files(path, part):
    content = _convolution((1, 3, 8, 8)).SerializeToString()
    path.write_bytes(content[: int(len(content) * part)])
    with pytest.raises(ModelLoadError, match=r"net\.onnx"):
        load(str(path))


def test_an_empty_graph(path):
    onnx.save(graph_model([], {"x": (1, 3)}, ["x"]), path)
    with pytest.raises(ModelLoadError, match="empty graph"):
        load(str(path))


def test_a_graph_that_reads_what_nothing_computes(path):
    onnx.save(graph_model([helper.make_node("Relu", ["z"], ["y"])], {"x": (1, 3)}, ["y"]), path)
    with pytest.raises(ModelLoadError, match="reads 'z'"):
        load(str(path))


def test_integer_inputs(path):
    onnx.save(graph_model([helper.make_node("Abs", ["x"], ["y"])], {"x": (1, 3)}, ["y"], dtype=TensorProto.INT64), path)
    with pytest.raises(ModelLoadError, match="INT64 values"):
        load(str(path))


def test_symbolic_axes(path):
    onnx.save(_convolution(("batch", 3, "height", "width")), path)
    with pytest.raises(UsageError, match=r"heightxwidth with open sizes: give them with input_shape=\(3, SIZE, SIZE\)"):
        load(str(path))
    assert load(str(path), input_shapes={"": (9,)}).input_shapes == {"x": (1, 3, 9, 9)}
    assert load(str(path), input_shapes={"x": (3, 8, 9)}).input_shapes == {"x": (1, 3, 8, 9)}
    with pytest.raises(UsageError, match="differs in axis 1"):
        load(str(path), input_shapes={"": (4, 9, 9)})
    with pytest.raises(UsageError, match="no input named"):
        load(str(path), input_shapes={"z": (4, 9, 9)})


def test_a_symbolic_batch_alone_is_one(path):
    onnx.save(_convolution(("batch", 3, 8, 8)), path)
    assert load(str(path)).input_shapes == {"x": (1, 3, 8, 8)}


def test_fixed_sizes_cannot_be_changed(path):
    onnx.save(_convolution((1, 3, 8, 8)), path)
    with pytest.raises(UsageError, match="fixes the input 'x' at 1x3x8x8"):
        load(str(path), input_shapes={"": (16,)})


def test_a_size_that_the_network_rejects(path):
    onnx.save(_convolution(("batch", 3, "height", "width")), path)
    with pytest.raises(ModelLoadError, match=r"conv.*does not accept.*input_shape"):
        load(str(path), input_shapes={"": (2,)})


def test_a_fixed_batch_is_reduced_to_one_where_rows_are_independent(path):
    onnx.save(_convolution((3, 3, 8, 8)), path)
    loaded = load(str(path))
    assert loaded.input_shapes == {"x": (1, 3, 8, 8)}
    assert any("batch of 3" in note for note in loaded.notes)


def test_a_fixed_first_axis_whose_rows_mix_is_no_batch(path):
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
        helper.make_node("Reshape", ["t", "shape"], ["y"], name="reshape"),
    ]
    shape = numpy_helper.from_array(np.array([2, -1]), "shape")
    onnx.save(graph_model(nodes, {"x": (2, 8)}, ["y"], [shape]), path)
    loaded = load(str(path))
    x = torch.randn(2, 8)
    assert torch.equal(loaded.module(x), x.T.reshape(2, 8))
    assert any("first axis of 'x' (2x8) is no batch" in note for note in loaded.notes)


def test_an_image_without_a_batch_axis(path):
    """Its channels are mixed, so that they cannot be samples; the figure is that of the whole image."""
    mix = np.random.default_rng(0).standard_normal((3, 3)).astype(np.float32)
    weights = [numpy_helper.from_array(mix, "w"), numpy_helper.from_array(np.array([3, 16]), "flat")]
    nodes = [helper.make_node("Reshape", ["x", "flat"], ["f"]), helper.make_node("MatMul", ["w", "f"], ["y"])]
    onnx.save(graph_model(nodes, {"x": (3, 4, 4)}, ["y"], weights), path)
    for shape in (None, (3, 4, 4), {"x": (3, 4, 4)}):
        report = audit(str(path), input_shape=shape)
        assert report.model.input_shape == (3, 4, 4)
        assert report.network.upper_bound == pytest.approx(np.linalg.norm(mix, 2), rel=1e-3)


def _streaming(frame, state):
    """One step of a recurrent network: (frame + state[0] + 2 state[1], the state turned round)."""
    nodes = [
        helper.make_node("Gather", ["state", "zero"], ["h"], axis=0),
        helper.make_node("Gather", ["state", "one"], ["c"], axis=0),
        helper.make_node("Sum", ["x", "h", "c", "c"], ["y"]),
        helper.make_node("Slice", ["state", "one1", "back", "zero1", "back1"], ["next"]),
    ]
    numbers = {"zero": 0, "one": 1, "one1": [1], "back": [-9], "zero1": [0], "back1": [-1]}
    weights = [numpy_helper.from_array(np.array(value), name) for name, value in numbers.items()]
    return graph_model(nodes, {"x": frame, "state": state}, ["y", "next"], weights)


@pytest.mark.parametrize(
    ("frame", "state", "requested"),
    [
        ((1, 4), (2, 1, 4), None),
        ((1, 4), (2, 1, 4), {"x": (1, 4), "state": (2, 1, 4)}),
        (("batch", 4), (2, "batch", 4), None),
        (("s0", 4), (2, "s0", "width"), {"state": (2, 1, 4)}),
    ],
)
def test_a_state_whose_first_axis_is_no_batch(frame, state, requested, path):
    onnx.save(_streaming(frame, state), path)
    report = audit(str(path), input_shape=requested)
    assert report.model.input_shapes == {"x": (1, 4), "state": (2, 1, 4)}
    matrix = np.array([[1, 1, 2], [0, 0, 1], [0, 1, 0]])
    assert report.network.upper_bound >= np.linalg.norm(matrix, 2)
    assert any("first axis of 'state' (2x1x4) is no batch" in note for note in report.notes)


def test_a_state_of_another_size_than_the_files(path):
    onnx.save(_streaming((1, 4), (2, 1, 4)), path)
    with pytest.raises(UsageError, match=r"fixes the input 'state' at 2x1x4, and 3x1x4 differs in axis 0"):
        load(str(path), input_shapes={"state": (3, 1, 4)})


def test_a_symbolic_first_axis_is_a_batch_by_its_name(path):
    onnx.save(graph_model([helper.make_node("Relu", ["x"], ["y"])], {"x": ("height", 4)}, ["y"]), path)
    assert load(str(path), input_shapes={"x": (5, 4)}).input_shapes == {"x": (5, 4)}
    onnx.save(graph_model([helper.make_node("Relu", ["x"], ["y"])], {"x": ("batch_size", 4)}, ["y"]), path)
    with pytest.raises(UsageError, match="a bound is about one sample"):
        load(str(path), input_shapes={"x": (5, 4)})


def test_a_fixed_batch_that_is_asked_for_is_audited_as_a_whole(path):
    onnx.save(_convolution((3, 3, 8, 8)), path)
    assert load(str(path), input_shapes={"": (3, 3, 8, 8)}).input_shapes == {"x": (3, 3, 8, 8)}
    assert load(str(path), input_shapes={"": (1, 3, 8, 8)}).input_shapes == {"x": (1, 3, 8, 8)}


def test_names_that_collide_with_module_attributes(path):
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="forward"),
        helper.make_node("Relu", ["a"], ["y"], name="/a.b/c"),
    ]
    onnx.save(graph_model(nodes, {"x": (1, 3)}, ["y"]), path)
    loaded = load(str(path))
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
        load(str(path))


def test_a_node_name_that_is_no_text(path):
    content = _convolution((1, 3, 8, 8)).SerializeToString()
    path.write_bytes(content.replace(b"conv", b"\xff\xfenv"))
    with pytest.raises(ModelLoadError, match=r"net\.onnx"):
        load(str(path))


def test_an_input_without_axes_is_one_clear_error(path):
    three = numpy_helper.from_array(np.float32(3), "w")
    onnx.save(graph_model([helper.make_node("Mul", ["x", "w"], ["y"])], {"x": ()}, ["y"], [three]), path)
    assert load(str(path)).input_shapes == {"x": ()}
