"""What the words and figures of a report mean: texts that are the same for every report (``lipaudit explain``)."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from lipaudit.errors import UsageError


@dataclass(frozen=True)
class Topic:
    """One thing explained: its ``name`` on the command line, a ``summary`` of one line, and its ``paragraphs``."""

    name: str
    summary: str
    paragraphs: tuple[str, ...]


_ALL = (
    Topic(
        "bound",
        "what the network's figure says, and what it does not say",
        (
            "The Lipschitz constant of a network f is the largest ratio ||f(x) - f(y)|| / ||x - y|| over all pairs of inputs x, y: "
            "how many times the output changes as much as the input, at worst. lipaudit prints a number that is at least that "
            "constant, an upper bound. With the bound L, two inputs at a distance d have outputs at a distance of at most L d; an "
            "input that moves by less than 1/L moves the output by less than 1. Distances are l2: the root of the sum of the "
            "squared differences.",
            "The bound is a worst case. It is the product of the layers' factors or, where a search finds less, the product of a few "
            "segments' factors (`lipaudit explain product segment`). It is often many powers of ten above what a network does to "
            "real inputs. A large bound therefore does not prove that a network is fragile; a small one proves that it is not. Use "
            "it to compare versions of one model, and to find the layers that make it large. It says nothing about accuracy.",
            "Large figures are printed as powers: 10^4.312 is 10 to the power of 4.312, about 20,500. Upper bounds are rounded up.",
            "Behind the bound stands what it is worth: certified, a theorem with the rounding of the computation inside the bound; "
            "or numerical, a theorem without that rounding (`lipaudit explain rigor`).",
            "--lower-bound searches for two inputs that are really stretched far and measures them: the constant lies between the "
            "two figures.",
        ),
    ),
    Topic(
        "share",
        "how much of the bound is due to a row",
        (
            "The product of layer norms is a product of factors, so it is counted in logarithms. The share of a row is its part of "
            "everything that stretches: the elasticity of the product to the row's factor, times the logarithm of that "
            "factor, over the sum of all positive contributions. Positive shares add up to 100 %, but for the "
            "rounding of each. A row that shrinks has a negative share.",
            "A share of 10 % in a product of 10^20 says: about two of the twenty powers of ten come from this row. Halving the factor "
            "of a row with a weight halves the product where every path leads through the row, and lowers it by less where a path "
            "leads around it.",
            "Shares are of the product of layer norms, also where the printed bound is a smaller one: that one has factors of segments "
            "(`lipaudit explain segment`), and none of single rows. A row with a large share is the first to look at in both.",
            "Some parts of a network are bounded as a whole, because together they stretch less than row by row: steps of gradient descent "
            "(convex-potential layers), sandwich layers and others (`lipaudit explain block`). The rows of a block have the share 0, and "
            "shares divide what the rows outside of blocks stretch: 100 % is all of that, not of the bound.",
            "There are no shares where the network has no finite bound.",
        ),
    ),
    Topic(
        "block",
        "parts of a network that are bounded as a whole",
        (
            "Some operations stretch less together than one by one: steps of gradient descent (convex-potential layers), sandwich "
            "layers, exponentials of skew-symmetric convolutions, centring, parallel lanes. The column block says that a row lies in such "
            "a part, and has the constant of the part, rounded up. That constant counts in the product; the rows have their own factors "
            "and the share 0. A constant of 1 or just above costs nothing.",
            "Where blocks stretch, what costs most lists them together with the rows outside of blocks, in the order of the logarithms "
            "that they add to the bound. Blocks with the same text are named together.",
            "`step, any size`: a gradient step whose convolution pads with zeros, with its norm over all frequencies. That holds for every "
            "image size; on this one the norm is smaller, and the effort did not prove by how much (--effort standard).",
        ),
    ),
    Topic(
        "factor",
        "how far one row stretches, and what groups of rows show",
        (
            "The factor of a row is an upper bound of its own Lipschitz constant: no difference of its inputs is stretched more by "
            "this operation. For a convolution or a dense layer it is the spectral norm of the weight, with the layer's padding, "
            "stride and input size, after the batch norm beside it is folded in. `lipaudit rules` lists the constant of every "
            "operation.",
            "Equal layers of repeated blocks stand in one row, as in layer3.[1-5].conv1 ×5: the largest of their factors (max), and "
            "the sum of their shares. --all lists every row. With --depth N a row is everything below a module path; it shows the "
            "product of the factors where the layers follow each other without a branch, and the largest factor (max) elsewhere, "
            "because a product would be no bound of a part with branches.",
        ),
    ),
    Topic(
        "tolerance",
        "how closely norms are found (--tol), and the columns lower, upper, tightness",
        (
            "The tolerance says how closely the norm of a matrix, or a convolution's maximum over frequencies, is found: 0.001 "
            "leaves at most 0.1 % between what is found and the true maximum. The figure is an upper bound whatever the tolerance.",
            "The columns lower and upper are two bounds of a row's true constant, one from each side, and tightness is upper over "
            "lower. For zero-padded convolutions it contains the effect of the border, which a smaller tolerance does not remove. "
            "Rows without a lower bound (layer norms, activations, products) have no tightness. Published methods (--method) have "
            "no lower bounds for weights.",
            "The column note says how a figure was found. `grid 17x17`: the maximum over that many frequencies, a bound for inputs "
            "of this size. `torus`: the supremum over all frequencies, a bound for inputs of any size. `flat spectrum`: it hardly "
            "varies with the frequency; the bound keeps a safety factor and may miss the tolerance. `matrix`, `explicit matrix`: "
            "the norm of one dense matrix. `reshaped kernel`: a very large kernel taken as one matrix, times the root of how often "
            "a pixel is read: true, but loose.",
        ),
    ),
    Topic(
        "rigor",
        "certified, numerical, estimate: what stands behind a figure",
        (
            "certified: a theorem, and the rounding errors of the computation are inside the bound.",
            "numerical: a theorem, but the floating-point rounding of the computation is not accounted for. Products of signals "
            "(gating, attention) are numerical: they stretch by as much as the signals are large, and how large follows from their "
            "values at one input, computed in float64, and a radius around them. So are weights that the network computes itself, as "
            "parametrisations do, some functions that are written out, and bounds on balls, which rest on values at the centre.",
            "estimate: no theorem says that the figure is a bound. Only published methods (--method) give estimates. They are "
            "marked by ~, pass no gate, and a network with one estimate inside is an estimate.",
            "A network has the weakest rigor among its rows. The bounds are those of the real-arithmetic function that the stored "
            "weights define.",
        ),
    ),
    Topic(
        "domain",
        "over which inputs a bound holds (--domain)",
        (
            "global: all inputs. pixels: images whose pixels lie in [0, 1] before the network's normalisation (--mean, --std). "
            "ball: all inputs within a radius of one input (--around, --radius).",
            "A product of two signals that both depend on the input, as in gating and attention, has no finite constant over all "
            "inputs: it grows with the signals. On a bounded domain the signals are bounded, and such a network may have a bound.",
            "Distances of pixels and of normalised inputs differ. Where the report has a figure in pixels, it is for distances "
            "before the normalisation.",
        ),
    ),
    Topic(
        "status",
        "finite, unbounded, unsupported",
        (
            "finite: there is a bound. unbounded: no finite constant exists for the operation over these inputs, or none is known "
            "(a product of two signals, a jump such as rounding). unsupported: lipaudit has no rule for the operation, and claims "
            "nothing.",
            "One unbounded or unsupported operation between input and output leaves the network without a bound. Nothing is guessed "
            "or counted as 1. The figures of the other rows hold.",
            "What helps: another domain (`lipaudit explain domain`), operations that have a rule (`lipaudit rules`), an audit of "
            "the part of the network before the operation. --strict ends with exit code 4 where something is missing.",
        ),
    ),
    Topic(
        "stretch",
        "the largest stretch found (--lower-bound)",
        (
            "--lower-bound searches for two inputs between which the network stretches much, starting at random inputs and "
            "following the gradient. What is printed is measured: the quotient of the two distances, with the rounding of the "
            "computation subtracted. The true Lipschitz constant is at least that. --save-pair FILE.npz keeps the two inputs.",
            "It is no upper bound: a longer search, or another --seed, may find more. Between the largest stretch found and the "
            "bound lies what nobody knows.",
        ),
    ),
    Topic(
        "product",
        "the product of layer norms, and bounds below it",
        (
            "The product rule multiplies the factors along every path and adds where branches meet: a residual block x + F(x) has "
            "the factor 1 + Lip F. It needs nothing but the layers' own factors and ignores that no input meets the worst case of "
            "all layers at once.",
            "Where lipaudit has a smaller bound of the whole network, it prints that one, and the product of layer norms below it "
            "for comparison with figures from elsewhere.",
        ),
    ),
    Topic(
        "segment",
        "the parts of the network whose factors make up a bound below the product",
        (
            "The search for a tighter bound (--effort) cuts the network where a single tensor is alive. Between two cuts lies a "
            "segment: one or several layers, or a whole residual block. The bound is the product of the segments' factors; -v lists "
            "them, and `network.bounds` of the JSON keeps them.",
            "The factor of a segment says how far it stretches between two lengths, one at each cut, that weigh every channel by a "
            "positive number which the search chose. At the network's input and output the length is l2. So a single factor is no "
            "Lipschitz constant of its part, and may be above the product of norms of the same part, which stands beside it; their "
            "product is the bound.",
            "The form of a segment says how it was bounded: on all entries of its tensors, frequency by frequency (convolutions on large "
            "images), or by the constants of its layers multiplied, where nothing else fits into the effort.",
        ),
    ),
    Topic(
        "compare",
        "the columns and marks of `lipaudit compare`",
        (
            "lower, upper: certified bounds of each layer's true norm with its own padding, stride and input size (--tol); seconds "
            "under bounds: the time that they took. Every method has a column beside them.",
            "~ marks an estimate. A figure without it is an upper bound by the method's theorem, up to rounding; what gram gives "
            "for a layer is certified, rounding included. A bound may lie far above the norm, above all at strides, which most "
            "methods ignore. Bounds are rounded up, estimates to the nearest.",
            "! marks a figure below the certified lower bound: it is provably no upper bound of that layer. A power iteration comes "
            "from below and may not have arrived, a figure for circular padding does not cover zero padding, and for the norm of a "
            "reshaped kernel alone there is no theorem. An estimate without ! is no bound either; it is just not refuted.",
            "< marks a figure that is below it by less than a millionth: no bound either, but only not converged to the last "
            "digits. below: how many figures have either mark; by <1e-6: how many of these have <; worst: how far below, at most.",
            "network: the whole network over all inputs, propagated from the method's figures, with the weakest rigor among its "
            "parts; seconds: of all its norms.",
        ),
    ),
    Topic(
        "diff",
        "the verdicts of `lipaudit diff`",
        (
            "Every row has a bracket, from its lower to its upper bound. grew and shrank are proven: the brackets before and after "
            "have no point in common. within brackets: they overlap, so that the tolerance of the audits can explain the "
            "difference; a smaller --tol tells smaller moves apart.",
            "A larger upper bound of the network does not prove that it stretches more; less is guaranteed than before.",
            "What a row does to the network is known to first order: its elasticity times the logarithm of its factor.",
        ),
    ),
)
TOPICS = {topic.name: topic for topic in _ALL}
# words on the screen that are explained under another topic
ALIASES = {
    **dict.fromkeys(("certified", "numerical", "estimate"), "rigor"),
    **dict.fromkeys(("group", "max"), "factor"),
    "blocks": "block",
    **dict.fromkeys(("segments", "effort", "forms"), "segment"),
    **dict.fromkeys(("lower", "upper", "tightness"), "tolerance"),
    **dict.fromkeys(("finite", "unbounded", "unsupported"), "status"),
}


def find_topic(name: str) -> Topic:
    """The topic of this name; a :class:`~lipaudit.errors.UsageError` lists those that there are.

    >>> find_topic("share").summary
    'how much of the bound is due to a row'
    >>> find_topic("certified").name
    'rigor'
    """
    if name in TOPICS or name in ALIASES:
        return TOPICS[ALIASES.get(name, name)]
    close = get_close_matches(name, [*TOPICS, *ALIASES], 1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise UsageError(f"There is no topic {name!r}; choose from {', '.join(TOPICS)}{hint}")
