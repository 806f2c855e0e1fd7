"""Results of an audit in the ``model-index`` of a model card.

The fields are those that ``huggingface_hub`` requires and reads (``model_index_to_eval_results``): a list of models, each with a
``name`` and ``results`` of a ``task`` (type), a ``dataset`` (type, name) and ``metrics`` (type, value). An audit has no task and no
data set, so its task is ``other`` and its data set, of the type ``lipaudit``, are the inputs over which the figures hold.
"""

from __future__ import annotations

from typing import Any

import yaml

from lipaudit.formats.card import Card, CardError, metadata_node, node, set_key
from lipaudit.formats.figure_names import meaning, network_figures
from lipaudit.formats.json_text import well_formed
from lipaudit.records.report import AuditReport
from lipaudit.text.domain import described

KEY = "model-index"
_DATASET = "lipaudit"


def set_result(card: Card, report: AuditReport, name: str) -> Card:
    """The card with the audit among the results of the model ``name``, in the place of an earlier audit.

    Other models and results stay as they are; comments inside the model index are lost. Raises
    :class:`~lipaudit.formats.card.CardError` where the card has a model index of another shape.
    """
    index = _value(metadata_node(card), KEY)
    models = _sequence(index, KEY)
    result = node(_result(report))
    entry = next((model for model in models if _plain(model, "name") == name), None)
    if entry is None:
        entry = node({"name": name, "results": []})
        models = [*models, entry]
    results = _sequence(_value(entry, "results"), f"{KEY}: results")
    kept = [old for old in results if _plain(_value(old, "dataset"), "type") != _DATASET]
    place = next((i for i, old in enumerate(results) if old not in kept), len(kept))
    kept.insert(place, result)
    pairs = [(key, value) for key, value in entry.value if key.value != "results"]
    entry.value = [*pairs, (node("results"), _list(kept))]
    return set_key(card, KEY, _list(models))


def _result(report: AuditReport) -> dict[str, Any]:
    network = report.network
    metrics: list[dict[str, Any]] = [
        {"type": f"lipschitz_{key}", "name": meaning(key, network, report.settings.norm), "value": value}
        for key, value in network_figures(network).items()
    ]
    if network.status != "finite" or report.settings.structure:
        metrics.insert(0, {"type": "lipschitz_status", "name": "Lipschitz audit", "value": network.status})
    result = {
        "task": {"type": "other", "name": "Lipschitz audit"},
        "dataset": {"type": _DATASET, "name": described(report)},
        "metrics": metrics,
    }
    plain: dict[str, Any] = well_formed(result)
    return plain


def _value(mapping: yaml.Node | None, key: str) -> yaml.Node | None:
    if not isinstance(mapping, yaml.MappingNode):
        return None
    return next((value for name, value in mapping.value if name.value == key), None)


def _plain(mapping: yaml.Node | None, key: str) -> str | None:
    value = _value(mapping, key)
    return value.value if isinstance(value, yaml.ScalarNode) else None


def _sequence(value: yaml.Node | None, where: str) -> list[yaml.Node]:
    """The entries of a list; a missing or empty one has none."""
    if value is None or (isinstance(value, yaml.ScalarNode) and value.tag == "tag:yaml.org,2002:null"):
        return []
    if not isinstance(value, yaml.SequenceNode) or not all(
        isinstance(entry, yaml.MappingNode) for entry in value.value
    ):
        raise CardError(f"its {where} is no list of entries with keys", "repair it")
    return list(value.value)


def _list(entries: list[yaml.Node]) -> yaml.Node:
    return yaml.SequenceNode("tag:yaml.org,2002:seq", entries, flow_style=False)
