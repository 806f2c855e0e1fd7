"""The constant that the product rule gives a part of a network."""

from __future__ import annotations

import math
from collections.abc import Mapping

from lipaudit.network.forms.steps import Bounded, Program
from lipaudit.network.propagate import Propagation, Value, by_shortcut, combine, join_outputs, smaller
from lipaudit.rules.effect import Status


def log_constant(program: Program, propagation: Propagation) -> float:
    """log of the constant that the product rule gives a part of a network with one input, for all of its outputs together."""
    values: dict[str, Value] = {t.name: Value(Status.FINITE, 0.0) for t in program.inputs}
    for step in program.steps:
        node = step.node
        shortcut = propagation.shortcuts.get(node.name)
        if shortcut is not None and isinstance(step, Bounded) and shortcut.source == step.sources[0].name:
            values[step.output.name] = by_shortcut(shortcut, values)  # what lies between is no step
            continue
        read: Mapping[str, Value] = {
            ref.name: values.get(ref.name, Value(Status.FINITE, -math.inf)) for ref in node.refs
        }
        values[step.output.name] = combine(propagation.effects[node.name], node, read)
        if shortcut is not None and shortcut.source in values:
            values[step.output.name] = smaller(values[step.output.name], by_shortcut(shortcut, values))
    return join_outputs([values[t.name] for t in program.outputs]).log_upper
