"""``lipaudit compare`` and ``lipaudit.compare`` from end to end."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.cli import main
from lipaudit.errors import UsageError
from lipaudit.formats import comparison as comparison_format
from lipaudit.records.comparison import Comparison, FigureRecord
from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.published import registry
from lipaudit.spectral.published.registry import Method, Options, figure, find_method, measure
from tests.places import DOCS, SAMPLES

SAMPLE = str(SAMPLES / "digits_resnet.onnx")
SOME = "sedghi2019,ryu2019,miyato2018"


def difference() -> nn.Conv2d:
    """[[1, -1], [-1, 1]] with a zero row and column: its zero-padded norm at size 3 is 8 % above the grid's maximum."""
    net = nn.Conv2d(1, 1, 3, padding=1, bias=False)
    net.weight.data = torch.tensor([[[[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]]])
    return net


def toeplitz_norm() -> float:
    """The norm of the zero-padded difference at size 3: the operator is a Kronecker square."""
    one_axis = torch.eye(3, dtype=torch.float64) - torch.diag(torch.ones(2, dtype=torch.float64), -1)
    return float(torch.linalg.matrix_norm(one_axis, 2)) ** 2


def only(found: Comparison, method: str, layer: int = 0) -> FigureRecord:
    (record,) = (f for f in found.layers[layer].figures if f.method == method)
    return record


def test_a_figure_below_the_true_norm_is_marked_and_one_above_is_not() -> None:
    found = lipaudit.compare(difference(), methods=["sedghi2019", "tsuzuku2018", "gram"], input_shape=(1, 3, 3))
    (layer,) = found.layers
    truth = toeplitz_norm()
    assert layer.lower_bound <= truth <= layer.upper_bound
    assert layer.lower_bound >= 0.999 * truth
    sedghi = only(found, "sedghi2019")
    assert sedghi.figure == pytest.approx(3.0)  # |1 - exp(i w)|^2 at w = 2 pi / 3
    assert sedghi.below_lower_bound
    assert sedghi.shortfall == pytest.approx(1 - 3.0 / truth, abs=1e-3)
    assert 0.07 < sedghi.shortfall < 0.08
    for name in ("tsuzuku2018", "gram"):
        record = only(found, name)
        assert record.figure >= truth * (1 - 1e-12)
        assert not record.below_lower_bound
        assert record.shortfall is None
    assert [(m.name, m.violations) for m in found.methods] == [("sedghi2019", 1), ("tsuzuku2018", 0), ("gram", 0)]
    assert found.methods[0].worst_shortfall == sedghi.shortfall
    text = str(found)
    assert "~3!" in text
    assert text.split("~ marks an estimate")[0].count("!") == 1
    assert "-7.6%" in text


def test_figures_equal_those_that_the_methods_give_alone() -> None:
    net = nn.Conv2d(2, 3, 3, padding=1, stride=2)
    kernel = net.weight.detach().to(torch.float64)
    operator = Convolution(kernel, (5, 5), (2, 2), ((1, 1), (1, 1)), (1, 1))
    names = ["sedghi2019", "ryu2019", "singla2021"]
    found = lipaudit.compare(net, methods=names, input_shape=(2, 5, 5), seed=3, iterations=9)
    for name, record in zip(names, found.methods, strict=True):
        method = find_method(name)
        options = Options(9 if method.iterations else None, seed=3)
        assert only(found, name).figure == pytest.approx(measure(method, operator, options).upper, rel=1e-12)
        assert record.iterations == options.iterations
        assert record.network_figure == pytest.approx(only(found, name).figure, rel=1e-12)
        assert record.ratio_to_ryu2019 == pytest.approx(record.network_figure / only(found, "ryu2019").figure)


def test_the_sample_model_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", SAMPLE, "--methods", SOME, "--format", "json", "--quiet"]) == 0
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert err == ""
    assert (document["kind"], document["tool"]["name"], document["schema_version"]) == ("comparison", "lipaudit", "1.0")
    assert document["settings"]["time_limit"] == 60.0
    audited = {row.name: row for row in lipaudit.audit(SAMPLE).layers}
    assert [layer["name"] for layer in document["layers"]] == [n for n, row in audited.items() if row.weight_shape]
    for layer in document["layers"]:
        row = audited[layer["name"]]
        assert tuple(layer["weight_shape"]) == row.weight_shape
        assert tuple(layer["input_size"]) == row.input_size
        assert (layer["op"], layer["details"]) == (row.op, row.details)
        # two brackets of one norm overlap
        assert layer["lower_bound"] <= row.upper_bound
        assert row.lower_bound <= layer["upper_bound"]
        for entry in layer["figures"]:
            assert entry["below_lower_bound"] is (entry["figure"] < layer["lower_bound"])
            assert entry["log10_figure"] == pytest.approx(math.log10(entry["figure"]))
    for record in document["methods"]:
        figures = [f for layer in document["layers"] for f in layer["figures"] if f["method"] == record["name"]]
        assert record["violations"] == sum(f["below_lower_bound"] for f in figures)
        near = [f for f in figures if f["below_lower_bound"] and f["shortfall"] < 1e-6]
        assert record["violations_in_last_digits"] == len(near)
        assert record["measured"] == len(figures) == len(document["layers"])
        assert record["network_rigor"] == "estimate"
        by_audit = lipaudit.audit(SAMPLE, method=record["name"]).network
        assert by_audit.upper_bound is None
        assert by_audit.estimate == pytest.approx(record["network_figure"])
    sedghi, ryu, miyato = document["methods"]
    assert (ryu["ratio_to_ryu2019"], miyato["violations"]) == (1.0, len(document["layers"]))
    assert sedghi["ratio_to_ryu2019"] == pytest.approx(sedghi["network_figure"] / ryu["network_figure"])


def test_every_registered_method_fits_the_tables() -> None:
    found = lipaudit.compare(nn.Sequential(nn.Conv2d(1, 2, 3, padding=1)), input_shape=(1, 5, 5))
    text = str(found)
    assert {m.name for m in found.methods} == {m.name for m in registry.all_methods()}
    assert max(map(len, text.splitlines())) <= 100
    heads = [line for line in text.splitlines() if line.startswith("layer ")]
    shown = [name for line in heads for name in line.split() if name in {m.name for m in found.methods}]
    assert sorted(shown) == sorted(2 * [m.name for m in found.methods])  # a figure and a time each
    for record in found.methods:
        assert record.reference in " ".join(text.split())


def test_markdown_and_tsv_hold_every_figure() -> None:
    found = lipaudit.compare(difference(), methods=SOME.split(","), input_shape=(1, 3, 3))
    text = comparison_format.markdown(found)
    assert "| layer | lower | upper | sedghi2019 | ryu2019 | miyato2018 |" in text
    assert "| \\~3! |" in text
    rows = list(csv.DictReader(io.StringIO(comparison_format.tsv(found)), delimiter="\t"))
    assert [(row["layer"] != "", row["method"]) for row in rows] == [
        (layer, name) for layer in (True, False) for name in SOME.split(",")
    ]
    assert float(rows[0]["figure"]) == only(found, "sedghi2019").figure
    assert (rows[0]["below_lower_bound"], rows[0]["rigor"], rows[0]["outcome"]) == ("true", "estimate", "measured")
    assert float(rows[3]["figure"]) == found.methods[0].network_figure
    assert (rows[3]["outcome"], rows[3]["network_status"], rows[3]["violations"]) == ("", "finite", "1")
    assert float(rows[3]["ratio_to_ryu2019"]) == found.methods[0].ratio_to_ryu2019


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> dict[str, Method]:
    """A registry that the test may add methods to."""
    methods = dict(registry._METHODS)
    monkeypatch.setattr(registry, "_METHODS", methods)
    return methods


def added(methods: dict[str, Method], name: str, function: Any) -> None:
    methods[name] = Method(name, name, "A. Author: A title, 2030", "a summary", "a claim", function)


def test_a_method_without_a_figure_is_explained_below(registered: dict[str, Method]) -> None:
    def refuses(_convolution: Convolution, _options: Options) -> Bracket:
        raise lipaudit.errors.MethodError("defined on a torus only")

    added(registered, "torus2030", refuses)
    found = lipaudit.compare(difference(), methods=["torus2030", "sedghi2019"], input_shape=(1, 3, 3))
    record = only(found, "torus2030")
    assert (record.outcome, record.figure, record.reason) == ("undefined", None, "defined on a torus only")
    (torus, _) = found.methods
    assert (torus.undefined, torus.network_status, torus.network_figure) == (1, "unsupported", None)
    text = str(found)
    assert "n/a [1]" in text
    assert "n/a [1]: defined on a torus only." in text
    assert "torus2030: no figure for the network, unsupported at" in " ".join(text.split())
    assert json.loads(found.to_json())["methods"][0]["reason"].endswith("defined on a torus only")


def test_a_method_stops_at_its_time_limit(registered: dict[str, Method]) -> None:
    def slow(convolution: Convolution, _options: Options) -> Bracket:
        return figure(convolution.kernel.norm(), Rigor.ESTIMATE)

    added(registered, "slow2030", slow)
    net = nn.Sequential(nn.Conv2d(1, 1, 3), nn.ReLU(), nn.Conv2d(1, 1, 3))
    found = lipaudit.compare(net, methods=["slow2030"], input_shape=(1, 9, 9), time_limit=1e-9)
    assert [only(found, "slow2030", i).outcome for i in range(2)] == ["measured", "skipped"]
    (record,) = found.methods
    assert (record.measured, record.skipped, record.network_status, record.network_figure) == (1, 1, "skipped", None)
    text = " ".join(str(found).split())
    assert "skipped: the method had used up its 1e-09 s (--time-limit), so the network has no figure." in text
    unlimited = lipaudit.compare(net, methods=["slow2030"], input_shape=(1, 9, 9), time_limit=None)
    assert unlimited.methods[0].network_status == "finite"


def test_a_network_without_weights_has_no_rows() -> None:
    found = lipaudit.compare(nn.ReLU(), methods=["sedghi2019"], input_shape=(1, 4))
    assert found.layers == ()
    assert found.methods[0].network_figure == 1.0
    assert "no convolution and no dense layer" in str(found)
    assert comparison_format.markdown(found)


def test_constants_beyond_floats_are_kept_as_logarithms(registered: dict[str, Method]) -> None:
    added(registered, "huge2030", lambda *_: Bracket(-math.inf, 1000.0, Rigor.NUMERICAL))
    found = lipaudit.compare(difference(), methods=["huge2030", "ryu2019"], input_shape=(1, 3, 3))
    record = only(found, "huge2030")
    assert (record.figure, record.rigor) == (None, "numerical")
    assert record.log10_figure == pytest.approx(1000 / math.log(10), rel=1e-3)
    assert found.methods[0].ratio_to_ryu2019 is None
    assert "10^434." in str(found)
    json.loads(found.to_json())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--methods", "sedghi2018"], ["no method 'sedghi2018'", "sedghi2019"]),
        (["--methods", "sedghi2019,sedghi2019"], ["--methods names 'sedghi2019' twice"]),
        (["--methods", "sedghi2019", "--iterations", "5"], ["none of the methods has iterations"]),
        (["--iterations", "0"], ["--iterations"]),
        (["--time-limit", "0"], ["--time-limit"]),
        (["--tol", "0"], ["--tol"]),
        (["--format", "yaml"], ["yaml"]),
        (["-o", "no/such/folder/file"], ["no/such/folder"]),
    ],
)
def test_a_wrong_request_is_one_line_and_loads_nothing(
    options: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "no-such-model.onnx", *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("lipaudit: error: ")
    assert len(err.splitlines()) == 1
    assert all(word in err for word in words)


def test_a_model_that_is_not_there_ends_with_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "no-such-model.onnx"]) == 3
    assert "no-such-model.onnx" in capsys.readouterr().err
    assert main(["compare"]) == 2


def test_python_takes_one_name_and_refuses_none(capsys: pytest.CaptureFixture[str]) -> None:
    found = lipaudit.compare(difference(), methods="ryu2019", input_shape=(1, 3, 3))
    assert [m.name for m in found.methods] == ["ryu2019"]
    with pytest.raises(UsageError, match=r"^methods is empty"):
        lipaudit.compare(difference(), methods=[], input_shape=(1, 3, 3))


def test_gram_may_be_numerical_for_a_network_and_is_certified_for_its_layers() -> None:
    class Gate(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(self.inner(x)) * torch.tanh(x)

    found = lipaudit.compare(Gate(), methods="gram", input_shape=(1, 4))
    assert only(found, "gram").rigor == "certified"
    assert found.methods[0].network_rigor == "numerical"


def test_an_unmarked_figure_of_a_strided_layer_may_be_far_above_its_norm() -> None:
    """The example of docs/compare.md: two taps (1, 1) on a circle, at stride 2."""
    layer = Convolution(torch.ones(1, 1, 2), (6,), (2,), ((0, 1),), (1,), padding_mode="circular")
    rows = torch.zeros(3, 6, dtype=torch.float64)
    for i in range(3):
        rows[i, 2 * i] = rows[i, 2 * i + 1] = 1.0
    assert float(torch.linalg.matrix_norm(rows, 2)) == pytest.approx(math.sqrt(2))
    for name in ("sedghi2019", "bibi2019"):
        found = measure(find_method(name), layer)
        assert (found.upper, found.rigor) == (pytest.approx(2.0), Rigor.NUMERICAL)
        assert "stride is ignored" in find_method(name).claim


def test_python_refuses_a_time_limit_that_is_none() -> None:
    for limit in (0.0, -1.0, math.nan, math.inf, "3", True, [3]):
        with pytest.raises(UsageError, match=r"^time_limit must be a number above 0"):
            lipaudit.compare(nn.ReLU(), input_shape=(1, 4), time_limit=limit)


@pytest.mark.parametrize(
    ("error", "caught"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
            True,
        ),
        (RuntimeError("a shape does not fit"), False),
    ],
)
def test_a_method_without_memory_has_no_figure_and_other_errors_are_not_hidden(
    error: Exception, caught: bool, registered: dict[str, Method]
) -> None:
    def fails(_convolution: Convolution, _options: Options) -> Bracket:
        raise error

    added(registered, "large2030", fails)
    if not caught:
        with pytest.raises(RuntimeError, match="a shape does not fit"):
            lipaudit.compare(difference(), methods=["large2030"], input_shape=(1, 3, 3))
        return
    found = lipaudit.compare(difference(), methods=["large2030"], input_shape=(1, 3, 3))
    record = only(found, "large2030")
    assert (record.outcome, record.reason) == ("undefined", "it needs more memory than there is")


def test_what_torch_says_without_memory_is_recognised(registered: dict[str, Method]) -> None:
    added(registered, "large2030", lambda *_: figure(torch.empty(2**50), Rigor.ESTIMATE))
    found = lipaudit.compare(difference(), methods=["large2030"], input_shape=(1, 3, 3))
    assert only(found, "large2030").reason == "it needs more memory than there is"


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 2)
        self.mixing = nn.Parameter(torch.randn(5, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.mixing @ self.rnn(x)[0])


@pytest.mark.filterwarnings("ignore:The tensor attributes:UserWarning")  # of torch, while it exports an LSTM
def test_weights_without_a_row_are_named() -> None:
    found = lipaudit.compare(Recurrent(), methods=["gram"], input_shape={"x": (1, 5, 3)})
    assert [row.op for row in found.layers] == ["linear"]
    (note,) = (note for note in found.notes if "have no rows" in note)
    assert "rnn (lstm)" in note
    assert "(matmul)" in note
    assert "head" not in note
    assert "have no rows" in " ".join(str(found).split())
    plain = lipaudit.compare(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), methods=["gram"], input_shape=(1, 4))
    assert not any("have no rows" in note for note in plain.notes)


def test_two_runs_give_the_same_bytes_but_for_seconds_and_the_time_of_day() -> None:
    def text() -> str:
        document = json.loads(lipaudit.compare(SAMPLE, methods=["sedghi2019", "ryu2019"]).to_json())
        del document["created"], document["seconds"]
        return json.dumps(document)

    assert text() == text()
    assert '"seconds"' not in text()


def test_a_comparison_is_read_back() -> None:
    found = lipaudit.compare(SAMPLE, methods=["sedghi2019", "ryu2019"])
    assert Comparison.from_json(found.to_json()) == found


def test_a_file_appears_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "comparison.json"
    assert main(["compare", SAMPLE, "--methods", "sedghi2019", "--format", "json", "-o", str(path)]) == 0
    assert json.loads(path.read_text())["kind"] == "comparison"
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith(f"lipaudit: comparison written to {path}\n")


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.usefixtures("interruptible")
def test_an_interruption_leaves_no_file(tmp_path: Path) -> None:
    code = (
        "import os, sys, types, lipaudit.cli as cli;"
        "compare = types.ModuleType('lipaudit.auditing.compare');"
        f"compare.run_comparison = lambda *_: os.kill(os.getpid(), {int(signal.SIGINT)});"
        "sys.modules['lipaudit.auditing.compare'] = compare; sys.exit(cli.main(['compare', 'net', '-o', 'found.txt']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stderr.splitlines()[-1]) == (130, "lipaudit: interrupted")
    assert list(tmp_path.iterdir()) == []


def test_two_comparisons_give_the_same_figures() -> None:
    def figures() -> list[float | None]:
        found = lipaudit.compare(SAMPLE, methods=["ryu2019", "singla2021"], seed=5)
        return [f.log10_figure for layer in found.layers for f in layer.figures]

    assert figures() == figures()


def test_the_documented_figures_are_those_of_today() -> None:
    page = (DOCS / "compare.md").read_text(encoding="utf-8")
    shown = page.split("```text")[1].split("Seconds")[0]
    slow = "delattre2024"
    documented: dict[str, list[float]] = {}
    for block in shown.split("\n\n"):
        if block.startswith("layer "):
            heads, _, *rows = [line.split() for line in block.splitlines()]
            for i, name in enumerate(heads[1:], start=1):
                documented[name] = [float(row[i].strip("~!<")) for row in rows]
    names = [name for name in documented if name not in ("lower", "upper", slow)]
    assert {*names, slow} == {m.name for m in registry.all_methods()}
    found = lipaudit.compare(SAMPLE, methods=names)
    for name in names:
        figures = [only(found, name, i).figure for i in range(len(found.layers))]
        assert documented[name] == pytest.approx(figures, rel=2e-3), name
    for layer, low, high in zip(found.layers, documented["lower"], documented["upper"], strict=True):
        assert (layer.lower_bound, layer.upper_bound) == pytest.approx((low, high), rel=2e-3)
