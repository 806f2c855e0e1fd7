"""Models of a fleet as one would type them: a line of the list that says so asks for the same."""

from __future__ import annotations

import shlex

import pytest

from lipaudit.cli.audit import audit
from lipaudit.cli.models_from import _request
from lipaudit.fleet.command_text import command_text, names


@pytest.mark.parametrize(
    "line",
    [
        "net.onnx",
        "net.onnx --domain pixels --mean 0.5,-0.25 --std 1.0,2.0",
        "'a folder/net.onnx' --input 3x32x32 --weights random --arch my.package:network",
        "net.onnx --input left:1,3,8,8 --input right:1,5",
        "net.onnx --domain ball --around 'my cat.png' --radius 0.5",
        "resnet50 --structure --input 224",
    ],
)
def test_what_was_typed_comes_back(line: str) -> None:
    request = _request(line, audit)
    again = command_text(request.spec, request.options)
    assert _request(again, audit) == request
    assert sorted(shlex.split(again)) == sorted(shlex.split(line))


def test_defaults_that_a_line_asks_for_are_said() -> None:
    request = _request('{"model": "net", "weights": null, "structure": false, "domain": null}', audit)
    assert command_text(request.spec, request.options) == "net --domain global (no --weights, --structure)"


def test_only_models_that_are_there_twice_have_their_options_in_the_name() -> None:
    assert names([("a", {"structure": True}), ("b", {}), ("b", {"structure": True})]) == ["a", "b", "b --structure"]
