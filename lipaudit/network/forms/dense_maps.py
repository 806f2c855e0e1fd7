"""Linear steps applied to columns of differences, and their adjoints, in float64."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import cached_property

import torch

from lipaudit.graph.constant_errors import margin_of
from lipaudit.graph.evaluate import evaluate
from lipaudit.graph.linear import CONVOLUTION, DENSE, SCALE, WEIGHTED
from lipaudit.network.entrywise import returns_its_operand
from lipaudit.network.forms.program import constants_of
from lipaudit.network.forms.steps import Linear
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.convolution.power_iteration import apply
from lipaudit.spectral.rounding import UNIT_ROUNDOFF, gamma

_UP = 1 + 2.0**-30
# Maps with at most so many entries are written out as matrices.
_WRITTEN_OUT = 2**22


@dataclass(frozen=True, eq=False)
class DenseMap:
    """The linear map A_i of one source of a linear step, on all entries of its tensors.

    Columns are differences of tensors, flattened: ``apply`` takes (size of the source, m) to (size of the output, m), ``adjoint``
    the other way.
    """

    step: Linear
    source: int

    @cached_property
    def matrix(self) -> torch.Tensor | None:
        """The map as a matrix (size of the output, size of the source), None where it would be large."""
        x, y = self.step.sources[self.source], self.step.output
        if self.step.node.op == DENSE and math.prod(y.shape[:-1]) == 1:
            weight: torch.Tensor = self.step.node.payload.weight
            return weight.to(torch.float64)
        if x.size * y.size > _WRITTEN_OUT:
            return None
        return self._pulled_back(torch.eye(y.size, dtype=torch.float64)).T.contiguous()

    def apply(self, columns: torch.Tensor, at: torch.Tensor | None = None) -> torch.Tensor:  # noqa: ARG002
        """A times columns (1, size of the source, m); of complex ones the real and the imaginary parts by themselves."""
        if self.matrix is not None:
            return self.matrix.to(columns.dtype) @ columns
        if columns.is_complex():
            return torch.complex(self.apply(columns.real), self.apply(columns.imag))
        x = self.step.sources[self.source]
        offset = self._evaluate(torch.zeros(x.shape, dtype=torch.float64))
        outputs = [self._evaluate(column.reshape(x.shape)) - offset for column in columns.mT.flatten(0, 1)]
        return torch.stack([y.flatten() for y in outputs]).reshape(len(columns), columns.shape[2], -1).mT

    def adjoint(self, columns: torch.Tensor) -> torch.Tensor:
        """A* times columns (1, size of the output, m)."""
        if self.matrix is not None:
            return self.matrix.T.to(columns.dtype) @ columns
        if columns.is_complex():
            return torch.complex(self.adjoint(columns.real), self.adjoint(columns.imag))
        pulled = self._pulled_back(columns.transpose(0, 1).flatten(1))
        return pulled.reshape(len(pulled), len(columns), -1).transpose(0, 1)

    def adjoint_of_diagonal(self, diagonal: torch.Tensor) -> torch.Tensor:
        """A* times a real diagonal (1, size of the output)."""
        if self.matrix is not None:
            return self.matrix.T * diagonal[:, None, :]
        return self.adjoint(torch.diag_embed(diagonal))

    @cached_property
    def squares(self) -> torch.Tensor | None:
        """|a|^2 of a map that multiplies every entry by a number of its own."""
        node, x = self.step.node, self.step.sources[self.source]
        if self.step.part is not None or x.shape != self.step.output.shape or len(self.step.sources) > 1:
            return None
        if node.op == SCALE:
            factor = _along(node.payload.factor.to(torch.float64), node.payload.axis, len(x.shape))
            return (factor**2).expand(x.shape).reshape(1, -1)
        return torch.ones(1, x.size, dtype=torch.float64) if returns_its_operand(node) else None

    @cached_property
    def absolute(self) -> float:
        """|||A|||: the root of the largest row sum of |A| times its largest column sum, an upper bound of || |A| ||."""
        node, y = self.step.node, self.step.output
        if node.op == CONVOLUTION and node.payload.padding_mode == "zeros":
            kernel = node.payload.kernel.to(torch.float64).abs()
            return (
                math.sqrt(float(kernel.sum((0, *range(2, kernel.dim()))).max()) * float(kernel.flatten(1).sum(1).max()))
                * _UP
            )
        if self.matrix is not None:
            size = self.matrix.abs()
            return math.sqrt(float(size.sum(0).max()) * float(size.sum(1).max())) * _UP
        rows, columns = 0.0, torch.zeros(self.step.sources[self.source].size, dtype=torch.float64)
        for start in range(0, y.size, 256):
            unit = torch.zeros(y.size, min(256, y.size - start), dtype=torch.float64)
            unit[start + torch.arange(unit.shape[1]), torch.arange(unit.shape[1])] = 1.0
            part = self._pulled_back(unit).abs()
            rows = max(rows, float(part.sum(0).max()))
            columns += part.sum(1)
        return math.sqrt(rows * float(columns.max())) * _UP

    @cached_property
    def rounding(self) -> float:
        """How far A* y, computed, may be from A* y, relative to |y|."""
        return gamma(max(self._terms, 1) + 4) * self.absolute

    @cached_property
    def uncertainty(self) -> float:
        """How far A may be from the map that the stored numbers define, in the spectral norm."""
        payload = self.step.node.payload
        error = float(getattr(payload, "error", 0.0)) if self.step.node.op in WEIGHTED else 0.0
        error = margin_of(error)
        error += max((margin_of(constant.error) for constant in constants_of(self.step.node)), default=0.0)
        moved = float(getattr(payload, "moved", 0.0)) if self.step.node.op == CONVOLUTION else 0.0
        # the coefficients of an interpolation come from coordinates, whose rounding grows with the size
        entries = 16 * UNIT_ROUNDOFF * (self.step.output.size if "upsample" in self.step.node.op else 1)
        return ((error + entries) * self.absolute + moved) * _UP

    @property
    def _terms(self) -> int:
        """How many products one entry of A* y sums at most."""
        return self.step.output.size

    def _pulled_back(self, columns: torch.Tensor) -> torch.Tensor:
        """The pullback of automatic differentiation: A* times the columns, all at once."""
        node, x, y = self.step.node, self.step.sources[self.source], self.step.output
        batch = columns.T.reshape(-1, *y.shape)
        if node.op == SCALE:
            factor = _along(node.payload.factor.to(torch.float64), node.payload.axis, len(x.shape))
            return (batch * factor).reshape(len(batch), -1).T
        if node.op == DENSE:
            weight: torch.Tensor = node.payload.weight.to(torch.float64)
            return (batch @ weight).flatten(1).T
        if returns_its_operand(node):
            return columns
        with torch.enable_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # where columns cannot be taken all at once, it takes longer
            start = torch.zeros(x.shape, dtype=torch.float64, requires_grad=True)
            (pulled,) = torch.autograd.grad(self._evaluate(start), start, batch, is_grads_batched=True)
        return pulled.reshape(len(pulled), -1).T.contiguous()

    def _evaluate(self, value: torch.Tensor) -> torch.Tensor:
        """The output where this source has the given value and the others are zero."""
        node = self.step.node
        if self.step.part is not None:
            return self._part(value, *self.step.part)
        if node.op == CONVOLUTION:
            return convolve(node.payload, value)
        if node.op == DENSE:
            weight: torch.Tensor = node.payload.weight.to(torch.float64)
            return value @ weight.T
        if node.op == SCALE:
            return value * _along(node.payload.factor.to(torch.float64), node.payload.axis, value.dim())
        values: dict[str, torch.Tensor] = {}
        if not {source.name for source in self.step.sources} <= {ref.name for ref in node.refs}:
            raise ValueError(f"{node.name} does not read what its step reads")
        for k, source in enumerate(self.step.sources):
            values[source.name] = value if k == self.source else torch.zeros(source.shape, dtype=torch.float64)
        for ref in node.refs:  # operands that are not read
            if ref.name not in values:
                values[ref.name] = torch.zeros(ref.info.shape, dtype=torch.float64)
        result = evaluate(node, values, torch.float64)
        return torch.cat([part.flatten() for part in result]) if isinstance(result, tuple) else result

    def _part(self, value: torch.Tensor, axis: int, start: int, size: int) -> torch.Tensor:
        """Neighbouring entries along an axis."""
        return value.narrow(axis, start, size).reshape(self.step.output.shape)


def convolve(payload: Convolution, value: torch.Tensor) -> torch.Tensor:
    """The convolution of a batch, or of one tensor without a batch axis, in float64, transposed ones included."""
    if value.dim() == len(payload.kernel_size) + 1:
        return convolve(payload, value[None])[0]
    if not payload.transposed:
        return apply(payload, value.to(torch.float64))
    transposed = {1: torch.conv_transpose1d, 2: torch.conv_transpose2d, 3: torch.conv_transpose3d}[value.dim() - 2]
    padding = tuple(left for left, _ in payload.padding)
    result: torch.Tensor = transposed(
        value.to(torch.float64), payload.kernel.to(torch.float64), None, payload.stride, padding, payload.output_padding,
        payload.groups, payload.dilation,
    )  # fmt: skip
    return result


def _along(factor: torch.Tensor, axis: int, dims: int) -> torch.Tensor:
    return factor.reshape([] if factor.numel() == 1 else [-1 if k == axis % dims else 1 for k in range(dims)])
