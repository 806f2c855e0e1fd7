"""The paper's tables and figures, one file each: ``lipaudit reproduce NAME``."""

# in the order of the paper, in which they are listed
# isort: off
from lipaudit.experiments.paper2023 import (
    convergence,
    spectral_table,
    dimension_table,
    simulated_convolutions,
    resnet18_layers,
    network_ratios,
    regularization,
    memory_table,
)
# isort: on

__all__ = [
    "convergence",
    "dimension_table",
    "memory_table",
    "network_ratios",
    "regularization",
    "resnet18_layers",
    "simulated_convolutions",
    "spectral_table",
]
