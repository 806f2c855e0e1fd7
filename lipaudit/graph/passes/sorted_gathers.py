"""Entries gathered by the places that a sort gives: gather(x, argsort(x)) = sort(x).

The places jump where two entries are equal, the gathered entries do not: they are the sorted ones. The same holds for the places of the k
largest entries, of extremes and of the median, and for those of -x, whose order is the reverse. Places of another tensor are no sort.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from lipaudit.graph.node import Argument, Node, Ref, TensorInfo
from lipaudit.graph.passes.equal_nodes import representatives
from lipaudit.graph.pattern import OTHER_OPERATION, GraphIndex, Match, Matcher, NoMatch

_GATHERS = ("aten.gather.default", "aten.take_along_dim.default")
_PLACES = ("aten.argsort.default", "aten.argsort.stable")
# operations whose second output are the places of the first one
_WITH_PLACES = frozenset(
    f"aten.{name}"
    for name in ("sort.default", "sort.stable", "topk.default", "max.dim", "min.dim", "kthvalue.default", "median.dim")
)
_SORT = "aten.sort.default"
_NO_PLACES = NoMatch("the places are not those of a sort")
_OTHER_TENSOR = NoMatch("the places are those of another tensor, or along another axis")


def matcher(index: GraphIndex) -> Matcher:
    """Matches gathers by the places of a sort of the same tensor."""
    same = representatives(index.graph)

    def match(node: Node) -> Match | NoMatch:
        if node.op not in _GATHERS:
            return OTHER_OPERATION
        source, places = node["self"], node["indices" if node.op == _GATHERS[1] else "index"]
        if not isinstance(source, Ref) or not isinstance(places, Ref) or not isinstance(node["dim"], int):
            return _NO_PLACES
        found = index.producers[places.name]
        by_item = found.op == "getitem" and found["index"] == 1
        order = index.producers[found.refs[0].name] if by_item else found
        if order.op not in (_WITH_PLACES if by_item else _PLACES):
            return _NO_PLACES
        sorted_, rank = order["self"], len(source.info.shape)
        if not isinstance(sorted_, Ref) or not rank or not isinstance(order["dim"], int):
            return _NO_PLACES
        before = index.producers[sorted_.name]
        reverse = before.op == "aten.neg.default"
        if reverse:
            sorted_ = before.refs[0]
        if same[sorted_.name] != same[source.name] or (node["dim"] - order["dim"]) % rank:
            return _OTHER_TENSOR
        if by_item:
            if reverse or order.outputs[0] != node.output:
                return _OTHER_TENSOR
            arguments: dict[str, Argument] = {**found.arguments, "index": 0}
            return Match((replace(found, name=node.name, arguments=arguments, outputs=node.outputs),))
        arguments = {"self": source, "dim": order["dim"], "descending": bool(order["descending"]) != reverse}
        return _sort(index, node, arguments, found)

    return match


def _sort(index: GraphIndex, node: Node, arguments: dict[str, Argument], places: Node) -> Match:
    name = f"{node.name}_sorted"
    while name in index.producers:
        name += "_"
    both = (node.output, TensorInfo(node.output.shape, torch.int64))
    return Match(
        (
            Node(name, _SORT, arguments, both, node.module),
            replace(node, op="getitem", arguments={"self": Ref(name, both[0]), "index": 0}),
        ),
        merged=(places.name,),
    )
