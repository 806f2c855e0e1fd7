"""The models of a fleet, with options of their own."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from lipaudit.auditing.request import AuditOptions, AuditRequest


@dataclass(frozen=True)
class FleetModel:
    """One model and the keyword options of :func:`lipaudit.audit` that hold for it alone, as JSON has them."""

    spec: str
    options: dict[str, Any] = field(default_factory=dict)

    def request(self, options: AuditOptions) -> AuditRequest:
        """The model of an audit with ``options``, but for those of the model's own."""
        return options.request(self.spec, **self.options)

    @property
    def key(self) -> str:
        """What tells models apart.

        >>> FleetModel("a.onnx", {"weights": None, "arch": None}).key
        '["a.onnx", {"arch": null, "weights": null}]'
        """
        return json.dumps([self.spec, self.options], sort_keys=True)


def distinct(models: Iterable[FleetModel]) -> list[FleetModel]:
    """The models in their order, each once.

    >>> [model.spec for model in distinct([FleetModel("b"), FleetModel("a"), FleetModel("b")])]
    ['b', 'a']
    """
    return list({model.key: model for model in models}.values())


def plain(options: dict[str, Any]) -> dict[str, Any]:
    """Options as JSON gives them back, so that what was typed compares equal to what was recorded.

    >>> plain({"input_shape": (3, 32, 32), "tol": 0.001})
    {'input_shape': [3, 32, 32], 'tol': 0.001}
    """
    values: dict[str, Any] = json.loads(json.dumps(options))
    return values
