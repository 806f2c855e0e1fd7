"""Conformance cases of local response normalisation as the graph recognises it."""

from __future__ import annotations

import torch
from torch import nn

from lipaudit.graph.capture.export import capture
from lipaudit.graph.passes.local_response_norm import RESPONSE_NORM
from lipaudit.graph.passes.table import recognise
from tests.nodes import data
from tests.rules.ops.cases import case

for _size, _shape in ((3, (1, 4, 2)), (5, (1, 4, 1, 2))):
    _module = nn.LocalResponseNorm(_size, alpha=2.0, k=1.5)
    _node = recognise(capture(_module, {"x": torch.zeros(_shape, dtype=torch.float64)})).nodes[-1]
    case(RESPONSE_NORM, self=data(*_shape), function=_module, payload=_node.payload)
