"""Records, text, files and the registry of the experiments."""

from __future__ import annotations

import csv
import importlib.util
import math
from decimal import Decimal
from pathlib import Path

import pytest
import torch

import lipaudit.experiments  # noqa: F401
from lipaudit.errors import OutputError, RegistryError, UsageError
from lipaudit.experiments.harness import plot as plots
from lipaudit.experiments.harness.cells import figure_cell
from lipaudit.experiments.harness.registry import Experiment, Request, all_experiments, find_experiments, register
from lipaudit.experiments.harness.render import cell_text, listing, render
from lipaudit.experiments.harness.result import Claim, Plot, Result, Series, Table
from lipaudit.experiments.harness.run import choose, missing_plot
from lipaudit.experiments.harness.statistics import deviation, mean, median, with_band
from lipaudit.experiments.harness.write import output_folder, write
from lipaudit.spectral.bracket import Rigor

PNG = b"\x89PNG\r\n\x1a\n"


def result() -> Result:
    return Result(
        "fake",
        "a fake experiment",
        "no computation at all",
        (
            Table("values", ("name", "value", "known"), (("a,b", 0.1, 3), ('say "x"', 1 / 3, None))),
            Table("more", ("n",), ((7,),), "more"),
        ),
        (Claim("one is below two", "1 < 2", "1 < 2", True), Claim("two is below one", "2 < 1", "2 > 1", False)),
        (
            Plot(
                "line",
                "x",
                "y",
                (Series("s", (0.0, 1.0, 10.0), (1.0, 2.0, 0.0), (0.5, 1.0, 0.0), (2.0, 3.0, 1.0)),),
                True,
                True,
            ),
        ),
        ("a remark",),
    )


def test_csv_files_hold_the_tables_with_all_digits(tmp_path: Path) -> None:
    written = write(result(), tmp_path)
    assert [path.name for path in written][:2] == ["fake.csv", "fake-more.csv"]
    with (tmp_path / "fake.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [["name", "value", "known"], ["a,b", "0.1", "3"], ['say "x"', repr(1 / 3), ""]]
    assert float(rows[2][1]) == 1 / 3
    assert (tmp_path / "fake-more.csv").read_text() == "n\n7\n"
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in written}


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="needs the extra plot")
def test_the_plot_is_a_png(tmp_path: Path) -> None:
    written = write(result(), tmp_path)
    assert written[-1].name == "fake.png"
    content = written[-1].read_bytes()
    assert content.startswith(PNG)
    assert len(content) > 5000
    assert missing_plot(result()) == ""


def test_without_matplotlib_the_tables_are_written_and_the_plot_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lipaudit.formats.matplotlib_.find_spec", lambda name: None)
    assert [path.name for path in write(result(), tmp_path)] == ["fake.csv", "fake-more.csv"]
    assert "matplotlib is not installed" in missing_plot(result())
    assert 'the extra "plot"' in missing_plot(result())
    assert "pip" not in missing_plot(result())


def test_an_old_file_stays_whole_where_a_new_one_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fake.csv").write_text("old")

    def refuse(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OutputError, match=r"fake\.csv: No space left on device"):
        write(result(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["fake.csv"]
    assert (tmp_path / "fake.csv").read_text() == "old"


def test_the_folder_is_made_or_refused_before_anything_runs(tmp_path: Path) -> None:
    with output_folder(tmp_path / "a" / "b", ["fake"]):
        assert (tmp_path / "a" / "b").is_dir()
        assert list((tmp_path / "a" / "b").iterdir()) == []
    assert not (tmp_path / "a").exists()  # nothing was written
    with output_folder(tmp_path / "a" / "b", ["fake"]):
        (tmp_path / "a" / "b" / "fake.csv").write_text("")
    assert (tmp_path / "a" / "b" / "fake.csv").is_file()
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "old" / "fake-more.csv").mkdir(parents=True)
    for name, message in (
        ("file", "it is a file"),
        ("file/below", "cannot write to"),
        ("dangling", "it is a link to something that does not exist"),
        ("old", r"fake-more\.csv: it is a folder"),
    ):
        with pytest.raises(OutputError, match=message), output_folder(tmp_path / name, ["fake"]):
            raise AssertionError("it was entered")
    with output_folder(tmp_path / "old", ["fak"]):
        pass
    assert (tmp_path / "old").is_dir()  # empty or not, it was there before


def test_text_has_tables_notes_and_both_verdicts_with_both_numbers() -> None:
    text = render(result())
    assert "0.3333" in text
    assert "Note: a remark" in text
    assert "[holds] one is below two\n  paper:      1 < 2\n  here:       1 < 2" in text
    assert "[does not hold] two is below one\n  paper:      2 < 1\n  here:       2 > 1" in text
    assert max(map(len, text.splitlines())) <= 100


def test_a_row_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="2 cells for 1 columns"):
        Table("t", ("a",), ((1, 2),))


def test_the_eight_experiments_are_listed_with_both_sizes() -> None:
    names = [experiment.name for experiment in all_experiments()]
    assert names == [
        "convergence", "spectral-table", "dimension-table", "simulated-convolutions", "resnet18-layers", "network-ratios",
        "regularization", "memory-table",
    ]  # fmt: skip
    text = listing(all_experiments())
    for experiment in all_experiments():
        assert experiment.name in text
        assert experiment.full.split(",")[0] in text


def test_unknown_and_repeated_names() -> None:
    with pytest.raises(UsageError, match=r"no experiment 'nope': choose one of convergence, .*memory-table"):
        find_experiments(["convergence", "nope"])
    assert [e.name for e in find_experiments(["memory-table", "convergence", "memory-table"])] == [
        "memory-table",
        "convergence",
    ]
    with pytest.raises(RegistryError, match="twice"):
        register(Experiment("convergence", "", "", "", lambda request: result()))


def test_weights_for_experiments_without_weights_are_refused() -> None:
    with pytest.raises(UsageError, match="no weights are read"):
        choose(["convergence"], "random")
    with pytest.raises(UsageError, match="NAME"):
        choose([], "random")
    assert len(choose(["convergence", "network-ratios"], "random")) == 2


@pytest.mark.parametrize("seed", [-1, 2**63, 2**70])
def test_seeds_out_of_range_are_refused(seed: int) -> None:
    with pytest.raises(UsageError, match="seed"):
        Request(seed=seed)
    assert Request(seed=2**63 - 1).generator().initial_seed() == 2**63 - 1


@pytest.mark.parametrize("value", [2.3825, 2.38249, -0.12341, 1e9 / 7])
def test_bounds_are_shown_rounded_up_and_estimates_to_the_nearest(value: float, tmp_path: Path) -> None:
    for rigor in (Rigor.CERTIFIED, Rigor.NUMERICAL):
        cell = figure_cell(value, rigor)
        assert Decimal(value) <= Decimal(cell_text(cell)) <= Decimal(value) + abs(Decimal(value)) / 1000
    estimate = cell_text(figure_cell(value, Rigor.ESTIMATE))
    assert estimate[0] == "~"
    assert float(estimate[1:]) == pytest.approx(value, rel=5.1e-4)
    write(Result("f", "", "", (Table("t", ("a",), ((cell,),)),)), tmp_path)
    assert (tmp_path / "f.csv").read_text() == f"a\n{value!r}\n"
    assert cell_text(figure_cell(math.inf, Rigor.ESTIMATE)) == "~inf"


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="needs the extra plot")
def test_a_label_looks_the_same_in_all_plots_and_the_legend_covers_none() -> None:
    def plot(*labels: str) -> Plot:
        return Plot("p", "x", "y", tuple(Series(label, (1.0, 2.0), (1.0, 2.0)) for label in labels))

    figure = plots.compose([plot("b", "c"), plot("a", "b", "c"), plot("c")], "t")
    figure.canvas.draw()
    looks = [{(line.get_color(), line.get_linestyle()) for line in axes.lines} for axes in figure.axes]
    assert looks[0] < looks[1]
    assert looks[2] < looks[0]
    assert len(looks[1]) == 3
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["b", "c", "a"]
    for axes in figure.axes:
        assert axes.get_legend() is None
        assert not legend.get_window_extent().overlaps(axes.get_window_extent())


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="needs the extra plot")
def test_categories_are_bars_under_their_names() -> None:
    series = (Series("a", (0.0,), (3.0,)), Series("b", (0.0,), (5.0,)))
    (axes,) = plots.compose([Plot("p", "network", "y", series, log_y=True, categories=("net",))], "t").axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["net"]
    assert [bar.get_height() for bar in axes.patches] == [3, 5]
    assert axes.patches[0].get_x() + axes.patches[0].get_width() == pytest.approx(axes.patches[1].get_x())
    with pytest.raises(ValueError, match="2 categories"):
        Plot("p", "", "", series, categories=("one", "two"))


def test_statistics() -> None:
    values = [4.0, 1.0, 7.0, 2.0]
    assert mean(values) == 3.5
    assert median(values) == 3.0
    assert median(values[:3]) == 4.0
    assert deviation(values) == pytest.approx(float(torch.tensor(values).std()))
    assert deviation([1.0]) is None
    series = with_band("s", [1, 2], torch.tensor([[1.0, 3.0], [0.0, 0.0]]), 1e-3)
    assert series.y == pytest.approx((2.0, 1e-3))
    assert series.low == pytest.approx((2 - 2**0.5, 1e-3))
    assert series.high == pytest.approx((2 + 2**0.5, 1e-3))
