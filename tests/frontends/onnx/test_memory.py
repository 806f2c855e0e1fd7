"""What a small ONNX file may ask for: counted before it is computed, refused with the figure and the option that raises the limit."""

import resource
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import lipaudit
from lipaudit.cli import main
from lipaudit.errors import ModelLoadError, UsageError, is_out_of_memory
from lipaudit.frontends.load import load
from lipaudit.frontends.memory import allowed_memory, in_words, parse_memory
from lipaudit.frontends.onnx.memory import Room
from lipaudit.frontends.onnx.prepare import count_nodes
from tests.frontends.onnx.cases import ATTENTION, CASES, CONTRIB, Case, graph_model

_I = np.array
_IMAGE = (1, 3, 8, 8)
_HUGE = np.array([1, 1, 1e7, 1], np.float32)
# each would take gigabytes to terabytes
BOMBS = [
    Case("Resize", _IMAGE, operands=("x", None, _HUGE), attributes={"mode": "cubic"}),
    Case("Resize", _IMAGE, operands=("x", None, None, _I([1, 3, 10**8, 8])), opset=13),
    Case("Resize", _IMAGE, (_HUGE,), 10),
    Case("Upsample", _IMAGE, (_HUGE,), 9),
    Case("Expand", _IMAGE, (_I([10**6, 3, 8, 8]),)),
    Case("Tile", _IMAGE, (_I([1, 10**6, 1, 1]),)),
    Case("Pad", _IMAGE, (_I([0, 0, 0, 0, 0, 0, 10**9, 0]),)),
    Case("Pad", _IMAGE, opset=2, attributes={"pads": [0, 0, 0, 0, 0, 0, 10**9, 0]}),
    Case("CenterCropPad", _IMAGE, (_I([1, 3, 10**5, 10**5]),), 18),
    Case("Conv", _IMAGE, (np.ones((2, 3, 3, 3), np.float32),), attributes={"pads": [10**5] * 4}),
    Case("ConvTranspose", _IMAGE, (np.ones((3, 2, 2, 2), np.float32),), attributes={"strides": [10**5, 10**5]}),
    Case("ConvTranspose", _IMAGE, (np.ones((3, 2, 2, 2), np.float32),), attributes={"output_shape": [10**5, 10**5]}),
    Case("Add", (1, 10**5, 1), (np.ones((1, 10**5), np.float32),)),
    Case("MatMul", (1, 10**5, 1), (np.ones((1, 10**5), np.float32),)),
    Case("Einsum", (10**5,), operands=("x", "x"), attributes={"equation": "i,j->ij"}),
    Case("Gather", (1, 10**5), (np.zeros((10**5, 1), np.int64),), attributes={"axis": 0}),
]


@pytest.mark.parametrize("case", BOMBS, ids=str)
def test_what_one_node_computes_is_counted_before(case, tmp_path):
    onnx.save(case.model(), tmp_path / "m.onnx")
    with pytest.raises(
        ModelLoadError, match=r"'the_node'.* would need about [0-9.]+[GT]B .* a file may ask for 4GB: .*max_memory"
    ):
        load(str(tmp_path / "m.onnx"))


def _number(*values, kind=np.int64):
    return [numpy_helper.from_array(np.asarray(v, kind), f"n{i}") for i, v in enumerate(values)]


CONSTANTS = {
    "ConstantOfShape": (helper.make_node("ConstantOfShape", ["n0"], ["c"]), _number([10**5, 10**5])),
    "Range": (helper.make_node("Range", ["n0", "n1", "n2"], ["c"]), _number(0, 10**10, 1)),
    "Range of floats": (helper.make_node("Range", ["n0", "n1", "n2"], ["c"]), _number(0, 1e10, 1, kind=np.float32)),
    "OneHot": (
        helper.make_node("OneHot", ["n0", "n1", "n2"], ["c"]),
        [*_number([1, 2], 10**10), numpy_helper.from_array(np.array([0, 1], np.float32), "n2")],
    ),
    "HannWindow": (helper.make_node("HannWindow", ["n0"], ["c"]), _number(10**10)),
    "EyeLike": (helper.make_node("EyeLike", ["x"], ["c"]), []),
    "sparse constant": (
        helper.make_node(
            "Constant", [], ["c"],
            sparse_value=helper.make_sparse_tensor(*_number([0.5], kind=np.float32), *_number([0]), [10**10]),
        ),
        [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONSTANTS)
def test_what_constants_take_is_counted_before(name, tmp_path):
    node, weights = CONSTANTS[name]
    shape = (10**5, 10**5) if name == "EyeLike" else (1, 3)
    onnx.save(
        graph_model([node, helper.make_node("Relu", ["x"], ["y"])], {"x": shape}, ["y"], weights), tmp_path / "m.onnx"
    )
    with pytest.raises(ModelLoadError, match=r"would need about [0-9.]+[GT]B"):
        load(str(tmp_path / "m.onnx"))


def test_values_that_are_held_at_once_add_up_and_those_that_are_not_do_not(tmp_path):
    """A chain of small steps holds two values at a time; a graph that needs all of them later holds all."""
    chain = [helper.make_node("Relu", ["x" if i == 0 else f"v{i - 1}"], [f"v{i}"]) for i in range(40)]
    last = [helper.make_node("Neg", ["v39"], ["y"])]
    everything = [helper.make_node("Sum", [f"v{i}" for i in range(40)], ["y"])]
    for nodes, fits in ((chain + last, True), (chain + everything, False)):
        onnx.save(graph_model(nodes, {"x": (1, 1000)}, ["y"]), tmp_path / "m.onnx")
        with allowed_memory(100_000):
            if fits:
                load(str(tmp_path / "m.onnx"))
            else:
                with pytest.raises(ModelLoadError, match="would need"):
                    load(str(tmp_path / "m.onnx"))


@pytest.mark.parametrize("shape", [(1, 50_000, 50_000), (10**7, 3, 2, 2), (10**9, 4)])
def test_inputs_and_batches_are_counted_before(shape, tmp_path):
    onnx.save(graph_model([helper.make_node("Relu", ["x"], ["y"])], {"x": shape}, ["y"]), tmp_path / "m.onnx")
    with pytest.raises(ModelLoadError, match=r"would need about [0-9.]+GB .*max_memory"):
        load(str(tmp_path / "m.onnx"))


def test_of_a_large_batch_some_rows_are_compared(tmp_path):
    onnx.save(graph_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (5000, 4)}, ["y"]), tmp_path / "m.onnx")
    loaded = load(str(tmp_path / "m.onnx"))
    assert loaded.input_shapes == {"x": (1, 4)}
    assert any("batch of 5000; one sample is audited, 256 of its rows were compared" in note for note in loaded.notes)


def _doubling(levels):
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    bodies = [[helper.make_node("Relu", ["a"], ["c"])]]
    for level in range(levels):
        calls = (("a", "b"), ("b", "c"))
        bodies.append([helper.make_node(f"F{level}", [i], [o], domain="own") for i, o in calls])
    functions = [helper.make_function("own", f"F{i}", ["a"], ["c"], body, imports) for i, body in enumerate(bodies)]
    model = graph_model([helper.make_node(f"F{levels}", ["x"], ["y"], domain="own")], {"x": (1, 3)}, ["y"])
    model.opset_import.append(imports[1])
    model.functions.extend(functions)
    return model


def test_functions_are_counted_before_they_are_written_out(tmp_path):
    assert count_nodes(_doubling(5)) == 32
    onnx.save(_doubling(5), tmp_path / "m.onnx")
    assert len(load(str(tmp_path / "m.onnx")).node_names) == 32
    onnx.save(_doubling(29), tmp_path / "m.onnx")
    with pytest.raises(
        ModelLoadError, match=r"the 536870912 nodes of the graph.*would need about [0-9.]+TB.*max_memory"
    ):
        load(str(tmp_path / "m.onnx"))


def test_functions_that_never_end(tmp_path):
    model = _doubling(3)
    model.functions[1].node[1].op_type = "F3"
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(ModelLoadError, match="calls itself"):
        load(str(tmp_path / "m.onnx"))
    chain = _doubling(200)
    for function in chain.functions[1:]:
        del function.node[1]
        function.node[0].output[0] = "c"
    onnx.save(chain, tmp_path / "m.onnx")
    with pytest.raises(ModelLoadError, match="more than 100 calls deep"):
        load(str(tmp_path / "m.onnx"))


def test_the_limit_can_be_raised_and_lowered(tmp_path, capsys):
    onnx.save(graph_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (1, 1000)}, ["y"]), tmp_path / "m.onnx")
    path = str(tmp_path / "m.onnx")
    with pytest.raises(ModelLoadError, match=r"allow more with max_memory='48\.1KB' or"):
        lipaudit.audit(path, max_memory="30KB")
    with pytest.raises(ModelLoadError, match="max_memory"):
        lipaudit.compare(path, max_memory=20_000)
    assert lipaudit.audit(path, max_memory="48.1KB").network.upper_bound == pytest.approx(1)
    assert main([path, "--max-memory", "30KB"]) == 3
    assert (
        "would need about 48KB of memory, and a file may ask for 30KB: allow more with --max-memory"
        in capsys.readouterr().err
    )
    assert main([path, "--max-memory", "much"]) == 2
    with pytest.raises(UsageError):
        lipaudit.audit(path, max_memory=-1)


@pytest.mark.parametrize(
    ("text", "size"), [("16GB", 16 * 10**9), ("1.5g", 15 * 10**8), ("512 MB", 512 * 10**6), (7, 7), ("100", 100)]
)
def test_sizes(text, size):
    assert parse_memory(text) == size


@pytest.mark.parametrize("size", ["", "GB", "-1GB", "1EB", "nan", 0, 1.5, True, None])
def test_no_sizes(size):
    with pytest.raises(UsageError, match="max_memory"):
        parse_memory(size)


@pytest.mark.parametrize("size", [1, 999, 1000, 4 * 10**9, 4_010_000_000, 123_456_789, 10**15])
def test_a_size_that_is_named_as_enough_is_enough(size):
    assert parse_memory(in_words(size, up=True)) >= size


def test_the_count_is_what_the_nodes_compute(tmp_path, monkeypatch):
    """Over the whole table of operators: never less, and known for nearly all of the standard's."""
    counted, actual = [], []
    hold = Room.hold
    monkeypatch.setattr(Room, "expect", lambda self, view: counted.append((view.op, self._predicted(view))))

    def held(self, name, value):
        hold(self, name, value)
        actual.append((len(counted), self._held[name]))

    monkeypatch.setattr(Room, "hold", held)
    for case in [*CASES[::4], *ATTENTION[::4], *CONTRIB[::4]]:
        onnx.save(case.model(), tmp_path / "m.onnx")
        load(str(tmp_path / "m.onnx"))
    sizes = dict.fromkeys(range(len(counted)), 0)
    for position, size in actual:
        if position:
            sizes[position - 1] += size
    unknown = [op for op, size in counted if not size]
    assert len(unknown) < len(counted) / 6, unknown
    assert len(counted) > 80


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:114] err == 0. DefaultCPUAllocator: can't allocate memory: you tried"
        ),
        RuntimeError("std::bad_alloc"),
        ImportError("libtorch.so: failed to map segment from shared object"),
        OSError(12, "Cannot allocate memory"),
        RuntimeError("can't start new thread"),
    ],
)
def test_every_way_to_say_that_memory_is_exhausted(error):
    assert is_out_of_memory(error)
    wrapped = ValueError("x")
    wrapped.__cause__ = error
    assert is_out_of_memory(wrapped)


def test_an_exhausted_address_space_is_a_message(tmp_path):
    onnx.save(
        graph_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (1, 3, 8000, 8000)}, ["y"]), tmp_path / "m.onnx"
    )

    def limited():
        resource.setrlimit(resource.RLIMIT_AS, (3 * 10**9, 3 * 10**9))

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "lipaudit", str(tmp_path / "m.onnx"), "--max-memory", "1TB"],
        capture_output=True, text=True, preexec_fn=limited, check=False,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert "the system gives no more memory" in done.stderr
    assert "defect" not in done.stderr


def test_element_types_are_counted_with_their_width(tmp_path):
    for dtype, needed in ((TensorProto.FLOAT16, "24KB"), (TensorProto.DOUBLE, "96KB")):
        onnx.save(
            graph_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (1, 1000)}, ["y"], dtype=dtype),
            tmp_path / "m.onnx",
        )
        with allowed_memory(1000), pytest.raises(ModelLoadError, match=f"need about {int(needed[:-2]) // 2}KB"):
            load(str(tmp_path / "m.onnx"))
        with (
            allowed_memory("90KB" if needed == "96KB" else "23KB"),
            pytest.raises(ModelLoadError, match=f"need about {needed}"),
        ):
            load(str(tmp_path / "m.onnx"))
