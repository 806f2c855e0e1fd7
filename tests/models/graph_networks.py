"""Small graph networks with the operations that their libraries use; the graph is a buffer, the input its node features."""

from __future__ import annotations

import torch
from torch import Tensor, nn

EDGES = torch.tensor([[0, 1, 1, 2, 3, 3, 4, 5, 0], [1, 0, 2, 1, 1, 4, 3, 3, 5]])
NODES = 6


class GraphConvolution(nn.Module):
    """X' = D^(-1/2) (A + I) D^(-1/2) X W, by gathering along edges and adding at their ends (Kipf and Welling 2017)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        loops = torch.arange(NODES).expand(2, -1)
        self.register_buffer("edges", torch.cat((EDGES, EDGES.flip(0), loops), 1))
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        source, target = self.edges
        degree = torch.zeros(NODES, dtype=x.dtype).index_add(0, target, torch.ones_like(target, dtype=x.dtype))
        weight = (degree[source] * degree[target]).rsqrt()
        messages = self.linear(x)[:, source] * weight[:, None]
        return torch.zeros_like(messages[:, :NODES]).index_add(1, target, messages)


class GCN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = GraphConvolution(4, 8), GraphConvolution(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).relu()).log_softmax(-1)


class Isomorphism(nn.Module):
    """(1 + eps) x plus the sum over neighbours, through a network (Xu et al. 2019); sums by scatter_add."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.register_buffer("edges", EDGES)
        self.eps = nn.Parameter(torch.tensor(0.1))
        self.mlp = nn.Sequential(nn.Linear(inputs, 8), nn.BatchNorm1d(NODES), nn.ReLU(), nn.Linear(8, outputs))

    def forward(self, x: Tensor) -> Tensor:
        source, target = self.edges
        places = target[None, :, None].expand(1, -1, x.shape[2])
        total = torch.zeros_like(x).scatter_add(1, places, x[:, source])
        return self.mlp((1 + self.eps) * x + total)


class GIN(nn.Module):
    """Two layers, read out by the mean, the sum and the largest of the nodes of each of two graphs."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Isomorphism(4, 8), Isomorphism(8, 4)
        self.register_buffer("batch", torch.tensor([0, 0, 0, 1, 1, 1]))

    def forward(self, x: Tensor) -> Tensor:
        h = self.second(self.first(x).relu())
        places = self.batch[None, :, None].expand_as(h)
        empty = h.new_zeros(1, 2, h.shape[2])
        read = [empty.scatter_reduce(1, places, h, kind, include_self=False) for kind in ("mean", "sum", "amax")]
        return torch.cat(read, -1)


class SparseGCN(nn.Module):
    """The same convolution with its matrix in sparse storage."""

    def __init__(self) -> None:
        super().__init__()
        matrix = torch.zeros(NODES, NODES)
        matrix[EDGES[0], EDGES[1]] = 0.5
        self.register_buffer("matrix", (matrix + matrix.T + torch.eye(NODES)).to_sparse())
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.sparse.mm(self.matrix, self.first(x[0])).relu()
        return torch.sparse.mm(self.matrix, self.second(h))
