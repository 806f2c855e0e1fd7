"""The bound of the whole network as a differentiable quantity: log L by the product rule along the graph.

L(input) = 1 and L(node) = sum_i c_i L(node_i), or the root of the sum of squares, over the operands of a node
(:mod:`lipaudit.network.propagate`). log L is a function of the log c_j of the layers, and its derivatives are

    d log L / d log c_j = e_j,    e_j in [0, 1] the share of L that goes through the layer,

which the propagation finds by the chain rule from the outputs to the inputs: at a sum, an operand i takes c_i L_i / sum_k c_k L_k of the
node's share, at a root of a sum of squares the square of that. With c_j = c_j(W) of :func:`lipaudit.training.norm.spectral_norm_bound`

    grad_W log L = sum_j e_j grad_W log c_j.

In a chain every share is 1; a branch of a residual block has the share by which it adds to the block's constant.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from lipaudit.graph.node import Constant, Node, parts
from lipaudit.graph.rewrite import label
from lipaudit.network.propagate import propagate
from lipaudit.rules.effect import Effect, Settings, Status
from lipaudit.rules.rule import apply_rule
from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.training.errors import NoNetworkBoundError, UnfollowedParameterError
from lipaudit.training.layers import InputShape, Layer, layer_graph
from lipaudit.training.norm import OVERSAMPLING, spectral_norm_bound
from lipaudit.training.scales import BatchNorm, Fixed, Scale, Stored, Unreadable, Use


@dataclass(frozen=True)
class _Weight:
    """The norm of a layer in one of its uses."""

    layer: Layer
    use: Use

    @property
    def name(self) -> str:
        """The layer's, with what tells its uses apart."""
        return next(name for name, use in self.layer.terms() if use == self.use)


@dataclass(frozen=True)
class _Scales:
    """The largest entry of a product of scales that no layer takes."""

    name: str
    scales: tuple[Scale, ...]


class NetworkBound:
    """log L of the network, differentiable once in its weights; L bounds it over all inputs, in evaluation mode.

    The graph is captured once; weights, batch norms and other scales are read from the model at every call, as
    :class:`~lipaudit.training.regularizer.LipschitzRegularizer` reads them. The constants of all other operations are those of the
    audit when the object was made. L is the bound ``product`` of an audit, with three differences: the norms are bounds after
    ``iterations`` Gram products, without a margin for rounding; parallel branches are added and not merged into one convolution;
    and what an audit knows of blocks as a whole (such as convex-potential layers), or of magnitudes of values, is left out. So it is
    a quantity to train with, and the audit certifies.

    Args:
        model: the network itself, not wrapped by DDP or ``torch.compile``.
        input_shape: C x H x W, a full shape with a batch axis of 1, or one such shape per name of an input.
        iterations: Gram products.
        oversampling: as for :func:`~lipaudit.training.norm.spectral_norm_bound`.

    Attributes:
        norms: by the name of a row, the constant of each layer in the last call.
        shares: by the same names, e_j = d log L / d log c_j in the last call.

    Raises:
        UsageError: if the model has no layers, has no bound over all inputs, or has an operation whose constant depends on a trained
            parameter that is not read.
        CaptureError, ModelLoadError: if the model cannot be captured on the input, or has no finite weights.

    >>> net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU(), nn.Linear(2, 1, bias=False))
    >>> _ = net[0].weight.data.copy_(torch.tensor([[3.0, 0.0], [0.0, 0.5]]))
    >>> _ = net[2].weight.data.copy_(torch.tensor([[0.0, 2.0]]))
    >>> bound = NetworkBound(net, (1, 2))
    >>> log_bound = bound()
    >>> log_bound.backward()
    >>> round(log_bound.exp().item(), 3), net[2].weight.grad.tolist()
    (6.0, [[0.0, 0.5]])
    """

    def __init__(
        self, model: nn.Module, input_shape: InputShape, iterations: int = 6, oversampling: int = OVERSAMPLING
    ) -> None:
        network = layer_graph(model, input_shape)
        self.model = model
        self.iterations = iterations
        self.oversampling = oversampling
        self.norms: dict[str, float] = {}
        self.shares: dict[str, float] = {}
        self._graph = network.graph
        self._terms: dict[_Weight | _Scales, list[Node]] = {}
        self._constants: dict[str, Effect] = {}
        changing = _changing(model)
        for name, place in network.absorbed.items():
            if name in changing:
                raise UnfollowedParameterError(place, changing[name])
        for node in self._graph:
            if node.op == "input":
                continue
            term = _term(node, network.weights, network.scales)
            if term is not None:
                self._terms.setdefault(term, []).append(node)
                continue
            names = (n for c in parts(tuple(node.arguments.values()), Constant) for n in c.names)
            unfollowed = next((n for n in names if n in changing), None)
            if unfollowed is not None:
                raise UnfollowedParameterError(label(node), changing[unfollowed])
            self._constants[node.name] = apply_rule(node, Settings())
        self._check_finite()

    def __call__(self) -> torch.Tensor:
        """log L, a scalar; -inf where L is 0."""
        logs = {term: self._norm(term).log() for term in self._terms}
        values = {term: float(log.detach()) for term, log in logs.items()}
        if any(map(math.isnan, values.values())):
            return torch.stack([log.cpu() for log in logs.values()]).sum()
        effects = {
            node.name: Effect.stretch(Bracket(-math.inf, values[term], Rigor.NUMERICAL))
            for term, nodes in self._terms.items()
            for node in nodes
        }
        propagation = propagate(self._graph, {**self._constants, **effects})
        first = next(iter(logs.values()))
        total = first.new_tensor(propagation.network.log_upper)
        self.norms, self.shares = {}, {}
        for term, nodes in self._terms.items():
            share = sum(propagation.elasticities.get(node.name, 0.0) for node in nodes)
            self.norms[term.name], self.shares[term.name] = math.exp(values[term]), share
            if share:
                total = total + (share * (logs[term] - logs[term].detach())).to(total)
        return total

    def _norm(self, term: _Weight | _Scales) -> torch.Tensor:
        modules = self.model.get_submodule
        if isinstance(term, _Weight):
            operator = term.use.folded(term.layer.weight(self.model), modules)
            return spectral_norm_bound(operator, term.use.geometry, self.iterations, oversampling=self.oversampling)
        first = next(self.model.parameters())
        like = first.new_ones(1, dtype=torch.promote_types(first.dtype, torch.float32))
        product = like
        for scale in _readable(term.name, term.scales):
            product = product * scale.now(modules, like)
        return product.abs().max()

    def _check_finite(self) -> None:
        """Raise where the product rule has no finite bound, whatever the weights."""
        known = {node.name: Effect.stretch(1.0) for nodes in self._terms.values() for node in nodes}
        effects = {**self._constants, **known}
        if propagate(self._graph, effects).network.status is Status.FINITE:
            return
        for node in self._graph:
            effect = effects.get(node.name)
            if effect is not None and effect.status is not Status.FINITE:
                raise NoNetworkBoundError(label(node), effect.reason)
        raise NoNetworkBoundError("its inputs", "they are not floating-point numbers")


def _changing(model: nn.Module) -> dict[str, str]:
    """What changes in training, by its name and in words."""
    trained = (name for name, p in model.named_parameters(remove_duplicate=False) if p.requires_grad)
    batch_norms = (path for path, m in model.named_modules(remove_duplicate=False) if isinstance(m, _BatchNorm))
    variances = (f"{path}.running_var".removeprefix(".") for path in batch_norms)
    return {name: f"the parameter {name}" for name in trained} | {name: f"the buffer {name}" for name in variances}


def _term(
    node: Node, weights: Mapping[str, tuple[Layer, Use]], scales: Mapping[str, tuple[Scale, ...]]
) -> _Weight | _Scales | None:
    """What is read again for a node; None where its constant does not change, or hangs on parameters in another way."""
    if node.name in weights:
        layer, use = weights[node.name]
        _readable(label(node), use.scales)
        return _Weight(layer, use) if layer.places else None
    if node.name in scales:
        return _Scales(label(node), tuple(_readable(label(node), scales[node.name])))
    return None


def _readable(place: str, scales: Sequence[Scale]) -> list[BatchNorm | Stored | Fixed]:
    """The scales, all of which can be read from the model."""
    readable = []
    for scale in scales:
        if isinstance(scale, Unreadable):
            raise UnfollowedParameterError(place, f"the scale {scale.name}")
        readable.append(scale)
    return readable
