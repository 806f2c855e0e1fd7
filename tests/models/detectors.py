"""Detection networks with the blocks and heads of the YOLO family, small: grids and anchors of version 5, distance bins of 8 to 11."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def convolution(inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """A convolution, batch norm and SiLU."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs, eps=1e-3),
        nn.SiLU(inplace=True),
    )


class Bottleneck(nn.Module):
    def __init__(self, width: int, shortcut: bool = True) -> None:
        super().__init__()
        self.cv1, self.cv2 = convolution(width, width, 3), convolution(width, width, 3)
        self.shortcut = shortcut

    def forward(self, x: Tensor) -> Tensor:
        y = self.cv2(self.cv1(x))
        return x + y if self.shortcut else y


class C3(nn.Module):
    """Two paths side by side (version 5)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        half = outputs // 2
        self.cv1, self.cv2, self.cv3 = (
            convolution(inputs, half),
            convolution(inputs, half),
            convolution(2 * half, outputs),
        )
        self.m = nn.Sequential(Bottleneck(half))

    def forward(self, x: Tensor) -> Tensor:
        return self.cv3(torch.cat((self.m(self.cv1(x)), self.cv2(x)), 1))


class C2f(nn.Module):
    """Every intermediate result is kept (version 8); with ``inner`` two bottlenecks in a row, as C3k2 has (version 11)."""

    def __init__(self, inputs: int, outputs: int, inner: int = 1) -> None:
        super().__init__()
        self.c = outputs // 2
        self.cv1, self.cv2 = convolution(inputs, 2 * self.c), convolution(4 * self.c, outputs)
        self.m = nn.ModuleList(nn.Sequential(*(Bottleneck(self.c) for _ in range(inner))) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        y = list(self.cv1(x).chunk(2, 1))
        y.extend(m(y[-1]) for m in self.m)
        return self.cv2(torch.cat(y, 1))


class SPPF(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.cv1, self.cv2 = convolution(width, width // 2), convolution(2 * width, width)
        self.m = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = [self.cv1(x)]
        y.extend(self.m(y[-1]) for _ in range(3))
        return self.cv2(torch.cat(y, 1))


class Attention(nn.Module):
    """Attention over positions with a depthwise encoding of places (versions 10 and 11)."""

    def __init__(self, dim: int, heads: int = 2) -> None:
        super().__init__()
        self.heads, self.head_dim = heads, dim // heads
        self.key_dim = self.head_dim // 2
        self.scale = self.key_dim**-0.5
        self.qkv = convolution(dim, dim + 2 * self.key_dim * heads)
        self.proj, self.pe = convolution(dim, dim), convolution(dim, dim, 3, groups=dim)

    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        qkv = self.qkv(x).view(b, self.heads, self.key_dim * 2 + self.head_dim, h * w)
        q, k, v = qkv.split([self.key_dim, self.key_dim, self.head_dim], dim=2)
        attn = ((q.transpose(-2, -1) @ k) * self.scale).softmax(dim=-1)
        x = (v @ attn.transpose(-2, -1)).view(b, c, h, w) + self.pe(v.reshape(b, c, h, w))
        return self.proj(x)


class PSA(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.c = width // 2
        self.cv1, self.cv2 = convolution(width, width), convolution(width, width)
        self.attn = Attention(self.c)
        self.ffn = nn.Sequential(convolution(self.c, 2 * self.c), convolution(2 * self.c, self.c))

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.cv1(x).split((self.c, self.c), dim=1)
        b = b + self.attn(b)
        return self.cv2(torch.cat((a, b + self.ffn(b)), 1))


class DetectAnchors(nn.Module):
    """Version 5: boxes from sigmoids, a grid of places and a grid of anchors."""

    def __init__(self, classes: int, widths: tuple[int, ...], strides: tuple[float, ...]) -> None:
        super().__init__()
        self.no, self.na = classes + 5, 2
        anchors = torch.tensor([[1.25, 1.625, 2.0, 3.75], [1.875, 3.8, 3.9, 2.8]]).view(2, 2, 2)
        self.register_buffer("anchors", anchors)
        self.stride = strides
        self.m = nn.ModuleList(nn.Conv2d(w, self.no * self.na, 1) for w in widths)

    def forward(self, features: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        raw, boxes = [], []
        for i, feature in enumerate(features):
            x = self.m[i](feature)
            bs, _, ny, nx = x.shape
            x = x.view(bs, self.na, self.no, ny, nx).permute(0, 1, 3, 4, 2).contiguous()
            raw.append(x)
            grid, anchors = self._make_grid(nx, ny, i)
            xy, wh, conf = x.sigmoid().split((2, 2, self.no - 4), 4)
            xy = (xy * 2 + grid) * self.stride[i]
            wh = (wh * 2) ** 2 * anchors
            boxes.append(torch.cat((xy, wh, conf), 4).view(bs, self.na * nx * ny, self.no))
        return torch.cat(boxes, 1), raw

    def _make_grid(self, nx: int, ny: int, i: int) -> tuple[Tensor, Tensor]:
        d, t = self.anchors[i].device, self.anchors[i].dtype
        shape = 1, self.na, ny, nx, 2
        y, x = torch.arange(ny, device=d, dtype=t), torch.arange(nx, device=d, dtype=t)
        yv, xv = torch.meshgrid(y, x, indexing="ij")
        grid = torch.stack((xv, yv), 2).expand(shape) - 0.5
        return grid, (self.anchors[i] * self.stride[i]).view((1, self.na, 1, 1, 2)).expand(shape)


def make_anchors(features: list[Tensor], strides: tuple[float, ...], offset: float = 0.5) -> tuple[Tensor, Tensor]:
    """The centres of all cells, and the stride of each, in the type of the first feature."""
    points, scales = [], []
    dtype, device = features[0].dtype, features[0].device
    for feature, stride in zip(features, strides, strict=True):
        _, _, h, w = feature.shape
        sx = torch.arange(end=w, device=device, dtype=dtype) + offset
        sy = torch.arange(end=h, device=device, dtype=dtype) + offset
        yy, xx = torch.meshgrid(sy, sx, indexing="ij")
        points.append(torch.stack((xx, yy), -1).view(-1, 2))
        scales.append(torch.full((h * w, 1), stride, dtype=dtype, device=device))
    return torch.cat(points), torch.cat(scales)


class DFL(nn.Module):
    """The mean of a distribution over distances: a softmax, and a convolution with 0 ... n - 1."""

    def __init__(self, bins: int) -> None:
        super().__init__()
        self.c1 = bins
        self.conv = nn.Conv2d(bins, 1, 1, bias=False).requires_grad_(False)
        self.conv.weight.data[:] = torch.arange(bins, dtype=torch.float).view(1, bins, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        b, _, a = x.shape
        return self.conv(x.view(b, 4, self.c1, a).transpose(2, 1).softmax(1)).view(b, 4, a)


def dist2bbox(distance: Tensor, anchors: Tensor, dim: int = 1) -> Tensor:
    """Centre and size from the distances to the four sides."""
    lt, rb = distance.chunk(2, dim)
    x1y1, x2y2 = anchors - lt, anchors + rb
    return torch.cat(((x1y1 + x2y2) / 2, x2y2 - x1y1), dim)


class DetectBins(nn.Module):
    """Versions 8 to 11: distances as distributions, classes as sigmoids."""

    def __init__(self, classes: int, widths: tuple[int, ...], strides: tuple[float, ...], bins: int = 8) -> None:
        super().__init__()
        self.nc, self.reg_max, self.no = classes, bins, classes + bins * 4
        self.stride = strides
        self.cv2 = nn.ModuleList(nn.Sequential(convolution(w, 8, 3), nn.Conv2d(8, 4 * bins, 1)) for w in widths)
        self.cv3 = nn.ModuleList(
            nn.Sequential(convolution(w, w, 3, groups=w), convolution(w, 8), nn.Conv2d(8, classes, 1)) for w in widths
        )
        self.dfl = DFL(bins)

    def forward(self, features: list[Tensor]) -> Tensor:
        x = [torch.cat((self.cv2[i](f), self.cv3[i](f)), 1) for i, f in enumerate(features)]
        anchors, strides = (t.transpose(0, 1) for t in make_anchors(x, self.stride))
        joined = torch.cat([xi.view(xi.shape[0], self.no, -1) for xi in x], 2)
        box, cls = joined.split((self.reg_max * 4, self.nc), 1)
        boxes = dist2bbox(self.dfl(box), anchors.unsqueeze(0)) * strides
        return torch.cat((boxes, cls.sigmoid()), 1)


class Detector(nn.Module):
    """A backbone with two scales and a neck that joins them, then the head."""

    def __init__(self, block: type[nn.Module], head: type[nn.Module], attention: bool = False) -> None:
        super().__init__()
        self.stem = nn.Sequential(convolution(3, 8, 3, 2), convolution(8, 8, 3, 2))
        self.low, self.down, self.high = block(8, 8), convolution(8, 16, 3, 2), block(16, 16)
        self.pool = nn.Sequential(SPPF(16), *((PSA(16),) if attention else ()))
        self.up, self.join = nn.Upsample(scale_factor=2, mode="nearest"), block(24, 8)
        self.head = head(3, (8, 16), (4.0, 8.0))

    def forward(self, x: Tensor) -> object:
        low = self.low(self.stem(x))
        high = self.pool(self.high(self.down(low)))
        return self.head([self.join(torch.cat((low, self.up(high)), 1)), high])


class C3k2(C2f):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, inner=2)
