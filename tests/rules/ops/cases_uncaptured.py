"""What stands for an uncaptured network has no constant, whatever it does."""

import torch

from lipaudit.graph.capture.layerwise import UNCAPTURED
from tests.nodes import data
from tests.rules.ops.cases import unsupported

unsupported(UNCAPTURED, inputs=(data(1, 3), data(1, 2)), function=lambda x, y: torch.cat((x, y), 1), payload="a reason")
