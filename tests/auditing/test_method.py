from __future__ import annotations

import pytest
import torch

from lipaudit.auditing.method import MOST_ITERATIONS, find_compared, find_requested, method_names, requested_norms
from lipaudit.errors import UsageError
from lipaudit.graph.node import Graph
from lipaudit.spectral.oracle import CertifiedNorms, PublishedNorms
from lipaudit.spectral.published.registry import Options, all_methods, find_method

NOTHING = Graph((), (), ())
CPU = torch.device("cpu")


def test_every_registered_method_may_be_requested_and_gram_is_lipaudits_own() -> None:
    assert set(method_names()) == {"gram", *(method.name for method in all_methods())}
    assert find_requested("gram") is None
    for method in all_methods():
        assert find_requested(method.name) is (None if method.name == "gram" else method)
    assert isinstance(requested_norms(None, None, 0.01, 3, NOTHING, CPU), CertifiedNorms)


def test_the_options_reach_the_method() -> None:
    norms = requested_norms(find_method("ryu2019"), 7, 0.01, 3, NOTHING, CPU)
    assert isinstance(norms, PublishedNorms)
    assert norms.method is find_method("ryu2019")
    assert norms.options == Options(iterations=7, seed=3, tolerance=0.01)


@pytest.mark.parametrize(
    ("name", "iterations", "words"),
    [
        ("sedghi2018", None, "no method 'sedghi2018'; choose from gram, "),
        ("", None, "no method ''"),
        ("gram", 5, "gram has no iterations"),
        ("sedghi2019", 5, "sedghi2019 has no iterations"),
        ("ryu2019", 0, "at least 1, not 0"),
        ("ryu2019", -3, "at least 1, not -3"),
        ("ryu2019", 2.5, "whole number"),
        ("ryu2019", True, "whole number"),
        ("ryu2019", 1_000_001, "at most 1,000,000, not 1,000,001"),
        ("ryu2019", 10**30, "at most 1,000,000"),
        (5, None, "no method 5"),
        (["ryu2019"], None, "no method"),
    ],
)
def test_what_is_no_request_is_refused(name: str, iterations: int | None, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        find_requested(name, iterations)


def test_the_option_takes_as_many_iterations_as_the_methods() -> None:
    from lipaudit.cli.options import ITERATIONS

    assert (ITERATIONS.min, ITERATIONS.max) == (1, MOST_ITERATIONS)
    assert find_requested("ryu2019", MOST_ITERATIONS) is find_method("ryu2019")


def test_methods_to_compare_keep_their_order_and_default_to_all() -> None:
    assert find_compared(None) == all_methods()
    assert [m.name for m in find_compared(["sedghi2019", "ryu2019"], 7)] == ["sedghi2019", "ryu2019"]


def test_one_text_names_methods_as_the_option_does() -> None:
    assert find_compared("ryu2019") == (find_method("ryu2019"),)
    assert find_compared("sedghi2019, ryu2019") == (find_method("sedghi2019"), find_method("ryu2019"))


@pytest.mark.parametrize(
    ("names", "iterations", "words"),
    [
        (["sedghi2018"], None, "no method 'sedghi2018'"),
        ("sedghi2018", None, "no method 'sedghi2018'"),
        ("", None, "no method ''"),
        (
            ["sedghi2019", "sedghi2019"],
            None,
            r"^methods \(--methods\) takes each name once, not 'sedghi2019,sedghi2019'",
        ),
        ([], None, r"^methods \(--methods\) is empty: leave it out for every method"),
        (["sedghi2019"], 5, "none of the methods has iterations"),
        (None, 0, "at least 1"),
        (None, 10**30, "at most 1,000,000"),
        (5, None, "methods are a text, or a list or tuple of names such as 'araujo2021', not int"),
        (iter(["ryu2019"]), None, "not list_iterator"),
        ({"ryu2019"}, None, "not set"),
        ([["ryu2019"]], None, r"no method \['ryu2019'\]"),
        ([5], None, "no method 5"),
    ],
)
def test_what_cannot_be_compared_is_refused(names: list[str] | None, iterations: int | None, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        find_compared(names, iterations)
