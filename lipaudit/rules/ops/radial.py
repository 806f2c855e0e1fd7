"""Functions of the size of rows, as the graph recognises them."""

from __future__ import annotations

from lipaudit.graph.node import Node
from lipaudit.graph.passes.radial import RADIAL, Radial
from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.radii_facets import whole_tensor
from lipaudit.rules.region.axes import along
from lipaudit.rules.region.magnitude import Magnitude
from lipaudit.rules.region.radii import Radii
from lipaudit.rules.rule import operations
from lipaudit.spectral.bracket import Bracket, log_down, log_up

ROWS = operations(RADIAL)


@ROWS.constant(
    formula="sup |f'| over r >= 0 for f(||z||) and for f(||z||) z / ||z|| with f(0) = 0",
    source="the Jacobian is f'(r) along z and f(r) / r, a mean of f', across it; interval branch and bound",
    two_sided=True,
)
def radial(node: Node, _settings: Settings) -> Effect:
    """A function of the size of rows, or rows in another length, that arrived written out."""
    payload: Radial = node.payload
    slopes = payload.slopes
    what = "rows in another length" if payload.rows else "a function of the size of rows"
    bracket = (
        Bracket.exact(slopes.upper)
        if slopes.lower == slopes.upper
        else Bracket(log_down(slopes.lower), log_up(slopes.upper))
    )
    return Effect.stretch(bracket, note=f"written out: {what}")


@ROWS.radii
def rows(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Every row is mapped by itself."""
    if not node.payload.rows:
        return whole_tensor(node, effect, operands)
    return (along(operands[0], effect.factors[0], node.payload.axes, node.output.shape),)
