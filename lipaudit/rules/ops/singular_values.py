"""Functions of singular values and of eigenvalues of symmetric matrices.

Singular values: sum_i |s_i(A) - s_i(B)|^2 <= ||A - B||_F^2 (Mirsky 1960), and with it every norm of a matrix that depends on
them: the spectral norm has the constant 1, the sum of k singular values sqrt(k). Eigenvalues of symmetric matrices: sum_i
|l_i(A) - l_i(B)|^2 <= ||A - B||_F^2 (Hoffman and Wielandt 1953); torch reads one triangle of its operand, whose entries off the
diagonal count twice: sqrt(2).
"""

from __future__ import annotations

import math

from lipaudit.graph.node import Node
from lipaudit.graph.ops import aten
from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.interval_facets import NOT_NEGATIVE, always
from lipaudit.rules.operands import data, root, stretch
from lipaudit.rules.rule import operations

SINGULAR_VALUES = operations(*aten("linalg_svdvals"))
EIGENVALUES = operations(*aten("linalg_eigvalsh"))
NUCLEAR = operations(*aten("nuclear_norm", "nuclear_norm.dim", "linalg_matrix_norm.str_ord"))
MATRIX_NORM = operations(*aten("linalg_matrix_norm"))


@SINGULAR_VALUES.constant(formula="1", source="Mirsky's inequality", exact=True)
def singular_values(node: Node, _settings: Settings) -> Effect:
    """All singular values of every matrix of a stack."""
    return stretch(node, {"A": 1.0})


@EIGENVALUES.constant(
    formula="sqrt(2), 1 for matrices of one entry",
    source="Hoffman-Wielandt inequality; one triangle is read",
    exact=True,
)
def symmetric_eigenvalues(node: Node, _settings: Settings) -> Effect:
    """All eigenvalues of symmetric matrices, of which one triangle is read."""
    return stretch(node, {"self": root(2) if data(node, "self").shape[-1] > 1 else 1.0})


@NUCLEAR.constant(
    formula="sqrt(min(rows, columns)) for the nuclear norm, 1 for the Frobenius norm",
    source="Mirsky's inequality and Cauchy-Schwarz",
    exact=True,
)
def nuclear_norm(node: Node, _settings: Settings) -> Effect:
    """The sum of the singular values, or the root of the sum of their squares."""
    shape = data(node, "self").shape
    dims = node.get("dim", (-2, -1))
    sizes = [shape[int(d)] for d in dims] if isinstance(dims, tuple) else list(shape[-2:])  # type: ignore[arg-type]
    nuclear = node.get("ord", "nuc") == "nuc"
    return stretch(node, {"self": root(min(sizes)) if nuclear else 1.0})


@MATRIX_NORM.constant(
    formula="1 for the spectral norm, sqrt(rows) or sqrt(columns) for the largest sum of moduli, 1 and -1, inf and -inf",
    source="Mirsky's inequality; ||x||_1 <= sqrt(n) ||x||_2",
    exact=True,
)
def matrix_norm(node: Node, _settings: Settings) -> Effect:
    """The spectral norm (2), the smallest singular value (-2), extreme sums over columns (1, -1) or rows (inf, -inf)."""
    shape = data(node, "self").shape
    rows, columns = (shape[int(d)] for d in node["dim"])  # type: ignore[union-attr, arg-type]
    order = float(node["ord"])  # type: ignore[arg-type]
    if abs(order) == 2:
        return stretch(node, {"self": 1.0})
    return stretch(node, {"self": root(columns if math.isinf(order) else rows)})


(SINGULAR_VALUES | NUCLEAR | MATRIX_NORM).interval(always(NOT_NEGATIVE))
