"""Layers that are 1-Lipschitz by construction, written as their public implementations are: weights are made in the forward."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrize


class ConvexPotential(nn.Module):
    """x - 2 / ||W||^2 W^T relu(W x + b), the norm by power iteration in the forward (CPL; Meunier et al., 2022)."""

    def __init__(self, inside: int, hidden: int, iterations: int = 2, trained: int = 500) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(hidden, inside) / 3), nn.Parameter(torch.randn(hidden))
        u = torch.randn(hidden)
        with torch.no_grad():
            for _ in range(trained):
                u = functional.normalize(self.weight @ (self.weight.T @ u), dim=0)
        self.register_buffer("u", u)
        self.iterations = iterations

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        u = self.u
        for _ in range(self.iterations):
            v = functional.normalize(self.weight.T @ u, dim=0)
            u = functional.normalize(self.weight @ v, dim=0)
        norm = torch.sum(u * (self.weight @ v))
        hidden = functional.relu(functional.linear(x, self.weight, self.bias))
        return x - 2 / norm**2 * functional.linear(hidden, self.weight.T)


class ConvexPotentialConvolution(nn.Module):
    """The same with a convolution; the norm is kept in a buffer."""

    def __init__(self, inside: int, hidden: int, size: int, iterations: int = 400) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(hidden, inside, 3, 3) / 4), nn.Parameter(torch.randn(hidden))
        u = torch.randn(1, inside, size, size)
        with torch.no_grad():
            for _ in range(iterations):
                v = functional.conv2d(u, self.weight, padding=1)
                u = functional.conv_transpose2d(v / v.norm(), self.weight, padding=1)
                u = u / u.norm()
            self.register_buffer("norm", functional.conv2d(u, self.weight, padding=1).norm())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = functional.relu(functional.conv2d(x, self.weight, self.bias, padding=1))
        return x - 2 / self.norm.square() * functional.conv_transpose2d(hidden, self.weight, padding=1)


class SdpBased(nn.Module):
    """x - 2 W T^-1 relu(W^T x + b), T_ii = sum_j |W^T W|_ij q_j / q_i (SLL; Araujo et al., 2023)."""

    def __init__(self, inside: int, hidden: int, epsilon: float = 1e-6) -> None:
        super().__init__()
        self.kernel, self.q = nn.Parameter(torch.randn(hidden, inside)), nn.Parameter(torch.randn(hidden))
        self.bias, self.activation, self.epsilon = nn.Parameter(torch.randn(hidden)), nn.ReLU(inplace=False), epsilon

    def scale(self) -> torch.Tensor:
        q, q_inverse = torch.exp(self.q)[None, :], torch.exp(-self.q)[:, None]
        t = 2 / torch.abs(q_inverse * (self.kernel @ self.kernel.transpose(1, 0)) * q).sum(1)
        return torch.nan_to_num(t)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.scale() * self.activation(functional.linear(x, self.kernel, self.bias))
        return x - functional.linear(hidden, self.kernel.t())


class SdpBasedConvolution(nn.Module):
    """The same with a convolution: the kernel is correlated with itself."""

    def __init__(self, inside: int, hidden: int) -> None:
        super().__init__()
        self.kernel, self.bias = nn.Parameter(torch.randn(hidden, inside, 3, 3)), nn.Parameter(torch.randn(hidden))
        self.q = nn.Parameter(torch.randn(hidden))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ktk = functional.conv2d(self.kernel, self.kernel, padding=2).abs().sum((2, 3))
        q = torch.exp(self.q)
        t = 2 / (ktk * q[None, :] / q[:, None]).sum(1)
        hidden = functional.relu(functional.conv2d(x, self.kernel, self.bias, padding=1))
        return x - functional.conv_transpose2d(t[None, :, None, None] * hidden, self.kernel, padding=1)


def cayley(w: torch.Tensor) -> torch.Tensor:
    """The Cayley transform of a tall matrix (…, m, n): orthonormal columns (Trockman and Kolter, 2021)."""
    if w.shape[-2] < w.shape[-1]:
        return cayley(w.mT).mT
    n = w.shape[-1]
    u, v = w[..., :n, :], w[..., n:, :]
    identity = torch.eye(n, dtype=w.dtype)
    a = u - u.mH + v.mH @ v
    inverse = torch.inverse(identity + a)
    return torch.cat([inverse @ (identity - a), -2 * v @ inverse], -2)


class Sandwich(nn.Module):
    """sqrt(2) A^T Psi relu(sqrt(2) Psi^-1 B x + b), A A^T + B B^T = I by a Cayley transform (Wang and Manchester, 2023)."""

    def __init__(self, inside: int, outside: int, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale
        self.free, self.alpha = nn.Parameter(torch.randn(inside + outside, outside)), nn.Parameter(torch.ones(1))
        self.psi, self.bias = nn.Parameter(torch.randn(outside) / 2), nn.Parameter(torch.randn(outside))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        outside = len(self.psi)
        q = cayley(self.alpha * self.free / self.free.norm())
        x = functional.linear(self.scale * x, q[outside:].T)  # B @ x
        x = x * torch.exp(-self.psi) * math.sqrt(2)
        x = functional.relu(x + self.bias) * torch.exp(self.psi)
        return math.sqrt(2) * functional.linear(x, q[:outside])


class SandwichConvolution(nn.Module):
    """The same per frequency, with two Fourier transforms there and back; the first layer of a network scales its input."""

    def __init__(self, inside: int, outside: int, size: int, scale: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outside, inside + outside, 3, 3))
        self.psi, self.bias = nn.Parameter(torch.randn(outside) / 2), nn.Parameter(torch.randn(outside))
        self.size, self.scale = size, scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, half, outside = self.size, self.size // 2 + 1, len(self.psi)

        def there(x: torch.Tensor) -> torch.Tensor:
            return torch.fft.rfft2(x).permute(2, 3, 1, 0).reshape(n * half, x.shape[1], 1)

        def back(x: torch.Tensor) -> torch.Tensor:
            return torch.fft.irfft2(x.reshape(n, half, x.shape[1], 1).permute(3, 2, 0, 1), s=(n, n))

        kernel = torch.fft.rfft2(self.weight, (n, n)).reshape(outside, -1, n * half).permute(2, 0, 1).conj()
        q = cayley(kernel / kernel.norm())
        psi = torch.exp(self.psi).diag().to(q.dtype)
        x = back(math.sqrt(2) * torch.linalg.inv(psi) @ q[:, :, outside:] @ there(self.scale * x))
        hidden = functional.relu(x + self.bias[:, None, None])
        return back(math.sqrt(2) * q[:, :, :outside].mH @ psi @ there(hidden))


class AlmostOrthogonal(nn.Module):
    """W D with D_jj = (sum_i |W^T W|_ij)^-1/2 (AOL; Prach and Lampert, 2022)."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(outside, inside)), nn.Parameter(torch.zeros(outside))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        lipschitz = torch.abs(self.weight.T @ self.weight).sum(dim=0)
        safe = torch.where(lipschitz == 0, torch.zeros_like(lipschitz), torch.pow(lipschitz, -1 / 2))
        return functional.linear(x, self.weight * safe, self.bias)


class AlmostOrthogonalConvolution(nn.Module):
    """The same with a convolution; circular padding as in the paper, or zeros."""

    def __init__(self, inside: int, outside: int, mode: str = "circular", size: int = 3) -> None:
        super().__init__()
        self.weight, self.mode, self.size = nn.Parameter(torch.randn(outside, inside, size, size)), mode, size

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        v = functional.conv2d(self.weight.transpose(0, 1), self.weight.transpose(0, 1), padding=self.size - 1)
        scale = 1 / torch.sqrt(v.abs().sum((1, 2, 3)))
        kernel = self.weight * scale.view(1, -1, 1, 1)
        p = self.size // 2
        if self.mode == "circular":
            return functional.conv2d(functional.pad(x, (p, p, p, p), mode="circular"), kernel)
        return functional.conv2d(x, kernel, padding=p)


class CayleyLinear(nn.Module):
    """An orthogonal matrix by the Cayley transform, scaled first."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(outside, inside)), nn.Parameter(torch.zeros(outside))
        self.alpha = nn.Parameter(self.weight.detach().norm())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, cayley(self.alpha * self.weight / self.weight.norm()), self.bias)


class CayleyConvolution(nn.Module):
    """Orthogonal per frequency: the input goes through the Fourier transform (Trockman and Kolter, 2021)."""

    def __init__(self, channels: int, size: int) -> None:
        super().__init__()
        self.weight, self.bias = (
            nn.Parameter(torch.randn(channels, channels, 3, 3) / 3),
            nn.Parameter(torch.zeros(channels)),
        )
        self.size = size

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        channels, n = len(self.weight), self.size
        half = n // 2 + 1
        spectrum = torch.fft.rfft2(x).permute(2, 3, 1, 0).reshape(n * half, channels, 1)
        kernel = torch.fft.rfft2(self.weight, (n, n)).reshape(channels, channels, n * half).permute(2, 0, 1).conj()
        turned = cayley(kernel / kernel.norm()) @ spectrum
        y = torch.fft.irfft2(turned.reshape(n, half, channels, 1).permute(3, 2, 0, 1), s=(n, n))
        return y + self.bias[:, None, None]


class SkewExponential(nn.Module):
    """exp of a skew-symmetric convolution, by the series of the exponential applied to the data (SOC; Singla and Feizi, 2021)."""

    def __init__(self, channels: int, terms: int = 12) -> None:
        super().__init__()
        self.weight, self.terms = nn.Parameter(torch.randn(channels, channels, 3, 3)), terms

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skew = self.weight - self.weight.transpose(0, 1).flip([2, 3])
        # at most the least of the four norms of the reshaped kernel, times the taps
        norms = [torch.linalg.matrix_norm(m.reshape(len(skew), -1), 2) for m in (skew, skew.transpose(0, 1))]
        skew = 0.9 * skew / (3 * torch.stack(norms).min())
        total = term = x
        for k in range(1, self.terms):
            term = functional.conv2d(functional.pad(term, (1, 1, 1, 1), mode="circular"), skew) / k
            total = total + term
        return total


class SkewMatrixExponential(nn.Module):
    """An orthogonal matrix exp(W - W^T)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(channels, channels) / 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, torch.matrix_exp(self.weight - self.weight.T))


def bjorck(w: torch.Tensor, iterations: int = 30, beta: float = 0.5) -> torch.Tensor:
    """The nearest orthogonal matrix by iteration."""
    w = w / torch.linalg.matrix_norm(w)
    for _ in range(iterations):
        w = (1 + beta) * w - beta * w @ w.mT @ w
    return w


class Orthogonalised(nn.Module):
    """For :func:`torch.nn.utils.parametrize.register_parametrization`."""

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return bjorck(weight)


def bjorck_linear(inside: int, outside: int) -> nn.Linear:
    """A dense layer whose weight is orthogonalised whenever it is read."""
    layer = nn.Linear(inside, outside)
    parametrize.register_parametrization(layer, "weight", Orthogonalised())
    return layer


class BlockConvolution(nn.Module):
    """A product of orthogonal 2 x 2 convolutions of projections, multiplied out in the forward (BCOP; Li et al., 2019)."""

    def __init__(self, channels: int, circular: bool = True) -> None:
        super().__init__()
        self.free, self.circular = nn.Parameter(torch.randn(5, channels, channels)), circular

    def kernel(self) -> torch.Tensor:
        channels = self.free.shape[1]
        ortho = bjorck(self.free[0])
        kernel = ortho[:, :, None, None]
        for k in (1, 3):
            p, q = (bjorck(self.free[i])[:, : channels // 2] for i in (k, k + 1))
            p, q = p @ p.T, q @ q.T
            rest_p, rest_q = torch.eye(channels) - p, torch.eye(channels) - q
            block = torch.stack([torch.stack([p @ q, p @ rest_q]), torch.stack([rest_p @ q, rest_p @ rest_q])])
            kernel = functional.conv2d(
                kernel.transpose(0, 1), block.permute(2, 3, 0, 1).flip([2, 3]), padding=1
            ).transpose(0, 1)
        return kernel

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.circular:
            return functional.conv2d(functional.pad(x, (1, 1, 1, 1), mode="circular"), self.kernel())
        return functional.conv2d(x, self.kernel(), padding=1)


class LayerwiseOrthogonal(nn.Module):
    """(W W*)^-1/2 W per frequency by Newton's iteration, the kernel taken back to pixels (LOT; Xu et al., 2022)."""

    def __init__(self, channels: int, size: int) -> None:
        super().__init__()
        self.weight, self.size = nn.Parameter(torch.randn(channels, channels, 3, 3)), size

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = self.size
        w = torch.fft.fft2(functional.pad(self.weight, (0, n - 3, 0, n - 3))).permute(2, 3, 0, 1)
        gram = w @ w.mH
        scale = torch.linalg.matrix_norm(gram, keepdim=True)
        y = gram / scale
        identity = torch.eye(len(self.weight), dtype=y.dtype)
        z = identity.expand_as(y)
        for _ in range(25):
            step = 0.5 * (3 * identity - z @ y)
            y, z = y @ step, step @ z
        orthogonal = (z / scale.sqrt()) @ w
        kernel = torch.fft.ifft2(orthogonal.permute(2, 3, 0, 1)).real
        padded = functional.pad(x, (0, n - 1, 0, n - 1), mode="circular")
        return functional.conv2d(padded, kernel)


class ExplicitOrthogonal(nn.Module):
    """The exponential of a skew-symmetric map per frequency, back to a kernel of the period's size (ECO; Yu et al., 2022)."""

    def __init__(self, channels: int, size: int) -> None:
        super().__init__()
        self.weight, self.size = nn.Parameter(torch.randn(channels, channels, 3, 3) / 3), size

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = self.size
        w = torch.fft.fft2(self.weight, s=(n, n)).permute(2, 3, 0, 1)
        orthogonal = torch.matrix_exp(w - w.mH)
        kernel = torch.fft.ifft2(orthogonal.permute(2, 3, 0, 1)).real
        return functional.conv2d(functional.pad(x, (0, n - 1, 0, n - 1), mode="circular"), kernel)


class InvertibleDownsampling(nn.Module):
    """Blocks of pixels become channels, by views and permutations."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, c, h, w = x.shape
        return x.view(b, c, h // 2, 2, w // 2, 2).permute(0, 1, 3, 5, 2, 4).reshape(b, 4 * c, h // 2, w // 2)


class InvertibleDownsamplingBySlices(nn.Module):
    """The same by strided slices."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x[:, :, i::2, j::2] for i in (0, 1) for j in (0, 1)], dim=1)


class LipschitzResidual(nn.Module):
    """a x + (1 - a) f(x) with a learned a in [0, 1]."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.logit = inner, nn.Parameter(torch.tensor(0.3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = torch.sigmoid(self.logit)
        return a * x + (1 - a) * self.inner(x)


class BatchCentring(nn.Module):
    """The running mean is subtracted, a bias added."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.randn(channels))
        self.bias = nn.Parameter(torch.randn(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shape = (1, -1, *(1,) * (x.dim() - 2))
        return x - self.mean.view(shape) + self.bias.view(shape)


class LayerCentring(nn.Module):
    """The mean of each sample is subtracted."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - x.mean(dim=(-2, -1), keepdim=True)


class NormalisedClasses(nn.Module):
    """The last layer: every row of the matrix has length 1. Each logit is 1-Lipschitz, not all of them together."""

    def __init__(self, inside: int, classes: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(classes, inside)), nn.Parameter(torch.zeros(classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, functional.normalize(self.weight, dim=1), self.bias)
