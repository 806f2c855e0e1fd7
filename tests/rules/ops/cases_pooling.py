"""Conformance cases of pooling and resizing."""

from itertools import product

from tests.nodes import data
from tests.rules.ops.cases import case, unsupported

# size, kernel, stride, padding, dilation, ceil mode
WINDOWS = [
    (7, 3, 2, 1, 1, False),
    (6, 3, 1, 1, 1, False),
    (6, 2, 2, 0, 1, False),
    (7, 2, 2, 0, 1, True),
    (8, 3, 2, 0, 1, True),
    (7, 2, 3, 1, 1, True),
    (9, 3, 1, 1, 2, False),
    (9, 3, 2, 0, 3, True),
    (8, 5, 3, 2, 1, True),
]
for n, k, s, p, d, ceil in WINDOWS:
    for suffix in ("", "_with_indices"):
        case(f"max_pool1d{suffix}", data(1, 1, n), [k], [s], [p], [d], ceil)
        case(f"max_pool2d{suffix}", data(1, 1, n, 5), [k, 2], [s, 1], [p, 1], [d, 1], ceil)
for suffix in ("", "_with_indices"):
    case(f"max_pool2d{suffix}", data(1, 2, 6, 6), [3, 3], [], 1, 1, False)
    case(f"max_pool2d{suffix}", data(1, 1, 6, 6), [3], [2])
    case(f"max_pool3d{suffix}", data(1, 1, 4, 4, 3), [3, 2, 2], [2, 1, 1], [1, 1, 0], [1, 1, 1], True)

for n, m in ((7, 3), (6, 3), (5, 4), (4, 4), (3, 5), (5, 1)):
    case("adaptive_max_pool1d", data(1, 1, n), [m])
    case("adaptive_max_pool2d", data(1, 1, n, 4), [m, 3])
    case("adaptive_avg_pool1d", data(1, 1, n), [m])
    case("adaptive_avg_pool2d", data(1, 2, n, 4), [m, 3])
    case("_adaptive_avg_pool2d", data(1, 1, n, 4), [m, 3])
case("adaptive_max_pool3d", data(1, 1, 4, 3, 3), [2, 2, 1])
case("adaptive_avg_pool3d", data(1, 1, 4, 3, 3), [3, 2, 1])
case("_adaptive_avg_pool3d", data(1, 1, 4, 3, 3), [3, 2, 1])

for n, k, s, p, _, ceil in WINDOWS:
    for pad in (True, False):
        case("avg_pool1d", data(1, 1, n), [k], [s], [min(p, k // 2)], ceil, pad)
        for divisor in (None, 3, -2):
            case("avg_pool2d", data(1, 1, n, 5), [k, 2], [s, 1], [min(p, k // 2), 1], ceil, pad, divisor)
case("avg_pool2d", data(1, 1, 6, 6), [3], [], 0)
case("avg_pool3d", data(1, 1, 4, 4, 3), [3, 2, 2], [1, 2, 1], [1, 1, 0], True, False, None)

# sizes before and after, scale factors
RESIZES = [
    (5, 10, None),
    (4, 7, None),
    (7, 3, None),
    (6, 6, None),
    (5, 1, None),
    (1, 4, None),
    (5, 9, 1.8),
    (6, 4, 0.7),
]
KERNELS = {
    1: ["upsample_nearest1d", "_upsample_nearest_exact1d", "upsample_linear1d"],
    2: [
        "upsample_nearest2d",
        "_upsample_nearest_exact2d",
        "upsample_bilinear2d",
        "upsample_bicubic2d",
        "_upsample_bilinear2d_aa",
        "_upsample_bicubic2d_aa",
    ],
    3: ["upsample_nearest3d", "_upsample_nearest_exact3d", "upsample_trilinear3d"],
}
for axes, names in KERNELS.items():
    for name in names:
        corner_choices = [()] if "nearest" in name else [(False,), (True,)]
        for (n, m, scale), corners in product(RESIZES if axes < 3 else RESIZES[1:6:2], corner_choices):
            x = data(1, 1, n, *(4, 2)[: axes - 1])
            sizes, scales = [m, 6, 3][:axes], [scale, None, None][:axes]
            case(name, x, sizes, *corners, *scales)
            case(f"aten.{name}.vec", x, sizes, *corners, None)
            if scale is not None:
                case(f"aten.{name}.vec", x, None, *corners, [scale, 1.5, 1.5][:axes])
for kernel in ("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"):
    unsupported(kernel, data(1, 1, 4, 3), [2, 1], False)
unsupported("max_pool1d", data(1, 1, 1), [2], [1], [1], [2])
