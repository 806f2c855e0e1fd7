"""The audits of the sample networks are the ones kept in ``sample_models/expected``."""

from __future__ import annotations

import json
import math

import pytest

from sample_models import expect, train

TOLERANCE = 2e-3  # of a log10 bound; an audit's own tolerance of 0.1 % is 4.3e-4 per layer

EXPECTED = sorted(expect.EXPECTED.glob("*.json"))


@pytest.mark.skipif(not EXPECTED, reason="no expected audits yet; python -m sample_models.expect writes them")
def test_every_sample_network_has_an_expected_audit():
    assert [path.stem for path in EXPECTED] == expect.model_names() == sorted(train.RECIPES)


@pytest.mark.parametrize("path", EXPECTED, ids=lambda path: path.stem)
def test_audit_is_the_expected_one(path):
    expected = json.loads(path.read_text())
    found = expect.audit(path.stem)

    def rows(record):
        domains = [(entry["domain"], entry["status"]) for entry in networks(record)]
        return domains + [(layer["name"], layer["status"]) for layer in record["layers"]]

    def bounds(record):
        return [entry["log10_upper_bound"] for entry in (*networks(record), *record["layers"])]

    def networks(record):
        return [record["network"], *record["network"]["other_domains"]]

    assert rows(found) == rows(expected)
    for (name, _), new, old in zip(rows(found), bounds(found), bounds(expected), strict=True):
        if old is None or new is None:
            assert new == old, name
        else:
            assert math.isclose(new, old, abs_tol=TOLERANCE), (name, new, old)


def test_nothing_in_the_sample_networks_is_unsupported_and_every_one_has_a_bound_on_pixels():
    for path in EXPECTED:
        record = json.loads(path.read_text())
        assert {layer["status"] for layer in record["layers"]} <= {"finite", "unbounded"}, path.stem
        found = [record["network"], *record["network"]["other_domains"]]
        assert any(entry["status"] == "finite" and entry["log10_upper_bound"] < 40 for entry in found), path.stem
