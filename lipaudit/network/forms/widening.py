"""Networks of few inputs, searched with more: the first matrix A becomes [A, e |A| I].

With few inputs the forms of all layers behind are nearly singular at the best multipliers: the search ends at the edge of the feasible set,
on a slope that leads out of it. Inputs that reach every unit of the first layer keep it inside. The wider network contains the network,
z = (x, 0), so that its bounds are bounds of it, with the same multipliers; as e falls to 0 its best ones become those of the network.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from lipaudit.graph.linear import DENSE, Dense
from lipaudit.network.forms.chain import Chain
from lipaudit.network.forms.segment import Segment
from lipaudit.network.forms.spaces import DenseSpace
from lipaudit.network.forms.steps import Linear, Program, Tensor

# With more inputs a search rarely ends at the edge for want of them.
_FEW = 4


def widened(chain: Chain, amount: float) -> Chain | None:
    """The chain of the wider network, whose unknowns are those of the chain, in the same order; None where there is none.

    Args:
        chain: one with a single segment on all entries, whose only input has few entries and is read by one matrix with more rows.
        amount: e.
    """
    (part, *others) = chain.parts
    if others or not isinstance(part, Segment) or not isinstance(part.space, DenseSpace):
        return None
    program = part.program
    readers = [step for step in program.steps if set(step.sources) & set(program.inputs)]
    if len(program.inputs) != 1 or len(readers) != 1 or program.inputs[0] in program.outputs:
        return None
    (reader,), (source,) = readers, program.inputs
    if not isinstance(reader, Linear) or reader.node.op != DENSE or reader.part is not None:
        return None
    weight = reader.node.payload.weight.to(torch.float64)
    rows, columns = weight.shape
    if columns > min(_FEW, rows - 1) or math.prod(source.shape[:-1]) != 1:
        return None
    size = float(torch.linalg.matrix_norm(weight, 2))
    wide = Dense(torch.cat([weight, amount * size * torch.eye(rows, dtype=torch.float64)], 1))
    inputs = Tensor(source.name, (*source.shape[:-1], columns + rows))
    first = replace(reader, sources=(inputs,), node=replace(reader.node, payload=wide))
    steps = tuple(first if step is reader else step for step in program.steps)
    return Chain([Segment(Program((inputs,), program.outputs, steps, program.numerical), DenseSpace())])
