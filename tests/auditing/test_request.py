"""A request: every option has a plain form, and what cannot be asked is refused before any model is loaded."""

from __future__ import annotations

import inspect
import json
import pickle
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.auditing.constants import find_constants
from lipaudit.auditing.method import method_names
from lipaudit.auditing.request import AuditOptions, AuditRequest, CompareRequest
from lipaudit.auditing.values import MOST_ITERATIONS
from lipaudit.errors import UsageError
from lipaudit.graph.node import Graph
from lipaudit.option_names import command_line
from lipaudit.spectral.oracle import CertifiedNorms, PublishedNorms, UnknownNorms
from lipaudit.spectral.published.registry import Options, all_methods, find_method
from tests.places import ROOT

NOTHING = Graph((), (), ())
CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("function", "kind"), [(lipaudit.audit, AuditRequest), (lipaudit.compare, CompareRequest)], ids=["audit", "compare"]
)
def test_a_function_has_the_options_of_its_request_and_their_defaults(function: Any, kind: Any) -> None:
    parameters = dict(inspect.signature(function).parameters)
    del parameters["progress"]
    assert set(parameters) == {field.name for field in fields(kind)}
    defaults = {name: p.default for name, p in parameters.items() if name != "model"}
    assert defaults == {field.name: field.default for field in fields(kind) if field.name != "model"}


def test_options_are_brought_into_a_plain_form() -> None:
    request = AuditRequest(
        model=Path("net.onnx"),
        input_shape={"x": [np.int64(1), 3]},
        mean=np.array([0.5, 0.25]),
        std=torch.tensor(2.0),
        tol=torch.tensor(0.01, dtype=torch.float64),
        device=torch.device("cuda", 0),
        seed=np.int64(3),
        cache=Path("norms"),
        domain="pixels",
    )
    assert (request.model, request.cache, request.device) == ("net.onnx", "norms", "cuda")
    assert (request.shapes, request.mean, request.std) == ({"x": (1, 3)}, (0.5, 0.25), (2.0,))
    assert (request.seed, request.tol) == (3, 0.01)
    assert AuditOptions(input_shape="x:1,3").shapes == {"x": (1, 3)}
    assert (AuditOptions(input_shape=224).shapes, AuditOptions().shapes) == ({"": (224,)}, None)


def test_the_options_of_a_fleet_come_back_from_json() -> None:
    options = AuditOptions(input_shape=(3, 32, 32), mean=0.5, std=(0.1, 0.2, 0.3), domain="pixels", cache="norms")
    settings = options.to_json()
    assert not {"model", "cache", "save_pair"} & set(settings)
    again = AuditOptions(**json.loads(json.dumps(settings)))
    assert {**again.values(), "cache": "norms"} == options.values()


def test_a_model_has_options_of_its_own() -> None:
    request = AuditOptions(tol=0.1, seed=3, domain="pixels").request("net.onnx", domain="global", input_shape=[1, 2])
    assert (request.model, request.tol, request.seed) == ("net.onnx", 0.1, 3)
    assert (request.domain, request.shapes) == ("global", {"": (1, 2)})
    with pytest.raises(UsageError, match="domain='ball' requires its centre"):
        AuditOptions().request("net.onnx", domain="ball")


def test_a_request_reaches_another_process() -> None:
    request = AuditRequest(model="net.onnx", fix={"mask": torch.ones(2)}, domain="ball", around="cat.png", radius=0.5)
    again = pickle.loads(pickle.dumps(request))
    assert torch.equal(again.fix.pop("mask"), request.fix.pop("mask"))  # type: ignore[union-attr]
    assert again.values() == request.values()


def test_the_files_of_a_request() -> None:
    request = AuditRequest(
        model="net.pth",
        arch="resnet18",
        fix={"ids": "ids.npy", "rate": "16000"},
        domain="ball",
        around="c.png",
        radius=1,
    )
    assert request.files() == ["net.pth", "c.png", "ids.npy"]
    assert CompareRequest(model="resnet18", weights="w.pth").files() == ["w.pth"]
    assert AuditRequest(model=nn.ReLU()).files() == []


@pytest.mark.parametrize(
    ("options", "python", "typed"),
    [
        ({"tol": 0}, "^tol must be a number from 1e-09 to 1, got 0$", "^--tol must be"),
        ({"seed": "x"}, r"^seed must be an integer from 0 to 2\^63 - 1, got 'x'$", "^--seed must be"),
        ({"freeze_random": -1}, r"^freeze_random must be an integer from 0", "^--freeze-random must be"),
        ({"device": "tpu"}, "^there is no device 'tpu': choose one of auto, cpu, cuda$", "no device 'tpu'"),
        ({"mean": 0.5}, "^mean requires std .*add it, or leave out mean$", "^--mean requires --std"),
        ({"radius": 1}, "^radius requires domain='ball' ", "^--radius requires --domain ball "),
        ({"domain": "ball"}, "give around=IMAGE and radius=R$", "give --around IMAGE and --radius R$"),
        ({"save_pair": "a.npz"}, "^save_pair requires lower_bound=True ", "^--save-pair requires --lower-bound "),
        (
            {"save_pair": "a.txt", "lower_bound": True},
            "^save_pair must be the name of a numpy archive, FILE.npz, got 'a.txt'$",
            "^--save-pair must be",
        ),
        (
            {"structure": True, "arch": "a"},
            "^arch cannot be combined with structure ",
            "^--arch cannot .* --structure ",
        ),
        ({"structure": True, "lower_bound": True}, "^lower_bound cannot be combined", "^--lower-bound cannot"),
        ({"structure": True, "method": "ryu2019"}, "^method cannot be combined with structure", "^--method cannot"),
        ({"structure": True, "iterations": 3}, "^iterations cannot be combined with structure", "^--iterations cannot"),
        ({"max_memory": "much"}, "^max_memory must be a size, such as 16GB, got 'much'$", "^--max-memory must be"),
        ({"iterations": 5}, "gram has no iterations .*leave out iterations$", "leave out --iterations$"),
    ],
)
def test_errors_spell_options_as_whoever_asked(options: dict[str, Any], python: str, typed: str) -> None:
    with pytest.raises(UsageError, match=python):
        AuditRequest(model="net.onnx", **options)
    with command_line(), pytest.raises(UsageError, match=typed):
        AuditRequest(model="net.onnx", **options)


def test_errors_reach_other_processes() -> None:
    with pytest.raises(UsageError) as caught:
        AuditRequest(model="net.onnx", seed="x")  # type: ignore[arg-type]
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again)) == (type(caught.value), str(caught.value))


def test_a_request_is_checked_without_torch() -> None:
    code = (
        "import sys; from lipaudit.auditing.request import AuditRequest;"
        "AuditRequest(model='a.onnx', fix={'ids': 'ids.npy'}, domain='pixels', mean=0.5, std=0.5, input_shape='3x8x8');"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_every_registered_method_may_be_requested_and_gram_is_lipaudits_own() -> None:
    assert set(method_names()) == {"gram", *(method.name for method in all_methods())}
    for method in all_methods():
        request = AuditRequest(model="a.onnx", method=method.name)
        norms = find_constants(request, NOTHING, CPU).norms
        assert isinstance(norms, CertifiedNorms if method.name == "gram" else PublishedNorms)
    assert isinstance(find_constants(AuditRequest(model="a.onnx", structure=True), NOTHING, CPU).norms, UnknownNorms)


def test_the_options_reach_the_method() -> None:
    norms = find_constants(
        AuditRequest(model="a.onnx", method="ryu2019", iterations=7, tol=0.01, seed=3), NOTHING, CPU
    ).norms
    assert isinstance(norms, PublishedNorms)
    assert norms.method is find_method("ryu2019")
    assert norms.options == Options(iterations=7, seed=3, tolerance=0.01)


@pytest.mark.parametrize(
    ("name", "iterations", "words"),
    [
        ("sedghi2018", None, "no method 'sedghi2018': choose one of araujo2021, "),
        ("", None, "no method ''"),
        ("gram", 5, "gram has no iterations"),
        ("sedghi2019", 5, "sedghi2019 has no iterations"),
        ("ryu2019", 0, "an integer from 1 to 1,000,000, got 0"),
        ("ryu2019", -3, "got -3"),
        ("ryu2019", 2.5, "got 2.5"),
        ("ryu2019", True, "got True"),
        ("ryu2019", 1_000_001, "from 1 to 1,000,000, got 1000001"),
        ("ryu2019", 10**30, "from 1 to 1,000,000"),
        (5, None, "the name of a method, got 5"),
        (["ryu2019"], None, "the name of a method, got"),
    ],
)
def test_a_wrong_method_is_refused(name: Any, iterations: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        AuditRequest(model="a.onnx", method=name, iterations=iterations)


def test_the_option_takes_as_many_iterations_as_the_methods() -> None:
    from lipaudit.cli.options import ITERATIONS

    assert (ITERATIONS.min, ITERATIONS.max) == (1, MOST_ITERATIONS)
    assert AuditRequest(model="a.onnx", method="ryu2019", iterations=MOST_ITERATIONS).iterations == MOST_ITERATIONS


def test_methods_to_compare_keep_their_order() -> None:
    assert CompareRequest(model="a.onnx").methods is None
    for methods in (["sedghi2019", "ryu2019"], "sedghi2019, ryu2019"):
        assert CompareRequest(model="a.onnx", methods=methods, iterations=7).methods == ("sedghi2019", "ryu2019")


@pytest.mark.parametrize(
    ("names", "iterations", "words"),
    [
        (["sedghi2018"], None, "no method 'sedghi2018'"),
        ("sedghi2018", None, "no method 'sedghi2018'"),
        ("", None, "no method ''"),
        (["sedghi2019", "sedghi2019"], None, "^methods names 'sedghi2019' twice: name it once"),
        ([], None, "^methods is empty: leave it out for the default"),
        (["sedghi2019"], 5, "none of the methods has iterations"),
        (None, 0, "an integer from 1 to"),
        (None, 10**30, "an integer from 1 to 1,000,000"),
        (5, None, "methods must be a text, or a list or tuple of names of methods, got 5"),
        (iter(["ryu2019"]), None, "got a list_iterator"),
        ({"ryu2019"}, None, "got a set"),
        ([["ryu2019"]], None, r"names of methods, got \[\['ryu2019'\]\]"),
        ([5], None, r"names of methods, got \[5\]"),
    ],
)
def test_what_cannot_be_compared_is_refused(names: Any, iterations: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        CompareRequest(model="a.onnx", methods=names, iterations=iterations)
