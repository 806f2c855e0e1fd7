"""An encoder of the kind of BERT: token ids, masks and types are constants of the audit, embeddings are its input."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.errors import CaptureError, UsageError

TOKENS, WIDTH, HEADS = 6, 16, 4


@dataclass
class Output:
    last_hidden_state: torch.Tensor
    pooler_output: torch.Tensor
    attentions: tuple[torch.Tensor, ...] | None = None


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        def heads(y: torch.Tensor) -> torch.Tensor:
            return y.view(y.shape[0], y.shape[1], HEADS, -1).transpose(1, 2)

        scores = heads(self.query(x)) @ heads(self.key(x)).transpose(-1, -2) / math.sqrt(WIDTH // HEADS) + bias
        y = (scores.softmax(-1) @ heads(self.value(x))).transpose(1, 2)
        return self.out(y.reshape(*x.shape))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.norm1, self.norm2 = Attention(), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        x = self.norm1(x + self.attention(x, bias))
        return self.norm2(x + self.down(nn.functional.gelu(self.up(x))))


class Encoder(nn.Module):
    """The signature of ``BertModel``, with its embeddings of words, positions and token types."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.word, self.position, self.kind = (
            nn.Embedding(30, WIDTH),
            nn.Embedding(TOKENS, WIDTH),
            nn.Embedding(2, WIDTH),
        )
        self.norm, self.layers = nn.LayerNorm(WIDTH), nn.ModuleList(Layer() for _ in range(2))
        self.pooler = nn.Linear(WIDTH, WIDTH)

    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        token_type_ids=None,
        inputs_embeds=None,
        return_dict: bool = True,
    ):
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give input_ids or inputs_embeds")
        x = self.word(input_ids) if inputs_embeds is None else inputs_embeds
        if token_type_ids is None:
            token_type_ids = torch.zeros(x.shape[:2], dtype=torch.long)
        if attention_mask is None:
            attention_mask = torch.ones(x.shape[:2])
        bias = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        x = self.norm(x + self.position.weight[: x.shape[1]] + self.kind(token_type_ids))
        for layer in self.layers:
            x = layer(x, bias)
        pooled = torch.tanh(self.pooler(x[:, 0]))
        return Output(x, pooled) if return_dict else (x, pooled, None)


SHAPE = {"inputs_embeds": (1, TOKENS, WIDTH)}
MASK = torch.tensor([[1, 1, 1, 1, 0, 0]])


@pytest.fixture(scope="module")
def net() -> nn.Module:
    return Encoder().eval()


@pytest.mark.parametrize("mask", [None, MASK, "[[1, 1, 1, 1, 0, 0]]"])
@pytest.mark.parametrize("return_dict", [True, False])
def test_embeddings_are_the_input(net: nn.Module, mask: object, return_dict: bool) -> None:
    fix = {"return_dict": return_dict, "token_type_ids": torch.ones(1, TOKENS, dtype=torch.long)}
    report = lipaudit.audit(net, SHAPE, fix=fix if mask is None else {**fix, "attention_mask": mask})
    assert report.network.status == "finite"
    names = [output.name for output in report.network.outputs]
    assert names == (["last_hidden_state", "pooler_output"] if return_dict else ["0", "1"])
    assert any(layer.name == "layers.1.attention.value" for layer in report.layers)
    assert report.network.upper_bound is not None
    x = torch.randn(SHAPE["inputs_embeds"], generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    held = None if mask is None else MASK
    twin = Encoder().eval().double()

    def outputs(inputs_embeds: torch.Tensor) -> torch.Tensor:
        found = twin(inputs_embeds=inputs_embeds, attention_mask=held, token_type_ids=fix["token_type_ids"])
        return torch.cat([found.last_hidden_state.flatten(), found.pooler_output.flatten()])

    jacobian = torch.autograd.functional.jacobian(outputs, x).reshape(-1, x.numel())
    assert torch.linalg.matrix_norm(jacobian, 2).item() <= report.network.upper_bound


def test_a_mask_beside_token_ids_and_real_features() -> None:
    """Token ids held: the network is a function of what is left."""

    class WithFeatures(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.head = Encoder(), nn.Linear(WIDTH + 3, 2)

        def forward(self, input_ids, features, attention_mask=None):
            pooled = self.encoder(input_ids, attention_mask).pooler_output
            return self.head(torch.cat([pooled, features], dim=-1))

    net = WithFeatures().eval()
    ids = torch.tensor([[1, 2, 3, 4, 0, 0]])
    report = lipaudit.audit(net, {"features": (1, 3)}, fix={"input_ids": ids, "attention_mask": MASK}, tol=1e-6)
    weight = net.head.weight.detach().double()
    assert report.network.upper_bound is not None
    assert torch.linalg.svdvals(weight[:, WIDTH:])[0].item() <= report.network.upper_bound
    assert report.network.upper_bound <= torch.linalg.svdvals(weight)[0].item() * 1.00001


def test_without_a_signal_nothing_is_bounded(net: nn.Module) -> None:
    with pytest.raises(CaptureError, match="hold that input at a value"):
        lipaudit.audit(net, {"input_ids": (1, TOKENS)})
    ids = torch.zeros(1, TOKENS, dtype=torch.long)
    with pytest.raises((CaptureError, UsageError)):
        lipaudit.audit(net, SHAPE, fix={"input_ids": ids})
