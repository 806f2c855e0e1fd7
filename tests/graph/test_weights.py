"""The weights of a graph: what they are, where they are, and that data, biases and shifts are none."""

from __future__ import annotations

import torch
from torch import nn

from lipaudit.graph.capture.export import capture
from lipaudit.graph.linear import Dense
from lipaudit.graph.passes.table import simplify
from lipaudit.graph.weights import Kind, Weight, weights
from lipaudit.spectral.convolution.geometry import Convolution


class EveryKind(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, padding=1)
        self.norm = nn.BatchNorm2d(2)
        self.lstm = nn.LSTM(4, 3, proj_size=2)
        self.gru = nn.GRU(2, 3)
        self.head = nn.Linear(3, 5)
        self.left = nn.Parameter(torch.randn(6, 8))
        self.mixing = nn.Parameter(torch.randn(2, 3, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        image = torch.relu(self.norm(self.conv(x)))
        sequence = self.head(self.gru(self.lstm(image.reshape(8, 1, 4))[0])[0])
        rows = self.left @ sequence[:, 0]
        return torch.einsum("gij,nj->gni", self.mixing, rows) * self.head.bias[:3]


def listed(simple: bool) -> list[Weight]:
    torch.manual_seed(0)
    graph = capture(EveryKind().double(), {"x": torch.zeros(1, 1, 4, 4, dtype=torch.float64)})
    return list(weights(simplify(graph) if simple else graph))


def test_weights_are_listed_with_their_kind_place_and_name() -> None:
    for simple in (False, True):
        assert [(w.kind, w.name, [c.names for c in w.constants]) for w in listed(simple) if w.name] == [
            (Kind.CONVOLUTION, "conv", [("conv.weight",)]),
            (Kind.RECURRENT, "lstm", [("lstm.weight_ih_l0",)]),
            (Kind.RECURRENT, "lstm", [("lstm.weight_hh_l0",)]),
            (Kind.PROJECTION, "lstm", [("lstm.weight_hr_l0",)]),
            (Kind.RECURRENT, "gru", [("gru.weight_ih_l0",)]),
            (Kind.RECURRENT, "gru", [("gru.weight_hh_l0",)]),
            (Kind.DENSE, "head", [("head.weight",)]),
            (Kind.PRODUCT, "matmul", [("left",)]),
            (Kind.PRODUCT, "einsum", [("mixing",)]),
        ]


def test_linear_maps_have_the_shapes_of_the_operations() -> None:
    shapes = [
        [m.kernel.shape if isinstance(m, Convolution) else m.shape for m in w.linear_maps()] for w in listed(True)
    ]
    assert [[tuple(shape) for shape in row] for row in shapes] == [
        [(2, 1, 3, 3)],
        [(3, 4)] * 4 + [(9, 4)],
        [(3, 2)] * 4 + [(9, 2)],
        [(2, 3)],
        [(3, 2)] * 3,
        [(3, 3)] * 3,
        [(5, 3)],
        [(6, 8)],
        [(5, 6)],
    ]


def test_a_simplified_convolution_has_the_batch_norm_folded_in() -> None:
    captured, simple = (next(w for w in listed(simple) if w.kind is Kind.CONVOLUTION) for simple in (False, True))
    scale = 1 / (1 + 1e-5) ** 0.5
    assert torch.allclose(simple.linear_map().kernel, captured.linear_map().kernel * scale)  # type: ignore[union-attr]
    assert not torch.equal(simple.linear_map().kernel, captured.linear_map().kernel)  # type: ignore[union-attr]


def test_a_dense_layer_is_a_matrix_and_products_are_no_single_linear_map() -> None:
    by_kind = {w.kind: w.linear_map() for w in listed(True)}
    assert isinstance(by_kind[Kind.DENSE], Dense)
    assert by_kind[Kind.PRODUCT] is None
    assert by_kind[Kind.RECURRENT] is None


def test_products_of_data_have_no_weights() -> None:
    class Attention(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.softmax(x @ x.mT, -1) @ x + torch.nn.functional.conv2d(torch.ones(1, 1, 5, 5), x[:, None])[0]

    graph = capture(Attention(), {"x": torch.zeros(1, 3, 3)})
    assert list(weights(graph)) == []
