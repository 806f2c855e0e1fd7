"""What was just written, read again: slice(slice_scatter(x, y)) = y.

An operation in place on a part of a tensor, z = x[:, 1:]; z += b, writes the part back into all of x, and z is taken out of that again:
two ways from x to z, of which one carries nothing. The same holds for one entry along an axis, for a part of a view, and for a complex
tensor whose real part is changed.
"""

from __future__ import annotations

from lipaudit.graph.node import Argument, Graph, Node, Ref
from lipaudit.graph.ops import VIEWS
from lipaudit.graph.rewrite import drop_unread, rebuild

_WRITTEN = {"aten.slice.Tensor": "aten.slice_scatter.default", "aten.select.int": "aten.select_scatter.default"}
_BACK = {
    "aten.view_as_real.default": "aten.view_as_complex.default",
    "aten.view_as_complex.default": "aten.view_as_real.default",
}


def drop_read_back(graph: Graph) -> Graph:
    """The graph in which what is read where it was written is what was written."""
    producers: dict[str, Node] = {}

    def change(node: Node) -> Ref | None:
        producers[node.name] = node
        source = node.get("self")
        if not isinstance(source, Ref):
            return None
        before = producers[source.name]
        written: Argument
        if before.op == _BACK.get(node.op):
            written = before["self"]
        elif node.op in VIEWS and before.op in VIEWS and producers[before.refs[0].name].op in _WRITTEN.values():
            written = before["self"]  # in the shape in which it was written
        elif before.op == _WRITTEN.get(node.op) and _places(before) == _places(node):
            written = before["src"]
        else:
            return None
        return written if isinstance(written, Ref) and written.info == node.output else None

    return drop_unread(rebuild(graph, change))


def _places(node: Node) -> tuple[int, range]:
    """The axis and the places along it that an operation reads or writes."""
    source = node["self"]
    assert isinstance(source, Ref)
    axis = _integer(node["dim"]) % len(source.info.shape)
    size = source.info.shape[axis]
    if "index" in node.arguments:
        index = _integer(node["index"]) % size
        return axis, range(index, index + 1)
    start, end, step = (None if node[key] is None else _integer(node[key]) for key in ("start", "end", "step"))
    return axis, range(*slice(start, end, step).indices(size))


def _integer(argument: Argument) -> int:
    assert isinstance(argument, int)
    return argument
