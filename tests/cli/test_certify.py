"""``lipaudit certify`` as it is typed: its screen, its files, its gate and its errors."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import html5lib
import jsonschema
import numpy as np
import pytest
from PIL import Image

import lipaudit
from lipaudit.cli import main
from lipaudit.records.schema import certification_schema_text
from sample_models.data import load_classes

MODEL = "sample_models/digits_resnet.onnx"
QUICK = ["--attack-steps", "5", "--attack-starts", "2"]


@pytest.fixture(scope="module")
def array(tmp_path_factory: pytest.TempPathFactory) -> str:
    digits = load_classes("test")
    file = tmp_path_factory.mktemp("digits") / "digits.npz"
    np.savez(file, x=digits.images[:9].numpy(), y=digits.targets[:9].numpy())
    return str(file)


@pytest.fixture(scope="module")
def saved(array: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("certified") / "digits.json"
    assert main(["certify", MODEL, array, *QUICK, "-q", "-o", str(file)]) == 0
    return file


def test_the_screen_fits_a_terminal(
    array: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    assert main(["certify", MODEL, array, *QUICK]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 24
    assert any(line.split()[:1] == ["36/255"] for line in lines)
    assert any("4 of 9 images, the least certain first" in line for line in lines)


def test_the_json_follows_its_schema_and_is_read_back(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(saved.read_text())
    jsonschema.validate(document, json.loads(certification_schema_text()))
    assert set(document["images"][0]) == set(json.loads(certification_schema_text())["$defs"]["image"]["properties"])
    found = lipaudit.Certification.from_json(saved.read_text())
    assert json.loads(found.to_json()) == document
    assert [row.radius for row in found.radii] == [36 / 255, 72 / 255, 108 / 255, 1.0]
    assert main(["schema", "--certification"]) == 0
    assert capsys.readouterr().out == certification_schema_text()


def test_every_format_holds_every_image(saved: Path, tmp_path: Path) -> None:
    found = lipaudit.Certification.from_json(saved.read_text())
    for suffix in ("csv", "tsv", "md", "html", "svg", "png", "txt", "json"):
        found.save(tmp_path / f"found.{suffix}")
    with (tmp_path / "found.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["radius"]) for row in rows] == [image.radius for image in found.images]
    page = (tmp_path / "found.html").read_text()
    tree = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page)
    assert len(tree.findall(".//section[@id='images']//tbody/tr")) == 9
    assert (tmp_path / "found.txt").read_text().count("\n") > 20
    assert (tmp_path / "found.png").read_bytes().startswith(b"\x89PNG")
    assert "certified accuracy" in (tmp_path / "found.svg").read_text()


def test_the_gate_decides_over_the_exit_code(array: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["certify", MODEL, array, "--attack-steps", "0", "--format", "json"]
    assert main([*words, "--min-certified-accuracy", "0.5@0.00001"]) == 0
    assert "gate passed" in capsys.readouterr().err
    assert main([*words, "--min-certified-accuracy", "0.5@36/255"]) == 1
    said = capsys.readouterr()
    assert "the certified accuracy at the radius 0.141176 is 0 (0 of 9 images), below 0.5" in said.err
    assert json.loads(said.out)["radii"]


@pytest.mark.parametrize("gate", ["0.8", "0.8@", "2@1", "0@1", "0.5@0", "x@1", "0.5@1/0", "nan@1", "0.5@inf"])
def test_a_gate_that_is_none_is_refused(gate: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certify", MODEL, "x.npz", "--min-certified-accuracy", gate]) == 2
    assert "SHARE@RADIUS" in capsys.readouterr().err


def test_a_folder_of_class_folders_in_pixels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    digits = load_classes("test")
    for number in range(3):
        folder = tmp_path / "images" / str(int(digits.targets[number]))
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray((digits.images[number, 0].numpy() * 255).astype("uint8")).save(folder / f"{number}.png")
    words = ["certify", MODEL, str(tmp_path / "images"), "--mean", "0", "--std", "1", "--radii", "1e-5,1/255", *QUICK]
    assert main([*words, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["settings"]["units"] == "pixels"
    assert document["accuracy"] == 1.0
    assert [row["radius"] for row in document["radii"]][:2] == [1e-5, 1 / 255]
    assert document["radii"][0]["certified_accuracy"] == 1.0
    assert not any("Class folders" in note for note in document["notes"])
    assert main(words[:3]) == 2
    assert "normalisation" in capsys.readouterr().err
    for name in ("zero", "one"):
        next(f for f in (tmp_path / "images").iterdir() if f.name.isdecimal()).rename(tmp_path / "images" / name)
    shutil.rmtree(next(f for f in (tmp_path / "images").iterdir() if f.name.isdecimal()))
    assert main([*words, "--format", "json"]) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert any("one is 0, zero is 1" in note for note in notes)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--radii", "a"], "not a list of radii"),
        (["--radii", "0"], "--radii must be numbers above 0"),
        (["--labels", "nowhere.csv"], "there is no file of this name"),
        (["-o", "x.xml"], "nothing here is written as .xml"),
        (["--local-steps", "-1"], "--local-steps"),
    ],
)
def test_errors_are_one_line(array: str, words: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certify", MODEL, array, *words]) == 2
    said = capsys.readouterr().err
    assert problem in said
    assert len(said.splitlines()) == 1


def test_a_network_that_decides_nothing(array: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certify", "sample_models/digits_unet.onnx", array]) == 3
    assert "one vector of logits" in capsys.readouterr().err


def test_what_is_read_is_not_written_over(array: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certify", MODEL, array, "-o", array, "--format", "json"]) == 2
    assert "would replace" in capsys.readouterr().err


def test_an_interrupted_run_says_how_to_continue(
    array: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lipaudit.certification.run.run_certification", interrupted)
    state = str(tmp_path / "digits.state")
    assert main(["certify", MODEL, array, "--state", state]) == 130
    assert f"what is done is kept in {state}; run the same command to continue" in capsys.readouterr().err


def test_errors_name_the_images_as_they_were_typed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certify", MODEL, str(tmp_path), *QUICK]) == 2
    message = capsys.readouterr().err
    assert f"IMAGES {tmp_path}: the folder holds no image" in " ".join(message.split())
    assert "--images" not in message


def test_quiet_is_one_line_and_a_file_stays_whole(
    array: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--attack-steps", "0", "--effort", "none", "-q"]
    assert main(["certify", MODEL, array, *options]) == 0
    captured = capsys.readouterr()
    (line,) = captured.out.splitlines()
    assert line.startswith(f"{MODEL}: 9 images, 100.0% decided as labelled; certified radius 0.000")
    assert captured.err == ""
    assert main(["certify", MODEL, array, *options, "-o", str(tmp_path / "whole.txt"), "--format", "table"]) == 0
    assert len((tmp_path / "whole.txt").read_text().splitlines()) > 9


def test_a_gate_without_labels_is_refused_before_any_bound_is_computed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("the graph was captured")

    monkeypatch.setattr("lipaudit.certification.run.capture_model", fail)
    np.save(tmp_path / "x.npy", load_classes("test").images[:2].numpy())
    assert main(["certify", MODEL, str(tmp_path / "x.npy"), "--min-certified-accuracy", "0.5@0.1"]) == 2
    assert "--min-certified-accuracy requires --labels FILE" in capsys.readouterr().err
