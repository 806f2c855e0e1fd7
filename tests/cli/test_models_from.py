"""Lists of models: what a line may say, and what is refused with its number."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lipaudit.cli.audit import audit
from lipaudit.cli.models_from import read_models
from lipaudit.errors import ModelNotFoundError, UsageError
from lipaudit.fleet.model import FleetModel

Read = Callable[[str | bytes], list[FleetModel]]


def check(request: FleetModel) -> list[FleetModel]:
    if request.spec == "none*":
        raise ModelNotFoundError("nothing matches 'none*'")
    if request.options.get("around") and not request.options.get("radius"):
        raise UsageError("a ball needs its radius")
    return [request]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    path = tmp_path / "models.txt"

    def read(text: str | bytes) -> list[FleetModel]:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_models(str(path), audit, check)

    return read


@pytest.mark.parametrize(
    ("line", "spec", "options"),
    [
        ("resnet50", "resnet50", {}),
        ("  resnet50\t\r", "resnet50", {}),
        ("net#2.onnx", "net#2.onnx", {}),
        ("resnet50 --input 224", "resnet50", {"input_shape": [224]}),
        ("resnet50 --input=3x64x32 --weights random", "resnet50", {"input_shape": [3, 64, 32], "weights": "random"}),
        ("--structure resnet50", "resnet50", {"structure": True}),
        ("n.onnx --input a:1,3,8 --input b:1,4", "n.onnx", {"input_shape": {"a": [1, 3, 8], "b": [1, 4]}}),
        ("'my models/n.onnx' --mean 0.5,-1 --std 1", "my models/n.onnx", {"mean": [0.5, -1.0], "std": [1.0]}),
        ("w.pth --arch timm:resnet18", "w.pth", {"arch": "timm:resnet18"}),
        (
            "n.onnx --domain ball --around c.png --radius 2",
            "n.onnx",
            {"domain": "ball", "around": "c.png", "radius": 2.0},
        ),
        ("n --effort standard --warm-start p.st", "n", {"effort": "standard", "warm_start": "p.st"}),
        ('{"model": "n", "effort": "none", "warm-start": null}', "n", {"effort": "none", "warm_start": None}),
        ('{"model": "n", "norm-domain": "linf"}', "n", {"norm_domain": "linf"}),
        ('{"model": "n.onnx"}', "n.onnx", {}),
        ('{"model": "--odd name.onnx", "input": 224}', "--odd name.onnx", {"input_shape": [224]}),
        ('{"model": "n", "input": ["a:1,3", "b:1,4"]}', "n", {"input_shape": {"a": [1, 3], "b": [1, 4]}}),
        ('{"model": "n", "mean": [0.5, -1], "std": 1}', "n", {"mean": [0.5, -1.0], "std": [1.0]}),
        ('{"model": "n", "weights": null, "structure": true}', "n", {"weights": None, "structure": True}),
        ('{"model": "n", "structure": false, "domain": null}', "n", {"structure": False, "domain": "global"}),
        ('{"model": "n", "input": null, "arch": "a"}', "n", {"input_shape": None, "arch": "a"}),
        ('{"model": "n", "weights": "-odd\\n\\ud800"}', "n", {"weights": "-odd\n\ud800"}),
    ],
)
def test_a_line_is_a_model_with_its_options(read: Read, line: str, spec: str, options: dict[str, object]) -> None:
    (request,) = read(line)
    assert (request.spec, request.options) == (spec, options)
    assert json.loads(request.key) == [spec, options]  # the record tells models apart by it


def test_comments_blank_lines_and_a_byte_order_mark_are_skipped(read: Read) -> None:
    found = read(b"\xef\xbb\xbfa\r\n\r\n# b\n   # c\n\nd\n")
    assert [request.spec for request in found] == ["a", "d"]


def test_a_name_that_is_no_text_survives(read: Read) -> None:
    (request,) = read(b"caf\xe9.onnx")
    assert request.spec == "caf\udce9.onnx"
    assert json.loads(request.key)[0] == "caf\udce9.onnx"


def test_stdin_is_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\nb --bad\n")))
    with pytest.raises(UsageError, match=r"stdin, line 2 is wrong: No such option '?--bad"):
        read_models("-", audit, check)


def test_a_closed_stdin_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UsageError, match=r"the models cannot be read from stdin \(it is closed\): name a file"):
        read_models("-", audit, check)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("'net", "No closing quotation; quote names as in a shell, or write a JSON object"),
        ("a b", "Got unexpected extra argument"),
        ("--input 224", "Missing argument"),
        ("a --input 0x0", "with NAME: in front where a model has several inputs, got '0x0'"),
        ("a --input", "requires an argument"),
        ("a --input 1,3 --input 1,4", "several inputs need a name each"),
        ("a --mean x", "is not a list of numbers"),
        ("a --radius -1", "is not above 0"),
        ("a --domain everywhere", "is not one of 'global', 'pixels', 'ball'"),
        ("a --tol 0.1", "--tol holds for the whole fleet: give it on the command line"),
        ("a --jobs 2", "--jobs holds for the whole fleet"),
        ("a --inptu 2", "No such option"),
        ("a --around c.png", "a ball needs its radius"),
        ("none*", "nothing matches 'none*'"),
        ("{", "Expecting property name"),
        ('{"input": 224}', '"model" is missing or not a text'),
        ('{"model": 5}', '"model" is missing or not a text'),
        (
            '{"model": "a", "size": 224}',
            "there is no key 'size': choose one of model, input, fix, weights, arch, structure",
        ),
        ('{"model": "a", "inputs": 224}', "there is no key 'inputs'"),
        ('{"model": "a", "tol": 0.1}', "there is no key 'tol'"),
        ('{"model": "a", "weights": {}}', '"weights" must be text or a number, got a dict'),
        ('{"model": "a", "input": [true]}', '"input" must be text or a number, got True'),
        ('{"model": "a", "input": 8, "model": "b"}', "the object names 'model' twice: name it once"),
        ('{"model": "a", "weights": {"x": 1, "x": 2}}', "the object names 'x' twice"),
        ('{"model": "a", "input": []}', '"input" is empty: leave it out for the default'),
        ('{"model": "a", "mean": [], "std": 1}', '"mean" is empty'),
        ('{"model": "a", "structure": "yes"}', '"structure" must be true or false, got'),
        ('{"model": "a", "mean": NaN, "std": Infinity, "radius": NaN}', "nan is not a finite number"),
        ('{"a":' * 5000, "recursion"),
    ],
)
def test_a_bad_line_is_named(read: Read, line: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(f"good\n\n{line}\n")
    text = str(caught.value)
    assert "models.txt, line 3 is wrong: " in text
    assert message in text
    assert "\n" not in text


def test_the_first_bad_line_is_explained_and_the_others_are_counted(read: Read) -> None:
    with pytest.raises(UsageError, match=r"models.txt, line 1 is wrong \(and so are lines 3, 4\): Missing argument"):
        read("--structure\ngood\na b\n{}\n")


@pytest.mark.parametrize("text", ["", "# nothing\n\n"])
def test_a_list_without_models_is_refused(read: Read, text: str) -> None:
    with pytest.raises(UsageError, match="names no model: write one per line"):
        read(text)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32"])
def test_a_list_in_another_encoding_is_refused(read: Read, encoding: str) -> None:
    with pytest.raises(
        UsageError, match=r"cannot be read from .*models\.txt \(it holds null bytes, .*: save it as UTF-8"
    ):
        read("resnet50\n".encode(encoding))


@pytest.mark.parametrize("source", ["missing.txt", ".", "nul\0byte"])
def test_a_list_that_cannot_be_read_is_refused(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="the models cannot be read from"):
        read_models(source, audit, check)
