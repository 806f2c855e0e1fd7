"""Random small networks of images and vectors, of any geometry and any way of joining branches, that bounds must hold for."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

F64 = torch.float64
Step = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, eq=False)
class RandomNetwork:
    """A network in float64 with one input ``x``, and the names of its steps for the message of a failure."""

    net: nn.Module
    shape: tuple[int, ...]
    steps: tuple[str, ...]


class _Steps(nn.Module):
    def __init__(self, steps: list[Step], modules: list[nn.Module]) -> None:
        super().__init__()
        self.steps = steps
        self.kept = nn.ModuleList(modules)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for step in self.steps:
            x = step(x)
        return x


def _max_min(x: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, 1)
    return torch.cat([torch.maximum(a, b), torch.minimum(a, b)], 1)


_ACTIVATIONS: dict[str, Step] = {
    "relu": torch.relu,
    "leaky relu": lambda x: functional.leaky_relu(x, 0.2),
    "negative leaky relu": lambda x: functional.leaky_relu(x, -0.3),
    "elu": functional.elu,
    "gelu": functional.gelu,
    "silu": functional.silu,
    "tanh": torch.tanh,
    "softplus": functional.softplus,
    "absolute value": torch.abs,
    "clamp": lambda x: x.clamp(-0.5, 1.0),
}


class Builder:
    """Draws a network step by step; what it draws depends on the seed alone."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.torch = torch.Generator().manual_seed(seed)
        self.modules: list[nn.Module] = []
        self.names: list[str] = []

    def network(self) -> RandomNetwork:
        """Vectors or images, two to six steps and sometimes a head."""
        images = self.draw.random() < 0.65
        shape = (
            (1, self.draw.randint(1, 4), self.draw.randint(4, 8), self.draw.randint(4, 8))
            if images
            else (1, self.draw.randint(2, 10))
        )
        steps, x = list[Step](), torch.zeros(shape, dtype=F64)
        for _ in range(self.draw.randint(2, 6)):
            choices = self._image_steps(x) if images else self._vector_steps(x)
            steps.append(self._chosen(choices))
            x = steps[-1](x)
        if images and self.draw.random() < 0.5:
            steps.append(self.draw.choice([lambda y: y.mean((2, 3)), lambda y: y.flatten(1)]))
            x = steps[-1](x)
            self.names.append("head")
            steps.append(self._dense(x.shape[1], self.draw.randint(1, 5)))
        return RandomNetwork(_Steps(steps, self.modules).eval(), shape, tuple(self.names))

    def _chosen(self, choices: dict[str, Callable[[], Step]]) -> Step:
        name = self.draw.choice(sorted(choices))
        self.names.append(name)
        return choices[name]()

    def _activation(self) -> Step:
        name = self.draw.choice(sorted(_ACTIVATIONS))
        self.names.append(name)
        return _ACTIVATIONS[name]

    def _dense(self, inputs: int, outputs: int) -> nn.Module:
        return self._weighted(nn.Linear(inputs, outputs, bias=self.draw.random() < 0.5, dtype=F64))

    def _weighted(self, module: nn.Module) -> nn.Module:
        scale = self.draw.choice([0.5, 1.0, 2.0])
        for parameter in module.parameters():
            fan = parameter[0].numel() if parameter.dim() > 1 else 4
            parameter.data = torch.randn(parameter.shape, generator=self.torch, dtype=F64) * scale / fan**0.5
        self.modules.append(module)
        return module

    def _branch(self, inputs: int, outputs: int, layer: Callable[[int, int], Step]) -> Step:
        first, middle = layer(inputs, self.draw.randint(2, 5)), self._activation()
        width = first.weight.shape[0]  # type: ignore[attr-defined]
        last = layer(width, outputs)
        return lambda x: last(middle(first(x)))

    def _vector_steps(self, x: torch.Tensor) -> dict[str, Callable[[], Step]]:
        n = x.shape[1]
        steps: dict[str, Callable[[], Step]] = {
            "dense": lambda: self._dense(n, self.draw.randint(2, 12)),
            "activation": self._activation,
            "dense, activation": lambda: self._joined(self._dense(n, self.draw.randint(2, 12)), self._activation()),
            "residual": lambda: self._residual(self._branch(n, n, self._dense)),
            "concatenation": lambda: self._concatenated(self._branch(n, self.draw.randint(1, 4), self._dense)),
            "softmax": lambda: lambda y: torch.softmax(y, 1),
            "less the mean": lambda: lambda y: y - y.mean(1, keepdim=True),
        }
        if n % 2 == 0:
            steps["maxmin"] = lambda: _max_min
            steps["sorted pairs"] = lambda: lambda y: y.unflatten(1, (-1, 2)).sort(2).values.flatten(1)
            steps["gate of constants"] = lambda: lambda y: y * torch.linspace(-1, 1, n, dtype=F64)
        if n > 2:
            steps["halves, one through an activation"] = lambda: self._split(n // 2)
        return steps

    def _image_steps(self, x: torch.Tensor) -> dict[str, Callable[[], Step]]:
        c, height, width = x.shape[1:]
        same = lambda i, o: self._convolution(i, o, same=True)  # noqa: E731
        steps: dict[str, Callable[[], Step]] = {
            "activation": self._activation,
            "convolution, activation": lambda: self._joined(same(c, self.draw.randint(1, 6)), self._activation()),
            "convolution, convolution": lambda: self._joined(same(c, 2), same(2, self.draw.randint(1, 4))),
            "residual": lambda: self._residual(self._branch(c, c, same)),
            "activated residual": lambda: self._joined(self._residual(self._branch(c, c, same)), self._activation()),
            "concatenation": lambda: self._concatenated(self._branch(c, self.draw.randint(1, 3), same)),
            "scaled channels": lambda: lambda y: y * torch.linspace(0.5, 1.5, c, dtype=F64)[:, None, None],
        }
        if min(height, width) >= 4:
            steps["convolution"] = lambda: self._convolution(c, self.draw.randint(1, 5))
            steps["average pooling"] = lambda: lambda y: functional.avg_pool2d(y, 2)
            steps["max pooling"] = lambda: lambda y: functional.max_pool2d(y, 3, 2, 1)
            steps["uneven padding"] = lambda: lambda y: functional.pad(y, (0, 1, 2, 0))
        if height % 2 == width % 2 == 0 and c <= 4:
            steps["space to depth"] = lambda: lambda y: functional.pixel_unshuffle(y, 2)
        if max(height, width) <= 5:
            steps["transposed"] = lambda: self._transposed(c)
        if c % 2 == 0:
            steps["maxmin"] = lambda: _max_min
            steps["channel halves"] = lambda: self._split(c // 2)
        return steps

    def _convolution(self, inputs: int, outputs: int, same: bool = False) -> nn.Module:
        kernel = self.draw.choice([1, 3] if same else [1, 2, 3, 4])
        groups = self.draw.choice([g for g in (1, 2, 3) if inputs % g == outputs % g == 0])
        dilation = self.draw.choice([1, 1, 2]) if kernel == 3 else 1
        padding = dilation * (kernel - 1) // 2 if same else self.draw.randint(0, kernel // 2 + 1)
        stride = 1 if same else self.draw.choice([1, 1, 2, 3])
        if not same and kernel > 2:
            dilation = 1
        bias = self.draw.random() < 0.5
        return self._weighted(
            nn.Conv2d(inputs, outputs, kernel, stride, padding, dilation, groups, bias=bias, dtype=F64)
        )

    def _transposed(self, inputs: int) -> nn.Module:
        kernel, stride = self.draw.choice([(2, 2), (3, 2), (3, 1), (4, 2)])
        padding = self.draw.randint(0, kernel // 2)
        return self._weighted(
            nn.ConvTranspose2d(inputs, self.draw.randint(1, 3), kernel, stride, padding, bias=False, dtype=F64)
        )

    def _joined(self, *steps: Step) -> Step:
        def run(x: torch.Tensor) -> torch.Tensor:
            for step in steps:
                x = step(x)
            return x

        return run

    def _residual(self, branch: Step) -> Step:
        weight = self.draw.choice([1.0, 0.5, -1.0])
        return lambda x: x + weight * branch(x)

    def _concatenated(self, branch: Step) -> Step:
        return lambda x: torch.cat([branch(x), x], 1)

    def _split(self, at: int) -> Step:
        activation = self._activation()
        return lambda x: torch.cat([activation(x[:, :at]), x[:, at:]], 1)


def random_network(seed: int) -> RandomNetwork:
    """The network of a seed."""
    return Builder(seed).network()
