"""Families of ATen operations, named once: which names mean the same operation, and which operations are of one kind.

Networks and exporters spell one operation in many ways (``flipud`` is ``flip`` of the first axis, ``squeeze`` and ``flatten`` are
``reshape``). :data:`ALIASES` maps every such spelling to its canonical name; :func:`lipaudit.graph.aliases.canonical` translates the
arguments. Rules are registered under canonical names only, so that a spelling cannot have other facets than its operation.
"""

from __future__ import annotations


def aten(*names: str) -> tuple[str, ...]:
    """Names of ATen overloads in full, the overload ``default`` where none is given.

    >>> aten("relu", "clamp.Tensor")
    ('aten.relu.default', 'aten.clamp.Tensor')
    """
    return tuple(f"aten.{name}" if "." in name else f"aten.{name}.default" for name in names)


def _family(canonical: str, *aliases: str) -> frozenset[str]:
    names = aten(canonical, *aliases)
    ALIASES.update(dict.fromkeys(names[1:], names[0]))
    return frozenset(names)


ALIASES: dict[str, str] = {}
"""Every spelling of an operation, and the name under which the rules know it."""

# The same entries in the same order, in another shape; what gives the shape of another tensor reads nothing else of it.
VIEWS = _family(
    "reshape", "view", "_unsafe_view", "_reshape_alias", "view_copy", "view_as", "reshape_as", "flatten.using_ints", "unflatten.int",
    "ravel", "squeeze", "squeeze.dim", "squeeze.dims", "unsqueeze", "atleast_1d",
)  # fmt: skip
IDENTITIES = _family("clone", "alias", "contiguous", "detach", "detach_", "lift_fresh", "lift_fresh_copy")
CASTS = _family("_to_copy", "to.dtype", "to.dtype_layout", "to.device", "to.other", "type_as")
# The axes in another order.
PERMUTATIONS = _family(
    "permute", "transpose.int", "swapaxes", "swapdims", "t", "mT", "numpy_T", "movedim.int", "movedim.intlist", "moveaxis.int",
    "moveaxis.intlist",
)  # fmt: skip
FLIPS = _family("flip", "fliplr", "flipud")
SLICES = _family("slice.Tensor", "narrow")
SPLITS = _family(
    "split_with_sizes", "split.Tensor", "split.sizes", "unsafe_split.Tensor", "unsafe_split_with_sizes", "chunk", "unsafe_chunk",
    "tensor_split.sections", "tensor_split.indices",
)  # fmt: skip
EXPANSIONS = _family("expand", "expand_as", "broadcast_to")
REPETITIONS = _family("repeat", "tile")
CONCATENATIONS = _family("cat", "concat", "concatenate")
MOVEMENT = (
    VIEWS | IDENTITIES | CASTS | PERMUTATIONS | FLIPS | SLICES | SPLITS | EXPANSIONS | REPETITIONS | CONCATENATIONS
)
"""Families that only move data."""
COMPARISONS = frozenset().union(
    *(
        _family(f"{short}.{kind}", f"{long}.{kind}")
        for short, long in (
            ("lt", "less"),
            ("le", "less_equal"),
            ("gt", "greater"),
            ("ge", "greater_equal"),
            ("ne", "not_equal"),
        )
        for kind in ("Tensor", "Scalar")
    )
)
"""A comparison and its long name."""
RESPELLED = MOVEMENT | COMPARISONS
"""Families of which a graph has one spelling each once it is recognised."""

SOFTMAX = _family("softmax.int", "_softmax")
LOG_SOFTMAX = _family("log_softmax.int", "_log_softmax")
# min(max(x, low), high) with numbers for limits
CLAMPS = _family("clamp", "clamp_min", "clamp_max", "hardtanh", "relu6")
PRELU = _family("prelu", "_prelu_kernel")
MAXIMA = _family("maximum", "max.other", "fmax")
MINIMA = _family("minimum", "min.other", "fmin")
ADAPTIVE_AVERAGES = _family("adaptive_avg_pool2d", "_adaptive_avg_pool2d") | _family(
    "adaptive_avg_pool3d", "_adaptive_avg_pool3d"
)
# A number for an operand is a tensor without axes.
SUMS = _family("add.Tensor", "add.Scalar") | _family("sub.Tensor", "sub.Scalar") | _family("rsub.Tensor", "rsub.Scalar")
PRODUCTS = _family("mul.Tensor", "mul.Scalar")
QUOTIENTS = _family("div.Tensor", "div.Scalar") | _family("div.Tensor_mode", "div.Scalar_mode")
CHOICES = _family("where.self", "where.ScalarOther", "where.ScalarSelf") | _family(
    "masked_fill.Tensor", "masked_fill.Scalar"
)

PADDINGS = frozenset(aten("pad", "constant_pad_nd"))
# The identity in eval mode.
DROPOUTS = frozenset(aten("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout", "native_dropout"))
