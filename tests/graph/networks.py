"""Small networks in which scales, branches, paddings and sharing meet, in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional


def randomise(module: nn.Module, offsets: bool) -> nn.Module:
    """Deterministic weights; batch norms far from the identity, some scales negative.

    Without ``offsets`` every bias and running mean is zero, so that leaving biases out leaves the function unchanged.
    """
    generator = torch.Generator().manual_seed(0)

    def normal(tensor: torch.Tensor, scale: float) -> None:
        tensor.copy_(torch.randn(tensor.shape, generator=generator, dtype=torch.float64) * scale)

    module.double().eval()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            is_offset = name.endswith("bias")
            normal(parameter, (0.5 if offsets else 0.0) if is_offset else 0.4)
        for m in module.modules():
            if isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d):
                normal(m.running_mean, 0.5 if offsets else 0.0)
                m.running_var.copy_(0.3 + torch.rand(m.running_var.shape, generator=generator, dtype=torch.float64))
    return module


class Function(nn.Module):
    """A forward written as a function of named submodules and the inputs."""

    def __init__(self, forward: Callable[..., object], **parts: nn.Module | torch.Tensor) -> None:
        super().__init__()
        self._function = forward
        for name, part in parts.items():
            if isinstance(part, nn.Module):
                setattr(self, name, part)
            else:
                self.register_buffer(name, part.double())

    def forward(self, *inputs: torch.Tensor) -> object:
        return self._function(self, *inputs)


class OfOneInput(nn.Module):
    """A function of one tensor without weights; its input is called ``x``."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self._function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._function(x)


def _bn(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels)


class Residual(nn.Module):
    """Strided, grouped blocks with batch norms after every convolution and on the shortcut."""

    def __init__(self, activation: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1, bias=False), _bn(4), activation())
        self.body = nn.ModuleList(
            [
                nn.Sequential(
                    nn.Conv2d(4, 4, 3, 1, 1, groups=2), _bn(4), activation(), nn.Conv2d(4, 4, 3, 1, 1), _bn(4)
                ),
                nn.Sequential(nn.Conv2d(4, 8, 3, 2, 1, bias=False), _bn(8), activation(), nn.Conv2d(8, 8, 1), _bn(8)),
            ]
        )
        self.shortcut = nn.Sequential(nn.Conv2d(4, 8, 1, 2), _bn(8))
        self.activation = activation()
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5), nn.Linear(8, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        x = self.activation(self.body[0](x) + x)
        x = self.activation(self.body[1](x) + self.shortcut(x))
        return self.head(x)


class Branches(nn.Module):
    """A re-parametrisable block: 3x3, 1x1 and (at stride 1) identity branches, each with its own batch norm."""

    def __init__(self, stride: int, groups: int) -> None:
        super().__init__()
        self.dense = nn.Sequential(nn.Conv2d(4, 4, 3, stride, 1, groups=groups, bias=False), _bn(4))
        self.pointwise = nn.Sequential(nn.Conv2d(4, 4, 1, stride, groups=groups, bias=False), _bn(4))
        self.identity = _bn(4) if stride == 1 else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.dense(x) + self.pointwise(x)
        return y if self.identity is None else y + self.identity(x)


@dataclass(frozen=True, eq=False)
class Example:
    """A network, its input shapes, and the counts of convolutions, dense layers and scales left after simplification."""

    build: Callable[[Callable[[], nn.Module]], nn.Module]
    shapes: tuple[tuple[int, ...], ...]
    left: tuple[int, int, int]

    def module(self, activation: Callable[[], nn.Module], offsets: bool) -> nn.Module:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return randomise(self.build(activation), offsets)

    def inputs(self, seed: int) -> dict[str, torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        return {f"x{i}": torch.randn(s, dtype=torch.float64, generator=generator) for i, s in enumerate(self.shapes)}


IMAGE = (1, 4, 6, 6)


def _conv(**options: object) -> nn.Conv2d:
    return nn.Conv2d(4, 4, 3, **options)  # type: ignore[arg-type]


def _fn(forward: Callable[..., object], **parts: Callable[[], nn.Module] | torch.Tensor) -> Callable[..., nn.Module]:
    def build(activation: Callable[[], nn.Module]) -> nn.Module:
        made = {k: p if isinstance(p, torch.Tensor) else p() for k, p in parts.items()}
        return Function(forward, act=activation(), **made)

    return build


def _bn4() -> nn.Module:
    return _bn(4)


def _same() -> nn.Module:
    return _conv(padding=1)


CHANNELS = torch.tensor([2.0, -0.5, 3.0, 0.25]).reshape(4, 1, 1)
COLUMNS = torch.tensor([1.0, -2.0, 0.5, 3.0, 1.5, 0.1])

EXAMPLES: dict[str, Example] = {
    "residual": Example(Residual, ((1, 3, 8, 8),), (6, 1, 0)),
    "branches": Example(lambda act: nn.Sequential(Branches(1, 1), act()), (IMAGE,), (1, 0, 0)),
    "branches, grouped": Example(lambda act: nn.Sequential(Branches(1, 2), act()), (IMAGE,), (1, 0, 0)),
    "branches, strided": Example(lambda act: nn.Sequential(Branches(2, 1), act()), (IMAGE,), (1, 0, 0)),
    "branches, strided, grouped": Example(lambda act: nn.Sequential(Branches(2, 4), act()), ((1, 4, 7, 5),), (1, 0, 0)),
    "branches, twice": Example(lambda act: nn.Sequential(Branches(1, 1), act(), Branches(1, 2)), (IMAGE,), (2, 0, 0)),
    "convolution and input": Example(_fn(lambda m, x: m.act(x + m.conv(x)), conv=_same), (IMAGE,), (1, 0, 0)),
    "convolution and scaled input": Example(
        _fn(lambda m, x: m.act(m.conv(x) + 3 * x), conv=_same), (IMAGE,), (1, 0, 0)
    ),
    "even and dilated kernels": Example(
        _fn(
            lambda m, x: m.act(m.a(x) + m.b(x)),
            a=lambda: nn.Conv2d(4, 3, (2, 3), padding=(1, 2), dilation=(2, 2)),
            b=lambda: nn.Conv2d(4, 3, (3, 2), padding=(1, 1), dilation=(1, 2)),
        ),
        (IMAGE,),
        (1, 0, 0),
    ),
    "unequal groups": Example(
        _fn(
            lambda m, x: m.act(m.a(x) + m.b(x)),
            a=lambda: _conv(padding=1, groups=4),
            b=lambda: nn.Conv2d(4, 4, 5, padding=2, groups=2),
        ),
        (IMAGE,),
        (1, 0, 0),
    ),
    "unequal strides of equal size": Example(
        _fn(
            lambda m, x: m.act(m.a(x) + m.b(x)),
            a=lambda: nn.Conv2d(4, 3, 3, stride=2, padding=0),
            b=lambda: nn.Conv2d(4, 3, 5, stride=1, padding=0),
        ),
        ((1, 4, 6, 6),),
        (2, 0, 0),
    ),
    "one convolution, twice": Example(_fn(lambda m, x: m.act(m.conv(x) + m.conv(x)), conv=_same), (IMAGE,), (1, 0, 0)),
    "a branch that is read elsewhere": Example(
        _fn(lambda m, x: ((y := m.a(x)) + m.b(x), m.act(y)), a=_same, b=_same), (IMAGE,), (2, 0, 0)
    ),
    "a branch that is an output": Example(
        _fn(lambda m, x: ((y := m.a(x)) + m.b(x), y), a=_same, b=_same), (IMAGE,), (2, 0, 0)
    ),
    "a convolution over the other branch": Example(
        _fn(lambda m, x: m.act((y := m.a(x)) + m.b(y)), a=_same, b=_same), (IMAGE,), (2, 0, 0)
    ),
    "a weighted addition": Example(
        _fn(lambda m, x: torch.add(m.a(x), m.b(x), alpha=2), a=_same, b=_same), (IMAGE,), (2, 0, 0)
    ),
    "a difference of branches": Example(_fn(lambda m, x: m.a(x) - m.b(x), a=_same, b=_same), (IMAGE,), (2, 0, 0)),
    "a branch that is broadcast": Example(
        _fn(lambda m, x: m.act(m.a(x) + x), a=lambda: nn.Conv2d(4, 1, 3, padding=1)), (IMAGE,), (1, 0, 0)
    ),
    "branches of circular padding": Example(
        _fn(
            lambda m, x: m.act(m.a(x) + m.b(x)),
            a=lambda: _conv(padding=1, padding_mode="circular"),
            b=lambda: nn.Conv2d(4, 4, 1),
        ),
        (IMAGE,),
        (2, 0, 0),
    ),
    "a scale before two convolutions": Example(
        _fn(
            lambda m, x: m.act(m.a(y := m.bn(x))) + m.act(m.b(y)),
            bn=_bn4,
            a=_same,
            b=lambda: _conv(padding=1, groups=2),
        ),
        (IMAGE,),
        (2, 0, 0),
    ),
    "a scale before a convolution and a non-linearity": Example(
        _fn(lambda m, x: m.a(y := m.bn(x)) + m.act(y), bn=_bn4, a=_same), (IMAGE,), (1, 0, 1)
    ),
    "a scale before a grouped transposed convolution": Example(
        _fn(
            lambda m, x: m.up(m.bn(m.act(x))),
            bn=_bn4,
            up=lambda: nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1, groups=2),
        ),
        (IMAGE,),
        (1, 0, 0),
    ),
    "transposed convolution, then batch norm": Example(
        _fn(
            lambda m, x: m.act(m.bn(m.up(x))),
            bn=lambda: _bn(6),
            up=lambda: nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1, groups=2, dilation=2),
        ),
        (IMAGE,),
        (1, 0, 0),
    ),
    "transposed branches": Example(
        _fn(
            lambda m, x: m.act(m.a(x) + m.b(x)),
            a=lambda: nn.ConvTranspose2d(4, 4, 3, padding=1),
            b=lambda: nn.ConvTranspose2d(4, 4, 1),
        ),
        (IMAGE,),
        (2, 0, 0),
    ),
    "dense, then batch norm": Example(
        lambda act: nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), act(), nn.BatchNorm1d(5), nn.Linear(5, 4)),
        ((1, 6),),
        (0, 2, 0),
    ),
    "dense on tokens, scales along channels and along tokens": Example(
        _fn(
            lambda m, x: m.act(m.b((m.a(x) * m.gamma) * m.tokens)),
            a=lambda: nn.Linear(6, 6),
            b=lambda: nn.Linear(6, 3),
            gamma=COLUMNS,
            tokens=COLUMNS[:5, None],
        ),
        ((1, 5, 6),),
        (0, 2, 1),
    ),
    "matrix products": Example(
        _fn(
            lambda m, x: m.act((x @ m.weight / 2) @ m.weight.T),
            weight=torch.linspace(-1, 1, 30).reshape(6, 5),
        ),
        ((1, 7, 6),),
        (0, 2, 0),
    ),
    "addmm": Example(
        _fn(
            lambda m, x: torch.addmm(m.bias, m.act(x), m.weight, beta=0.0, alpha=-3.0),
            weight=torch.linspace(-1, 1, 30).reshape(6, 5),
            bias=torch.zeros(5),
        ),
        ((2, 6),),
        (0, 1, 0),
    ),
    "padding modes": Example(
        lambda act: nn.Sequential(
            _conv(padding=2, padding_mode="circular"),
            act(),
            _conv(padding=1, padding_mode="reflect"),
            _bn(4),
            act(),
            _conv(padding=(1, 2), padding_mode="replicate", stride=2),
            act(),
            _conv(padding=1),
        ),
        (IMAGE,),
        (4, 0, 0),
    ),
    "a scale before reflect padding": Example(
        lambda act: nn.Sequential(_bn(4), _conv(padding=1, padding_mode="reflect"), act()), (IMAGE,), (1, 0, 0)
    ),
    "asymmetric padding": Example(
        _fn(lambda m, x: m.act(m.conv(functional.pad(x, (1, 0, 2, 3)))), conv=lambda: _conv(stride=2)),
        (IMAGE,),
        (1, 0, 0),
    ),
    "padding along one axis": Example(
        _fn(lambda m, x: m.act(m.conv(functional.pad(x, (2, 1)))), conv=_conv), (IMAGE,), (1, 0, 0)
    ),
    "padding that crops": Example(
        _fn(lambda m, x: m.act(m.conv(functional.pad(x, (-1, 2, 0, 0)))), conv=_conv), (IMAGE,), (1, 0, 0)
    ),
    "padding of channels": Example(
        _fn(
            lambda m, x: m.act(m.conv(functional.pad(x, (1, 1, 1, 1, 1, 0)))),
            conv=lambda: nn.Conv2d(5, 4, 3),
        ),
        (IMAGE,),
        (1, 0, 0),
    ),
    "padding with two readers": Example(
        _fn(lambda m, x: m.a(y := functional.pad(x, (1,) * 4)) + m.act(m.b(y)), a=_conv, b=_conv), (IMAGE,), (2, 0, 0)
    ),
    "padding before a padded convolution": Example(
        _fn(lambda m, x: m.act(m.conv(functional.pad(x, (1, 0, 0, 1), mode="replicate"))), conv=_same),
        (IMAGE,),
        (1, 0, 0),
    ),
    "padding before a transposed convolution": Example(
        _fn(lambda m, x: m.act(m.up(functional.pad(x, (1, 1)))), up=lambda: nn.ConvTranspose2d(4, 2, 3)),
        (IMAGE,),
        (1, 0, 0),
    ),
    "padding that is an output": Example(
        _fn(lambda m, x: (m.conv(y := functional.pad(x, (1,) * 4)), y), conv=_conv), (IMAGE,), (1, 0, 0)
    ),
    "chained scales with several readers": Example(
        _fn(
            lambda m, x: (m.a(y := m.bn(x)) + m.act(m.b(z := y * m.channels)), m.act(z), m.a(z / 7)),
            bn=_bn4,
            a=_same,
            b=_same,
            channels=CHANNELS,
        ),
        (IMAGE,),
        (3, 0, 2),
    ),
    "a chain of scales": Example(
        _fn(lambda m, x: m.act(-2 * m.bn(m.channels * (x / 3)) * 0.5), bn=_bn4, channels=CHANNELS), (IMAGE,), (0, 0, 1)
    ),
    "scales along different axes": Example(
        _fn(lambda m, x: m.act(m.conv(x * m.channels * m.columns)), conv=_same, channels=CHANNELS, columns=COLUMNS),
        (IMAGE,),
        (1, 0, 2),
    ),
    "outputs that are scales": Example(
        _fn(lambda m, x: (y := m.bn(m.conv(x)), y * 2, m.act(y)), conv=_same, bn=_bn4), (IMAGE,), (1, 0, 1)
    ),
    "a convolution that is an output beside its scale": Example(
        _fn(lambda m, x: (y := m.conv(x), m.bn(y)), conv=_same, bn=_bn4), (IMAGE,), (1, 0, 1)
    ),
    "the input is an output": Example(_fn(lambda m, x: (x, m.bn(x)), bn=_bn4), (IMAGE,), (0, 0, 1)),
    "a shared convolution": Example(
        _fn(lambda m, x: m.conv(m.act(m.bn(m.conv(x)))), conv=_same, bn=_bn4), (IMAGE,), (2, 0, 0)
    ),
    "a shared convolution between two scales": Example(
        _fn(lambda m, x: m.conv(m.p(x)) + m.act(m.conv(m.q(x))), conv=_same, p=_bn4, q=_bn4), (IMAGE,), (2, 0, 0)
    ),
    "several inputs and outputs": Example(
        _fn(
            lambda m, x, y: (m.act(m.a(x) + m.b(y)), torch.cat([m.bn(x), y], 1), {"left": m.act(x)}),
            a=_same,
            b=_same,
            bn=_bn4,
        ),
        (IMAGE, IMAGE),
        (2, 0, 1),
    ),
    "in place": Example(_fn(lambda m, x: _in_place(m, x), conv=_same, bn=_bn4), (IMAGE,), (1, 0, 1)),
    "in place through a view": Example(
        _fn(lambda m, x: _through_a_view(m, x), conv=_same, bn=_bn4), (IMAGE,), (1, 0, 1)
    ),
    "dense between views, then a scale": Example(
        _fn(
            lambda m, x: m.act(m.a(x.reshape(5, 6)).view(1, 1, 5, 6).flatten(0, 1) * m.gamma) / 7,
            a=lambda: nn.Linear(6, 6),
            gamma=COLUMNS,
        ),
        ((1, 5, 6),),
        (0, 1, 1),
    ),
    "a scale, then views and dense layers": Example(
        _fn(
            lambda m, x: (
                m.act(m.a((y := m.act(x) * m.gamma).reshape(5, 6)).reshape(1, 5, 4)) + m.act(m.b(y[..., None, :, :])[0])
            ),
            a=lambda: nn.Linear(6, 4),
            b=lambda: nn.Linear(6, 4),
            gamma=COLUMNS,
        ),
        ((1, 5, 6),),
        (0, 2, 0),
    ),
    "scales and views in a chain": Example(
        _fn(
            lambda m, x: m.act(3 * (m.b((m.a(x).view(5, 6) * m.gamma).view(1, 5, 6) / m.gamma).view(5, 6) * m.gamma)),
            a=lambda: nn.Linear(6, 6),
            b=lambda: nn.Linear(6, 6),
            gamma=COLUMNS,
        ),
        ((1, 5, 6),),
        (0, 2, 0),
    ),
    "a view that splits the scaled axis": Example(
        _fn(
            lambda m, x: (
                m.act(m.a(x).reshape(1, 5, 2, 3) * m.gamma[:3]) + m.b((m.act(x) * m.gamma).reshape(1, 5, 2, 3))
            ),
            a=lambda: nn.Linear(6, 6),
            b=lambda: nn.Linear(3, 3),
            gamma=COLUMNS,
        ),
        ((1, 5, 6),),
        (0, 2, 2),
    ),
    "a scale of tokens before a view": Example(
        _fn(
            lambda m, x: m.act(m.a((m.act(x) * m.gamma[:5, None]).reshape(5, 6))).reshape(1, 5, 6) * m.gamma[:5, None],
            a=lambda: nn.Linear(6, 6),
            gamma=COLUMNS,
        ),
        ((1, 5, 6),),
        (0, 1, 2),
    ),
    "a view of a dense layer with two readers": Example(
        _fn(
            lambda m, x: m.act(y := m.a(x).reshape(5, 6)) + y * m.gamma,
            a=lambda: nn.Linear(6, 6),
            gamma=COLUMNS,
        ),
        ((1, 5, 6),),
        (0, 1, 1),
    ),
    "a view of a scale that is an output": Example(
        _fn(
            lambda m, x: (m.a(y := (m.act(x) * m.gamma).reshape(5, 6)), y),
            a=lambda: nn.Linear(6, 6),
            gamma=COLUMNS,
        ),
        ((1, 5, 6),),
        (0, 1, 1),
    ),
    "a permutation between a scale and a dense layer": Example(
        _fn(
            lambda m, x: m.act(m.a((m.act(x) * m.gamma).transpose(1, 2))),
            a=lambda: nn.Linear(6, 6),
            gamma=COLUMNS,
        ),
        ((1, 6, 6),),
        (0, 1, 1),
    ),
    "a scale that enlarges": Example(
        _fn(lambda m, x: m.act(m.conv(x * m.channels)), conv=_same, channels=CHANNELS), ((1, 1, 6, 6),), (1, 0, 0)
    ),
    "normalised pixels": Example(
        _fn(lambda m, x: m.act(m.conv(x / m.std)), conv=_same, std=CHANNELS), (IMAGE,), (1, 0, 0)
    ),
    "a reciprocal is no scale": Example(_fn(lambda m, x: m.conv(1 / m.act(x).exp()), conv=_same), (IMAGE,), (1, 0, 0)),
    "a product of two data-dependent tensors": Example(
        _fn(lambda m, x: m.conv(x * m.act(x)), conv=_same), (IMAGE,), (1, 0, 0)
    ),
    "split and concatenated": Example(
        _fn(
            lambda m, x: torch.cat([m.a(p) for p in (m.bn(x)).chunk(2, 1)], 1),
            bn=_bn4,
            a=lambda: nn.Conv2d(2, 3, 3),
        ),
        (IMAGE,),
        (2, 0, 1),
    ),
    "patches in the batch": Example(
        _fn(lambda m, x: m.bn(m.conv(x.reshape(4, 4, 3, 3))).sum(0), conv=_same, bn=_bn4), (IMAGE,), (1, 0, 0)
    ),
    "one dimension": Example(
        _fn(
            lambda m, x: m.act(m.bn(m.a(x))) + m.b(x),
            a=lambda: nn.Conv1d(4, 4, 3, padding="same"),
            b=lambda: nn.Conv1d(4, 4, 3, padding=1, padding_mode="circular"),
            bn=lambda: nn.BatchNorm1d(4),
        ),
        ((1, 4, 9),),
        (2, 0, 0),
    ),
    "three dimensions": Example(
        _fn(
            lambda m, x: m.act(m.bn(m.a(x)) + m.b(x)),
            a=lambda: nn.Conv3d(2, 3, 3, padding=1),
            b=lambda: nn.Conv3d(2, 3, 1),
            bn=lambda: nn.BatchNorm3d(3),
        ),
        ((1, 2, 4, 3, 5),),
        (1, 0, 0),
    ),
}


def _in_place(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
    y = m.conv(x)
    y.mul_(2.0)
    z = m.bn(y)
    functional.relu_(z)
    z += x
    z.div_(4)
    return z


def _through_a_view(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """The doubled channel is read through the tensor that it is a view of."""
    y = m.bn(m.conv(x))
    y[:, 1].mul_(3.0)
    y[:, :, 0] = x[:, :, 1]
    return m.act(y)
