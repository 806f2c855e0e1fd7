"""The report in a Hugging Face model card: the key ``lipaudit`` of its metadata, and a section of its body.

Neither says when the audit ran or how long it took, so that the same figures give the same card.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lipaudit.formats.card import Card, node, set_key, set_section
from lipaudit.formats.figure_names import network_figures
from lipaudit.formats.json_text import well_formed
from lipaudit.formats.markdown import render_layers, render_summary
from lipaudit.formats.model_index import set_result
from lipaudit.formats.options import Audits, Options
from lipaudit.records.report import AuditReport
from lipaudit.text.domain import described

KEY = "lipaudit"
_MODEL = (
    "spec",
    "source",
    "weights",
    "input_shapes",
    "preprocessing",
    "num_parameters",
    "state_dict_sha256",
    "file_sha256",
)


def render(audits: Audits, options: Options) -> str:
    """A card with nothing in it but the report."""
    return update_card("", audits.reports[0], options.model_index)


def update_card(text: str, report: AuditReport, model_index: str | None = None) -> str:
    """The card with the report in it, in the place of an earlier one; ``text`` may be empty.

    ``model_index`` is the name of the model whose results in the model index get the audit, too. Raises
    :class:`~lipaudit.errors.UsageError` where the card cannot be edited without a change of what is not the audit's.
    """
    card = set_key(Card.parse(text), KEY, node(metadata(report)))
    if model_index is not None:
        card = set_result(card, report, model_index)
    return str(set_section(card, section(report)))


def metadata(report: AuditReport) -> dict[str, Any]:
    """What the metadata says. A figure stands under its report's name, so that an estimate is no ``upper_bound``."""
    document, network = report.to_dict(), report.network
    said: dict[str, Any] = {
        "version": report.tool_version,
        "status": network.status,
        "rigor": network.rigor,
        "domain": network.domain,
        "over": described(report),
        **network_figures(network),
    }
    if network.other_domains:
        said["other_domains"] = [
            _known({"domain": other.domain, "status": other.status, "rigor": other.rigor, **network_figures(other)})
            for other in network.other_domains
        ]
    said["model"] = _known({key: document["model"][key] for key in _MODEL})
    said["settings"] = _known({key: value for key, value in document["settings"].items() if key != "domain"})
    found: dict[str, Any] = well_formed(_known(said))
    return found


def section(report: AuditReport) -> str:
    """What the body says: the summary without advice, and the layers where a reader unfolds them."""
    lasting = replace(report, timings={})
    parts = [
        render_summary(lasting, advice=False),
        "<details>",
        "<summary>Layer by layer</summary>",
        render_layers(lasting),
        "</details>",
    ]
    return "\n\n".join(parts)


def _known(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None and value != {}}
