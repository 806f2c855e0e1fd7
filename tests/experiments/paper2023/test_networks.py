"""The experiments on convolutions and networks, at tiny sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import _get_current_dispatch_mode

from lipaudit.errors import LipauditError, ModelLoadError, ModelNotFoundError, UsageError, WeightsUnavailableError
from lipaudit.experiments.harness import models
from lipaudit.experiments.harness.live_memory import LiveBytes, peak_bytes
from lipaudit.experiments.harness.methods import OURS, REFERENCE, REFERENCE_STRIDE_1, figure, timed_norms
from lipaudit.experiments.harness.registry import Request
from lipaudit.experiments.harness.render import cell_text, render
from lipaudit.experiments.paper2023 import memory_table, network_ratios, resnet18_layers, simulated_convolutions
from lipaudit.experiments.paper2023.simulated_convolutions import Shape, convolution_of, random_kernel
from lipaudit.experiments.paper2023.simulated_summary import Measurement, below_table
from lipaudit.experiments.paper2023.simulated_summary import claims as simulated_claims
from lipaudit.graph.capture.export import capture
from lipaudit.graph.passes.table import recognise
from lipaudit.spectral.bracket import Rigor
from lipaudit.spectral.convolution.geometry import Convolution

CPU = torch.device("cpu")


def operator(convolution: Convolution) -> np.ndarray:
    """The convolution as a matrix, column by column."""
    c_in = convolution.channels[0]
    basis = torch.eye(c_in * math.prod(convolution.input_size), dtype=torch.float64)
    (pad_h, _), (pad_w, _) = convolution.padding
    columns = torch.nn.functional.conv2d(
        basis.reshape(-1, c_in, *convolution.input_size),
        convolution.kernel.double(),
        stride=convolution.stride,
        padding=(pad_h, pad_w),
    )
    return columns.flatten(1).T.numpy()


def test_simulated_convolutions_are_measured_against_their_true_norms() -> None:
    sweeps = {
        "channels": [Shape(1, 4, 3), Shape(2, 4, 3)],
        "input size": [Shape(2, 4, 3), Shape(2, 7, 3)],
        "kernel size": [Shape(2, 7, 1), Shape(2, 7, 3)],
    }
    found = simulated_convolutions.run(Request(), sweeps, 1)
    assert [table.part for table in found.tables] == [
        "channels", "channels-times", "input-size", "input-size-times", "kernel-size", "kernel-size-times", "below",
    ]  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    kernel = random_kernel(Shape(1, 4, 3), "gaussian", generator)
    row = found.tables[0].rows[0]
    true = np.linalg.norm(operator(convolution_of(Shape(1, 4, 3), kernel)), 2)
    circular = np.abs(np.fft.fft2(kernel[0, 0].double().numpy(), s=(4, 4))).max()
    assert row[:2] == (1, "gaussian")
    assert row[2] == pytest.approx(true, rel=1e-3)
    assert dict(zip(found.tables[0].columns, row, strict=True))["sedghi2019"] == pytest.approx(
        circular - row[2], abs=1e-5
    )
    assert all(total == 12 for _, _, total, _ in found.tables[-1].rows)
    assert len(found.plots) == 6
    columns = found.tables[0].columns
    for row in found.tables[0].rows:
        texts = dict(zip(columns, map(cell_text, row), strict=True))
        estimates = {name for name, text in texts.items() if text.startswith("~")}
        assert estimates == {REFERENCE, "singla2021", "sedghi2019", "delattre2023"}
        assert float(texts["lipaudit"]) >= row[columns.index("lipaudit")]
    assert "~ marks those of estimates" in found.tables[0].title


def test_uniform_kernels_lie_between_0_and_1() -> None:
    kernel = random_kernel(Shape(4, 8, 3), "uniform", torch.Generator().manual_seed(1))
    assert 0 <= kernel.min() < kernel.max() < 1


def simulated(method: str, sweep: str, at: int, value: float, seconds: float, kernel: int = 0) -> Measurement:
    return Measurement(sweep, at, "gaussian", method, value, 1.0 + 1e-9 * kernel, seconds)


def test_simulated_claims_come_out_both_ways() -> None:
    def judge(sign: int, apart: float) -> list[bool]:
        found = []
        for sweep, direction in (("kernel size", sign), ("input size", -sign)):
            for step in (1, 2):
                gap = 0.1 * (step if direction > 0 else 3 - step)
                ryu = 0.1 * step if sign > 0 else 0.1 / step
                found.append(simulated(REFERENCE, sweep, step, 1.0, ryu))
                found.append(simulated("sedghi2019", sweep, step, 1 + gap, 0.05))
                found.append(simulated("delattre2023", sweep, step, (1 + gap) * apart, 0.01 if sign > 0 else 9.0))
        return [claim.holds for claim in simulated_claims(found)]

    assert judge(1, 1.001) == [True] * 6
    assert judge(-1, 1.02) == [False] * 6


def test_the_fastest_is_sought_among_the_published_methods() -> None:
    found = [
        simulated(name, sweep, step, 1.0, seconds)
        for sweep in ("kernel size", "input size")
        for step in (1, 2)
        for name, seconds in ((REFERENCE, 1.0), ("sedghi2019", 1.0), ("delattre2023", 0.5), (OURS, 0.1))
    ]
    fastest = simulated_claims(found)[-1]
    assert fastest.holds
    assert "of the published methods" in fastest.statement
    assert fastest.measured.endswith("sedghi2019 1 (lipaudit, not compared: 0.1)")


def test_figures_below_the_reference_are_counted() -> None:
    values = (1.5, 0.5, 0.7)
    found = [simulated("singla2021", "channels", 1, v, 0.1) for v in values]
    found += [simulated(REFERENCE, "channels", 1, 1.0, 0.1)]
    table = below_table(found)
    assert table.rows == (("singla2021", 2, 3, -0.5),)
    assert "up to the rounding of float32" in table.title


def test_a_stride_can_be_ignored() -> None:
    kernel = torch.randn(3, 2, 3, 3, generator=torch.Generator().manual_seed(3))
    strided = Convolution(kernel, (6, 6), (2, 2), ((1, 1), (1, 1)), (1, 1))
    for name, stride in ((REFERENCE, (2, 2)), (REFERENCE_STRIDE_1, (1, 1))):
        norms = timed_norms(name, 300, CPU, dtype=torch.float64)
        value, rigor, seconds = figure(norms, strided)
        assert rigor is Rigor.ESTIMATE
        assert value == pytest.approx(np.linalg.norm(operator(replace(strided, stride=stride)), 2), rel=1e-3)
        assert norms.seconds == [seconds]


def test_resnet18_has_the_papers_layers_in_the_papers_order() -> None:
    loaded = models.load_network("resnet18", 224, "random")
    found = models.convolutions(loaded.module, 224)
    assert len(found) == len(resnet18_layers.PAPER) == 20
    shapes = [tuple(c.kernel.shape) for _, c in found]
    assert shapes[0] == (64, 3, 7, 7)
    assert [i for i, s in enumerate(shapes) if s[2] == 1] == [7, 12, 17]  # 1.91, 1.21 and 2.05 in the paper
    assert shapes[17] == (512, 256, 1, 1)
    assert [c.input_size[0] for _, c in found] == [224] + [56] * 5 + [
        28,
        56,
        28,
        28,
        28,
        14,
        28,
        14,
        14,
        14,
        7,
        14,
        7,
        7,
    ]


def fake_network(module: nn.Module) -> Callable[[str, int, str | None], SimpleNamespace]:
    return lambda name, size, weights: SimpleNamespace(module=module, weights=weights)


def chain() -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = (nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 2, 3, stride=2, padding=1), nn.Flatten())
        return nn.Sequential(*layers, nn.Linear(18, 4)).eval()


def chain_layers() -> tuple[Convolution, Convolution]:
    first, second = (layer for layer in chain() if isinstance(layer, nn.Conv2d))
    pad = ((1, 1), (1, 1))
    return (
        Convolution(first.weight.detach(), (6, 6), (1, 1), pad, (1, 1)),
        Convolution(second.weight.detach(), (6, 6), (2, 2), pad, (1, 1)),
    )


def test_resnet18_layers_of_a_tiny_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resnet18_layers, "load_network", fake_network(chain()))
    found = resnet18_layers.run(Request(weights="random"), 6, resnet18_layers.METHODS)
    values = {row[0]: dict(zip(found.tables[0].columns[3:], row[3:], strict=True)) for row in found.tables[0].rows}
    assert list(values) == ["0", "2"]
    for name, convolution in zip(values, chain_layers(), strict=True):
        true = np.linalg.norm(operator(convolution), 2)
        assert values[name][REFERENCE] == pytest.approx(true, rel=1e-2)
        assert true <= values[name]["lipaudit"] <= true * 1.1
        plain = np.linalg.norm(operator(replace(convolution, stride=(1, 1))), 2)
        assert values[name][REFERENCE_STRIDE_1] == pytest.approx(plain, rel=1e-2)
    assert values["0"][REFERENCE_STRIDE_1] == values["0"][REFERENCE]
    for row in values.values():
        assert {name for name, cell in row.items() if cell_text(cell).startswith("~")} == {
            REFERENCE, REFERENCE_STRIDE_1, "singla2021", "sedghi2019", "delattre2023",
        }  # fmt: skip
        assert float(cell_text(row["lipaudit"])) >= row["lipaudit"]
    assert [table.part for table in found.tables] == ["", "times"]
    assert found.tables[1].rows[-1][0] == "all"
    assert "random weights" in found.setting
    assert any("left out beside other weights" in note for note in found.notes)


def test_resnet18_layers_show_the_papers_numbers_beside_the_papers_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resnet18_layers, "load_network", fake_network(chain()))
    found = resnet18_layers.run(Request(), 6, {k: v for k, v in resnet18_layers.METHODS.items() if k != "sedghi2019"})
    assert found.tables[2].part == "paper"
    assert found.tables[2].rows[0][2:] == resnet18_layers.PAPER[0]
    assert any("--full only" in note for note in found.notes)


def layer(**values: float) -> resnet18_layers.Layer:
    found = {
        REFERENCE: 1.0,
        REFERENCE_STRIDE_1: 1.0,
        "singla2021": 2.0,
        "araujo2021": 3.0,
        "sedghi2019": 1.0,
        OURS: 1.001,
    }
    return resnet18_layers.Layer(
        "l", "1x1x1x1", 4, {**found, "delattre2023": 1.001, **values}, dict.fromkeys(found, 1.0), {}
    )


def test_resnet18_claims_come_out_both_ways() -> None:
    def judge(entry: resnet18_layers.Layer, comparable: bool = False) -> list[bool]:
        return [claim.holds for claim in resnet18_layers.claims([entry], comparable)]

    assert judge(layer(singla2021=0.9)) == [True] * 5
    assert judge(layer(delattre2023=0.9, **{OURS: 0.9})) == [False] * 5
    _, _, above, close, _ = judge(layer(**{OURS: 1.06}))
    assert (above, close) == (True, False)
    _, _, above, close, _ = judge(layer(**{OURS: 0.99}))
    assert (above, close) == (False, True)
    _, _, above, close, _ = judge(layer(**{REFERENCE: 0.5, OURS: 1.001}))  # the layer itself has a stride
    assert (above, close) == (True, False)
    paper = layer(delattre2023=15.92, sedghi2019=15.91, **{REFERENCE_STRIDE_1: 15.9})
    assert judge(paper, comparable=True)[-1]
    assert not judge(layer(), comparable=True)[-1]


def test_the_papers_weights_are_known_by_name_and_by_their_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "weights.pth"
    file.write_bytes(b"x")
    assert models.has_paper_weights("resnet18", None)
    assert models.has_paper_weights("resnet18", "IMAGENET1K_V1")
    assert models.has_paper_weights("resnet18", "DEFAULT")
    assert not models.has_paper_weights("resnet50", "DEFAULT")
    assert not models.has_paper_weights("resnet50", "IMAGENET1K_V2")
    assert not models.has_paper_weights("resnet18", "random")
    assert not models.has_paper_weights("resnet18", str(file))
    monkeypatch.setattr(models, "sha256", lambda path: "f37072fd" + "0" * 56)
    assert models.has_paper_weights("resnet18", str(file))


def test_weights_that_cannot_be_fetched_are_an_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr("torchvision.models.get_model", refuse)
    with pytest.raises(
        WeightsUnavailableError, match=r"IMAGENET1K_V1.*no route to host.*weights=FILE.*weights='random'"
    ):
        resnet18_layers.run(Request(), 32, resnet18_layers.METHODS, limit=1)
    with pytest.raises(LipauditError, match="no file"):
        models.load_network("resnet18", 32, "missing.pth")


def test_one_file_cannot_serve_several_networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("weights.pth").write_bytes(b"x")
    models.check_weights("weights.pth", ("resnet18",))
    models.check_weights("IMAGENET1K_V1", network_ratios.NETWORKS)
    models.check_weights("random", network_ratios.NETWORKS)
    models.check_weights(None, network_ratios.NETWORKS)
    with pytest.raises(UsageError, match="cannot serve vgg16"):
        models.check_weights("weights.pth", network_ratios.NETWORKS)
    with pytest.raises(UsageError, match=r"not all of vgg16.*IMAGENET1K_V2: --weights takes IMAGENET1K_V1"):
        models.check_weights("IMAGENET1K_V2", network_ratios.NETWORKS)


@pytest.mark.parametrize("names", [("resnet50",), ("resnet18", "resnet50")])
def test_an_unknown_tag_lists_those_that_there_are(names: tuple[str, ...]) -> None:
    with pytest.raises(
        ModelNotFoundError, match=r"no file BOGUS_TAG.*: --weights takes .*IMAGENET1K_V1.*random, or a file"
    ) as error:
        models.check_weights("BOGUS_TAG", names)
    assert ("IMAGENET1K_V2" in str(error.value)) == (names == ("resnet50",))


def test_a_file_of_another_network_is_refused_without_options_that_do_not_exist(tmp_path: Path) -> None:
    file = tmp_path / "other.pth"
    torch.save(nn.Linear(2, 2).state_dict(), file)
    with pytest.raises(
        ModelLoadError, match=r"other\.pth does not fit resnet18.*state dict of torchvision's resnet18"
    ) as error:
        models.load_network("resnet18", 32, str(file))
    assert "--arch" not in str(error.value)


def test_network_bound_is_the_product_of_a_chain() -> None:
    module = chain()
    graph = recognise(capture(module, {"x": torch.zeros(1, 3, 6, 6)}))
    log_bound, rigor, seconds = network_ratios.network_figure(graph, OURS, None, CPU, 0)
    assert rigor is Rigor.CERTIFIED
    true = math.prod(np.linalg.norm(operator(convolution), 2) for convolution in chain_layers())
    true *= np.linalg.norm(module[4].weight.detach().double().numpy(), 2)
    assert true <= math.exp(log_bound) <= true * 1.1
    assert seconds > 0
    dense: network_ratios.DenseNorms = {}
    reference, rigor, _ = network_ratios.network_figure(graph, REFERENCE, 300, CPU, 0, dense)
    assert rigor is Rigor.ESTIMATE
    assert math.exp(reference) == pytest.approx(true, rel=2e-3)
    (bracket,) = dense.values()
    assert bracket.upper == pytest.approx(np.linalg.norm(module[4].weight.detach().numpy(), 2), rel=1e-3)
    again, _, _ = network_ratios.network_figure(graph, REFERENCE, 300, CPU, 0, dict.fromkeys(dense, bracket * bracket))
    assert again - reference == pytest.approx(bracket.log_upper)  # kept norms are not computed again


def test_network_ratios_of_a_tiny_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_ratios, "load_network", fake_network(chain()))
    methods = {REFERENCE: 5, REFERENCE_STRIDE_1: 5, "singla2021": 3, "araujo2021": 20, "delattre2023": 1, OURS: None}
    found = network_ratios.run(Request(weights="random"), ("resnet18",), 6, methods, 2)
    rows = {row[1]: row for row in found.tables[0].rows}
    assert set(rows) == {REFERENCE, REFERENCE_STRIDE_1, "singla2021", "araujo2021", "delattre2023", "lipaudit"}
    for row in rows.values():
        assert row[4] == pytest.approx(10 ** (row[3] - rows[REFERENCE][3]), rel=0.05)
    assert rows[REFERENCE][4] == 1
    assert {name: row[2] for name, row in rows.items()} == {
        REFERENCE: "estimate", REFERENCE_STRIDE_1: "estimate", "singla2021": "estimate", "araujo2021": "numerical",
        "delattre2023": "estimate", "lipaudit": "certified",
    }  # fmt: skip
    assert cell_text(rows[REFERENCE][4]) == "1"
    assert cell_text(rows["lipaudit"][4]).startswith("~")  # a ratio to an estimate is no bound
    for name, row in rows.items():
        assert cell_text(row[3]).startswith("~") == (row[2] == "estimate"), name
    true = math.prod(np.linalg.norm(operator(convolution), 2) for convolution in chain_layers())
    true *= np.linalg.norm(chain()[4].weight.detach().double().numpy(), 2)
    assert float(cell_text(rows["lipaudit"][3])) >= rows["lipaudit"][3] >= math.log10(true)
    text = render(found)
    assert "Delattre et al. 2023, Table 2" in " ".join(text.split())
    assert "[P]" not in text
    for word in ("bounds of the networks", "tighter bound", "deviation (stride 1)"):
        assert word not in text
    assert found.plots[0].categories == ("resnet18",)
    assert ("resnet18", "delattre2023", 1.47, 0.039) in found.tables[1].rows
    assert any("1 + Lip F" in note for note in found.notes)


def bounds(**logs: float) -> dict[str, network_ratios.Figures]:
    values = {
        REFERENCE: 1.0,
        REFERENCE_STRIDE_1: 1.0,
        "delattre2023": 2.0,
        "singla2021": 3.0,
        "araujo2021": 4.0,
        OURS: 1.5,
    }
    values |= logs
    times = {name: [0.1 if name == "delattre2023" and logs.get("fast", 1) else 1.0] for name in values}
    times[REFERENCE_STRIDE_1] = [0.5]
    return {"net": network_ratios.Figures({k: [v] for k, v in values.items() if k != "fast"}, times)}


def test_network_claims_come_out_both_ways() -> None:
    good = network_ratios.claims(bounds(sedghi2019=2.0))
    bad = network_ratios.claims(bounds(sedghi2019=2.1, singla2021=1.9, fast=0, **{OURS: 2.5}))
    assert [claim.holds for claim in good] == [True] * 4
    assert [claim.holds for claim in bad] == [False] * 4
    huge = bounds(araujo2021=2000.0)
    assert huge["net"].ratio("araujo2021") == math.inf
    assert network_ratios.claims(huge)[0].holds


def test_live_bytes_counts_what_is_alive() -> None:
    base = torch.zeros(1000, dtype=torch.float64)

    def work() -> None:
        first = base + 1  # 8000 bytes
        second = first.view(10, 100) * 2  # 8000 more; the view is free
        del first
        second.add_(1)
        third = torch.cat([second, second])  # 16000: the peak is 24000
        del second, third
        _ = base + 1

    assert peak_bytes(work, CPU) == 24000
    assert peak_bytes(work, CPU) == 24000
    with LiveBytes() as counter:
        kept = base * 2
        _ = base * 3
    assert counter.peak == 16000
    del kept, _
    assert counter.now == 0


def test_live_bytes_sees_the_backward_pass() -> None:
    leaf = torch.ones(500, dtype=torch.float64, requires_grad=True)
    assert peak_bytes(lambda: leaf.exp().sum(), CPU) == 4000 + 8
    # exp, its sum, the gradients of the sum, and their product with exp
    assert peak_bytes(lambda: torch.autograd.grad(leaf.exp().sum(), [leaf]), CPU) >= 8000


def small_layers() -> list[Convolution]:
    generator = torch.Generator().manual_seed(7)

    def make(shape: tuple[int, ...], n: int) -> Convolution:
        pad = ((shape[2] // 2, shape[2] // 2),) * 2
        return Convolution(torch.randn(*shape, generator=generator), (n, n), (1, 1), pad, (1, 1))

    return [make((6, 5, 3, 3), 8), make((5, 6, 1, 1), 4), make((4, 4, 3, 3), 1), make((3, 8, 5, 5), 7)]


def test_all_ways_give_the_gradient_of_the_exact_bound() -> None:
    layers = small_layers()
    expected = []
    for entry in layers:
        kernel = entry.kernel.double().requires_grad_()
        period = tuple(max(n, k) for n, k in zip(entry.input_size, entry.kernel_size, strict=True))
        symbols = torch.fft.fft2(kernel, s=period).permute(2, 3, 0, 1).flatten(0, 1)
        order = 2.0 ** (memory_table.PRODUCTS + 1)
        value = torch.linalg.svdvals(symbols).pow(order).sum(1).max().pow(1 / order)
        expected.append(torch.autograd.grad(value, kernel)[0])
    for way in memory_table.WAYS.values():
        found = memory_table.gradients(layers, way)
        for gradient, exact in zip(found, expected, strict=True):
            torch.testing.assert_close(gradient.double(), exact, rtol=1e-3, atol=1e-4)


def test_the_explicit_gradient_takes_less_memory() -> None:
    layers = small_layers()
    peaks = [peak_bytes(lambda w=way: memory_table.gradients(layers, w), CPU) for way in memory_table.WAYS.values()]
    assert peaks[0] > 1.5 * peaks[1]
    symbols = 8 * 5 * 6 * 5  # frequencies of the first layer in half of the grid, times its entries
    assert peaks[0] > 2 * memory_table.PRODUCTS * symbols


def test_memory_table_at_a_tiny_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_table, "network_layers", lambda name, size, request: small_layers())
    found = memory_table.run(Request(), ("resnet18",), 32)
    assert [row[:2] for row in found.tables[0].rows] == [("resnet18", way) for way in memory_table.WAYS]
    assert [row[4] for row in found.tables[0].rows] == ["9770", 4322.0, None]
    assert found.plots[0].categories == ("resnet18",)
    peak = peak_bytes(lambda: memory_table.gradients(small_layers(), memory_table.explicit), CPU)
    assert found.tables[0].rows[1][2] == pytest.approx(peak / 1e6, rel=0.2)
    assert found.claims[0].holds
    assert found.claims[2].holds


def test_memory_claims_come_out_both_ways() -> None:
    def judge(auto: float | None, explicit: float | None, one: float | None, apart: float | None) -> list[bool]:
        rows = [("n", "autodiff", auto, 1.0), ("n", "explicit", explicit, 1.0), ("n", "one frequency", one, 1.0)]
        return [claim.holds for claim in memory_table.claims(rows, {"n": apart})]

    assert judge(10.0, 5.0, 1.0, 1e-6) == [True] * 3
    assert judge(None, 5.0, 1.0, 1e-6) == [True] * 3  # automatic differentiation ran out of memory
    assert judge(5.0, 10.0, 20.0, 1e-2) == [False] * 3
    assert judge(None, None, None, None) == [False] * 3
    assert judge(10.0, 5.0, 1.0, math.inf) == [True, True, False]


def test_gradients_that_are_not_finite_are_not_the_same() -> None:
    one, nan = torch.ones(3), torch.tensor([1.0, torch.nan, 1.0])
    assert memory_table.distance(one, one) == 0
    assert memory_table.distance(2 * one, one) == pytest.approx(0.5)
    assert memory_table.distance(0 * one, 0 * one) == 0
    for first, second in ((one, nan), (nan, one), (nan, nan), (0 * one, one), (one / 0, one / 0)):
        assert memory_table.distance(first, second) == math.inf


@pytest.mark.parametrize(("broken", "holds"), [("nothing", True), ("NaN", False), ("memory", False)])
def test_the_same_gradient_takes_two_ways_and_numbers(
    monkeypatch: pytest.MonkeyPatch, broken: str, holds: bool
) -> None:
    ways: dict[str, memory_table.Bound] = dict(memory_table.WAYS)
    if broken == "NaN":
        ways["one frequency"] = lambda kernel, period: memory_table.explicit(kernel, period) * torch.nan
    if broken == "memory":
        counted = memory_table.peak_bytes
        peaks = iter([True, False, False])
        monkeypatch.setattr(memory_table, "peak_bytes", lambda f, device: counted(f, device) if next(peaks) else None)
    monkeypatch.setattr(memory_table, "WAYS", ways)
    monkeypatch.setattr(memory_table, "network_layers", lambda name, size, request: small_layers())
    found = memory_table.run(Request(), ("resnet18",), 32)
    assert found.claims[2].holds == holds
    if broken == "memory":
        assert [row[3] is None for row in found.tables[0].rows] == [False, True, True]
        assert "fewer than two" in found.claims[2].measured


def test_seconds_are_those_of_a_warm_run_that_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def bound(kernel: torch.Tensor, period: tuple[int, int]) -> torch.Tensor:
        calls.append("counted" if isinstance(_get_current_dispatch_mode(), LiveBytes) else "plain")
        return kernel.sum()

    def clock(function: Callable[[], object], device: torch.device) -> tuple[object, float]:
        calls.append("start")
        value = function()
        calls.append("stop")
        return value, 1.5

    monkeypatch.setattr(memory_table, "timed", clock)
    monkeypatch.setattr(memory_table, "WAYS", {"autodiff": bound, "explicit": bound, "one frequency": bound})
    monkeypatch.setattr(memory_table, "network_layers", lambda name, size, request: small_layers()[:1])
    found = memory_table.run(Request(), ("resnet18",), 32)
    assert calls == ["counted", "start", "plain", "stop"] * 3
    assert [row[3] for row in found.tables[0].rows] == [1.5] * 3


def test_the_network_of_the_memory_table() -> None:
    layers = memory_table.network_layers("resnet18", 32, Request())
    assert len(layers) == 20
    assert tuple(layers[0].kernel.shape) == (64, 3, 7, 7)
