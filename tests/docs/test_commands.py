"""Every command in a ``sh`` block of README and documentation runs, or stands in a table here with the reason why not.

Commands run in a copy of the samples, with stand-ins for the files that a reader would bring. What does not run must be a
command that lipaudit's own options, or the script's, accept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from safetensors.torch import save_file
from torchvision.models import resnet18

from lipaudit.cli import cli
from lipaudit.formats.columns import parse_columns
from tests.docs.commands import ROOT, Command, blocks, commands, copy_of_the_samples, run_line
from tests.docs.recipes import RECIPES

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
# pages whose commands other tests run
RUN_BY = {
    "certify.md": "tests/docs/test_certify.py",
    "diff.md": "tests/docs/test_diff.py",
    "exports.md": "tests/docs/test_gates.py",
    "fleets.md": "tests/docs/test_fleets.py",
    "gates.md": "tests/docs/test_gates.py",
    "training.md": "tests/docs/test_training.py",
    "tutorial.md": "tests/docs/test_tutorial.py",
    **dict.fromkeys(RECIPES, "tests/docs/test_recipes.py"),
}
DOWNLOADS = "downloads weights"
INSTALLS = "installs packages"
SLOW = "takes more than a minute"
GPU = "needs a GPU"
OTHER = "is a command of another tool"
CLUSTER = "needs a Dask cluster, which tests/fleet/test_cluster.py starts"
DOMAINS = "tests/docs/test_domains.py runs it, and compares what it prints"
COMPARED = "takes half a minute; tests/auditing/test_compare.py compares the figures that docs/compare.md shows, and runs the verb"
LEFT_OUT = {
    "README.md": {
        "python3 -m venv .venv && .venv/bin/pip install -q . && .venv/bin/lipaudit sample_models/digits_resnet.onnx": INSTALLS,
        "python3 -m venv .venv && .venv/bin/pip install -q -e '.[test]' && .venv/bin/pytest": INSTALLS,
    },
    "benchmarks.md": {
        "python -m benchmarks.ratios": SLOW,
        "python -m benchmarks.ratios --networks mobilenet_v2=mobilenet_v2-b0353104.pth": DOWNLOADS,
        "python -m benchmarks.ratios --networks tests.models.cifar_resnet20:ResNet20=resnet20.pth --input 3x32x32": DOWNLOADS,
        "python -m benchmarks.ratios --networks mobilenet_v2=mobilenet_v2-b0353104.pth --sizes 224 1024": DOWNLOADS,
        "python -m benchmarks.ratios --networks mobilenet_v2=mobilenet_v2-b0353104.pth --tolerances 1e-3 1e-6": DOWNLOADS,
        "python -m benchmarks.ratios --networks resnet18 --sizes 224 1024": SLOW,
        "python -m benchmarks.ratios --networks resnet18 --tolerances 1e-3 1e-6": SLOW,
        "python -m benchmarks.scaling -o scaling": SLOW,
        "python -m benchmarks.command": SLOW,
        "python -m benchmarks.command --memory": SLOW,
        "pip install -e '.[test,bench]'": INSTALLS,
        "pytest benchmarks": OTHER,
        "pytest benchmarks --benchmark-autosave": OTHER,
        "pytest benchmarks --benchmark-compare --benchmark-compare-fail=median:20%": OTHER,
    },
    "tightening.md": {
        "python -m benchmarks.forms_mlp --networks 10 --deepest 3 --widest 32 --eclipse 100 --semidefinite 100": SLOW,
        "python -m benchmarks.forms_mlp --networks 20": SLOW,
        "python -m benchmarks.forms_large resnet20_cifar --effort quick standard thorough": DOWNLOADS,
        "python -m benchmarks.forms_large mobilenet_v2 efficientnet_lite0 --effort quick standard thorough --weights folder": DOWNLOADS,
        "python -m benchmarks.warm_start sample_models/digits_resnet.onnx resnet_2b.onnx --moved 0.001 0.05": DOWNLOADS,
        "python -m benchmarks.forms_large resnet56_cifar resnet50 --effort quick standard": SLOW,
    },
    "contributing.md": {
        "python3 -m venv .venv && .venv/bin/pip install -e '.[test,docs,plot,cluster]'": INSTALLS,
        "pytest": OTHER,
        "pytest tests/rules": OTHER,
        "pytest -m long": OTHER,
        "ruff check . && ruff format . && mypy && lint-imports": OTHER,
        "python -m docs.make": "writes into the checkout; tests compare what it writes",
        "sphinx-build docs docs/_build": OTHER,
        "bash .ci/run": OTHER,
    },
    "compare.md": {
        "lipaudit compare sample_models/digits_resnet.onnx": COMPARED,
        "lipaudit compare resnet20.pth --arch tests.models.cifar_resnet20:ResNet20 --input 3x32x32 --time-limit 600 "
        "--methods gram,delattre2023,sedghi2019,singla2021,araujo2021,delattre2024,ryu2019": DOWNLOADS,
        "lipaudit compare mobilenet_v2 --weights mobilenet_v2-b0353104.pth --input 224 --time-limit 900 "
        "--methods gram,delattre2023,singla2021,araujo2021,ryu2019,sedghi2019,delattre2024": DOWNLOADS,
    },
    "coverage.md": {
        "python benchmarks/coverage.py zoo.csv": SLOW,
        "python benchmarks/coverage.py zoo.csv --summary": SLOW,
        "python benchmarks/coverage.py full.csv --full --max-params 30e6": SLOW,
    },
    "domains.md": {
        "python -m benchmarks.local_mlp --networks 10": SLOW,
        "lipaudit sample_models/digits_se.onnx --domain ball --around digits.npy --radius 0.01 --effort none": DOMAINS,
        "lipaudit sample_models/digits_se.onnx --domain pixels --mean 0 --std 1 --all --columns layer,op,factor,share,rigor": DOMAINS,
    },
    "mobilenet_v2.md": {
        "lipaudit mobilenet_v2 --weights mobilenet_v2-b0353104.pth --lower-bound -o mobilenet_v2.txt": DOWNLOADS,
    },
    "reproduction.md": {
        "lipaudit reproduce spectral-table -o results": SLOW,
        "lipaudit reproduce convergence spectral-table --full --device cuda": GPU,
        "lipaudit reproduce resnet18-layers --weights resnet18-f37072fd.pth": DOWNLOADS,
    },
    "usage.md": {
        "lipaudit resnet50 --input 224": DOWNLOADS,
        "lipaudit timm:resnet18.a1_in1k": DOWNLOADS,
        "lipaudit timm:efficientnet_b0.ra_in1k --domain pixels": DOWNLOADS,
        "lipaudit compare sample_models/digits_resnet.onnx": COMPARED,
        "lipaudit --models-from models.txt --cluster tcp://10.0.0.1:8786 -o fleet.jsonl": CLUSTER,
    },
    "tutorial.md": {
        "python3 -m venv .venv": INSTALLS,
        ". .venv/bin/activate": INSTALLS,
        "pip install .": INSTALLS,
    },
}


@cache
def shown(page: Path) -> tuple[Command, ...]:
    """The commands of a page in their order."""
    return tuple(command for block in blocks(page) for command in commands(block))


def to_run() -> Iterator[tuple[str, list[Command]]]:
    """Pages with the commands that run here."""
    for page in PAGES:
        left_out = LEFT_OUT.get(page.name, {})
        found = [command for command in shown(page) if command.text not in left_out]
        if found and page.name not in RUN_BY:
            yield page.name, found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The samples, and what a reader would have: models, weights, an architecture and an image."""
    made = tmp_path_factory.mktemp("reader")
    copy_of_the_samples(made)
    (made / "checkpoints").mkdir()
    for name in ("model.onnx", "checkpoint7.onnx", "checkpoints/1.onnx", "checkpoints/2.onnx"):
        onnx.save(small_network(), made / name)
    for name in ("before.json", "after.json"):
        report = run_line(Command(f"lipaudit model.onnx --quiet --format json -o {name}"), made)
        assert report.code == 0, report.err
    save_file(resnet18().state_dict(), made / "weights.safetensors")
    (made / "my").mkdir()
    (made / "my" / "package.py").write_text("from torchvision.models import resnet18 as network\n", encoding="utf-8")
    Image.fromarray(np.full((8, 8, 3), 128, np.uint8)).save(made / "cat.png")
    (made / "docs").mkdir()
    return made


def small_network() -> onnx.ModelProto:
    """A convolution of colour images, a ReLU, and the mean over the positions."""
    weight = numpy_helper.from_array(np.linspace(-1, 1, 4 * 3 * 9, dtype=np.float32).reshape(4, 3, 3, 3), "weight")
    nodes = [
        helper.make_node("Conv", ["image", "weight"], ["features"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["features"], ["positive"]),
        helper.make_node("GlobalAveragePool", ["positive"], ["mean"]),
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 8, 8])
    mean = helper.make_tensor_value_info("mean", TensorProto.FLOAT, [1, 4, 1, 1])
    graph = helper.make_graph(nodes, "small", [image], [mean], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(("page", "found"), list(to_run()), ids=lambda value: value if isinstance(value, str) else "")
def test_commands_run(page: str, found: list[Command], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder / "home"))
    monkeypatch.setenv("LIPAUDIT_CACHE", str(folder / "norms"))  # equal weights are measured once
    for command in found:
        with pytest.MonkeyPatch.context() as patch:
            if not re.search(
                "--(certificate|warm-start)", command.text
            ):  # what the search finds, the tests of other pages compare
                patch.setattr("lipaudit.auditing.request.DEFAULT_EFFORT", "none")
            done = run_line(command, folder)
        assert done.code == command.code, f"{page}: {command.text} ended with {done.code}:\n{done.out}\n{done.err}"
        assert "Traceback" not in done.err


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_is_left_out_is_there_and_would_be_accepted(page: Path) -> None:
    texts = {command.text for command in shown(page)}
    left_out = LEFT_OUT.get(page.name, {})
    assert set(left_out) <= texts, "no longer on the page"
    for command in shown(page):
        if command.text in left_out:
            check_options(command)


def check_options(command: Command) -> None:
    """Parse a command of lipaudit without running it; of a script, look for its options in the source."""
    if command.words is not None:
        parse(command.words)
        return
    script = re.match(r"python (?:-m ([\w.]+)|(\S+\.py))", command.text)
    if script:
        path = script[2] or script[1].replace(".", "/") + ".py"
        source = (ROOT / path).read_text(encoding="utf-8")
        for option in re.findall(r" (--?[a-z][\w-]*)", command.text.removeprefix("python -m")):
            assert f'"{option}"' in source, f"{path} has no {option}"


def parse(words: list[str]) -> click.Context:
    """What click makes of the arguments of lipaudit, without running anything; a UsageError where it refuses them."""
    top = cli.make_context("lipaudit", list(words))
    name, command, rest = cli.resolve_command(top, [*top._protected_args, *top.args])
    assert command is not None
    return command.make_context(name, rest, parent=top)


@pytest.mark.parametrize("page", RUN_BY)
def test_pages_that_other_tests_run_are_read_there(page: str) -> None:
    assert shown(ROOT / "docs" / page)
    assert f'"{page}"' in (ROOT / RUN_BY[page]).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_sentences_have_options_that_exist(page: Path) -> None:
    for text in re.findall(r"`lipaudit ([^`\n]*)`", page.read_text(encoding="utf-8")):
        words = re.findall(r"[^\s']+", text)
        command = cli.commands.get(words[0], cli.commands["audit"])
        known = {name for parameter in command.params for name in parameter.opts} | {"--help", "-h"}
        assert {word for word in words if re.match(r"--?[a-z]", word)} <= known, text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_columns_that_are_named_exist(page: Path) -> None:
    for names in re.findall(r"--columns ([a-z]\w*(?:,\w+)*)", page.read_text(encoding="utf-8")):
        parse_columns(names)


def test_the_examples_of_the_help_are_accepted() -> None:
    examples = re.findall(r"^  (lipaudit .*)$", cli.epilog or "", re.MULTILINE)
    assert len(examples) > 10
    for example in examples:
        words = Command(example).words
        assert words is not None
        parse(words)


@pytest.mark.parametrize(
    "text", ["lipaudit model.onnx --no-such-option", "lipaudit export report.json --to pdf", "lipaudit diff one.json"]
)
def test_a_line_that_the_command_refuses_is_found(text: str) -> None:
    with pytest.raises(click.UsageError):
        check_options(Command(text))


def test_a_line_that_a_script_does_not_know_is_found() -> None:
    with pytest.raises(AssertionError, match="--sizs"):
        check_options(Command("python -m benchmarks.ratios --sizs 3"))
