"""What a report calls a node and its geometry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from lipaudit.graph.linear import Dense, Scale
from lipaudit.graph.node import Constant, Node
from lipaudit.graph.passes.activations import Activation
from lipaudit.graph.passes.elementwise import Elementwise
from lipaudit.graph.passes.local_response_norm import ResponseNorm
from lipaudit.graph.passes.normalization import Normalization
from lipaudit.graph.passes.power_means import PowerMean
from lipaudit.graph.passes.radial import Radial
from lipaudit.spectral.convolution.geometry import Convolution


def titles(rows: Sequence[Node], names: Mapping[str, str]) -> dict[str, str]:
    """The name of every node: its module path, as the model file spells it, with a counter where that runs more than once."""
    plain = {n.name: names.get(n.module, n.module) or n.name for n in rows}
    repeated = {title for title, count in Counter(plain.values()).items() if count > 1}
    seen: Counter[str] = Counter()
    taken = set(plain.values())
    unique = {}
    for node in rows:
        title = plain[node.name]
        seen[title] += 1
        if title in repeated and seen[title] > 1:
            candidate = f"{title}#{seen[title]}"
            while candidate in taken:
                seen[title] += 1
                candidate = f"{title}#{seen[title]}"
            taken.add(candidate)
            title = candidate
        unique[node.name] = title
    return unique


def weight_prefix(node: Node) -> str:
    """The prefix of the node's weight in the state dict, or the path of the module that ran it where no single parameter is its weight.

    They differ where a module computes with the weight of another one.
    """
    constants = [a for a in (node.get("weight"), *node.arguments.values()) if isinstance(a, Constant) and a.names]
    prefixes = {_prefix(name) for name in constants[0].names} if constants else set()
    return prefixes.pop() if len(prefixes) == 1 else node.module


def _prefix(name: str) -> str:
    """Of a parameter's name, or of what a parametrization keeps.

    >>> _prefix("head.weight"), _prefix("a.parametrizations.weight.original0"), _prefix("scale")
    ('head', 'a', '')
    """
    path, dot, _ = f".{name}".rpartition(".parametrizations.")
    return (path if dot else f".{name}".rpartition(".")[0]).removeprefix(".")


def short_name(node: Node) -> str:
    """The operation in one word."""
    if isinstance(node.payload, Convolution):
        d = len(node.payload.kernel_size)
        return f"conv{'_transpose' if node.payload.transposed else ''}{d}d"
    if isinstance(node.payload, Dense):
        return "linear"
    if isinstance(node.payload, Scale):
        return "scale"
    if isinstance(node.payload, Activation | Normalization):
        return node.payload.name or "activation"
    if isinstance(node.payload, PowerMean):
        return "power_mean"
    if isinstance(node.payload, ResponseNorm):
        return "local_response_norm"
    if isinstance(node.payload, Elementwise | Radial):  # the note has them all
        return node.payload.nodes[-1].op.split(".")[1]
    return node.op.split(".")[1] if node.op.count(".") == 2 else node.op


def weight_shape(node: Node) -> tuple[int, ...] | None:
    """The shape of the kernel, matrix or scale."""
    if isinstance(node.payload, Convolution):
        return tuple(node.payload.weight.shape)
    if isinstance(node.payload, Dense):
        return tuple(node.payload.weight.shape)
    return tuple(node.payload.factor.shape) if isinstance(node.payload, Scale) else None


def input_size(node: Node, sizes: Mapping[str, tuple[tuple[int, ...], ...]]) -> tuple[int, ...] | None:
    """Spatial sizes, or all but the batch of flat data: what the module's hook saw, else what the operation reads."""
    if isinstance(node.payload, Convolution):
        seen = sizes.get(node.module, ())
        d = len(node.payload.input_size)
        if len(seen) == 1 and len(seen[0]) == d + 2 and seen[0][1] == node.payload.channels[0]:
            return seen[0][2:]
        return node.payload.input_size
    shape = node.refs[0].info.shape if node.refs else ()
    return shape[2:] if len(shape) > 3 else shape[1:] or None


def details(node: Node) -> str:
    """The geometry of a convolution in short: ``k7 s2 p3``."""
    if not isinstance(node.payload, Convolution):
        return ""
    c = node.payload
    parts = [f"k{_each(c.kernel_size)}"]
    if set(c.stride) != {1}:
        parts.append(f"s{_each(c.stride)}")
    if any(any(p) for p in c.padding):
        sides = tuple(f"{a}" if a == b else f"{a}/{b}" for a, b in c.padding)
        parts.append(f"p{_each(sides)}")
    if set(c.dilation) != {1}:
        parts.append(f"d{_each(c.dilation)}")
    if c.groups > 1:
        parts.append(f"g{c.groups}")
    if c.padding_mode != "zeros":
        parts.append(c.padding_mode)
    return " ".join(parts)


def _each(values: tuple[object, ...]) -> str:
    return str(values[0]) if len(set(values)) == 1 else "x".join(map(str, values))
