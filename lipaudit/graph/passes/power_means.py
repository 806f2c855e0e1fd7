"""Recognition of norms and means of powers written out: sqrt(sum x^2), sqrt(re^2 + im^2 + eps), l2 and Lp pooling, GeM.

All are (A |u|^p + e)^(1/p), taken entry by entry, with p >= 2, numbers e >= 0 and a matrix A of non-negative numbers: sums, means,
average pooling, convolutions with non-negative weights, filter banks. Row j is a weighted p-norm of (u, e^(1/p)), so that by the
reverse triangle inequality (Minkowski)

    |y_j(u) - y_j(v)|^2 <= (sum_i A_ji |u_i - v_i|^p)^(2/p) <= sum_i A_ji^(2/p) |u_i - v_i|^2,

the second step because 2/p <= 1. The constant is the root of max_i sum_j A_ji^(2/p), attained for e = 0 along the axis of that i. For
p = 2 these are the column sums of A. Larger p are taken where all non-zero entries of A are one number a: then A_ji^(2/p) =
A_ji a^(2/p - 1). A maximum with a number between the steps, as of a clamp, changes nothing of the first inequality.

Where u is a selection of entries of one tensor (real and imaginary parts, channels), the matrix is taken with respect to that tensor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

import torch

from lipaudit.graph.evaluate import Value, evaluate, evaluate_together
from lipaudit.graph.functions.normal_form import number
from lipaudit.graph.node import Argument, Constant, Graph, Node, Ref
from lipaudit.graph.ops import CASTS, VIEWS
from lipaudit.graph.rewrite import Replacement, Steps, substitute
from lipaudit.spectral.bracket import Bracket, Rigor, log_up

POWER_MEAN = "lipaudit.power_mean"
_MAX_OPERATIONS = 32
_MAX_ENTRIES = 2**26
# Column sums are computed with at most about 2^20 terms each, in float64.
_ROUNDING = 2.0**-30
# |log| of the smallest and of the largest number of float32: where exponents are reciprocal up to rounding, p q = 1 + d, the mean is
# one of these powers of itself steeper
_LOG_RANGE = 104.0
_RECIPROCAL = 1e-6


@dataclass(frozen=True, eq=False)
class PowerMean:
    """``factors`` bound the slope in each operand, jointly the root of the sum of squares; ``nodes`` compute the mean from ``sources``."""

    order: float
    factors: tuple[Bracket, ...]
    sources: tuple[str, ...]
    nodes: tuple[Node, ...]

    def evaluate(self, *tensors: torch.Tensor) -> torch.Tensor:
        """The mean, in the dtype of its operands."""
        return evaluate_together(self.nodes, dict(zip(self.sources, tensors, strict=True)))


def recognise_power_means(graph: Graph) -> Graph:
    """Replace norms and means of powers by one operation each."""
    graph = _hypot_of_selections(graph)
    producers = {n.name: n for n in graph}
    position = {n.name: i for i, n in enumerate(graph)}
    replacements: dict[str, Replacement] = {}
    for node in graph:
        order = _root(node)
        if order is None or not node.output.dtype.is_floating_point:
            continue
        trace = _Trace(producers, order[0])
        if not trace.reads(node["self"]) or not trace.leaves:
            continue
        found = _power_mean(node, trace, position, order)
        if found is not None:
            sources = [Ref(name, producers[name].output) for name in found.sources]
            arguments: dict[str, Argument] = {"tensors": tuple(sources)}
            new = replace(node, op=POWER_MEAN, arguments=arguments, payload=found)
            replacements[node.name] = Replacement((new,), 0, tuple(n.name for n in found.nodes[:-1]))
    return substitute(graph, replacements) if replacements else graph


def _hypot_of_selections(graph: Graph) -> Graph:
    """hypot written out where both operands are selections of one tensor: together they may hold an entry once, not twice."""
    producers = {n.name: n for n in graph}
    replacements: dict[str, Replacement] = {}
    for node in graph:
        if (
            node.op != "aten.hypot.default"
            or len({_origin(ref.name, producers) for ref in node.refs}) != 1
            or len(node.refs) < 2
        ):
            continue
        steps, shapes = Steps(graph, node), [ref.info.shape for ref in node.refs]
        squares = [
            steps.add(f"square_{key}", "aten.square.default", {"self": node[key]}, shape)
            for key, shape in zip(("self", "other"), shapes, strict=True)
        ]
        total = steps.add(
            "sum", "aten.add.Tensor", {"self": squares[0], "other": squares[1], "alpha": 1}, node.output.shape
        )
        steps.add("root", "aten.sqrt.default", {"self": total}, node.output.shape)
        replacements[node.name] = steps.replacement("aten.sqrt.default")
    return substitute(graph, replacements) if replacements else graph


def _origin(name: str, producers: Mapping[str, Node]) -> str:
    """The tensor that a node holds a selection of entries of."""
    while _is_move(producers[name], producers):
        name = producers[name].refs[0].name
    return name


def _root(node: Node) -> tuple[Fraction, Fraction] | None:
    """p >= 2 of a p-th root, and the exponent; None for any other operation."""
    if node.op == "aten.sqrt.default":
        return Fraction(2), Fraction(1, 2)
    exponent = number(node["exponent"]) if node.op in _POWERS else None
    return (
        (1 / exponent, exponent)
        if exponent is not None and 0 < exponent <= Fraction(1, 2) + Fraction(1, 10**6)
        else None
    )


def _near(p: Fraction, q: Fraction) -> bool:
    return abs(p / q - 1) <= _RECIPROCAL


@dataclass
class _Trace:
    """What a root is taken of, followed back to powers of tensors."""

    producers: Mapping[str, Node]
    order: Fraction
    nodes: dict[str, Node] = field(default_factory=dict)
    leaves: dict[str, Ref] = field(default_factory=dict)  # nodes that raise to the power, and what they raise
    passed: dict[str, Ref] = field(
        default_factory=dict
    )  # nodes that change nothing of the inequality, and what they pass on
    powers: set[Fraction] = field(default_factory=set)

    def reads(self, argument: Argument) -> bool:
        """Whether a term is A |u|^p + e."""
        if not isinstance(argument, Ref):
            return False
        node = self.producers[argument.name]
        if node.name in self.nodes:
            return True
        if len(self.nodes) >= _MAX_OPERATIONS or len(node.outputs) != 1 or not node.output.dtype.is_floating_point:
            return False
        self.nodes[node.name] = node
        if (leaf := self._power(node)) is not None:
            self.leaves[node.name] = leaf
            return True
        if (inner := _passed(node, self.producers)) is not None:
            self._pass(node, inner)
            return self.reads(inner)
        return _keeps_signs(node) and bool(node.refs) and all(self.reads(ref) for ref in node.refs)

    def _pass(self, node: Node, inner: Ref) -> None:
        """Note that a node, and what it computes from ``inner``, changes nothing of the inequality."""
        self.nodes[node.name], self.passed[node.name] = node, inner
        for ref in node.refs:
            if ref != inner:
                self._pass(self.producers[ref.name], inner)

    def _same(self, a: Argument, b: Argument) -> bool:
        """Whether two operands are one tensor, or the same selection of one."""
        if not isinstance(a, Ref) or not isinstance(b, Ref) or a == b:
            return isinstance(a, Ref) and a == b
        left, right = self.producers[a.name], self.producers[b.name]
        if left.op != right.op or not _is_move(left, self.producers) or left.arguments.keys() != right.arguments.keys():
            return False
        return all(
            self._same(left[key], right[key]) if isinstance(left[key], Ref) else left[key] == right[key]
            for key in left.arguments
        )

    def _power(self, node: Node) -> Ref | None:
        """u of a node |u|^p."""
        base = node.get("self")
        if node.op == "aten.square.default":
            exponent: Fraction | None = Fraction(2)
        elif node.op == "aten.mul.Tensor" and self._same(base, node["other"]):
            exponent = Fraction(2)
        else:
            exponent = number(node["exponent"]) if node.op in _POWERS else None
        if exponent is None or not isinstance(base, Ref) or not _near(exponent, self.order):
            return None
        even = exponent.denominator == 1 and exponent.numerator % 2 == 0
        if not even and not _not_negative(self.producers[base.name]):
            return None
        self.powers.add(exponent)
        return base


def _power_mean(
    node: Node, trace: _Trace, position: Mapping[str, int], order: tuple[Fraction, Fraction]
) -> PowerMean | None:
    if len(trace.powers) != 1:
        return None
    (power,) = trace.powers
    sources, moves = _sources(trace)
    mixing = {*moves, *(n.name for n in trace.nodes.values() if n.op not in _ENTRYWISE)} - {
        *trace.leaves,
        *trace.passed,
    }
    if len(sources) == 1 and not mixing:
        return None  # a function of one entry, which is more than a norm
    chain = sorted({**trace.nodes, **moves}.values(), key=lambda n: position[n.name])
    tops = _column_sums(chain, trace, sources)
    if tops is None:
        return None
    entry = _uniform(chain, trace)
    if entry is None and power != 2:
        return None
    error = abs(power * order[1] - 1)
    slack = math.exp(float(error) * _LOG_RANGE) * (1 + float(error))
    factors = tuple(_factor(top, entry, power, slack, Rigor.NUMERICAL if error else Rigor.CERTIFIED) for top in tops)
    return PowerMean(float(power), factors, tuple(sources), (*chain, node))


def _factor(top: float, entry: Fraction | None, power: Fraction, slack: float, rigor: Rigor) -> Bracket:
    """The root of a largest column sum of A_ji^(2/p)."""
    if entry is None:
        return Bracket(-math.inf, log_up(math.sqrt(top) * (1 + _ROUNDING) * slack), rigor)
    count = round(top / float(entry))  # how many entries of a column are not 0
    if power == 2:
        root = math.sqrt(float(count * entry))
        if slack == 1 and Fraction(root) ** 2 == count * entry:
            return Bracket.exact(root, rigor)
    else:
        root = math.sqrt(count) * float(entry) ** (1 / float(power))
    return Bracket(-math.inf, log_up(root * (1 + 2.0**-45) * slack), rigor)


def _sources(trace: _Trace) -> tuple[list[str], dict[str, Node]]:
    """The tensors whose entries are raised to the power, and the selections of entries between them and the powers."""
    moves: dict[str, Node] = {}
    found = dict[str, None]()
    for name in [ref.name for leaf in trace.leaves for ref in trace.producers[leaf].refs]:
        while _is_move(node := trace.producers[name], trace.producers):
            moves[name] = node
            name = node.refs[0].name
        found[name] = None
    return list(found), moves


def _is_move(node: Node, producers: Mapping[str, Node]) -> bool:
    """Whether a node, or one output of one, holds entries of its only operand."""
    if node.op == "getitem":
        return producers[node.refs[0].name].op in _SPLITS
    return (node.op in _MOVES or node.op in _SPLITS) and len(node.refs) == 1


def _column_sums(chain: list[Node], trace: _Trace, sources: list[str]) -> list[float] | None:
    """max_i sum_j A_ji for the entries of each source.

    The matrix is run on ones, powers and what changes nothing left out, and its adjoint on ones.
    """
    ends = trace.producers[chain[-1].name]
    shapes = [trace.producers[name].output.shape for name in sources]
    if any(math.prod(shape) > _MAX_ENTRIES for shape in shapes) or any(
        len(trace.producers[n].outputs) != 1 for n in sources
    ):
        return None
    if any(_is_meta(node) for node in chain):
        return None
    with torch.enable_grad():
        ones = [torch.ones(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
        values: dict[str, Value] = dict(zip(sources, ones, strict=True))
        for node in chain:
            through = trace.leaves.get(node.name) or trace.passed.get(node.name)
            values[node.name] = values[through.name] if through is not None else evaluate(node, values, torch.float64)
        last = values[ends.name]
        if not isinstance(last, torch.Tensor):
            return None
        sums = torch.autograd.grad(last.sum(), ones)
    if any(not bool(torch.isfinite(c).all()) or c.numel() == 0 for c in sums):
        return None
    return [float(c.max()) for c in sums]


def _uniform(chain: list[Node], trace: _Trace) -> Fraction | None:
    """The number that all entries of A other than 0 are; None where they may differ.

    A sum of powers of two tensors may hold an entry twice: it counts as two entries, which bounds 2^(2/p) by 2.
    """
    entry, reduced = Fraction(1), False
    for node in chain:
        if node.name in trace.leaves or node.name in trace.passed or node.op in _MOVES | VIEWS | CASTS | _SPLITS:
            continue
        if node.op == "getitem":
            continue
        if len(node.refs) == 2 and node.op == "aten.add.Tensor" and entry == 1 and not reduced and node["alpha"] == 1:
            continue
        c = _scale(node)
        if c is None:
            share = _share(node)
            if share is None or reduced:
                return None
            c, reduced = share, True
        entry *= c
    return entry


def _scale(node: Node) -> Fraction | None:
    """The factor of a multiplication by a number, 1 for an addition of one."""
    if len(node.refs) != 1:
        return None
    if node.op.startswith("aten.add"):
        return Fraction(1)
    if node.op.split(".")[1] not in ("mul", "div"):
        return None
    c = number(node["other"] if isinstance(node["self"], Ref) else node["self"])
    if not c:
        return None
    return c if node.op.startswith("aten.mul") else 1 / c


def _share(node: Node) -> Fraction | None:
    """The weight of every entry in a sum or a mean over disjoint or overlapping windows of one size."""
    size = math.prod(node.refs[0].info.shape) // max(1, math.prod(node.output.shape))
    name = node.op.split(".")[1]
    if name == "sum":
        return Fraction(1)
    if name == "mean":
        return Fraction(1, size)
    if name.startswith("avg_pool") and node["ceil_mode"] is False and node.get("divisor_override") is None:
        window, padding = node["kernel_size"], node["padding"]
        d = int(name[len("avg_pool")])
        sizes = window if isinstance(window, tuple) else (window,)
        padded = padding if isinstance(padding, tuple) else (padding,)
        if node["count_include_pad"] is not True and any(padded):
            return None
        return Fraction(1, math.prod(s for s in (sizes * d if len(sizes) == 1 else sizes) if isinstance(s, int)))
    if name.startswith("adaptive_avg_pool"):
        pairs = zip(node.refs[0].info.shape, node.output.shape, strict=True)
        return Fraction(1, size) if all(before % after == 0 for before, after in pairs) else None
    return None


def _passed(node: Node, producers: Mapping[str, Node]) -> Ref | None:
    """What an operation passes on, as far as the inequality goes: a maximum with a number, |u| of what is not negative."""
    inner = node.get("self")
    if not isinstance(inner, Ref):
        return None
    if node.op in ("aten.relu.default", "aten.abs.default", "aten.positive.default"):
        return inner
    if node.op in ("aten.clamp.default", "aten.clamp_min.default") and node.get("max") is None:
        limit = number(node["min"])
        return inner if limit is not None and limit >= 0 else None
    if node.op == "aten.mul.Tensor" and isinstance(node["other"], Ref):  # sign(u) relu(|u|), as Lp pooling has it
        for sign, size in ((inner, node["other"]), (node["other"], inner)):
            signed = producers[sign.name]
            other = size
            while producers[other.name].op in ("aten.relu.default", "aten.abs.default"):
                other = producers[other.name].refs[0]
            if signed.op == "aten.sign.default" and signed.refs[0] == other and other != size:
                return other
    return None


def _keeps_signs(node: Node) -> bool:
    """Whether an operation is linear with non-negative weights in its data-dependent operands, up to a non-negative shift."""
    if node.op in _LINEAR or node.op in _MOVES or node.op in VIEWS or node.op in CASTS:
        return True
    constants = [
        v
        for k, v in node.arguments.items()
        if k in ("self", "other", "weight", "bias", "mat2") and not isinstance(v, Ref)
    ]
    if node.op in _WEIGHTED:
        refs = {k for k, v in node.arguments.items() if isinstance(v, Ref)}
        fits = len(node.refs) == 1 or node.op.startswith("aten.add")
        divides = node.op.startswith("aten.div") and (not refs <= {"self"} or node.get("rounding_mode") is not None)
        alpha = number(node.get("alpha", 1))
        return fits and not divides and alpha is not None and alpha > 0 and all(_is_not_negative(c) for c in constants)
    return False


def _is_not_negative(argument: Argument) -> bool:
    if argument is None:
        return True
    if isinstance(argument, Constant):
        value = argument.value
        return (
            not value.is_meta
            and not value.is_complex()
            and bool((value >= 0).all())
            and bool(torch.isfinite(value).all())
        )
    return isinstance(argument, int | float) and 0 <= argument < math.inf


def _not_negative(node: Node) -> bool:
    """Whether no entry of an output can be negative."""
    if node.op in ("aten.clamp.default", "aten.clamp_min.default"):
        low, high = node["min"], node.get("max")
        return _is_not_negative(low) and low is not None and (high is None or _is_not_negative(high))
    return node.op in _NOT_NEGATIVE


def _is_meta(node: Node) -> bool:
    return any(isinstance(a, Constant) and a.value.is_meta for a in node.arguments.values())


_NOT_NEGATIVE = {
    f"aten.{name}"
    for name in (
        "relu.default", "relu6.default", "abs.default", "sigmoid.default", "softplus.default", "exp.default",
        "square.default", "hardsigmoid.default", "softmax.int",
    )
}  # fmt: skip
_POWERS = {"aten.pow.Tensor_Scalar", "aten.pow.Tensor_Tensor"}
_MOVES = {
    f"aten.{name}"
    for name in (
        "select.int", "slice.Tensor", "permute.default", "transpose.int", "t.default", "flip.default", "movedim.int",
        "index_select.default", "unfold.default", "expand.default", "repeat.default",
    )
} | VIEWS  # fmt: skip
_LINEAR = {
    "aten.sum.default", "aten.sum.dim_IntList", "aten.mean.default", "aten.mean.dim",
    *(f"aten.avg_pool{d}d.default" for d in (1, 2, 3)), *(f"aten.adaptive_avg_pool{d}d.default" for d in (1, 2, 3)),
}  # fmt: skip
_ENTRYWISE = {f"aten.{name}.{kind}" for name in ("add", "mul", "div") for kind in ("Tensor", "Scalar")} | CASTS
_WEIGHTED = {
    *(f"aten.{name}.{kind}" for name in ("add", "mul", "div") for kind in ("Tensor", "Scalar")),
    "aten.linear.default", "aten.matmul.default", "aten.mm.default",
    *(f"aten.conv{d}d.default" for d in (1, 2, 3)),
}  # fmt: skip
_SPLITS = {
    "aten.chunk.default", "aten.split.Tensor", "aten.split.sizes", "aten.split_with_sizes.default", "aten.unbind.int",
}  # fmt: skip
