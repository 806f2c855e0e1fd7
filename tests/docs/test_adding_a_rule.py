"""The example of docs/adding_a_rule.md, in a process of its own so that nothing of it stays registered."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.docs.commands import ROOT, blocks

PAGE = ROOT / "docs" / "adding_a_rule.md"
_CONFORMANCE = """
from tests.rules.ops.cases import all_cases
from tests.rules.test_conformance import test_conformance, test_every_rule_has_a_case

test_every_rule_has_a_case()
own = [case for case in all_cases() if case.op == "demo.tilt.default"]
assert len(own) == 3
for case in own:
    test_conformance(case)
"""


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_example_prints_what_it_shows_and_conforms() -> None:
    done = run("\n".join(blocks(PAGE, "python")) + _CONFORMANCE)
    assert done.returncode == 0, done.stderr
    before, after = blocks(PAGE, "text")
    assert done.stdout == before + after


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("max(1.0, abs(slope))", "1.0", "exceeds 1.0"),
        ("max(1.0, abs(slope))", "2 * max(1.0, abs(slope))", "claimed to be attained"),
    ],
)
def test_the_case_of_the_example_can_fail(right: str, wrong: str, message: str) -> None:
    operation, rule, case, _ = blocks(PAGE, "python")
    assert rule.count(right) == 1
    done = run("\n".join((operation, rule.replace(right, wrong), case, _CONFORMANCE)))
    assert done.returncode == 1
    assert message in done.stderr
