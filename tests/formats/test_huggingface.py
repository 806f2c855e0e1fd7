from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub import ModelCard
from markdown_it import MarkdownIt

from lipaudit.errors import UsageError
from lipaudit.formats.huggingface import metadata, section, update_card
from lipaudit.formats.markdown import render_summary
from lipaudit.records.report import AuditReport
from tests.formats.reports import HOSTILE, SAMPLES, hostile, later, sample, structure
from tests.records import (
    fakes,
)

CARD = """---
license: mit # of the weights
model-index:
- name: other # kept
  results:
  - task:
      type: image-classification
    dataset:
      type: digits
      name: Digits
    metrics:
    - type: accuracy
      value: 0.97
- name: net
  results:
  - task: {type: image-classification}
    dataset: {type: digits, name: Digits}
    metrics:
    - {type: accuracy, value: 0.990}
tags:
- vision
---
# Net
"""


def loaded(text: str) -> dict[str, Any]:
    return ModelCard(text).data.to_dict()


@pytest.mark.parametrize("name", SAMPLES)
def test_the_metadata_says_what_the_report_says(name: str, tmp_path: Path) -> None:
    report = sample(name)
    path = tmp_path / "README.md"
    path.write_text(update_card("", report), encoding="utf-8")
    found = ModelCard.load(path).data.to_dict()["lipaudit"]
    network = report.network
    assert (found["status"], found.get("rigor"), found["domain"]) == (network.status, network.rigor, "global")
    assert (found.get("upper_bound"), found.get("log10_upper_bound")) == (
        network.upper_bound,
        network.log10_upper_bound,
    )
    assert found["model"]["state_dict_sha256"] == report.model.state_dict_sha256
    assert found["model"]["file_sha256"] == report.model.file_sha256
    assert found["settings"]["tolerance"] == 0.001
    assert found["version"] == report.tool_version
    others = [(other.domain, other.status, other.upper_bound) for other in network.other_domains]
    stated = found.get("other_domains", [])
    assert [(other["domain"], other["status"], other.get("upper_bound")) for other in stated] == others


@pytest.mark.parametrize("report", [fakes.unsupported(), fakes.gated(), fakes.estimate(), structure()])
def test_nothing_claims_a_bound_where_there_is_none(report: AuditReport) -> None:
    found = loaded(update_card("", report, model_index="net"))
    assert not [key for key in found["lipaudit"] if key.endswith("bound")]
    metrics = found["model-index"][0]["results"][0]["metrics"]
    assert not [metric for metric in metrics if "bound" in metric["type"] or "upper" in metric["name"]]


def test_an_estimate_is_called_one() -> None:
    said = metadata(fakes.estimate())
    assert (said["estimate"], said["rigor"]) == (10**21.4567, "estimate")
    assert section(fakes.estimate()).startswith("**ESTIMATE (sedghi2019)")


@pytest.mark.parametrize("model_index", [None, "net"])
@pytest.mark.parametrize("text", ["", CARD, CARD.replace("\n", "\r\n"), "# Net\n"])
@pytest.mark.parametrize("report", [fakes.report(), fakes.gated(), sample("digits_resnet"), hostile()])
def test_the_same_figures_give_the_same_card(report: AuditReport, text: str, model_index: str | None) -> None:
    once = update_card(text, report, model_index)
    assert update_card(once, later(report), model_index) == once
    assert update_card(update_card(once, fakes.two_outputs(), model_index), report, model_index) == once


def test_the_rest_of_a_card_stays_byte_for_byte() -> None:
    found = update_card(CARD, fakes.report())
    head, tail = CARD.split("---\n# Net\n")
    assert found.startswith(f"{head}lipaudit:\n")
    assert "---\n# Net\n\n<!-- lipaudit:begin -->\n" in found
    assert tail == ""


def test_the_section_is_the_markdown_report_without_the_time_and_advice() -> None:
    found = section(fakes.gated())
    assert "**Result**" in found
    assert ("**What to do**" in render_summary(fakes.gated()), "**What to do**" in found) == (True, False)
    found = section(fakes.report())
    assert "**Time**" not in found
    html = MarkdownIt("commonmark").enable("table").render(found)
    assert html.count("<tr>") == 1 + len(fakes.report().layers)
    assert "at most 2.863e+21" in html  # rounded up
    assert html.count("<details>") == html.count("</details>") == 1


def test_names_cannot_end_the_section_or_the_metadata() -> None:
    text = update_card("# Net\n", hostile(), "net")
    assert text.splitlines().count("<!-- lipaudit:end -->") == 1
    said = loaded(text)
    assert said["lipaudit"]["model"]["spec"] == HOSTILE.replace("\udc80", "\\udc80")
    text.encode("utf-8")
    html = MarkdownIt("commonmark").enable("table").render(section(hostile()))
    assert html.count("<tr>") == 1 + len(hostile().layers)
    assert "<b>" not in html
    assert not set(html) & {"\x00", "\x1b", "\u2028", "\udc80"}


def test_results_are_read_as_evaluations() -> None:
    card = ModelCard(update_card("---\nlicense: mit\n---\n", fakes.report(lower_bound=37.5), "my-net"))
    assert card.data.model_name == "my-net"
    found = {result.metric_type: result for result in card.data.eval_results}
    assert set(found) == {
        "lipschitz_upper_bound",
        "lipschitz_log10_upper_bound",
        "lipschitz_pixel_upper_bound",
        "lipschitz_pixel_log10_upper_bound",
        "lipschitz_lower_bound",
    }
    upper = found["lipschitz_upper_bound"]
    assert (upper.metric_value, upper.metric_name) == (10**21.4567, "l2 Lipschitz constant, upper bound (certified)")
    assert (upper.task_type, upper.dataset_type, upper.dataset_name) == ("other", "lipaudit", "all inputs")


def test_other_results_and_models_are_kept() -> None:
    before, after = (loaded_index(text) for text in (CARD, update_card(CARD, fakes.report(), "net")))
    assert after[0] == before[0]
    assert after[1]["results"][:1] == before[1]["results"]
    assert len(after[1]["results"]) == 2
    assert "value: 0.990" in update_card(CARD, fakes.report(), "net")
    third = loaded_index(update_card(CARD, fakes.report(), "third"))
    assert third[:2] == before
    assert [entry["name"] for entry in third] == ["other", "net", "third"]


def loaded_index(text: str) -> Any:
    return yaml.safe_load(text.split("---\n")[1])["model-index"]


def test_an_audit_over_another_domain_replaces_the_earlier_one() -> None:
    text = update_card(update_card(CARD, fakes.report(), "net"), fakes.on_pixels(), "net")
    _, ours = loaded_index(text)[1]["results"]
    assert ours["dataset"]["name"].startswith("all images with pixels in [0, 1]")
    assert ours["metrics"][0]["name"].endswith("(numerical)")


@pytest.mark.parametrize("index", ["model-index: 3", "model-index: [a]", "model-index:\n- name: net\n  results: 3"])
def test_a_model_index_of_another_shape_is_refused(index: str) -> None:
    with pytest.raises(UsageError, match="is no list of entries"):
        update_card(f"---\n{index}\n---\n", fakes.report(), "net")


def test_a_bound_beyond_floats_has_its_logarithm_only() -> None:
    found = loaded(update_card("", fakes.on_pixels(412.3), "net"))
    assert "upper_bound" not in found["lipaudit"]
    assert found["lipaudit"]["log10_upper_bound"] == 412.3


def test_a_constant_network_has_the_bound_0() -> None:
    report = fakes.report(upper_bound=0.0, log10_upper_bound=None, pixel_upper_bound=0.0, pixel_log10_upper_bound=None)
    assert metadata(replace(report, layers=()))["upper_bound"] == 0.0
