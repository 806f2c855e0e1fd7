"""Random small networks of many kinds, and how far they are really stretched inside a ball."""

from collections.abc import Callable

import torch
from torch import nn


class _Residual(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.inner(x)


class _Gate(nn.Module):
    """x sigmoid(W x), and a squeeze-excite gate of channels."""

    def __init__(self, channels: int, images: bool) -> None:
        super().__init__()
        self.linear, self.images = nn.Linear(channels, channels), images

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.images:
            return x * torch.sigmoid(self.linear(x.mean((2, 3))))[:, :, None, None]
        return x * torch.sigmoid(self.linear(x))


class _Attention(nn.Module):
    def __init__(self, width: int, causal: bool) -> None:
        super().__init__()
        self.read, self.write, self.causal = nn.Linear(width, 3 * width), nn.Linear(width, width), causal

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.read(x).chunk(3, -1)
        read = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        return x + self.write(read)


class _Sizes(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.normalize(x, dim=-1, eps=1e-3) * 3


class _Sorted(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sort(-1).values


ACTIVATIONS: list[Callable[[], nn.Module]] = [
    nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.ELU, nn.LeakyReLU, nn.Softplus, nn.Mish, nn.Hardswish, nn.ReLU6,
]  # fmt: skip


def random_network(seed: int) -> tuple[nn.Module, tuple[int, ...]]:
    """A network in evaluation mode in float64, and the shape of its input."""
    torch.manual_seed(seed)
    act = ACTIVATIONS[seed % len(ACTIVATIONS)]
    match seed // 2 % 8:
        case 0 | 1:
            widths = [int(n) for n in torch.randint(2, 17, (2 + seed % 3,))]
            layers: list[nn.Module] = []
            for before, after in zip([5, *widths], widths, strict=False):
                layers += [nn.Linear(before, after), act()]
            net, shape = nn.Sequential(*layers, nn.Linear(widths[-1], 3)), (1, 5)
        case 2:
            pool = nn.MaxPool2d(3, 2, 1) if seed % 2 else nn.MaxPool2d(2)
            net = nn.Sequential(
                nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), act(), pool, nn.Conv2d(4, 3, 3, stride=2), act(),
                nn.Flatten(), nn.LazyLinear(3),
            )  # fmt: skip
            shape = (1, 2, 8, 8)
        case 3:
            norm = nn.GroupNorm(2, 4) if seed % 2 else nn.InstanceNorm2d(4, affine=True)
            net = nn.Sequential(
                nn.Conv2d(1, 4, 3), norm, act(), _Residual(nn.Conv2d(4, 4, 3, padding=1)), _Gate(4, images=True),
                nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3),
            )  # fmt: skip
            shape = (1, 1, 6, 6)
        case 4:
            norm = nn.LayerNorm(8) if seed % 2 else nn.RMSNorm(8, eps=1e-5)
            net = nn.Sequential(nn.Linear(5, 8), norm, act(), _Gate(8, images=False), nn.Linear(8, 3))
            shape = (1, 5)
        case 5:
            layer = nn.Sequential(_Attention(6, causal=bool(seed % 2)), nn.LayerNorm(6))
            net, shape = nn.Sequential(layer, nn.Linear(6, 4), act(), nn.Flatten(), nn.Linear(16, 3)), (1, 4, 6)
        case 6:
            net = nn.Sequential(nn.Linear(5, 12), nn.GLU(), _Residual(nn.Sequential(nn.Linear(6, 6), act())), _Sizes())
            shape = (1, 5)
        case _:
            net = nn.Sequential(nn.Linear(5, 8), act(), _Sorted(), nn.Linear(8, 3), nn.Softmax(-1))
            shape = (1, 5)
    net(torch.randn(2, *shape[1:]))
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d | nn.GroupNorm | nn.LayerNorm):
            nn.init.normal_(module.weight, 1.0, 0.5)
    return net.double().eval(), shape


def largest_stretch(
    net: nn.Module, centre: torch.Tensor, radius: float, seed: int, rounds: int = 8, cube: bool = False
) -> float:
    """The largest norm of the Jacobian that sampling and climbing in a ball, or a cube of half width ``radius``, find."""
    generator = torch.Generator().manual_seed(seed)
    count = 64
    away = torch.randn(count, centre.numel(), generator=generator, dtype=torch.float64)
    away[0] = 0.0
    x = away / away.norm(dim=1, keepdim=True).clamp_min(1e-300)
    x = x * radius * torch.rand(count, 1, generator=generator, dtype=torch.float64) ** (1 / 4)
    if cube:
        x = away.clamp(-1, 1) * radius
    best, step = 0.0, 0.5
    for _ in range(rounds):
        norms = _jacobian_norms(net, centre, x)
        best = max(best, float(norms.max()))
        kept = x[norms.topk(8).indices].repeat(count // 8, 1)
        jump = torch.randn(count, x.shape[1], generator=generator, dtype=torch.float64)
        x = kept + step * radius * jump / jump.norm(dim=1, keepdim=True)
        x = x.clamp(-radius, radius) if cube else x * (radius / x.norm(dim=1, keepdim=True).clamp_min(radius))
        step *= 0.7
    return best


def _jacobian_norms(net: nn.Module, centre: torch.Tensor, away: torch.Tensor) -> torch.Tensor:
    x = (centre + away.reshape(len(away), *centre.shape[1:])).requires_grad_()
    y = net(x).flatten(1)
    rows = [torch.autograd.grad(y[:, k].sum(), x, retain_graph=True)[0].flatten(1) for k in range(y.shape[1])]
    return torch.linalg.matrix_norm(torch.stack(rows, 1), 2)
