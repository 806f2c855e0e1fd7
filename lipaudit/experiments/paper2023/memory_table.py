"""Memory of the gradient of all layers' bounds: [P] last table of the appendix.

The loss is the sum over the convolutions of max_i ||D_i^(N+1)||_F^(2^-N), D_i the symbol at frequency i of the input's grid (half of it:
real kernels), N = 6, in complex64, stride ignored, as in the paper's Algorithm 3. Three ways to its gradient:

- ``autodiff``: torch differentiates the iteration and keeps every iterate;
- ``explicit``: Proposition 4 (:mod:`lipaudit.spectral.matrix.gradient`), which keeps the symbols only;
- ``one frequency``: :func:`lipaudit.training.spectral_norm_bound`, which searches the maximum without a graph, a chunk of frequencies at a
  time, and differentiates only the symbol at the maximising one. The gradient is the same, because the maximum passes it to one
  frequency; a 1 x 1 kernel has one symbol.

How memory is counted is told in :mod:`lipaudit.experiments.harness.live_memory`. The seconds are those of a second run, which the counted
one has warmed up and which nothing counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from lipaudit.device import describe, timed
from lipaudit.experiments.harness.live_memory import peak_bytes
from lipaudit.experiments.harness.models import convolutions
from lipaudit.experiments.harness.registry import PAPER_NAME, Experiment, Request, register
from lipaudit.experiments.harness.result import Claim, Plot, Result, Series, Table
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.matrix.gradient import schatten_norm
from lipaudit.spectral.published.gram_iteration import schatten_norms
from lipaudit.training import Geometry, spectral_norm_bound

PRODUCTS = 6
# MB: autodiff, explicit; the paper prints "< 42 000" for ResNet50, the memory of its card
PAPER = {"resnet18": ("9770", 4322.0), "resnet34": ("17152", 7088.0), "resnet50": ("< 42000", 27535.0)}
AGREEMENT = 1e-3
_MB = 1e6

Bound = Callable[[torch.Tensor, tuple[int, int]], torch.Tensor]


def symbols(kernel: torch.Tensor, period: tuple[int, int]) -> torch.Tensor:
    """D(w) on half of the grid: (frequencies, c_out, c_in)."""
    transformed: torch.Tensor = torch.fft.rfft2(kernel, s=period)
    return transformed.permute(2, 3, 0, 1).flatten(0, 1)


def autodiff(kernel: torch.Tensor, period: tuple[int, int]) -> torch.Tensor:
    """The bound with a graph through every iterate."""
    *_, bounds = schatten_norms(symbols(kernel, period), PRODUCTS)
    return bounds.max()


def explicit(kernel: torch.Tensor, period: tuple[int, int]) -> torch.Tensor:
    """The bound with the explicit gradient at every frequency."""
    return schatten_norm(symbols(kernel, period), PRODUCTS).max()


def one_frequency(kernel: torch.Tensor, period: tuple[int, int]) -> torch.Tensor:
    """The bound with a gradient through the symbol at the maximising frequency only."""
    geometry = Geometry(period, padding="same", padding_mode="circular")
    # a lattice this fine would have more points than the grid, which is then kept
    return spectral_norm_bound(kernel, geometry, PRODUCTS, oversampling=max(2, *period))


WAYS: dict[str, Bound] = {"autodiff": autodiff, "explicit": explicit, "one frequency": one_frequency}


def gradients(layers: list[Convolution], way: Bound) -> list[torch.Tensor]:
    """The gradient of the sum of all bounds with respect to every kernel."""
    kernels = [layer.kernel.detach().requires_grad_() for layer in layers]
    total = kernels[0].new_zeros(())
    for kernel, layer in zip(kernels, layers, strict=True):
        # a kernel does not fit into a smaller grid
        h, w = (max(n, k) for n, k in zip(layer.input_size, layer.kernel_size, strict=True))
        total = total + way(kernel, (h, w))
    return list(torch.autograd.grad(total, kernels))


Row = tuple[str, str, float | None, float | None]  # network, way, MB, seconds


def run(request: Request, names: tuple[str, ...], size: int) -> Result:
    """The experiment on those networks with random weights (memory does not depend on them) at size x size."""
    rows: list[Row] = []
    apart: dict[str, float | None] = {}
    for position, name in enumerate(names):
        layers = network_layers(name, size, request)
        exact: list[torch.Tensor] | None = None
        apart[name] = None
        for step, (way, bound) in enumerate(WAYS.items()):
            request.report(position * len(WAYS) + step, len(names) * len(WAYS), f"{name} {way}")
            gradients, megabytes, seconds = measure(layers, bound, request.device)
            rows.append((name, way, megabytes, seconds))
            if exact is None:
                exact = gradients
            elif gradients is not None:
                furthest = max(distance(a, b) for a, b in zip(exact, gradients, strict=True))
                apart[name] = max(apart[name] or 0.0, furthest)
    request.report(1, 1)
    return _result(request, size, rows, apart)


def measure(
    layers: list[Convolution], way: Bound, device: torch.device
) -> tuple[list[torch.Tensor] | None, float | None, float | None]:
    """The gradient, its peak memory in MB and the seconds of a second run; three times None where the memory does not suffice."""
    kept: list[list[torch.Tensor]] = []
    peak = peak_bytes(lambda: kept.append(gradients(layers, way)), device)
    if peak is None:
        return None, None, None
    _, seconds = timed(lambda: gradients(layers, way), device)
    return kept[0], peak / _MB, seconds


def network_layers(name: str, size: int, request: Request) -> list[Convolution]:
    """The convolutions of a network of torchvision, their kernels on the device."""
    from torchvision.models import get_model

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(request.seed)
        module = get_model(name, weights=None).eval()
    layers = [layer for _, layer in convolutions(module, size)]
    return [layer.to(request.device) for layer in layers]


def distance(first: torch.Tensor, second: torch.Tensor) -> float:
    """Relative difference of two gradients in the Frobenius norm; infinity where it is no number."""
    apart = float(torch.linalg.vector_norm(first - second))
    size = float(torch.linalg.vector_norm(first))
    if apart == 0:
        return 0.0
    return apart / size if size > 0 and math.isfinite(apart / size) else math.inf


def _result(request: Request, size: int, rows: list[Row], apart: dict[str, float | None]) -> Result:
    counted = "allocator of the GPU" if request.device.type == "cuda" else "live tensors"
    setting = (
        f"random weights, input 3 x {size} x {size} (the paper: 224), {PRODUCTS} Gram products, complex64, memory by {counted}; "
        f"{describe(request.device)}, seed {request.seed}"
    )
    names = tuple(dict.fromkeys(row[0] for row in rows))
    table = Table(
        "peak memory of the gradient; an empty cell ran out of memory",
        ("network", "gradient", "MB", "seconds", "paper MB"),
        tuple((*row, _paper_cell(row[0], row[1])) for row in rows),
    )
    index = tuple(float(i) for i in range(len(names)))
    series = tuple(
        Series(way, index, tuple(next(row[2] or math.nan for row in rows if row[:2] == (name, way)) for name in names))
        for way in WAYS
    )
    return Result(
        "memory-table",
        f"memory of automatic and explicit gradients ({PAPER_NAME}, last table of the appendix)",
        setting,
        (table,),
        claims(rows, apart),
        (Plot("peak memory of the gradient", "network", "MB", series, log_y=True, categories=names),),
    )


def _paper_cell(name: str, way: str) -> str | float | None:
    if name not in PAPER or way == "one frequency":
        return None
    return PAPER[name][0 if way == "autodiff" else 1]


def claims(rows: list[Row], apart: dict[str, float | None]) -> tuple[Claim, ...]:
    """The explicit gradient needs less memory, and it is the same gradient.

    ``apart`` is the largest relative difference between the gradients of a network, None where fewer than two could be computed.
    """
    peaks = {(name, way): peak for name, way, peak, _ in rows}
    names = tuple(dict.fromkeys(row[0] for row in rows))

    def ratio(name: str, way: str) -> float:
        base, other = peaks[name, "autodiff"], peaks[name, way]
        return math.inf if base is None or other is None else base / other

    def less(name: str, way: str) -> bool:
        return peaks[name, way] is not None and ratio(name, way) > 1

    return (
        Claim(
            "the explicit gradient needs less memory than automatic differentiation",
            "2.26 times less for ResNet18, 2.42 for ResNet34",
            ", ".join(f"{ratio(n, 'explicit'):.3g} times less for {n}" for n in names),
            all(less(n, "explicit") for n in names),
        ),
        Claim(
            "differentiating the maximising frequency alone needs less still (lipaudit; not in the paper)",
            "none",
            ", ".join(f"{ratio(n, 'one frequency'):.3g} times less than autodiff for {n}" for n in names),
            all(ratio(n, "one frequency") >= ratio(n, "explicit") and less(n, "one frequency") for n in names),
        ),
        Claim(
            f"all ways that fit the memory give the same gradient, within {AGREEMENT:g} in float32",
            "Proposition 4",
            "largest relative difference over the kernels: "
            + ", ".join(
                f"fewer than two ways fit for {n}" if value is None else f"{value:.2g} for {n}"
                for n, value in apart.items()
            ),
            all(value is not None and value < AGREEMENT for value in apart.values()),
        ),
    )


def _run(request: Request) -> Result:
    return run(request, tuple(PAPER), 224) if request.full else run(request, ("resnet18",), 64)


MEMORY_TABLE = register(
    Experiment(
        "memory-table",
        "the last table of the appendix: memory of automatic and explicit gradients",
        "ResNet18, input 3 x 64 x 64, live tensors counted",
        "ResNet18, ResNet34 and ResNet50, input 3 x 224 x 224 (meant for a GPU)",
        _run,
    )
)
