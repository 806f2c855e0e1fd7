"""Networks whose product of constants no form can lower."""

from __future__ import annotations

from lipaudit.graph.ops import FLIPS, IDENTITIES, PERMUTATIONS, VIEWS
from lipaudit.network.forms.steps import Linear, Program, Slopes, Step
from lipaudit.network.propagate import Propagation

_ISOMETRIES = VIEWS | IDENTITIES | PERMUTATIONS | FLIPS
# Gains below this (of log L) are not searched for: it is what a norm that is known to the default tolerance may be off by.
_NOTHING = 1e-3


def is_attained(program: Program, propagation: Propagation) -> bool:
    """Whether the product of the constants is at most a thousandth above what forms could prove.

    So it is for a chain of one matrix or convolution A, element-wise functions with slopes in [a_i, b_i] and operations that
    only move entries. The constraints allow z = s v for any slope s that is the same for all entries, so that every choice of multipliers
    proves at least |A| prod_i max(|a_i|, |b_i|), where the product of the constants has an upper bound of |A| in the place of |A|.

    Args:
        program: the steps.
        propagation: the constants of all operations.
    """
    sources = [program.inputs, *[(step.output,) for step in program.steps]]
    if len(program.inputs) != 1 or program.outputs != sources[-1]:
        return False
    if any(step.sources != before for step, before in zip(program.steps, sources, strict=False)):
        return False
    maps = [step for step in program.steps if not _keeps_direction(step)]
    if any(not isinstance(step, Linear) for step in maps) or len(maps) > 1:
        return False
    constants = [propagation.effects[step.node.name].constant for step in maps]
    return all(constant.log_upper - constant.log_lower <= _NOTHING for constant in constants)


def _keeps_direction(step: Step) -> bool:
    """Whether the step only moves entries, or allows one and the same slope for all of them that is as large as its constant."""
    if isinstance(step, Linear):
        return step.node.op in _ISOMETRIES and step.output.size == step.sources[0].size
    return isinstance(step, Slopes) and isinstance(step.low, float)
