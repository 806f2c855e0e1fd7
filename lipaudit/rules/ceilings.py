"""Regions that hold the output of a normalisation whatever its input is.

A normalised slice of D entries has a norm of at most sqrt(D) (mean square 1) or at most 1 (l2), around the centre 0.
"""

from __future__ import annotations

import math

from lipaudit.graph.node import Node
from lipaudit.rules.magnitudes import Magnitude, Region, ceiling
from lipaudit.rules.operands import root
from lipaudit.rules.radii import Radii
from lipaudit.spectral.bracket import Bracket


@ceiling("lipaudit.normalization")
def normalized(node: Node, _operands: tuple[Magnitude, ...]) -> Region:
    """z / sqrt(mean(z^2) + eps) has a norm of at most sqrt(D), z / max(||z||, eps) and z / (||z|| + eps) of at most 1."""
    shape, axes = node.output.shape, node.payload.axes
    entries = math.prod(shape[a] for a in axes)
    bound = root(entries) if node.payload.form == "root" else Bracket.exact(1.0)
    return Region((Radii.of(shape, {tuple(axes): bound}),), 0.0)
