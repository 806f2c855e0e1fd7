"""Random convolutions: [P] Figure 3, error and time when channels, input size or kernel size vary.

Square kernels with "same" zero padding and stride 1, entries Gaussian or uniform in [0, 1). The error is sigma_method - sigma_Ryu, with
the power iteration of Ryu et al. after 100 iterations as the reference, in float32 as in the paper. Ryu's figure and ``lipaudit``'s are
about the zero-padded operator, those of Sedghi et al. and of the paper (``delattre2023``) about the circular one: their distance to Ryu is
mostly the distance between the two operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from lipaudit.device import describe
from lipaudit.experiments.harness.methods import OURS, REFERENCE, figure, timed_norms
from lipaudit.experiments.harness.registry import PAPER_NAME, Experiment, Request, register
from lipaudit.experiments.harness.result import Result
from lipaudit.experiments.paper2023.simulated_summary import Measurement, below_table, claims, plot, sweep_tables
from lipaudit.spectral.convolution.geometry import Convolution

# iterations, samples or products that the paper names for this experiment
METHODS: dict[str, int | None] = {
    REFERENCE: 100, "singla2021": 50, "araujo2021": 50, "sedghi2019": None, "delattre2023": 5, OURS: None,
}  # fmt: skip
SWEEPS = ("channels", "input size", "kernel size")


@dataclass(frozen=True)
class Shape:
    """One setting of the sweep: channels in and out, input size n, kernel size k."""

    channels: int
    n: int
    k: int


def random_kernel(shape: Shape, distribution: str, generator: torch.Generator) -> torch.Tensor:
    """A kernel (channels, channels, k, k) with Gaussian entries, or uniform ones in [0, 1)."""
    draw = torch.randn if distribution == "gaussian" else torch.rand
    return draw(shape.channels, shape.channels, shape.k, shape.k, generator=generator)


def convolution_of(shape: Shape, kernel: torch.Tensor) -> Convolution:
    """The zero-padded "same" convolution."""
    left = (shape.k - 1) // 2
    pad = (left, shape.k - 1 - left)
    return Convolution(kernel, (shape.n, shape.n), (1, 1), (pad, pad), (1, 1))


def run(request: Request, sweeps: dict[str, Sequence[Shape]], repeats: int) -> Result:
    """The experiment over the given shapes; ``sweeps`` maps the names of :data:`SWEEPS` to shapes."""
    generator = request.generator()
    total = sum(len(shapes) for shapes in sweeps.values())
    done = 0
    measurements: list[Measurement] = []
    for sweep, shapes in sweeps.items():
        for shape in shapes:
            request.report(done, total, f"{sweep} {_axis(sweep, shape)}")
            measurements += _measure(request, sweep, shape, repeats, generator)
            done += 1
    request.report(total, total)
    parts = "; ".join(f"{sweep} {', '.join(str(_axis(sweep, s)) for s in shapes)}" for sweep, shapes in sweeps.items())
    setting = (
        f"{parts}; {repeats} Gaussian and {repeats} uniform kernels each (the paper: 50), float32, lipaudit in float64; "
        f"{describe(request.device)}, seed {request.seed}"
    )
    return Result(
        "simulated-convolutions",
        f"error and time on random convolutions ({PAPER_NAME}, Figure 3)",
        setting,
        (*(table for sweep in sweeps for table in sweep_tables(sweep, measurements)), below_table(measurements)),
        claims(measurements),
        tuple(plot(sweep, measurements, quantity) for quantity in ("error", "time") for sweep in sweeps),
        (
            "lipaudit's figure is certified for the zero-padded operator: by the circular convolution of the period input size "
            "+ padding, by the supremum over all frequencies, or by the written-out operator.",
        ),
    )


def _axis(sweep: str, shape: Shape) -> int:
    return {"channels": shape.channels, "input size": shape.n, "kernel size": shape.k}[sweep]


def _measure(request: Request, sweep: str, shape: Shape, repeats: int, generator: torch.Generator) -> list[Measurement]:
    measurements = []
    norms = {name: timed_norms(name, count, request.device, request.seed) for name, count in METHODS.items()}
    for distribution in ("gaussian", "uniform"):
        for repeat in range(repeats):
            convolution = convolution_of(shape, random_kernel(shape, distribution, generator))
            if repeat == 0 and distribution == "gaussian":
                for method in norms.values():
                    figure(method, convolution)  # warm up
            values = {name: figure(method, convolution) for name, method in norms.items()}
            reference = values[REFERENCE][0]
            measurements += [
                Measurement(sweep, _axis(sweep, shape), distribution, name, value, reference, seconds, rigor)
                for name, (value, rigor, seconds) in values.items()
            ]
    return measurements


def _run(request: Request) -> Result:
    if request.full:
        return run(
            request,
            {
                "channels": [Shape(c, 32, 3) for c in (4, 8, 16, 32, 64)],
                "input size": [Shape(16, n, 3) for n in (16, 32, 64, 128, 256)],
                "kernel size": [Shape(16, 252, k) for k in (3, 5, 7, 9, 11)],
            },
            3,
        )
    return run(
        request,
        {
            "channels": [Shape(c, 16, 3) for c in (4, 8, 16, 32)],
            "input size": [Shape(8, n, 3) for n in (8, 16, 32, 64)],
            "kernel size": [Shape(8, 32, k) for k in (3, 5, 7, 9)],
        },
        3,
    )


SIMULATED_CONVOLUTIONS = register(
    Experiment(
        "simulated-convolutions",
        "Figure 3: channels, input size and kernel size vary",
        "up to 32 channels, inputs up to 64 x 64, kernels up to 9 x 9, 3 kernels of each distribution",
        "up to 64 channels, inputs up to 256 x 256, kernels up to 11 x 11 on 252 x 252, 3 kernels of each distribution",
        _run,
    )
)
