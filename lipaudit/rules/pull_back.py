"""Quadratic forms carried backwards: the facet of an operation that bounds a whole part of a network at once.

Write dv for the difference of a tensor v between two inputs. A quadratic form at v is a Hermitian matrix H >= 0, which stands for the
number <dv, H dv>. An operation y = f(x_1, x_2, ...) carries a form H at its output back to forms H_1, H_2, ... at its inputs, so that

    <dy, H dy>  <=  <dx_1, H_1 dx_1> + <dx_2, H_2 dx_2> + ...    for all pairs of inputs.

Started with the identity at the network's output, the largest eigenvalue of the form that arrives at the input bounds the square of
the Lipschitz constant. One constant per operation is the special case H = h I, H_i = c_i^2 h I of one input. Sharper ones:

- a linear map y = A x: H' = A* H A, exactly;
- an element-wise function with slopes in [a, b]: H' = S (L - H)^-1 S - L a b with S = L (a + b) / 2, for every diagonal L > H
  (Fazlyab, Robey, Hassani, Morari and Pappas, NeurIPS 2019); for a diagonal H = diag(p) simply diag(p max(a^2, b^2));
- several inputs with constants c_i and H <= h I: H_i = h c_i^2 / t_i I for weights t_i > 0 with a sum of at most 1 (Cauchy-Schwarz).

The entries of L and the t_i are free: any admissible choice gives a bound, and a search looks for good ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

import torch

from lipaudit.graph.node import Node
from lipaudit.spectral.bracket import Bracket

LinearMap: TypeAlias = Callable[[torch.Tensor], torch.Tensor]
Weights: TypeAlias = Mapping[str, torch.Tensor]
"""Free positive numbers by name (multipliers, splittings); an operation takes a choice of its own for a name that is missing."""


class QuadraticForm(Protocol):
    """A form H >= 0 at a tensor; how H is kept (a number, a diagonal, a matrix per frequency, all of it) is its own business."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor."""

    def value(self, difference: torch.Tensor) -> Bracket:
        """<dv, H dv> for a difference dv of the tensor."""

    def diagonal(self) -> QuadraticForm:
        """A diagonal form D >= H, itself where it is diagonal."""

    def scaled(self, factor: Bracket) -> QuadraticForm:
        """factor H, for a factor that is not negative; its upper end counts."""

    def through(self, forward: LinearMap, adjoint: LinearMap, shape: tuple[int, ...]) -> QuadraticForm:
        """A* H A for the linear map A from tensors of ``shape``, given with its adjoint."""


PullBackFunction: TypeAlias = Callable[[Node, QuadraticForm, Weights], tuple[QuadraticForm, ...]]
"""From a node, a form on its output and the free weights to a form on each of ``node.refs``, in their order."""
