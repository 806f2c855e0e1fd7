"""The operators of classical machine learning (domain ai.onnx.ml) that are linear, or nearly so: what scikit-learn's scalers,
linear models and neural networks become. Labels are no part of a conversion (:mod:`lipaudit.frontends.onnx.outputs`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from lipaudit.frontends.onnx.operators import Apply, NodeView, all_operands, converter, first_operand
from lipaudit.frontends.onnx.products import dense

_DOMAIN = "ai.onnx.ml"
Transform: TypeAlias = Callable[[Tensor], Tensor]
_TRANSFORMS: dict[str, Transform] = {
    "NONE": lambda scores: scores,
    "LOGISTIC": torch.sigmoid,
    "SOFTMAX": lambda scores: torch.softmax(scores, -1),
}
_NORMS: dict[str, Transform] = {
    "L1": lambda x: x.abs().sum(-1, keepdim=True),
    "L2": lambda x: torch.linalg.vector_norm(x, dim=-1, keepdim=True),
    "MAX": lambda x: x.amax(-1, keepdim=True),
}
Producers: TypeAlias = Mapping[str, onnx.NodeProto]


def _floats(node: NodeView, name: str) -> Tensor | None:
    values = node.attr(name)
    return torch.tensor(np.asarray(values, np.float32)) if values else None


def _reader(node: NodeView, index: int = 0) -> Transform:
    """What the operators do first: to float32, where the input is anything else."""
    example = node.value(index).example
    return _same if example is None or example.dtype is torch.float32 else lambda x: x.to(torch.float32)


def _same(x: Tensor) -> Tensor:
    return x


@converter("Scaler", domain=_DOMAIN)
def scaler(node: NodeView) -> nn.Module:
    """(x - offset) scale, feature by feature."""
    offset, scale = _floats(node, "offset"), _floats(node, "scale")
    if offset is None or scale is None or offset.shape != scale.shape:
        node.fail("it needs as many offsets as scales")
    read = _reader(node)
    return first_operand(node, lambda x, offset, scale: (read(x) - offset) * scale, offset, scale)


class _Linear(nn.Module):
    """Scores by a dense layer, and what is made of them; ``label`` puts a label, which is not computed, in front."""

    def __init__(self, read: Transform, layer: nn.Linear, transform: Transform, label: bool) -> None:
        super().__init__()
        self.layer = layer
        self._read, self._transform, self._label = read, transform, label

    def forward(self, x: Tensor) -> Tensor | tuple[None, Tensor]:
        """Evaluate."""
        scores = self._transform(self.layer(self._read(x)))
        return (None, scores) if self._label else scores


def _linear(node: NodeView, rows: int) -> tuple[Tensor, Tensor]:
    """The coefficients as a matrix of ``rows`` rows, and the intercepts."""
    coefficients, intercepts = _floats(node, "coefficients"), _floats(node, "intercepts")
    if coefficients is None or coefficients.numel() != rows * node.shape()[-1]:
        node.fail(f"its coefficients are no matrix of {rows} rows for {node.shape()[-1]} features")
    return coefficients.reshape(rows, -1), torch.zeros(rows) if intercepts is None else intercepts


def _transform(node: NodeView) -> Transform:
    name = node.attr("post_transform", "NONE")
    if name not in _TRANSFORMS:
        node.fail(f"the post_transform {name} jumps or has an unbounded slope; {', '.join(_TRANSFORMS)} are supported")
    return _TRANSFORMS[name]


@converter("LinearRegressor", domain=_DOMAIN)
def linear_regressor(node: NodeView) -> nn.Module:
    """W x + b, then the post_transform."""
    return _Linear(_reader(node), dense(*_linear(node, int(node.attr("targets", 1)))), _transform(node), label=False)


@converter("LinearClassifier", domain=_DOMAIN)
def linear_classifier(node: NodeView) -> nn.Module:
    """The scores W x + b of the classes, then the post_transform; the label is not computed.

    One row of coefficients s for two classes gives 1 - s and s, with LOGISTIC sigmoid(-s) and sigmoid(s).
    """
    transform = _transform(node)
    labels = node.attr("classlabels_ints") or node.attr("classlabels_strings") or ()
    rows = _rows(node.proto, node.shape()[-1])
    weight, bias = _linear(node, rows)
    if rows == 1 and len(labels) == 2:
        if node.attr("post_transform", "NONE") == "SOFTMAX":
            node.fail("SOFTMAX of one score for two classes is not defined")
        shift = 0.0 if node.attr("post_transform", "NONE") == "LOGISTIC" else 1.0
        weight, bias = torch.cat([-weight, weight]), torch.cat([shift - bias, bias])
    return _Linear(_reader(node), dense(weight, bias), transform, label=True)


def _rows(proto: onnx.NodeProto, features: int) -> int:
    """How many scores a linear classifier computes."""
    coefficients = next((a.floats for a in proto.attribute if a.name == "coefficients"), ())
    return len(coefficients) // features


@converter("Normalizer", domain=_DOMAIN)
def normalizer(node: NodeView) -> nn.Module:
    """x divided by its sum of moduli (L1), its l2 norm or its largest entry (MAX), sample by sample."""
    name = node.attr("norm", "MAX")
    if name not in _NORMS:
        node.fail(f"the norm {name!r} is none of {', '.join(_NORMS)}")
    norm, read = _NORMS[name], _reader(node)
    return Apply(lambda x: read(x) / norm(read(x)), [None])


@converter("Imputer", domain=_DOMAIN)
def imputer(node: NodeView) -> nn.Module:
    """The identity: what it replaces is NaN, which is no number that an audit is about."""
    replaced = float(node.attr("replaced_value_float", 0.0))
    if not math.isnan(replaced):
        node.fail(
            f"it replaces the number {replaced:g} by another one, so that it jumps there; only NaN may be replaced"
        )
    return Apply(lambda x: x, [None])


@converter("ArrayFeatureExtractor", domain=_DOMAIN)
def array_feature_extractor(node: NodeView) -> nn.Module:
    """Entries of the last axis at constant positions."""
    if not node.is_constant(1):
        node.fail("its positions depend on the network's input; a function of positions has no Lipschitz constant")
    positions = node.tensor(1).reshape(-1)
    flat = len(node.shape()) == 1

    def pick(x: Tensor) -> Tensor:
        picked = x.index_select(-1, positions)
        return picked.reshape(1, -1) if flat else picked

    return Apply(pick, [None])


@converter("FeatureVectorizer", domain=_DOMAIN)
def feature_vectorizer(node: NodeView) -> nn.Module:
    """The features of all operands side by side."""
    read = [_reader(node, index) for index in range(len(node.operands))]
    return all_operands(node, lambda *parts: torch.cat([r(part) for r, part in zip(read, parts, strict=True)], -1))


def without_idle_normalizers(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with L1 normalisations of probabilities, which add up to 1 already, replaced by the identity.

    Exporters write one behind every softmax. As a quotient it would have no constant, because nothing keeps its divisor from
    zero but that sum.
    """
    producers = {name: node for node in model.graph.node for name in node.output}
    idle = [i for i, node in enumerate(model.graph.node) if _is_idle(node, producers)]
    if not idle:
        return model
    result: onnx.ModelProto = onnx.ModelProto.FromString(model.SerializeToString())
    for index in idle:
        node = result.graph.node[index]
        name = node.name
        node.CopyFrom(onnx.helper.make_node("Identity", list(node.input), list(node.output), name=name))
    return result


def _is_idle(node: onnx.NodeProto, producers: Producers) -> bool:
    """Whether a node is an L1 normalisation of positive numbers that add up to 1."""
    if (node.domain, node.op_type) != (_DOMAIN, "Normalizer") or _attribute(node, "norm") != "L1":
        return False
    source = producers.get(node.input[0])
    while source is not None and (source.domain, source.op_type) == ("", "Identity"):
        source = producers.get(source.input[0])
    if source is None or (source.domain, source.op_type) != (_DOMAIN, "LinearClassifier"):
        return False
    transform = _attribute(source, "post_transform")
    return transform == "SOFTMAX" or (transform == "LOGISTIC" and _is_two_sided(source))


def _is_two_sided(classifier: onnx.NodeProto) -> bool:
    """Whether a classifier has two scores, one minus the other, whose logistic functions add up to 1."""
    tables: dict[str, Any] = {a.name: np.asarray(a.floats) for a in classifier.attribute if a.floats}
    coefficients, intercepts = tables.get("coefficients", np.zeros(0)), tables.get("intercepts", np.zeros(2))
    half = len(coefficients) // 2
    return len(intercepts) == 2 and bool(
        np.array_equal(coefficients[:half], -coefficients[half:]) and intercepts[0] == -intercepts[1]
    )


def _attribute(node: onnx.NodeProto, name: str) -> str:
    return next((a.s.decode() for a in node.attribute if a.name == name), "")
