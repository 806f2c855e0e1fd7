"""Networks that mix by Fourier transforms, and magnitudes of complex tensors."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.graph.capture.export import capture
from lipaudit.rules.effect import Settings, Status
from lipaudit.rules.region.magnitude import Magnitude, slice_norm
from lipaudit.rules.region.radii import Radii
from lipaudit.rules.rule import apply_rule, radii_of
from lipaudit.spectral.interval import Interval
from tests.rules.ops.cases import Case, all_cases


class Function(nn.Module):
    """A forward with weights."""

    def __init__(self, forward: Callable[..., torch.Tensor], **weights: torch.Tensor) -> None:
        super().__init__()
        self.function = forward
        for name, weight in weights.items():
            self.register_parameter(name, nn.Parameter(weight))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self, x)


def weight(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def fnet(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
    y = x + torch.fft.fftn(x, dim=(1, 2)).real
    return y + torch.tanh(y @ m.mix)


def gfnet(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
    tokens = x.reshape(1, 4, 5, 3)
    spectrum = torch.fft.rfft2(tokens, dim=(1, 2), norm="ortho") * torch.view_as_complex(m.filter)
    return torch.fft.irfft2(spectrum, s=(4, 5), dim=(1, 2), norm="ortho").reshape(1, 20, 3)


def shifted(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
    z = torch.fft.fftshift(torch.fft.fft2(x, norm="ortho"), dim=(-2, -1))
    z = torch.fft.ifft2(torch.fft.ifftshift(z * m.filter[..., 0] / (2 - 1j), dim=(-2, -1)), norm="ortho")
    return torch.cat([z.real, z.imag, z.conj().abs(), torch.view_as_real(z * 1j).flatten(2)], 2)


NETWORKS = {
    "FNet": (Function(fnet, mix=weight(3, 3)), (1, 20, 3)),
    "GFNet": (Function(gfnet, filter=weight(4, 3, 3, 2)), (1, 20, 3)),
    "shifted spectrum": (Function(shifted, filter=weight(6, 4, 2)), (1, 6, 4)),
    "complex from parts": (
        Function(lambda m, x: torch.fft.irfft(torch.complex(x, x @ m.mix)), mix=weight(4, 4)), (1, 3, 4),
    ),
    "a scale before and after": (Function(lambda m, x: (3 * torch.fft.fft(x / 7) * 2j).real * m.s, s=weight(4)), (1, 4)),
}  # fmt: skip


def largest_jacobian(module: nn.Module, points: list[torch.Tensor]) -> float:
    def real(x: torch.Tensor) -> torch.Tensor:
        y = module(x)
        return torch.view_as_real(y.resolve_conj()) if y.is_complex() else y

    jacobians = [torch.autograd.functional.jacobian(real, x).reshape(-1, x.numel()) for x in points]
    return max(float(torch.linalg.matrix_norm(j, 2)) for j in jacobians)


def around(centre: torch.Tensor, radius: float) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    moves = [torch.randn(centre.shape, generator=generator, dtype=torch.float64) for _ in range(6)]
    return [centre, *(centre + radius * m / m.norm() for m in moves)]


@pytest.mark.parametrize("name", NETWORKS)
def test_bounds_of_networks_hold(name: str) -> None:
    module, shape = NETWORKS[name]
    report = lipaudit.audit(module, input_shape={"x": shape}, lower_bound=True)
    assert report.network.status == "finite", report
    found = largest_jacobian(module, around(torch.zeros(shape, dtype=torch.float64), 3.0))
    assert found <= report.network.upper_bound * (1 + 1e-9)
    assert found >= report.network.upper_bound / 4


def test_a_linear_mixing_is_exact() -> None:
    layers = {
        "unitary": (lambda m, x: torch.fft.fft2(x, norm="ortho"), 1.0),
        "real part": (lambda m, x: torch.fft.fft(x).real, 2.0),
        "scaled": (lambda m, x: torch.fft.ifft(torch.fft.fft(x) * (3 + 4j)), 5.0),
        "half": (lambda m, x: torch.fft.irfft(torch.complex(x, 2 * x)), 2 * (2 / 6) ** 0.5 + (2 / 6) ** 0.5),
    }
    for name, (function, constant) in layers.items():
        report = lipaudit.audit(Function(function, s=weight(1)), input_shape={"x": (1, 4, 4)})
        bound = report.network.upper_bound
        if name == "half":  # the two parts of one tensor add, the operation alone would give the root of their squares
            assert bound <= constant * (1 + 1e-9)
        else:
            assert bound == pytest.approx(constant, rel=1e-9)
        module = Function(function, s=weight(1))
        assert largest_jacobian(module, [torch.zeros(1, 4, 4, dtype=torch.float64)]) <= bound * (1 + 1e-9)


@pytest.mark.parametrize("radius", [None, 0.5])
@pytest.mark.parametrize("turn", [1.0, 1j, 0.6 + 0.8j])
def test_products_with_complex_matrices_have_the_norm_of_the_matrix(turn: complex, radius: float | None) -> None:
    """|X W|_F <= sigma_1(W) |X|_F for complex matrices as for real ones."""
    mixed = turn * weight(4, 4) + 0.5j * (turn - 1) * weight(4, 4).flip(0)
    layers = {
        "product": lambda m, x: torch.fft.fft(x, norm="ortho") @ m.s,
        "from the left": lambda m, x: (m.s @ torch.fft.fft(x, norm="ortho").mT).mT,
        "rows": lambda m, x: nn.functional.linear(torch.fft.fft(x, norm="ortho"), m.s),
        "conjugate": lambda m, x: torch.fft.fft(x, norm="ortho") @ m.s.conj(),
        "adjoint": lambda m, x: torch.fft.fft(x, norm="ortho") @ m.s.mH,
        "weighted sum": lambda m, x: torch.addmm(torch.fft.fft(x)[0], torch.fft.fft(x)[0], m.s, beta=0.5, alpha=2),
        "real part": lambda m, x: (torch.fft.fft(x) @ m.s).real,
        "real input": lambda m, x: x.to(torch.complex128) @ m.s,
    }
    centre = torch.ones(1, 4, 4, dtype=torch.float64)
    ball = {} if radius is None else {"domain": "ball", "around": centre, "radius": radius}
    norm = float(torch.linalg.matrix_norm(mixed, 2))
    for name, function in layers.items():
        module = Function(function, s=mixed)
        network = lipaudit.audit(module, input_shape={"x": (1, 4, 4)}, **ball).network
        found = largest_jacobian(module, [centre])
        assert found <= network.upper_bound * (1 + 1e-9), name
        if name in ("product", "from the left", "rows", "conjugate", "adjoint", "real input"):
            assert network.upper_bound == pytest.approx(norm, rel=2e-3), name


@pytest.mark.parametrize(
    "function",
    [
        lambda m, x: torch.sigmoid(torch.fft.fft(x)).real,
        lambda m, x: torch.tanh(torch.fft.fft(x)).abs(),
        lambda m, x: torch.fft.fft(x).exp().real,
        lambda m, x: (torch.fft.fft(x) * torch.sigmoid(torch.fft.fft(x))).real,
        lambda m, x: torch.fft.fft(x).pow(2).abs(),
        lambda m, x: (torch.fft.fft(x) * torch.fft.fft(x)).real,
        lambda m, x: (torch.fft.fft(x).sum(-1, keepdim=True).reciprocal() * x).real,
        lambda m, x: (torch.fft.fft(x) / torch.fft.fft(x).abs().sum()).real,
        lambda m, x: (torch.fft.fft(x) / torch.fft.fft(x).square().mean(-1, keepdim=True).add(1).sqrt()).imag,
        lambda m, x: torch.fft.fft(x).angle(),
        lambda m, x: torch.fft.fft(x).sgn().real,
        lambda m, x: torch.addmm(torch.fft.fft(x)[0], torch.fft.fft(x)[0], m.s.to(torch.complex128), alpha=2j).real,
        lambda m, x: torch.addmm(torch.fft.fft(x)[0], torch.fft.fft(x)[0], m.s.to(torch.complex128), beta=2j).real,
        lambda m, x: torch.fft.fft(x).prod(-1).real,
        lambda m, x: torch.fft.fft(x).cumsum(-1).imag,
        lambda m, x: torch.einsum("bij,jk->bik", torch.fft.fft(x), m.s.to(torch.complex128)).real,
    ],
)  # fmt: skip
@pytest.mark.parametrize("radius", [None, 0.5])
def test_other_functions_of_complex_tensors_get_no_bound(
    function: Callable[..., torch.Tensor], radius: float | None
) -> None:
    ball = {} if radius is None else {"domain": "ball", "around": torch.ones(1, 4, 4).double(), "radius": radius}
    report = lipaudit.audit(Function(function, s=weight(4, 4)), input_shape={"x": (1, 4, 4)}, **ball)
    assert report.network.status != "finite"
    assert report.network.upper_bound is None or report.network.upper_bound == float("inf")


def test_polar_coordinates_are_bounded_on_a_ball_and_unbounded_over_all_inputs() -> None:
    polar = Function(lambda m, x: torch.polar(x.abs(), x).real, s=weight(1))
    assert lipaudit.audit(polar, input_shape={"x": (1, 4, 4)}).network.status == "unbounded"
    ball = {"domain": "ball", "around": torch.ones(1, 4, 4).double(), "radius": 0.5}
    found = lipaudit.audit(polar, input_shape={"x": (1, 4, 4)}, **ball).network.upper_bound
    t = torch.linspace(0.5, 1.5, 1001, dtype=torch.float64)
    assert found is not None
    assert float((t.cos() - t * t.sin()).abs().max()) <= found  # the slope of |t| cos t


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
def test_a_cast_takes_the_real_part() -> None:
    def squares(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        z = torch.complex(x @ m.s, x)
        real = z.to(torch.float64)
        return real / ((z * z).to(torch.float64).mean(-1, keepdim=True) + 1).sqrt()

    cast = Function(lambda m, x: torch.fft.fft(x * (1 + 2j)).to(torch.float64), s=weight(1))
    bound = lipaudit.audit(cast, input_shape={"x": (1, 4)}).network.upper_bound
    assert largest_jacobian(cast, [torch.zeros(1, 4, dtype=torch.float64)]) <= bound <= 2 * 5**0.5 * (1 + 1e-9)
    # not the norm of rows: (z z).real is no square
    assert lipaudit.audit(Function(squares, s=weight(4, 4)), input_shape={"x": (1, 4)}).network.status != "finite"


def test_gates_made_of_spectra_are_bounded_on_a_ball() -> None:
    def gated(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        z = torch.fft.rfft2(x, norm="ortho") * torch.view_as_complex(m.s)
        y = torch.fft.irfft2(z - 1j, s=(3, 4), norm="ortho")
        return x * y * torch.view_as_real(z).flatten(2)[..., :4] + z.imag.sum(-1, keepdim=True) * z.abs()[..., :1]

    module = Function(gated, s=weight(3, 3, 2))
    centre = weight(1, 3, 4)
    for radius in (0.1, 2.0):
        report = lipaudit.audit(module, input_shape={"x": (1, 3, 4)}, domain="ball", around=centre, radius=radius)
        assert report.network.status == "finite"
        assert largest_jacobian(module, around(centre, radius)) <= report.network.upper_bound


COMPLEX_CASES = [
    case
    for case in all_cases()
    if any(t.dtype.is_complex for t in (*(r.info for r in case.build().node.refs), *case.build().node.outputs))
    and apply_rule(case.build().node, Settings()).status is Status.FINITE
]


@pytest.mark.parametrize("case", COMPLEX_CASES, ids=lambda case: case.label)
def test_radii_of_complex_tensors_hold(case: Case) -> None:
    built = case.build()
    effect = apply_rule(built.node, Settings())
    generator = torch.Generator().manual_seed(3)

    def whole(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return torch.view_as_complex(tensor.contiguous()) if dtype.is_complex else tensor

    centres = [x.random(generator) for x in built.inputs]
    image = built.function(*centres)
    for trial in range(5):
        moves = [x.random(generator) for x in built.inputs]
        if trial > 2:
            moves = [m * (torch.rand(m.shape, generator=generator) > 0.8) for m in moves]
        moved = built.function(*(c + m for c, m in zip(centres, moves, strict=True)))
        for known in itertools.chain.from_iterable(itertools.combinations(range(4), n) for n in range(5)):
            operands = []
            for ref, move in zip(built.node.refs, moves, strict=True):
                deviation = whole(move, ref.info.dtype)
                axes = tuple(a for a in known if a < deviation.dim())
                radii = Radii.of(tuple(deviation.shape), {axes: slice_norm(deviation, axes)})
                operands.append(Magnitude(radii, Interval(), lambda: None))
            bounds = radii_of(built.node, effect, tuple(operands))
            for radii, info, y, z in zip(bounds, built.node.outputs, moved, image, strict=True):
                deviation = whole(y - z, info.dtype)
                for axes in itertools.chain.from_iterable(
                    itertools.combinations(range(deviation.dim()), n) for n in range(deviation.dim() + 1)
                ):
                    bound = radii.over(axes)
                    if bound.log_upper < 700:
                        assert slice_norm(deviation, axes) <= bound.upper * (1 + 1e-6) + 1e-9, (known, axes)


def test_captured_operations_keep_their_names() -> None:
    module, shape = NETWORKS["GFNet"]
    ops = [n.op for n in capture(module, {"x": torch.zeros(shape, dtype=torch.float64)})]
    assert "aten.fft_rfft2.default" in ops
    assert "aten.fft_irfft2.default" in ops
    low_level = torch.export.export(module, (torch.zeros(shape, dtype=torch.float64),)).run_decompositions()
    names = {str(n.target) for n in low_level.graph.nodes if "fft" in str(n.target)}
    assert names == {"aten._fft_r2c.default", "aten._fft_c2r.default"}
